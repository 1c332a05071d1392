"""opencode sessions: the storage tree, opencode.db, OpenCode 2's too, `opencode export`, `opencode run --format json`.

Facts: anomalyco/opencode, packages/opencode/src/session. One call is one step (`step-finish`); a message's own tokens
are those of its last step. `input` excludes cached tokens, `output` excludes reasoning. The prompt is the system prompt
and tools (not logged) and the messages since the last summary, reasoning included; results that were pruned are a
notice in it from the next user's message on. Times are milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.opencode.storage import Message, Stored, is_database, stored
from traces.records import Context, Note, Record, Request
from traces.source.database import MAGIC, tables
from traces.transcripts.ledger import Ledger, opening
from traces.transcripts.parts import Part, PartMaker, as_dict, kind_of, plain, seconds, text_of
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread, Turn

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "opencode"
SESSION_SCOPE = "dataset"
SIBLINGS = True
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls, usage with cache reads and writes, times",
    "time": "wall clock (ms since the epoch)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "a storage folder is read as one input; system prompt and tools are not logged: an unobserved head",
}
_AS_TEXT = ("text/plain", "application/x-directory")
"""Files that are in a text part beside them too, and go out as that."""

_SENT_AS = {"compaction": "What did we do so far?", "subtask": "The following tool was executed by the user"}
"""What a part of a user's message goes out as, as in session/message-v2.ts."""

_INTERRUPTED = "[Tool execution was interrupted]"
_CLEARED = "[Old tool result content cleared]"
"""What stands for a tool's result once opencode has pruned it (`time.compacted`, session/message-v2.ts)."""

_EVENTS = {"step_start", "step_finish", "text", "tool_use", "reasoning"}


def sniff(head: Any, name: str) -> float:
    """Sure of the ids that link sessions, messages and parts."""
    if head.start.startswith(MAGIC):
        return 0.95 if is_database(tables(head)) else 0.0
    value = opening(head)
    if not isinstance(value, dict):
        return 0.0
    if "sessionID" in value and ("role" in value or "messageID" in value):
        return 0.95
    if kind_of(value) in _EVENTS and "sessionID" in value and isinstance(value.get("part"), dict):
        return 0.97
    info = value.get("info")
    if isinstance(info, dict) and isinstance(value.get("messages"), list) and "projectID" in info:
        return 0.97
    if "projectID" in value and "directory" in value and "time" in value:
        return 0.9
    return 0.8 if "messageID" in value and "type" in value else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions and their requests."""
    ledger = Ledger(context.meanings)
    files = stored(source, ledger)
    conversation = _Conversations(files, PartMaker(context), ledger)
    count = 0
    for record in requests_of(conversation.threads(), context, reports_usage=True):
        count += isinstance(record, Request)
        yield record
    orphans = files.orphans()
    if orphans:
        ledger.ignore("a part of a message that is not there", orphans)
    yield from ledger.finish(count)
    if files.unread:
        yield Note(f"opencode: {files.unread}")


class _Conversations:
    def __init__(self, files: Stored, make: PartMaker, ledger: Ledger) -> None:
        self.files, self.make, self.ledger = files, make, ledger
        self.ordinal = 0
        self.spawns: dict[str, Turn] = {}
        self.children: list[str] = []  # sub-agents that the open step started
        self.cleared: list[tuple[float, list[Part], Part]] = []  # results to be cleared: when, what, what stands there

    def threads(self) -> list[Thread]:
        found = []
        for key, messages in self.files.conversations():
            info = self.files.sessions.get(key, {})
            parent = text_of(info.get("parentID"))
            thread = Thread(
                key,
                NAME,
                text_of(info.get("version")),
                role="subagent" if parent else "main",
                parent_key=parent,
                started_s=seconds(as_dict(info.get("time")).get("created")),
            )
            self.cleared = []
            for message in messages:
                self._message(thread, message)
            found.append(thread)
        for thread in found:
            turn = self.spawns.get(thread.key)
            if turn is not None:
                thread.spawn, thread.parent_key, thread.role = turn, turn.thread.key, "subagent"
        return found

    def _message(self, thread: Thread, message: Message) -> None:
        info = message.info
        created = seconds(as_dict(info.get("time")).get("created"))
        self.ledger.used += 1
        self.ordinal += 1
        if info.get("role") == "assistant":
            self._answer(thread, message, created)
            return
        if info.get("role") == "compaction":
            self.ordinal += len(message.parts)
            self.ledger.used += len(message.parts)
            thread.restart([self.make.text("summary", plain(part.get("text"))) for part in message.parts])
            return
        parts = []
        for part in message.parts:
            self.ordinal += 1
            self.ledger.used += 1
            kind = kind_of(part)
            if kind == "text" and not part.get("ignored"):
                parts.append(self.make.text("user", plain(part.get("text"))))
            elif kind == "file" and part.get("mime") not in _AS_TEXT:
                parts.append(self.make.image(part.get("url")))
            elif kind in _SENT_AS:
                parts.append(self.make.text("user", _SENT_AS[kind]))
        self._clear(thread, created)
        thread.add_input(parts, created, "user")

    def _clear(self, thread: Thread, now: float | None) -> None:
        """Old results that were cleared before `now` are a notice from here on, what came after them is sent anew."""
        due = [one for one in self.cleared if now is not None and one[0] <= now]
        if not due or thread.answered:
            return
        self.cleared = [one for one in self.cleared if now is None or one[0] > now]
        notices = {parts[0].key: notice for _, parts, notice in due}
        gone = {part.key for _, parts, _ in due for part in parts[1:]}
        after: list[Turn] = []
        turn, first = thread.parent, 0
        while turn is not None:
            after.append(turn)
            if any(part.key in notices for part in turn.inputs):
                first = len(after)
            turn = turn.parent
        if not first and not any(part.key in notices for part in thread.inputs):
            return  # a compaction came between
        waiting, trigger, again = thread.inputs, thread.trigger, after[:first][::-1]
        parts = [part for turn in again for part in turn.inputs + turn.reply] + waiting
        thread.rewind(again[0].parent if again else thread.parent)
        thread.inputs = [notices.get(part.key, part) for part in parts if part.key not in gone]
        thread.trigger = trigger

    def _answer(self, thread: Thread, message: Message, created: float | None) -> None:
        results: list[tuple[list[Any], float | None]] = []
        closed, asked, inputs, trigger = 0, thread.parent, thread.inputs, thread.trigger
        for part in message.parts:
            self.ordinal += 1
            self.ledger.used += 1
            kind, time = kind_of(part), as_dict(part.get("time"))
            at_s = seconds(time.get("end") or time.get("start"))
            if kind == "text" and not part.get("synthetic"):
                thread.add_reply([self.make.text("assistant", plain(part.get("text")))], [], at_s)
            elif kind == "reasoning":
                thread.add_reply([self.make.text("reasoning", plain(part.get("text")))], [], at_s)
            elif kind == "tool":
                results.append(self._tool(thread, part))
            elif kind == "step-finish":
                self._close(thread, message, part, created, results)
                closed, results = closed + 1, []
        if thread.answered or not closed:
            # Without a step's end (an old version, a call that was cut off) the message's tokens are its last call's.
            self._close(thread, message, {} if closed else message.info, created, results)
        if _is_left_out(message):
            thread.rewind(asked)
            thread.inputs, thread.trigger = list(inputs), trigger
        elif message.info.get("summary") is True and thread.turns and not message.info.get("error"):
            summary = [p._replace(role="summary") for p in thread.turns[-1].reply if p.role == "assistant"]
            thread.restart(summary)

    def _tool(self, thread: Thread, part: dict[str, Any]) -> tuple[list[Any], float | None]:
        state = as_dict(part.get("state"))
        time = as_dict(state.get("time"))
        name = text_of(part.get("tool")) or ""
        call = self.make.call(name, state.get("input"), part.get("callID"))
        thread.add_reply([call], [name], seconds(time.get("start")))
        child = text_of(as_dict(state.get("metadata")).get("sessionId")) if name == "task" else None
        if child:
            self.children.append(child)
        output = state.get("output", state.get("error"))
        if output is None and state.get("status") in ("pending", "running"):
            output = _INTERRUPTED
        result = self.make.result(output, part.get("callID")) if output is not None else []
        cleared = seconds(time.get("compacted"))
        if cleared is not None and result:
            self.cleared.append((cleared, result, self.make.result(_CLEARED, part.get("callID"))[0]))
        return result, seconds(time.get("end"))

    def _close(
        self,
        thread: Thread,
        message: Message,
        step: dict[str, Any],
        created: float | None,
        results: list[tuple[list[Any], float | None]],
    ) -> None:
        info, usage = message.info, self.ledger.usage(self.ordinal, step.get("tokens"))
        if not (thread.answered or usage):
            return
        error = text_of(as_dict(info.get("error")).get("name"))
        finished = seconds(as_dict(info.get("time")).get("completed"))
        key = f"{thread.key}:{step.get('id') or message.name}:{self.ordinal}"
        if thread.reply_s is None:
            thread.reply_s = thread.last_s = finished or created
        turn = thread.close(
            key,
            self.ordinal,
            usage=usage,
            model=text_of(info.get("modelID")) or text_of(as_dict(info.get("model")).get("modelID")),
            stop_reason=text_of(step.get("reason")) or text_of(info.get("finish")),
            status="error" if error else None,
            output_complete=False if error else None,
            dedupe_key=f"opencode:{thread.key}:{step.get('id') or message.name}" if message.name else None,
        )
        self.spawns.update(dict.fromkeys(self.children, turn))
        self.children = []
        for parts, at_s in results:
            thread.add_input(parts, at_s, "tool")


def _is_left_out(message: Message) -> bool:
    """Whether later prompts leave an answer out: one that failed, unless a person stopped it when it had begun."""
    name = kind_of(as_dict(message.info.get("error")), "name")
    begun = any(kind_of(part) not in ("step-start", "reasoning") for part in message.parts)
    return bool(name) and not (name == "MessageAbortedError" and begun)
