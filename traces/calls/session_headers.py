"""Sessions, agents and parents from request headers, which clients send so that their calls can be grouped.

Sources: Dynamo docs/agents/session-ids.md (x-claude-code-*, x-dynamo-*), modal.com/docs (Modal-Session-Id),
docs.helicone.ai (Helicone-Session-*), docs.litellm.ai (x-litellm-session-id), openai/codex (session_id,
conversation_id).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

CANONICAL = "x-dynamo-session-id"
"""If this header is sent, it replaces whatever the agent itself sends (Dynamo's session-ids.md)."""

SESSION = (
    "x-claude-code-session-id",
    "modal-session-id",
    "helicone-session-id",
    "x-litellm-session-id",
    "langfuse-session-id",
    "x-opencode-session",
    "x-session-affinity",
    "x-session-id",
    "session-id",
    "session_id",
    "x-conversation-id",
    "conversation_id",
    "x-thread-id",
)
"""Headers that name the conversation, the most specific first."""

AGENT = ("x-claude-code-agent-id", "x-agent-id")
"""Headers that name a sub-agent inside the conversation."""

PARENT_AGENT = ("x-claude-code-parent-agent-id",)
"""Headers that name the sub-agent that started this one."""

PARENT_SESSION = ("x-parent-session-id", "x-opencode-parent-session")
"""Headers that name the conversation that started this one."""

CLIENTS = (
    ("claude-cli", "claude_code"),
    ("codex", "codex"),
    ("opencode", "opencode"),
    ("geminicli", "gemini_cli"),
    ("gemini-cli", "gemini_cli"),
    ("cline", "cline"),
    ("aider", "aider"),
    ("goose", "goose"),
    ("qwencode", "qwen_code"),
)
"""Parts of user agents of coding agents, and the agents' names."""

_USER_ID = re.compile(r"_session_([0-9a-fA-F-]{8,64})$")
_VERSION = re.compile(r"/v?(\d+(?:\.\d+){1,3})")


class Caller(NamedTuple):
    """Who made a call, according to its headers and body: session keys, the agent and its version."""

    session: str | None = None
    parent: str | None = None
    agent: str | None = None
    version: str | None = None


def lowered(headers: Any) -> dict[str, str]:
    """Headers by lower-case name, from any logged shape: an object of texts or lists, or pairs."""
    found: dict[str, str] = {}
    pairs: Iterable[Any] = headers.items() if isinstance(headers, dict) else headers if _pairs(headers) else ()
    for name, value in pairs:
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(name, str) and isinstance(value, (str, int)):
            found[name.lower()] = str(value)
    return found


def _pairs(headers: Any) -> bool:
    return isinstance(headers, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in headers)


def caller(headers: Any, body: Any = None) -> Caller:
    """Who made a call with `headers` (any shape `lowered` takes) and the request `body`."""
    known = lowered(headers)
    name, version = client(known.get("user-agent", ""))
    if known.get(CANONICAL):
        above = known.get("x-dynamo-parent-session-id")
        return Caller(known[CANONICAL], above if above != known[CANONICAL] else None, name, version)
    session = _first(known, SESSION) or body_session(body)
    parent = _first(known, PARENT_SESSION)
    agent = _first(known, AGENT)
    if agent is not None and session is not None:
        above = _first(known, PARENT_AGENT)
        parent = f"{session}/{above}" if above else session
        session = f"{session}/{agent}"
    return Caller(session, parent if parent != session else None, name, version)


def client(user_agent: str) -> tuple[str | None, str | None]:
    """(agent, version) from a user agent string; None if it is not a known coding agent."""
    text = user_agent.lower()
    for mark, name in CLIENTS:
        if mark in text:
            version = _VERSION.search(text, text.index(mark))
            return name, version.group(1) if version else None
    return None, None


def body_session(body: Any) -> str | None:
    """The conversation that a request body names: Claude Code's metadata.user_id, a Responses `conversation`."""
    if not isinstance(body, dict):
        return None
    metadata = body.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str):
        if user.startswith("{"):
            try:
                inner = orjson.loads(user)
            except orjson.JSONDecodeError:
                inner = {}
            found = inner.get("session_id")
            if isinstance(found, str) and found:
                return found
        match = _USER_ID.search(user)
        if match:
            return match.group(1)
    conversation = body.get("conversation")
    if isinstance(conversation, dict):
        conversation = conversation.get("id")
    return conversation if isinstance(conversation, str) and conversation else None


def _first(headers: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((headers[name] for name in names if headers.get(name)), None)
