"""A transcript as columns: some hundred bytes a line, so that a file of gigabytes fits in memory without its text."""

from __future__ import annotations

from array import array

from traces.formats.claude_code.id_table import IdTable
from traces.formats.claude_code.lines import Line
from traces.formats.claude_code.tables import CallTable, LineTable, Names, PartTable, Stream
from traces.text.tools import CLASSES, tool_class
from traces.usage.passes import Pass
from traces.usage.rules import Usage

USER, ASSISTANT, BOUNDARY, SUMMARY, META, ASIDE, RESULT, MISSING = (1 << bit for bit in range(8))
"""Flags of a line. `MISSING`: it hangs on a line that is in no place of this file."""

_KINDS = {"user": USER, "assistant": ASSISTANT, "boundary": BOUNDARY}
_CLASS_BITS: dict[str, int] = {}
_NAN = float("nan")


class TranscriptStore:
    """Takes the lines of a file in order."""

    def __init__(self) -> None:
        self.lines = LineTable()
        self.calls = CallTable()
        self.parts = PartTable()
        self.names = Names()
        self.streams: list[Stream] = []
        self.repeated = 0
        self.tasks: dict[int, list[int]] = {}  # digest of a sub-agent's task -> calls that gave it
        self.side_roots: dict[int, tuple[int | None, str]] = {}  # line -> (digest of its text, its id)
        self.agents: list[tuple[int, str]] = []  # (line with the result, id of the sub-agent whose result it is)
        self.users = IdTable()  # digest of a tool call's id -> call
        self._streams: dict[Stream, int] = {}
        self._stream = Stream("", None, False), -1  # of the last line
        self._open: tuple[int, set[int]] = (-1, set())  # the call of the last block, the digests of its parts
        self._latest: dict[int, int] = {}
        # Ids are remembered by their hash: among a million lines two share one with a chance of 3 in 10^8.
        self._by_uuid = IdTable()
        self.passes: dict[
            int, tuple[Pass, ...]
        ] = {}  # of the few answers that several passes made: those before the last
        self._used: tuple[int, Usage] = (-1, Usage())  # the usage taken last, and of which call
        self._unresolved: dict[int, int] = {}
        self._replies, self._first_reply = array("I"), array("q", [0])
        self._calls: dict[str, int] = {}

    def add(self, line: Line) -> None:
        """Take the next line. A line whose id came before is a copy and only counted."""
        lines, at = self.lines, len(self.lines.ordinal)
        if line.uuid is not None:
            uuid = hash(line.uuid)
            if self._by_uuid.get(uuid) >= 0:
                self.repeated += 1
                return
            self._by_uuid.add(uuid, at)
        stream = self._stream_of(line)
        parent = -1
        if line.parent is not None:
            above = hash(line.parent)
            parent = self._by_uuid.get(above)
            if parent < 0 or parent == at:
                parent = -1
                self._unresolved[at] = above
        if parent < 0 and not line.rooted:
            parent = self._latest.get(stream, -1)
        self._latest[stream] = at
        lines.ordinal.append(line.ordinal)
        lines.flags.append(_flags(line))
        lines.parent.append(parent)
        lines.stream.append(stream)
        lines.at_s.append(_NAN if line.at_s is None else line.at_s)
        lines.version.append(self.names.position(line.version))
        lines.first_part.append(len(self.parts.key))
        lines.result.append(line.results[0] if line.results else 0)
        lines.next_result.append(-1)
        lines.next_block.append(-1)
        lines.call.append(-1)
        if line.kind == "assistant":
            lines.call[at] = self._block(at, line)
        else:
            for part in line.parts:
                self.parts.append(part)
        if line.side and line.agent is None and (parent < 0 or not self.streams[lines.stream[parent]].side):
            self.side_roots[at] = (line.prompt, line.uuid or str(line.ordinal))
        if line.spawned is not None:
            self.agents.append((at, line.spawned))

    def close(self) -> None:
        """Resolve what hangs on later lines, and the answers to tool calls; ids are forgotten."""
        for at, above in self._unresolved.items():
            found = self._by_uuid.get(above)
            if found >= 0 and found != at:
                self.lines.parent[at] = found
            elif self.lines.parent[at] < 0:
                self.lines.flags[at] |= MISSING
        for at, result in zip(range(len(self.lines) - 1, -1, -1), reversed(self.lines.result), strict=True):
            call = self.users.get(result) if result else -1
            if call >= 0:
                self.lines.next_result[at] = self.calls.results[call]
                self.calls.results[call] = at
        self._by_uuid, self._unresolved, self._calls = IdTable(), {}, {}
        self.lines.first_part.append(len(self.parts))
        for call in range(len(self.calls)):
            self._replies.extend(self._reply(call))
            self._first_reply.append(len(self._replies))

    def parts_of(self, at: int) -> range:
        """Positions of the parts of a line."""
        return range(self.lines.first_part[at], self.lines.first_part[at + 1])

    def reply(self, call: int) -> list[int]:
        """Positions of the parts of a call's answer."""
        return self._replies[self._first_reply[call] : self._first_reply[call + 1]].tolist()

    def _reply(self, call: int) -> list[int]:
        found: list[int] = []
        first_part = self.lines.first_part
        at = self.calls.first[call]
        while at >= 0:
            end = first_part[at + 1] if at + 1 < len(first_part) else len(self.parts)
            found.extend(range(first_part[at], end))
            at = self.lines.next_block[at]
        return found

    def _stream_of(self, line: Line) -> int:
        last, found = self._stream
        if line.session is last.session and line.agent is last.agent and line.side is last.side and found >= 0:
            return found
        stream = Stream(line.session, line.agent, line.side)
        place = self._streams.get(stream)
        if place is None:
            place = self._streams[stream] = len(self.streams)
            self.streams.append(stream)
        self._stream = stream, place
        return place

    def _block(self, at: int, line: Line) -> int:
        key = line.call or (f"uuid:{line.uuid}" if line.uuid is not None else f"line:{line.ordinal}")
        calls = self.calls
        call = self._calls.get(key, -1)
        if call < 0:
            call = self._calls[key] = calls.add(key, at)
            self._open = call, {part.key for part in line.parts}
        else:
            known = self._open[1] if self._open[0] == call else {self.parts.key[part] for part in self._reply(call)}
            if line.parts and all(part.key in known for part in line.parts):
                self.repeated += 1  # a later state of a line that is there
            else:
                calls.lines[call] += 1
            self.lines.next_block[calls.last[call]] = at
            calls.last[call] = at
            line.parts = tuple([part for part in line.parts if part.key not in known])
            known.update([part.key for part in line.parts])
            self._open = call, known
        for part in line.parts:
            self.parts.append(part)
        for use in line.uses:
            calls.classes[call] |= _class_bit(use.name)
            if use.prompt is not None and (use.id == 0 or self.users.get(use.id) < 0):
                self.tasks.setdefault(use.prompt, []).append(call)
            if use.id:
                self.users.add(use.id, call)
        if line.usage is not None and (call, line.usage) != self._used:
            self._use(call, line.usage)
            self._used = call, line.usage
        if line.passes:
            self.passes[call] = line.passes
        if line.model is not None:
            calls.model[call] = self.names.position(line.model)
        if line.stop_reason is not None:
            calls.stop[call] = self.names.position(line.stop_reason)
        if line.copied:
            calls.copied[call] = 1
        if line.at_s is not None and not line.at_s <= calls.last_s[call]:
            calls.last_s[call] = line.at_s
        return call

    def _use(self, call: int, usage: Usage) -> None:
        """Take the usage of a line: the latest counts, field by field, but the output never shrinks."""
        figures = self.calls.figures
        for at, value in enumerate(usage[:5], 5 * call):
            if isinstance(value, int):
                figures[at] = max(value, figures[at]) if at == 5 * call + 3 else value


def _flags(line: Line) -> int:
    flags = _KINDS.get(line.kind, 0)
    if line.side or line.agent is not None:
        flags |= ASIDE
    if line.results:
        flags |= RESULT
    return flags | SUMMARY * line.summary | META * line.meta


def _class_bit(name: str) -> int:
    found = _CLASS_BITS.get(name)
    if found is None:
        found = 1 << CLASSES.index(tool_class(name))
        if len(_CLASS_BITS) < 1000:
            _CLASS_BITS[name] = found
    return found
