"""From lines to calls in sessions: what each call was given, which call it continues, which session it belongs to.

A call is one message id. Its inputs are the user lines between it and the call before it on the way up the tree of
`parentUuid`, and every other result of a tool that the call before it used (parallel results hang beside each other).
"""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

import msgspec

from traces.formats.claude_code.store import ASIDE, BOUNDARY, MISSING, SUMMARY, USER, TranscriptStore
from traces.formats.claude_code.tables import Stream


class Chain(msgspec.Struct):
    """One session of this file: the main conversation, or one sub-agent. Calls by number."""

    key: str
    role: str
    parent_key: str | None = None
    spawn: int | None = None
    forked_from: str | None = None
    version: str | None = None
    first_s: float | None = None
    last_s: float | None = None
    calls: array[int] = msgspec.field(default_factory=lambda: array("q"))


class _Way(NamedTuple):
    lines: list[int]
    parent: int
    compaction: bool
    dangling: bool


class Chains:
    """The sessions of a stored transcript, and the way up from each call."""

    def __init__(self, store: TranscriptStore) -> None:
        self.store = store
        self.keys: list[str] = []
        self._key_at: dict[str, int] = {}
        self.session = array("i")  # of each line
        self.by_key: dict[str, Chain] = {}
        self.used = 0
        self._sessions()
        self.parent = array("q")  # of each call: the call before it, -1: none in this file
        self.compacted = array("B")  # whether its history was replaced by a summary
        self.dangling = array("B")  # whether its history starts in another file
        self._inputs, self._first_input = array("q"), array("q", [0])
        self._chains = [self.by_key[self.keys[self.session[first]]] for first in store.calls.first]
        self._calls()
        self._link()

    def chain(self, call: int) -> Chain:
        """The session of a call."""
        return self._chains[call]

    def inputs(self, call: int) -> array[int]:
        """The lines that a call was given, in order."""
        return self._inputs[self._first_input[call] : self._first_input[call + 1]]

    def _walk_up(self, call: int) -> _Way:
        store, lines, session = self.store, self.store.lines, self.session
        flags, calls, above = lines.flags, lines.call, lines.parent
        first = store.calls.first[call]
        found: list[int] = []
        seen = {first}
        at, top, parent, compaction = above[first], first, -1, False
        while at >= 0 and at not in seen:
            seen.add(at)
            if session[at] != session[first] and (flags[at] | flags[first]) & ASIDE:
                break  # a sub-agent does not continue the prompt of the conversation that started it
            owner = calls[at]
            if owner not in (-1, call):
                parent = owner if store.calls.first[owner] < first else -1
                break
            top = at
            if flags[at] & USER:
                found.append(at)
            if flags[at] & (BOUNDARY | SUMMARY):
                compaction = True
                break
            at = above[at]
        found.reverse()
        if parent >= 0:
            at = store.calls.results[parent]
            beside = []
            while at >= 0:
                if at not in seen and at < first and session[at] == session[first]:
                    beside.append(at)
                at = lines.next_result[at]
            if beside:
                found = sorted(found + beside)
        dangling = parent < 0 and not compaction and bool(flags[top] & MISSING)
        return _Way(found, parent, compaction, dangling)

    def spawned(self) -> dict[str, int]:
        """Sub-agents whose results are here, by session key, with the calls that started them."""
        store, found = self.store, {}
        for at, agent in store.agents:
            call = store.users.get(store.lines.result[at])
            if call >= 0:
                found[f"{store.streams[store.lines.stream[at]].session}/{agent}"] = call
        return found

    def _sessions(self) -> None:
        store = self.store
        whole: dict[int, int] = {}  # stream -> its session, where all its lines are of one
        for at, number in enumerate(store.lines.stream):
            session = whole.get(number, -1)
            if session < 0:
                stream = store.streams[number]
                if stream.agent is not None:
                    session = whole[number] = self._position(f"{stream.session}/{stream.agent}")
                elif not stream.side:
                    session = whole[number] = self._position(stream.session)
                else:
                    session = self._side(at, stream)
            self.session.append(session)
            self._extend(self.keys[session], at)

    def _side(self, at: int, stream: Stream) -> int:
        """The session of a line of a side chain without a name: that of the line above it, or one of its own."""
        store, lines = self.store, self.store.lines
        above = lines.parent[at]
        if 0 <= above < at and store.streams[lines.stream[above]][1:] == (None, True):
            return self.session[above]
        root = store.side_roots[at][1] if at in store.side_roots else lines.ordinal[at]
        return self._position(f"{stream.session}/{root}")

    def _position(self, key: str) -> int:
        found = self._key_at.get(key)
        if found is None:
            found = self._key_at[key] = len(self.keys)
            self.keys.append(key)
        return found

    def _extend(self, key: str, at: int) -> None:
        store, lines = self.store, self.store.lines
        chain = self.by_key.get(key)
        if chain is None:
            stream = store.streams[lines.stream[at]]
            aside = bool(lines.flags[at] & ASIDE)
            role = "side" if (stream.agent or "").startswith("aside") else "subagent" if aside else "main"
            named = aside and stream.session != f"agent-{stream.agent}"
            chain = self.by_key[key] = Chain(key, role, stream.session if named else None)
        if chain.version is None:
            chain.version = store.names.values[lines.version[at]]
        moment = lines.at_s[at]
        if not math.isnan(moment):
            chain.first_s = moment if chain.first_s is None else min(moment, chain.first_s)
            chain.last_s = moment if chain.last_s is None else max(moment, chain.last_s)

    def _calls(self) -> None:
        used = bytearray(len(self.store.lines))
        for call in range(len(self.store.calls)):
            given = self._walk_up(call)
            for at in given.lines:
                used[at] = 1
            self._inputs.extend(given.lines)
            self._first_input.append(len(self._inputs))
            self.parent.append(given.parent)
            self.compacted.append(given.compaction)
            self.dangling.append(given.dangling)
            chain = self.chain(call)
            chain.calls.append(call)
            if given.parent >= 0 and chain.role == "main":
                before = self.chain(given.parent)
                if before is not chain and chain.forked_from is None:
                    chain.forked_from = before.key
        self.used = sum(used)

    def _link(self) -> None:
        """Side chains to the calls that gave them their task, each call once per task."""
        store = self.store
        waiting = {task: list(calls) for task, calls in store.tasks.items()}
        for at, (task, _) in store.side_roots.items():
            chain = self.by_key[self.keys[self.session[at]]]
            for call in waiting.get(task, ()) if task is not None else ():
                if chain.spawn is None and self.chain(call) is not chain:
                    chain.spawn, chain.parent_key = call, self.chain(call).key
                    waiting[task].remove(call)  # type: ignore[index]
                    break
