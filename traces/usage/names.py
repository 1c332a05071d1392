"""What the names in a usage object stand for, whatever their spelling: which figure each of them is.

A name is split into words (`cacheReadInputTokens`, `cache_read_input_tokens` and `Cache Read (Input Tokens)` have the
same words) and the words decide. A nested object lends its name to the names inside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from traces.usage.counts import MAX_TOKENS, count
from traces.usage.name_cache import by_names

FIGURES = ("input", "fresh", "whole", "more_input", "tools", "read", "written", "split", "output", "more_output",
           "reasoning", "total")  # fmt: skip
"""What a name can stand for.

input: the figure called input; whether cached tokens are in it is for `traces.usage.meaning` to find out. fresh: input
named as the uncached part. whole: input named as a total. tools: prompt tokens of tool use, beside the input (Gemini).
split: the written tokens by lifetime. more_input, more_output: buckets of one modality (Langfuse).
"""


class Figures(NamedTuple):
    """The figures of one usage object, each None where it is absent or null. `styles`: see `style`."""

    input: int | None = None
    fresh: int | None = None
    whole: int | None = None
    more_input: int | None = None
    tools: int | None = None
    read: int | None = None
    written: int | None = None
    output: int | None = None
    more_output: int | None = None
    reasoning: int | None = None
    total: int | None = None
    second_input: int | None = None  # another figure that is called input and differs


_CACHE = {"cache", "cached", "caching"}
_WRITE = {"write", "writes", "written", "creation", "created", "create", "store", "stored", "ephemeral"}
_NOT = {"non", "un", "no", "not", "without", "miss", "missed", "uncached", "fresh", "other", "new"}
_THOUGHT = {"reasoning", "thinking", "thought", "thoughts"}
_INPUT = {"input", "inputs", "prompt", "context", "prefill", "isl", "request", "in"}
_OUTPUT = {"output", "outputs", "completion", "completions", "candidates", "candidate", "generated", "decode", "osl",
           "response", "out"}  # fmt: skip
_WEAK = {"in", "out", "request", "response", "context"}
_MODALITY = {"audio", "image", "images", "text", "video", "document", "accepted", "rejected", "prediction", "predicted"}
_NO_COUNT = {"cost", "costs", "price", "usd", "rate", "ratio", "percent", "pct", "ttl", "saved", "savings", "id",
             "key", "ms", "s", "us", "ns", "time", "seconds", "latency", "at", "status", "type", "control", "hits",
             "requests", "limit", "max", "budget", "window", "per", "throughput", "tps", "speed", "bytes", "chars",
             "messages", "ids", "avg", "mean", "name", "model", "estimated", "accumulated", "cumulative", "server",
             "remaining"}  # fmt: skip
_UNIT = {"token", "tokens", "isl", "osl"}
_VOCABULARY = sorted(
    _CACHE | _WRITE | _THOUGHT | _UNIT | {"read", "hit", "total", "count", "input", "prompt", "output", "completion",
    "details", "generated", "context", "uncached", "candidates", "length"}, key=len, reverse=True)  # fmt: skip
_JOINED = re.compile("|".join(_VOCABULARY))
_LETTERS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+[a-z]?")
_PREFIX = re.compile(r"^(gen_ai\.usage\.|llm\.token_count\.|llm\.usage\.|usage[._]|metrics[._])")


@by_names(4096)
def words(name: str) -> tuple[str, ...]:
    """The words of a name in lower case; words that are written as one (`inputtokens`) are taken apart."""
    text = re.sub(r"(?i)(?<![a-z])w[/_ ]?o(?![a-z])", " without ", _PREFIX.sub("", name))
    found: list[str] = []
    for word in _LETTERS.findall(text):
        word = "without" if word == "Wo" else word.lower()
        parts = _JOINED.findall(word)
        found += parts if len(parts) > 1 and "".join(parts) == word else [word]
    return tuple(found)


@by_names(4096)
def figure(path: tuple[str, ...]) -> str | None:
    """Which of `FIGURES` a name is (with the names of the objects around it in front); None: no number of tokens."""
    inner, outer = {*words(path[-1])}, {word for name in path[:-1] for word in words(name)}
    every = inner | outer
    if every & _NO_COUNT or words(path[-1])[-1:] in (("details",), ("detail",)):
        return None
    if every & _THOUGHT:
        return "reasoning"
    if "ephemeral" in every or (every & _CACHE and every & _WRITE and every & {"5m", "1h"}):
        return "split"
    if "cache" in every and every <= {"cache", "hit"}:
        return None  # a yes or no
    if every & _CACHE or "uncached" in every:
        return "fresh" if inner & _NOT else "written" if every & _WRITE else "read"
    certain = not every <= _WEAK  # `in`, `request` and their like need "tokens" beside them
    side = "input" if every & _INPUT and certain else "output" if every & _OUTPUT and certain else None
    if every & {"tool", "tools"}:
        return "tools" if inner == {"tool"} or {"use", "prompt"} <= inner else None
    if inner & _NOT:
        return "fresh" if side == "input" else None
    if outer or "details" in every:  # inside `input_tokens_details` only a total and what was named above are of use
        return {"input": "whole", "output": "output"}.get(side or "") if inner == {"total"} else None
    if every & _MODALITY:
        return {"input": "more_input", "output": "more_output"}.get(side or "")
    if "total" in every:
        return "total" if side is None else "whole" if side == "input" else "output"
    return side


class _Plan(NamedTuple):
    """How usage objects with the same names are read."""

    places: tuple[tuple[str, tuple[str, ...]], ...]  # (figure, the keys that lead to it)
    styles: frozenset[str]
    kinds: frozenset[str]
    label: str


def plan_of(usage: Mapping[str, Any]) -> _Plan:
    """How a usage object is read, by its names alone."""
    return _plan(tuple([(name, tuple(value) if isinstance(value, dict) else ()) for name, value in usage.items()]))


def figures(usage: Mapping[str, Any]) -> tuple[Figures, _Plan]:
    """The figures of a usage object, and how its names are read.

    Of several names of one figure the largest counts: a default of 0 hides no count.

    Raises:
        ValueError: A count is none; its name is in the message.
    """
    plan = plan_of(usage)
    values: dict[str, int] = {}
    second: int | None = None
    for kind, path in plan.places:
        value: Any = usage
        for name in path:
            value = value[name]
        if value is None or isinstance(value, dict) or (isinstance(value, str) and not value.strip()):
            continue
        number = value if type(value) is int and 0 <= value < MAX_TOKENS else count(value, path[-1])
        if number is None:
            continue
        known = values.get(kind)
        if kind == "split" or kind in ("more_input", "more_output"):
            values[kind] = (known or 0) + number
        elif known is None or number > known:
            if kind == "input" and known:
                second = known
            values[kind] = number
        elif kind == "input" and 0 < number < known:
            second = number
    split = values.pop("split", None)
    if split is not None and split > values.get("written", 0):
        values["written"] = split
    elif split is not None:
        values.setdefault("written", split)
    return Figures(**values, second_input=second), plan


@by_names(2048)
def _plan(shape: tuple[tuple[str, tuple[str, ...]], ...]) -> _Plan:
    places = tuple((kind, path) for path in _paths(shape) if (kind := figure(path)) is not None)
    names = {name for name, _ in shape} | {f"{name}.{inner}" for name, inside in shape for inner in inside}
    kinds = {kind for kind, _ in places}
    styles = frozenset(_styles(names, kinds))
    label = " ".join(sorted(".".join(path) for _, path in places))
    return _Plan(places, styles, frozenset(kinds), label)


def _paths(shape: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[tuple[str, ...]]:
    for name, inside in shape:
        if inside:
            yield from ((name, inner) for inner in inside if isinstance(inner, str))
        elif isinstance(name, str):
            yield (name,)


EXCLUDES, BESIDE, GENERIC = "input excludes cache", "reasoning beside output", "generic names"
"""Styles of names. GENERIC: nobody documents what these names mean together."""
CONVENTION = "a convention"
"""The style of attributes of spans: a convention says that the input includes cached tokens."""

_ANTHROPIC = {"cache_read_input_tokens", "cache_creation_input_tokens"}
_DOCUMENTED = ("cached_input_tokens", "prompt_cache_hit_tokens", "promptTokenCount")
_INCLUSIVE_NAMES = ("prompt_tokens", "cached_tokens", "cached_input_tokens", "cache_write_input_tokens", "input")


def _styles(names: set[str], kinds: set[str]) -> Iterator[str]:
    """What the names usually mean where no arithmetic says it.

    Anthropic's two names leave cached tokens out of `input_tokens`, unless any name of OpenAI's stands beside them
    (LiteLLM, OpenHands and Goose keep Anthropic's names beside an inclusive total). Bedrock's, pi's, Kimi's and
    opencode's names leave them out. Gemini's and opencode's reasoning is beside the output.
    """
    nested = any("." in name and "details" in name and "cach" in name for name in names)
    spans = any(name.startswith(("gen_ai.", "llm.")) for name in names)
    anthropic = bool(names & _ANTHROPIC) or any(name.startswith("cache_creation") for name in names)
    anthropic = anthropic or ("input_tokens" in names and bool(names & {"iterations", "server_tool_use"}))
    openai = nested or bool(names & set(_INCLUSIVE_NAMES))
    bedrock = any(name.startswith(("cacheReadInputToken", "cacheWriteInputToken")) for name in names)
    short = bool({"cacheRead", "cacheWrite", "inputCacheRead", "inputOther"} & names)
    opencode = "input" in names and not short and bool({"cache", "reasoning"} & names)
    gemini = any("candidates" in name.lower() or "thoughts" in name.lower() for name in names)
    if (anthropic and not openai and not spans) or bedrock or short or opencode:
        yield EXCLUDES
    elif kinds & {"read", "written"} and not (nested or spans or gemini or names & set(_DOCUMENTED)):
        yield GENERIC
    if gemini or opencode:
        yield BESIDE
    if spans:
        yield CONVENTION
