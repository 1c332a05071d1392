"""One line of a Claude Code transcript as structure: what it is, what it hangs on, and digests and counts of its parts.

No text outlives the call, so that a transcript of gigabytes is held in a small fraction of its size.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from traces.formats.claude_code.parts import Part, PartReader
from traces.records import Context
from traces.source.sources import parse_json
from traces.usage.passes import Pass, passes
from traces.usage.rules import Usage, normalise

STOP_REASONS = {
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "compaction",
    "model_context_window_exceeded",
}

_64_BITS = (1 << 64) - 1
_VERSION = re.compile(r"\d[0-9A-Za-z.+-]{0,31}")


class ToolUse(NamedTuple):
    """A tool call: hash of its id (0: it has none), tool name, digest of the prompt if it starts a sub-agent."""

    id: int
    name: str
    prompt: int | None


class Line(msgspec.Struct, gc=False):
    """A line that the transcript's tree is made of. `kind`: user | assistant | boundary | other. Tool ids are hashes.

    Without a `parent` the line starts a tree if it is `rooted`, else it does not say what it hangs on.
    """

    ordinal: int
    kind: str
    uuid: str | None
    parent: str | None
    rooted: bool
    session: str
    agent: str | None = None
    side: bool = False
    at_s: float | None = None
    version: str | None = None
    meta: bool = False
    summary: bool = False
    copied: bool = False
    parts: tuple[Part, ...] = ()
    results: tuple[int, ...] = ()  # user: ids of the tool calls answered here
    prompt: int | None = None  # user, first of a side chain: digest of its text
    spawned: str | None = None  # user: the id of the sub-agent whose result this is
    call: str | None = None  # assistant: message id
    uses: tuple[ToolUse, ...] = ()
    usage: Usage | None = None
    passes: tuple[Pass, ...] = ()  # those of its answer before the last, whose counts are `usage`
    model: str | None = None
    stop_reason: str | None = None


class Ignored(NamedTuple):
    """A line that is no part of any prompt. kind: ignored | failed_attempt."""

    kind: str
    reason: str


class _Wire(msgspec.Struct):
    """The fields that are used; everything else is skipped without being built."""

    type: Any = None
    subtype: Any = None
    uuid: Any = None
    parentUuid: Any = msgspec.UNSET
    sessionId: Any = None
    isSidechain: Any = None
    agentId: Any = None
    timestamp: Any = None
    version: Any = None
    isMeta: Any = None
    isCompactSummary: Any = None
    isApiErrorMessage: Any = None
    forkedFrom: Any = None
    message: Any = None
    toolUseResult: Any = None


class _Slim(_Wire):
    toolUseResult: msgspec.Raw = msgspec.Raw()


_FIELDS = _Wire.__struct_fields__
_SLIM = msgspec.json.Decoder(_Slim)
_AGENT_ID = re.compile(rb'"agentId"\s*:\s*"([^"\\]{1,64})"')


class LineParser:
    """Turns raw lines into `Line`s; remembers the session of the last line for lines that name none."""

    def __init__(self, context: Context) -> None:
        self.digest = context.digest
        self.meanings = context.meanings
        self.parts = PartReader(context)
        self.session = ""
        self._versions: dict[str, str] = {}
        self._interned: dict[str, str] = {}
        self._usage: tuple[Any, Usage] = (None, Usage())
        self._passes: tuple[Pass, ...] = ()
        self._usage_known = False

    def parse(self, ordinal: int, raw: bytes) -> Line | Ignored:
        """Return what the line is.

        Raises:
            ValueError: The line cannot be used; the reason quotes nothing of it.
        """
        wire, spawned = _decode(raw)
        if wire.type == "assistant":
            if wire.isApiErrorMessage is True:
                return Ignored("ignored", "notice")
            return self._assistant(ordinal, wire)
        if wire.type == "user":
            return self._user(ordinal, wire, spawned)
        if wire.type == "system" and wire.subtype == "api_error":
            return Ignored("failed_attempt", "failed attempt")
        if isinstance(wire.uuid, str) and isinstance(wire.type, str):
            kind = "boundary" if wire.type == "system" and wire.subtype == "compact_boundary" else "other"
            return self._line(ordinal, kind, wire)
        return Ignored("ignored", "record of another kind")

    def _line(self, ordinal: int, kind: str, wire: _Wire) -> Line:
        session, parent, agent = wire.sessionId, wire.parentUuid, wire.agentId
        if type(session) is str and session != self.session:
            self.session = self._intern(session)
        version = self._versions.get(wire.version) if type(wire.version) is str else None
        if version is None and type(wire.version) is str and _VERSION.fullmatch(wire.version):
            version = self._versions[wire.version] = wire.version
        return Line(
            ordinal,
            kind,
            wire.uuid if type(wire.uuid) is str else None,
            parent if type(parent) is str else None,
            parent is None and kind != "assistant",  # an answer starts nothing
            self.session,
            self._intern(agent) if type(agent) is str and agent else None,
            wire.isSidechain is True,
            _seconds(wire.timestamp),
            version,
            wire.isMeta is True,
            wire.isCompactSummary is True,
            type(wire.forkedFrom) is dict,
        )

    def _intern(self, text: str) -> str:
        return self._interned.setdefault(text, text)

    def _user(self, ordinal: int, wire: _Wire, spawned: str | None) -> Line:
        message = _message(wire)
        line = self._line(ordinal, "user", wire)
        parts: list[Part] = []
        results: list[int] = []
        for block in self.parts.blocks(message.get("content")):
            if isinstance(block, dict) and block.get("type") == "tool_result":
                call = str(block.get("tool_use_id") or "")
                results.append(_tool(call))
                parts += self.parts.result(call, block.get("content"))
            else:
                parts.append(self.parts.block(block, "summary" if line.summary else "user"))
        line.parts = tuple(parts)
        line.results = tuple(results)
        line.spawned = self._intern(spawned) if spawned and results else None
        if line.side and line.agent is None and line.rooted:
            line.prompt = self._prompt(_first_text(message.get("content")))
        return line

    def _assistant(self, ordinal: int, wire: _Wire) -> Line | Ignored:
        message = _message(wire)
        if message.get("model") == "<synthetic>":
            return Ignored("ignored", "notice")
        line = self._line(ordinal, "assistant", wire)
        call = message.get("id")
        line.call = call if isinstance(call, str) and call else None
        model, stop = message.get("model"), message.get("stop_reason")
        line.model = self._intern(model) if isinstance(model, str) and model else None
        if isinstance(stop, str):
            line.stop_reason = stop if stop in STOP_REASONS else "other"
        usage = message.get("usage")
        if usage is not None:
            if usage != self._usage[0]:  # each block of an answer repeats it
                *before, last = passes(usage) or [
                    Pass("message", normalise(usage, "anthropic", meanings=self.meanings))
                ]
                self._usage, self._passes = (usage, last.usage), tuple(before)
                # No prompt has no tokens: figures that are all zero stand for a call whose usage never came.
                self._usage_known = any(self._usage[1][:5])
            line.usage, line.passes = self._usage[1] if self._usage_known else None, self._passes
        parts: list[Part] = []
        uses: list[ToolUse] = []
        for block in self.parts.blocks(message.get("content")):
            parts.append(self.parts.block(block, "assistant"))
            if type(block) is dict and block.get("type") == "tool_use":
                uses.append(self._use(block))
        line.parts = tuple(parts)
        if uses:
            line.uses = tuple(uses)
        return line

    def _use(self, block: dict[str, Any]) -> ToolUse:
        name = block.get("name")
        given = block.get("input")
        prompt = given.get("prompt") if isinstance(given, dict) and name in ("Task", "Agent") else None
        return ToolUse(
            _tool(str(block.get("id") or "")),
            self._intern(name) if isinstance(name, str) else "",
            self._prompt(prompt),
        )

    def _prompt(self, text: object) -> int | None:
        return self.digest("prompt:" + text.strip()) if isinstance(text, str) else None


def _tool(name: str) -> int:
    """A number for the id of a tool call that means nothing outside this process; 0 for none."""
    return hash(name) & _64_BITS or 1 if name else 0


def _decode(raw: bytes) -> tuple[_Wire, str | None]:
    try:
        slim = _SLIM.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        value = parse_json(raw)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object") from None
        wire = _Wire(**{name: value[name] for name in _FIELDS if name in value})
        result = wire.toolUseResult
        agent = result.get("agentId") if isinstance(result, dict) else None
        return wire, agent if isinstance(agent, str) else None
    if not slim.toolUseResult or b'"agentId"' not in raw:
        return slim, None
    found = _AGENT_ID.search(memoryview(slim.toolUseResult))
    return slim, bytes(found[1]).decode("utf-8", "replace") if found else None


def _message(wire: _Wire) -> dict[str, Any]:
    if not isinstance(wire.message, dict):
        raise ValueError(f"{'user' if wire.type == 'user' else 'assistant'} record without a message object")
    return wire.message


def _seconds(value: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 time with a zone; None for anything else."""
    if type(value) is not str:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.timestamp() if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _first_text(content: object) -> object:
    if isinstance(content, list):
        return next((b.get("text") for b in content if isinstance(b, dict) and b.get("type") == "text"), None)
    return content
