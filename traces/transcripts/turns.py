"""A conversation as its reader meets it: inputs, answers, and the model calls that they are closed into."""

from __future__ import annotations

from typing import Any

import msgspec

from traces.transcripts.parts import Part
from traces.usage.passes import Pass
from traces.usage.rules import Usage


class Turn(msgspec.Struct, eq=False):
    """One model call: what was new in its prompt since `parent` and its answer (or `whole`), and what was answered."""

    key: str
    ordinal: int
    thread: Thread
    inputs: list[Part] = msgspec.field(default_factory=list)
    reply: list[Part] = msgspec.field(default_factory=list)
    tools: list[str] = msgspec.field(default_factory=list)
    whole: list[Part] | None = None  # the exact prompt, where the source logs it
    parent: Turn | None = None
    usage: Usage | None = None
    passes: list[Pass] = msgspec.field(default_factory=list)  # of its answer, where it had more than one
    model: str | None = None
    arrival_s: float | None = None
    ttft_s: float | None = None
    duration_s: float | None = None
    stop_reason: str | None = None
    output_complete: bool | None = None
    trigger: str = "unknown"
    compaction: bool = False
    aggregate: bool = False  # its counts are of several calls, so they are no prompt's length
    status: str = "ok"
    dedupe_key: str | None = None
    copy_rank: tuple[Any, ...] = ()

    @property
    def input_tokens(self) -> int | None:
        """All prompt tokens, as the provider counted them."""
        return self.usage.input_tokens if self.usage else None

    @property
    def length(self) -> int | None:
        """Tokens of the prompt, where the provider counted this prompt alone."""
        return None if self.aggregate else self.input_tokens

    @property
    def cached_total(self) -> int | None:
        """Prompt tokens in the provider's cache once the call was made; None where writes are not reported."""
        if self.usage is None or self.usage.cache_read_tokens is None or not self.usage.cache_write_tokens:
            return None
        return self.usage.cache_read_tokens + self.usage.cache_write_tokens


class Thread(msgspec.Struct, eq=False):
    """One session. `head` is what its prompts visibly start with (tools and system prompt), in order.

    `hidden_head`: whether more than `head` comes before the messages. `keeps_reasoning`: whether the agent sends
    reasoning back. `time_basis` as in `traces.records.Request`.
    """

    key: str
    agent: str
    version: str | None = None
    role: str = "main"
    parent_key: str | None = None
    spawn: Turn | None = None
    spawn_key: str | None = None
    forked_from: str | None = None
    started_s: float | None = None
    head: list[Part] = msgspec.field(default_factory=list)
    hidden_head: bool = True
    keeps_reasoning: bool = True
    time_basis: str = "wall"
    turns: list[Turn] = msgspec.field(default_factory=list)
    # What waits for the next call to be closed:
    inputs: list[Part] = msgspec.field(default_factory=list)
    reply: list[Part] = msgspec.field(default_factory=list)
    tools: list[str] = msgspec.field(default_factory=list)
    after: list[Part] = msgspec.field(default_factory=list)  # results that came before their call was closed
    trigger: str = "unknown"
    after_trigger: str = "unknown"
    after_s: float | None = None
    parent: Turn | None = None
    compaction: bool = False
    input_s: float | None = None
    reply_s: float | None = None
    last_s: float | None = None

    def add_input(self, parts: list[Part], at_s: float | None = None, trigger: str = "user") -> None:
        """A message, or a tool's result, that the next prompt ends with. A result outweighs what comes with it."""
        if self.reply:
            self.after += parts
            self.after_s = at_s if self.after_s is None or at_s is None else max(at_s, self.after_s)
            self.after_trigger = "tool" if "tool" in (trigger, self.after_trigger) else trigger
            return
        self.inputs += parts
        self.trigger = "tool" if "tool" in (trigger, self.trigger) else trigger
        if at_s is not None:
            self.input_s = at_s if self.input_s is None else max(at_s, self.input_s)

    def add_reply(self, parts: list[Part], tools: list[str], at_s: float | None = None) -> None:
        """A part of the answer of the call that is open."""
        self.reply += parts
        self.tools += tools
        if at_s is not None:
            self.reply_s = at_s if self.reply_s is None else self.reply_s
            self.last_s = at_s if self.last_s is None else max(at_s, self.last_s)

    @property
    def answered(self) -> bool:
        """Whether the open call has any answer yet."""
        return bool(self.reply or self.tools)

    def close(self, key: str, ordinal: int, at_s: float | None = None, **fields: Any) -> Turn:
        """End the open call; `fields` are those of `Turn`. `at_s` is when it is known to have ended."""
        first = self.reply_s if self.reply_s is not None else at_s
        last = self.last_s if self.last_s is not None else at_s
        arrival = self.input_s if self.input_s is not None and (first is None or self.input_s <= first) else first
        waited = arrival is not None and arrival == self.input_s and last is not None and last >= arrival
        turn = Turn(
            key=key,
            ordinal=ordinal,
            thread=self,
            inputs=self.inputs,
            reply=self.reply,
            tools=self.tools,
            parent=self.parent,
            arrival_s=arrival,
            duration_s=last - arrival if waited and last is not None and arrival is not None else None,
            trigger=self.trigger,
            compaction=self.compaction,
        )
        for name, value in fields.items():
            if value is not None:
                setattr(turn, name, value)
        self.turns.append(turn)
        self.parent = turn
        self.inputs, self.reply, self.tools = self.after, [], []
        self.trigger, self.after, self.after_trigger = self.after_trigger, [], "unknown"
        self.compaction = False
        # The next prompt cannot have been sent before this answer was there.
        known = [at for at in (last, self.after_s) if at is not None]
        self.input_s = max(known, default=None)
        self.reply_s = self.last_s = self.after_s = None
        return turn

    def restart(self, parts: list[Part], compaction: bool = True) -> None:
        """History was replaced: the next prompt is the head and `parts`."""
        self.parent, self.compaction = None, compaction
        self.inputs, self.trigger = parts, "user"

    def rewind(self, to: Turn | None) -> None:
        """The next prompt continues after `to`; what came later is gone."""
        self.parent = to
        self.inputs, self.reply, self.tools, self.after = [], [], [], []
        self.trigger = self.after_trigger = "unknown"


class Branches:
    """Where the entries of a tree-shaped log leave the conversation: another branch can start at any of them."""

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.last: str | None = None
        self._at: dict[str, tuple[Turn | None, list[Part], str]] = {}

    def enter(self, parent: object) -> bool:
        """Go to the entry `parent` if the log is not there already; True if that left a branch."""
        if not isinstance(parent, str) or parent == self.last or parent not in self._at:
            return False
        turn, inputs, trigger = self._at[parent]
        self.thread.rewind(turn)
        self.thread.inputs, self.thread.trigger = list(inputs), trigger
        return True

    def leave(self, entry: object) -> None:
        """Remember the state after `entry`."""
        if isinstance(entry, str):
            self.last = entry
            self._at[entry] = (self.thread.parent, list(self.thread.inputs), self.thread.trigger)
