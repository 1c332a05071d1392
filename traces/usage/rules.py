"""Token usage: the one place where every provider's usage object becomes the same five counts.

Providers disagree on one thing above all: whether the input figure contains the cached tokens. Each `Rule` says which
usage objects it is for and how they read; the first rule that fits wins. The shape decides where it is decisive, the
provider's name only where two meanings share one shape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from traces.usage import shapes
from traces.usage.counts import Rule, Usage, count, has

__all__ = ["RULES", "Rule", "Usage", "count", "normalise"]


def normalise(usage: Mapping[str, Any] | None, provider: str | None = None, disjoint: bool | None = None) -> Usage:
    """One usage object as inclusive counts.

    Args:
        usage: The object as logged; null, empty or unfamiliar objects give unknown counts.
        provider: Who served the call, where the source says it: consulted only where the shape is ambiguous.
        disjoint: What the source is known to mean where the shape is ambiguous: True when the input figure leaves
            cached tokens out.

    Raises:
        ValueError: A count is negative, not a number, a truth value, or absurdly large (its field is named); or
            `usage` is no object.
    """
    if not usage:
        return Usage()
    if not isinstance(usage, Mapping):
        raise ValueError("usage is not an object")
    who = (provider or "").lower()
    if disjoint is not None:
        who = "disjoint" if disjoint else "inclusive"
    rule = _rule(tuple(usage), who)
    return Usage() if rule is None else rule.read(usage, who)._replace(rule=rule.name)


@functools.lru_cache(1024)
def _rule(fields: tuple[str, ...], who: str) -> Rule | None:
    """The first rule that fits; remembered, because it only depends on the fields' names and the provider."""
    names = dict.fromkeys(fields)
    return next((rule for rule in RULES if rule.fits(names, who)), None)


Fits = Callable[[Mapping[str, Any], str], bool]


def _keys(*fields: str) -> Fits:
    return lambda usage, provider: has(usage, *fields)


def _prefixed(prefix: str) -> Fits:
    return lambda usage, provider: any(name.startswith(prefix) for name in usage)


def _all_keys(needed: Iterable[str], any_of: Iterable[str]) -> Fits:
    needed, any_of = tuple(needed), tuple(any_of)
    return lambda usage, provider: all(name in usage for name in needed) and has(usage, *any_of)


def _fits_anthropic(usage: Mapping[str, Any], provider: str) -> bool:
    if has(usage, "prompt_tokens", "cache_write_input_tokens") or provider in ("goose", "inclusive"):
        return False  # LiteLLM, OpenHands and Goose keep Anthropic's names beside an inclusive total
    if "input" in usage:
        return False  # Langfuse keeps them beside its own input and output
    return has(usage, "cache_read_input_tokens", "cache_creation_input_tokens", "cache_creation") or (
        "input_tokens" in usage and has(usage, "iterations", "server_tool_use")
    )


RULES = (
    Rule(
        "anthropic",
        "cache_read_input_tokens: input excludes cached tokens, input + read + creation is the prompt",
        _fits_anthropic,
        shapes.anthropic,
    ),
    Rule("otel", "gen_ai.usage.*: input includes cached tokens", _prefixed("gen_ai.usage."), shapes.otel),
    Rule(
        "openinference",
        "llm.token_count.*: prompt includes cached",
        _prefixed("llm.token_count."),
        shapes.openinference,
    ),
    Rule(
        "langsmith",
        "input_token_details.cache_read: input includes cached tokens",
        _keys("input_token_details", "prompt_token_details", "output_token_details"),
        shapes.langsmith,
    ),
    Rule(
        "inspect",
        "input_tokens_cache_read: cached tokens inside or outside, whichever matches total_tokens",
        _keys("input_tokens_cache_read", "input_tokens_cache_write"),
        shapes.inspect,
    ),
    Rule(
        "codex",
        "cached_input_tokens, reasoning_output_tokens: both are inside input and output",
        _keys("cached_input_tokens", "reasoning_output_tokens"),
        shapes.openai,
    ),
    Rule(
        "openai_responses",
        "input_tokens_details.cached_tokens: input includes cached tokens",
        _keys("input_tokens_details"),
        shapes.openai,
    ),
    Rule(
        "openai_chat",
        "prompt_tokens, cached in prompt_tokens_details (absent on vLLM unless switched on: cache unknown)",
        _keys("prompt_tokens", "completion_tokens"),
        shapes.openai,
    ),
    Rule(
        "gemini",
        "promptTokenCount includes cached tokens; output = candidates + thoughts",
        _keys("promptTokenCount", "prompt_token_count", "totalTokenCount", "total_token_count"),
        shapes.gemini,
    ),
    Rule(
        "bedrock",
        "inputTokens excludes cached tokens (cacheReadInputTokens, cacheWriteInputTokens)",
        _keys("cacheReadInputTokens", "cacheReadInputTokenCount", "cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        shapes.bedrock,
    ),
    Rule(
        "camel",
        "inputTokens, tokensIn: input includes cached tokens unless the provider is one that excludes them",
        _keys("inputTokens", "promptTokens", "tokensIn", "outputTokens", "tokensOut"),
        shapes.camel,
    ),
    Rule(
        "gemini_cli",
        "input includes cached; output excludes thoughts",
        _all_keys(["input"], ["thoughts", "cached"]),
        shapes.gemini_cli,
    ),
    Rule(
        "pi",
        "input, cacheRead, cacheWrite: input excludes cached tokens",
        _keys("cacheRead", "cacheWrite", "inputOther", "inputCacheRead"),
        shapes.pi,
    ),
    Rule(
        "opencode",
        "input, cache{read, write}: input excludes cached tokens; output excludes reasoning",
        _keys("cache", "reasoning"),
        shapes.opencode,
    ),
    Rule(
        "langfuse",
        "usageDetails: buckets are disjoint if they add up to total, else input includes them",
        _keys("input", "output"),
        shapes.langfuse,
    ),
    Rule(
        "flat",
        "input_tokens, cached_tokens and other flat names: input includes cached tokens",
        _keys("input_tokens", "output_tokens", "input_length", "output_length", "ContextTokens", "GeneratedTokens"),
        shapes.flat,
    ),
)
"""Every rule, most specific first."""
