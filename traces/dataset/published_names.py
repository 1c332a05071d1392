"""Which names of a dataset may leave the machine unchanged, and the pseudonyms for the others."""

from __future__ import annotations

import re
from collections.abc import Callable

import polars as pl

KNOWN_AGENTS = frozenset(
    [
        "claude_code", "codex", "gemini_cli", "opencode", "cline", "roo", "kilo", "goose", "swe_agent",
        "mini_swe_agent", "openhands", "pi", "kimi", "qwen", "copilot", "aider", "cursor", "droid", "grok", "hermes",
        "antigravity", "openclaw", "inspect", "atif",
    ]
)  # fmt: skip
KNOWN_TOOL_CLASSES = frozenset(
    ["explore", "edit", "execute", "plan", "other", "unknown", "mcp", "custom", "tool", "web", "agent"]
)
KNOWN_STOPS = frozenset(
    [
        "tool_use", "end_turn", "stop_sequence", "max_tokens", "stop", "length", "tool_calls", "content_filter",
        "pause_turn", "refusal", "error", "cancelled", "aborted", "toolUse", "STOP", "MAX_TOKENS",
    ]
)  # fmt: skip
"""Stop reasons that are published by name; others could hold text."""
_KNOWN_TOKENIZERS = frozenset(["o200k_base", "cl100k_base", "bytes"])
_STATUS = re.compile(r"ok|error|failed|cancelled|aborted|timeout|interrupted|overloaded|rate_limit\w{0,10}|[1-5]\d\d")
_VERSION = re.compile(
    r"v?\d{1,8}(\.\d{1,8}){0,3}([-+.](alpha|beta|rc|dev|pre|preview|nightly|canary|insiders?|post|\d{1,8})[.-]?\d{0,8})*"
)
_MODEL = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._:+-]{0,79}(/[A-Za-z0-9][A-Za-z0-9._:+-]{0,79})?(@(\d{1,8}|default|latest))?"
)
_ROUTE = re.compile(r"(openrouter|bedrock|vertex_ai|azure|litellm|accounts/fireworks/models|models)/")
_CUSTOMER = re.compile(r"(^|[/:._-])(arn:|ft[:-]|ft$|projects/|home/|users/)|[0-9a-f]{8}-[0-9a-f]{4}-|\d{11}|://", re.I)
"""Forms of model names that a customer has a part in: fine-tunes, accounts, resources, folders."""


def is_public_agent(name: str) -> bool:
    """Whether an agent is one that anyone may know."""
    return name in KNOWN_AGENTS


def is_public_version(name: str) -> bool:
    """Whether a version is numbers, with a usual mark of a preview at most."""
    return len(name) <= 40 and bool(_VERSION.fullmatch(name))


def is_public_model(name: str) -> bool:
    """Whether a model's name has the form of a published one: no e-mail, account, fine-tune, folder or resource."""
    return not _CUSTOMER.search(name) and bool(_MODEL.fullmatch(_ROUTE.sub("", name, count=1)))


def is_public_stop(name: str) -> bool:
    """Whether a stop reason is one that providers document."""
    return name in KNOWN_STOPS


def is_public_status(name: str) -> bool:
    """Whether a status is a usual word or an HTTP code."""
    return bool(_STATUS.fullmatch(name))


def is_public_tokenizer(name: str) -> bool:
    """Whether a tokenizer is a published one and no file."""
    return name in _KNOWN_TOKENIZERS


def pseudonyms(series: pl.Series, is_public: Callable[[str], bool], stem: str) -> pl.Series:
    """The names with `stem-1`, `stem-2`, ... for those that are not public; equal names stay equal."""
    others = [name for name in series.drop_nulls().unique().sort().to_list() if not is_public(name)]
    mapping = {name: f"{stem}-{place + 1}" for place, name in enumerate(others)}
    return series.replace(mapping) if mapping else series
