"""From lines to calls: which lines are one model call, what each call was given, and which session it belongs to.

A call is one message id. Its inputs are the user lines between it and the call before it on the way up the tree of
`parentUuid`, and every other result of a tool that the call before it used (parallel results hang beside each other).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from traces.formats.claude_lines import Line, Part, ToolUse
from traces.usage import Usage


class Call(msgspec.Struct):
    """One model call. `parent` is the call whose prompt and answer the prompt continues, as the transcript tells it."""

    key: str
    dedupe_key: str | None
    session: str
    first: Line
    lines: int = 1
    last_s: float | None = None
    usage: Usage | None = None
    model: str | None = None
    stop_reason: str | None = None
    copied: bool = False
    reply: list[Part] = msgspec.field(default_factory=list)
    uses: list[ToolUse] = msgspec.field(default_factory=list)
    inputs: list[Line] = msgspec.field(default_factory=list)
    parent: Call | None = None
    compaction: bool = False
    dangling: bool = False  # its history starts in another file

    @property
    def input_tokens(self) -> int | None:
        """All prompt tokens, as the provider counted them."""
        return self.usage.input_tokens if self.usage else None

    @property
    def read_tokens(self) -> int | None:
        """Prompt tokens that the provider found cached."""
        return self.usage.cache_read_tokens if self.usage else None

    @property
    def cached_total(self) -> int | None:
        """Prompt tokens in the provider's cache once the call was made: read or written."""
        if self.usage is None or self.usage.cache_read_tokens is None:
            return None
        return self.usage.cache_read_tokens + (self.usage.cache_write_tokens or 0)


class Chain(msgspec.Struct):
    """One session of this file: the main conversation, or one sub-agent."""

    key: str
    role: str
    parent_key: str | None = None
    spawn: Call | None = None
    forked_from: str | None = None
    version: str | None = None
    first_s: float | None = None
    last_s: float | None = None
    calls: list[Call] = msgspec.field(default_factory=list)


class Transcript(msgspec.Struct):
    """What a file holds, calls in the order of their first lines. Counts are of lines."""

    calls: list[Call]
    chains: dict[str, Chain]
    spawned: dict[str, tuple[str, Call]]  # sub-agents of other files: session key -> (session key, call)
    used: int
    repeated: int
    ignored: int


class TranscriptBuilder:
    """Collects lines, then resolves them."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.parents: list[int] = []  # position of the line that a line hangs on, -1: none
        self.unresolved: list[int] = []
        self.by_uuid: dict[str, int] = {}
        self.results: dict[int, list[int]] = {}
        self.latest: dict[tuple[str, str | None, bool], int] = {}
        self.calls: dict[str, Call] = {}
        self.call_of: dict[int, Call] = {}
        self.repeated = 0

    def add(self, line: Line) -> None:
        """Take the next line of the file."""
        if line.uuid is not None and line.uuid in self.by_uuid:
            self.repeated += 1
            return
        at = len(self.lines)
        self.lines.append(line)
        stream = (line.session, line.agent, line.side)
        found = -1 if line.parent is None else self.by_uuid.get(line.parent, -1)
        if found < 0 and line.parent is not None:
            self.unresolved.append(at)
        elif found >= 0:
            line.parent = self.lines[found].uuid  # one string of each id is enough
        if found < 0 and not line.rooted:
            found = self.latest.get(stream, -1)
        self.parents.append(found)
        if line.uuid is not None:
            self.by_uuid[line.uuid] = at
        self.latest[stream] = at
        for result in line.results:
            self.results.setdefault(result, []).append(at)
        if line.kind == "assistant":
            self._block(at, line)

    def _block(self, at: int, line: Line) -> None:
        key = line.call or (f"uuid:{line.uuid}" if line.uuid is not None else f"line:{line.ordinal}")
        call = self.calls.get(key)
        if call is None:
            dedupe = None if key.startswith("line:") else key
            call = self.calls[key] = Call(key, dedupe, "", line)
        else:
            call.lines += 1
        known = {part.key for part in call.reply}
        fresh = [part for part in line.parts if part.key not in known]
        if line.parts and not fresh:
            self.repeated += 1
            call.lines -= 1
        call.reply += fresh
        call.uses += [use for use in line.uses if use not in call.uses]
        call.usage = _later(call.usage, line.usage)
        call.model = line.model or call.model
        call.stop_reason = line.stop_reason or call.stop_reason
        call.copied = call.copied or line.copied
        if line.at_s is not None:
            call.last_s = max(line.at_s, call.last_s or line.at_s)
        self.call_of[at] = call
        line.parts = line.uses = ()

    def build(self) -> Transcript:
        """Resolve parents, sessions and inputs."""
        for at in self.unresolved:
            # A line may hang on one that comes later in the file; what is still missing lies in another file.
            found = self.by_uuid.get(self.lines[at].parent or "", -1)
            if found >= 0 and found != at:
                self.parents[at] = found
        calls = list(self.calls.values())
        first_at = {id(call): at for at, call in reversed(self.call_of.items())}
        keys = self._session_keys()
        chains: dict[str, Chain] = {}
        for at, line in enumerate(self.lines):
            self._extend(chains, keys[at], line)
        used: set[int] = set()
        for call in calls:
            at = first_at[id(call)]
            call.session = keys[at]
            self._inputs(call, at, keys, used)
            chains[call.session].calls.append(call)
        self._link(chains, keys)
        spawned = dict(self._spawned(keys))
        lines = sum(call.lines - 1 for call in calls) + len(used)
        ignored = len(self.lines) - len(self.call_of) - len(used)
        return Transcript(calls, chains, spawned, lines, self.repeated, ignored)

    def _session_keys(self) -> list[str]:
        """The session of each line; an inline side chain is a session of its own, named by the line it starts with."""
        keys: list[str] = []
        for at, line in enumerate(self.lines):
            if line.agent is not None:
                keys.append(f"{line.session}/{line.agent}")
            elif not line.side:
                keys.append(line.session)
            else:
                above = self.parents[at]
                inherits = 0 <= above < at and self.lines[above].side and self.lines[above].agent is None
                keys.append(keys[above] if inherits else f"{line.session}/{line.uuid or line.ordinal}")
        return keys

    def _extend(self, chains: dict[str, Chain], key: str, line: Line) -> None:
        chain = chains.get(key)
        if chain is None:
            role = "side" if (line.agent or "").startswith("aside") else "subagent" if _aside(line) else "main"
            parent = line.session if _aside(line) and line.session != f"agent-{line.agent}" else None
            chain = chains[key] = Chain(key, role, parent)
        chain.version = chain.version or line.version
        if line.at_s is not None:
            chain.first_s = min(line.at_s, chain.first_s if chain.first_s is not None else line.at_s)
            chain.last_s = max(line.at_s, chain.last_s if chain.last_s is not None else line.at_s)

    def _inputs(self, call: Call, first: int, keys: list[str], used: set[int]) -> None:
        at, found, seen = self.parents[first], [], {first}
        at_start = first
        while at >= 0 and at not in seen:
            seen.add(at)
            line = self.lines[at]
            other = self.call_of.get(at)
            if keys[at] != call.session and (_aside(line) or _aside(call.first)):
                break  # a sub-agent does not continue the prompt of the conversation that started it
            if other is not None and other is not call:
                if other.first.ordinal < call.first.ordinal:
                    call.parent = other
                break
            at_start = at
            if line.kind == "boundary":
                call.compaction = True
                break
            if line.kind == "user":
                found.append(at)
                if line.summary:
                    call.compaction = True
                    break
            at = self.parents[at]
        missing = self.lines[at_start].parent is not None and self.parents[at_start] < 0
        call.dangling = missing and call.parent is None and not call.compaction
        if call.parent is not None:
            for use in call.parent.uses:
                for at in self.results.get(use.id, ()):
                    if at not in seen and keys[at] == call.session and self.lines[at].ordinal < call.first.ordinal:
                        found.append(at)
                        seen.add(at)
        found.sort()
        used.update(found)
        call.inputs = [self.lines[at] for at in found]

    def _link(self, chains: dict[str, Chain], keys: list[str]) -> None:
        """Side chains to the calls that started them; sessions to those that they continue."""
        waiting: dict[int, list[Call]] = {}
        for call in self.calls.values():
            for use in call.uses:
                if use.prompt is not None:
                    waiting.setdefault(use.prompt, []).append(call)
        started: dict[str, Call] = {}
        for at, line in enumerate(self.lines):
            for call in waiting.get(line.prompt, ()) if line.prompt is not None else ():
                if call.session != keys[at] and keys[at] not in started:
                    started[keys[at]] = call
                    waiting[line.prompt].remove(call)  # type: ignore[index]
                    break
        for chain in chains.values():
            spawn = started.get(chain.key)
            if spawn is not None:
                chain.spawn, chain.parent_key = spawn, spawn.session
            for call in chain.calls:
                if chain.role == "main" and call.parent is not None and call.parent.session != chain.key:
                    chain.forked_from = chain.forked_from or call.parent.session

    def _spawned(self, keys: list[str]) -> Iterator[tuple[str, tuple[str, Call]]]:
        users = {use.id: call for call in self.calls.values() for use in call.uses}
        for at, line in enumerate(self.lines):
            call = next((users[result] for result in line.results if result in users), None)
            if line.spawned and call is not None:
                yield f"{line.session}/{line.spawned}", (keys[at], call)


def _aside(line: Line) -> bool:
    return line.side or line.agent is not None


def _later(before: Usage | None, after: Usage | None) -> Usage | None:
    """The usage of a call of which two lines tell: the later one counts, field by field; output never shrinks."""
    if before is None or after is None:
        return after or before
    merged = [b if a is None else a for b, a in zip(before[:5], after[:5], strict=True)]
    if before.output_tokens is not None and after.output_tokens is not None:
        merged[3] = max(before.output_tokens, after.output_tokens)
    return Usage(*merged, after.rule)


def texts(lines: Iterable[Line]) -> list[Part]:
    """The parts of some lines, in order."""
    return [part for line in lines for part in line.parts]
