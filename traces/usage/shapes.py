"""How each provider's and each tool's usage object reads: one function a shape. The table of them is in `usage`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from traces.usage.counts import MAX_TOKENS, Usage, add_known, count, first, is_disjoint, with_cache

_ANTHROPIC = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def anthropic(usage: Mapping[str, Any], provider: str) -> Usage:
    """Anthropic Messages: three disjoint input parts, several passes in one call added up."""
    fresh, read, written, output = [usage.get(name) for name in _ANTHROPIC]
    if type(fresh) is type(read) is type(written) is type(output) is int and not usage.get("iterations"):
        plain = min(fresh, read, written, output) >= 0 and max(fresh, read, written, output) < MAX_TOKENS
        if plain and "output_tokens_details" not in usage and (written or "cache_creation" not in usage):
            return Usage(fresh + read + written, read, written, output)  # nearly all there are, without a second look
    passes = usage.get("iterations")
    if isinstance(passes, list) and len(passes) > 0 and all(isinstance(one, Mapping) for one in passes):
        # Several passes inside one call (a compaction, then the answer): the outer figures are those of the last pass.
        parts = [anthropic({**one, "iterations": None}, provider) for one in passes]
        outer = anthropic({**usage, "iterations": None}, provider)
        if any(part.input_tokens is not None for part in parts):
            return Usage(
                add_known(*(part.input_tokens for part in parts)),
                add_known(*(part.cache_read_tokens for part in parts)),
                add_known(*(part.cache_write_tokens for part in parts)),
                add_known(*(part.output_tokens for part in parts)),
                outer.reasoning_tokens,
            )
    read = first(usage, "cache_read_input_tokens")
    written = first(usage, "cache_creation_input_tokens")
    split = add_known(
        first(usage, "cache_creation.ephemeral_5m_input_tokens"),
        first(usage, "cache_creation.ephemeral_1h_input_tokens"),
    )
    if split is not None and not written:
        written = split
    return Usage(
        with_cache(first(usage, "input_tokens"), read, written),
        read,
        written,
        first(usage, "output_tokens"),
        first(usage, "output_tokens_details.thinking_tokens"),
    )


_CACHE_READ = (
    "prompt_tokens_details.cached_tokens",
    "input_tokens_details.cached_tokens",
    "prompt_token_details.cached_tokens",
    "cached_tokens",
    "cache_read_tokens",
    "cache_read_input_tokens",
    "cached_input_tokens",
    "prompt_cache_hit_tokens",
    "prompt_cache_read_tokens",
    "num_cached_tokens",
)
_CACHE_WRITE = (
    "prompt_tokens_details.cache_write_tokens",
    "input_tokens_details.cache_write_tokens",
    "prompt_tokens_details.cache_creation_tokens",
    "cache_write_tokens",
    "cache_write_input_tokens",
    "cache_creation_input_tokens",
    "cache_creation_tokens",
    "prompt_cache_write_tokens",
)
_REASONING = (
    "completion_tokens_details.reasoning_tokens",
    "output_tokens_details.reasoning_tokens",
    "reasoning_output_tokens",
    "reasoning_tokens",
)


def openai(usage: Mapping[str, Any], provider: str) -> Usage:
    """OpenAI and whoever copies it: inclusive input, details nested or flat."""
    prompt = first(usage, "prompt_tokens", "input_tokens")
    output = first(usage, "completion_tokens", "output_tokens")
    reasoning = first(usage, *_REASONING)
    total = first(usage, "total_tokens")
    if reasoning and None not in (prompt, output, total) and total == (prompt or 0) + (output or 0) + reasoning:
        output = (output or 0) + reasoning  # xAI and some gateways leave reasoning out of the completion
    return Usage(prompt, first(usage, *_CACHE_READ), first(usage, *_CACHE_WRITE), output, reasoning)


def gemini(usage: Mapping[str, Any], provider: str) -> Usage:
    """Gemini's usageMetadata: thoughts are beside the candidates, tool-use prompts beside the prompt."""
    thoughts = first(usage, "thoughtsTokenCount", "thoughts_token_count")
    return Usage(
        add_known(
            first(usage, "promptTokenCount", "prompt_token_count"),
            first(usage, "toolUsePromptTokenCount", "tool_use_prompt_token_count"),
        ),
        first(usage, "cachedContentTokenCount", "cached_content_token_count"),
        None,
        add_known(first(usage, "candidatesTokenCount", "candidates_token_count"), thoughts),
        thoughts,
    )


def gemini_cli(usage: Mapping[str, Any], provider: str) -> Usage:
    """Gemini CLI's tokens: the same counts under short names."""
    thoughts = first(usage, "thoughts")
    return Usage(
        add_known(first(usage, "input"), first(usage, "tool")),
        first(usage, "cached"),
        None,
        add_known(first(usage, "output"), thoughts),
        thoughts,
    )


def bedrock(usage: Mapping[str, Any], provider: str) -> Usage:
    """Bedrock Converse: disjoint parts, each cache figure under two names."""
    read = first(usage, "cacheReadInputTokens", "cacheReadInputTokenCount")
    written = first(usage, "cacheWriteInputTokens", "cacheWriteInputTokenCount")
    return Usage(
        with_cache(first(usage, "inputTokens"), read, written), read, written, first(usage, "outputTokens"), None
    )


def camel(usage: Mapping[str, Any], provider: str) -> Usage:
    """Camel-case names of JavaScript tools (AI SDK, Cline): the provider decides what input means."""
    fresh = first(usage, "inputTokens", "promptTokens", "tokensIn")
    read = first(usage, "cachedInputTokens", "cacheReadTokens", "cacheReads", "inputTokenDetails.cacheReadTokens")
    written = first(usage, "cacheWriteTokens", "cacheWrites", "inputTokenDetails.cacheWriteTokens")
    output = first(usage, "outputTokens", "completionTokens", "tokensOut")
    total = with_cache(fresh, read, written) if is_disjoint(provider) else fresh
    return Usage(total, read, written, output, first(usage, "reasoningTokens", "outputTokenDetails.reasoningTokens"))


def opencode(usage: Mapping[str, Any], provider: str) -> Usage:
    """opencode: disjoint input parts; reasoning beside the output, or inside where `total` says so (older versions)."""
    read, written, reasoning = first(usage, "cache.read"), first(usage, "cache.write"), first(usage, "reasoning")
    prompt, output, total = (
        with_cache(first(usage, "input"), read, written),
        first(usage, "output"),
        first(usage, "total"),
    )
    inside = total is not None and total == (prompt or 0) + (output or 0)
    return Usage(prompt, read, written, output if inside else add_known(output, reasoning), reasoning)


def pi(usage: Mapping[str, Any], provider: str) -> Usage:
    """pi, OpenClaw, Kimi: disjoint input parts under short names."""
    read = first(usage, "cacheRead", "inputCacheRead")
    written = first(usage, "cacheWrite", "inputCacheCreation")
    fresh = first(usage, "input", "inputOther")
    return Usage(with_cache(fresh, read, written), read, written, first(usage, "output"), first(usage, "reasoning"))


def otel(usage: Mapping[str, Any], provider: str) -> Usage:
    """OpenTelemetry GenAI attributes, current, deprecated and vendor names."""
    at = "gen_ai.usage."
    fresh = first(usage, at + "input_tokens", at + "prompt_tokens")
    read = first(
        usage,
        at + "cache_read.input_tokens",
        at + "cache_read_input_tokens",
        at + "input_tokens.cached",
        at + "cached_tokens",
    )
    written = first(
        usage, at + "cache_creation.input_tokens", at + "cache_creation_input_tokens", at + "cache_write.input_tokens"
    )
    # The convention says inclusive; some instrumentations pass Anthropic's raw figures on, which shows when the parts
    # exceed the whole.
    exceeds = fresh is not None and (read or 0) + (written or 0) > fresh and is_disjoint(provider)
    raw = exceeds or provider == "disjoint"
    return Usage(
        with_cache(fresh, read, written) if raw else fresh,
        read,
        written,
        first(usage, at + "output_tokens", at + "completion_tokens"),
        first(usage, at + "reasoning.output_tokens", at + "reasoning_tokens", at + "output_tokens.reasoning"),
    )


def openinference(usage: Mapping[str, Any], provider: str) -> Usage:
    """OpenInference attributes."""
    at = "llm.token_count."
    return Usage(
        first(usage, at + "prompt"),
        first(usage, at + "prompt_details.cache_read"),
        first(usage, at + "prompt_details.cache_write"),
        first(usage, at + "completion"),
        first(usage, at + "completion_details.reasoning"),
    )


def langsmith(usage: Mapping[str, Any], provider: str) -> Usage:
    """LangSmith and LangChain usage_metadata."""
    details = ("input_token_details.", "prompt_token_details.")
    written = first(usage, *(at + "cache_creation" for at in details))
    split = add_known(
        *(
            first(usage, *(at + field for at in details))
            for field in ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
        )
    )
    return Usage(
        first(usage, "input_tokens", "prompt_tokens"),
        first(usage, *(at + "cache_read" for at in details)),
        split if split is not None and not written else written,
        first(usage, "output_tokens", "completion_tokens"),
        first(usage, "output_token_details.reasoning", "completion_token_details.reasoning"),
    )


def inspect(usage: Mapping[str, Any], provider: str) -> Usage:
    """Inspect AI: one set of names, the meaning of the provider."""
    fresh, output = first(usage, "input_tokens"), first(usage, "output_tokens")
    read, written = first(usage, "input_tokens_cache_read"), first(usage, "input_tokens_cache_write")
    total = first(usage, "total_tokens")
    cached = (read or 0) + (written or 0)
    if total is not None and fresh is not None and output is not None and cached:
        disjoint = total == fresh + output + cached or (total != fresh + output and is_disjoint(provider))
    else:
        disjoint = is_disjoint(provider)
    return Usage(
        with_cache(fresh, read, written) if disjoint else fresh,
        read,
        written,
        output,
        first(usage, "reasoning_tokens"),
    )


def langfuse(usage: Mapping[str, Any], provider: str) -> Usage:
    """Langfuse usageDetails: free bucket names."""
    read = first(
        usage,
        "input_cached_tokens",
        "input_cache_read",
        "cache_read_input_tokens",
        "input_cache_read_input_tokens",
        "prompt_details.cache_read",
        "input_details.cache_read",
    )
    written = first(
        usage,
        "input_cache_creation",
        "input_cache_write",
        "cache_creation_input_tokens",
        "input_cache_creation_input_tokens",
        "prompt_details.cache_write",
    )
    reasoning = first(usage, "output_reasoning_tokens", "output_reasoning", "completion_details.reasoning")
    fresh, output, total = first(usage, "input"), first(usage, "output"), first(usage, "total")
    parts = _buckets(usage, "input", ("input", "prompt", "cache"))
    outputs = _buckets(usage, "output", ("output", "completion", "reasoning"))
    if total is None:
        disjoint = is_disjoint(provider)
    else:
        disjoint = bool(parts or outputs) and total == (fresh or 0) + (output or 0) + parts + outputs
    if not disjoint:
        return Usage(fresh, read, written, output, reasoning)
    return Usage(
        None if fresh is None else fresh + parts,
        read,
        written,
        None if output is None else output + outputs,
        reasoning,
    )


def _buckets(usage: Mapping[str, Any], whole: str, starts: tuple[str, ...]) -> int:
    names = (name for name in usage if name != whole and name.startswith(starts))
    return sum(count(usage[name], "a bucket of usageDetails") or 0 for name in names)


def flat(usage: Mapping[str, Any], provider: str) -> Usage:
    """Flat names, as tables have them."""
    return Usage(
        first(usage, "input_tokens", "prompt_tokens", "input_length", "ContextTokens"),
        first(usage, *_CACHE_READ),
        first(usage, *_CACHE_WRITE),
        first(usage, "output_tokens", "completion_tokens", "output_length", "GeneratedTokens"),
        first(usage, *_REASONING),
    )
