"""Gemini CLI chats (JSON or JSONL under ~/.gemini/tmp/<project>/chats).

Facts: google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts. JSONL lines are upserts: the same
message id again replaces it, `$set` replaces fields (with `messages` the whole history, after it was compressed),
`$rewindTo` takes a message and what follows out of the history. The calls of what was taken out were made all the same.
The CLI sends its system prompt and tools (not logged), then the curated history: the thoughts of earlier turns are not
sent back. `tokens.input` includes cached tokens; `output` excludes thoughts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import Part, PartMaker, as_dict, as_list, kind_of, plain, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Branches, Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "gemini_cli"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls and results, usage with cache reads, times",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "system prompt and tools are not logged: prompts start with an unobserved head; a message's last version "
    "counts; calls that were rewound or compressed away were made, and are counted",
}
_ANSWERS = ("gemini", "model", "assistant")


def sniff(head: Any, name: str) -> float:
    """Sure of the chat's own header fields."""
    record = opening(head)
    if not isinstance(record, dict):
        return 0.9 if b'"sessionId"' in head.data[:4096] and b'"projectHash"' in head.data[:4096] else 0.0
    if "projectHash" in record and "sessionId" in record:
        return 0.95
    history = record.get("history")
    if isinstance(history, list) and history and isinstance(history[0], dict) and "parts" in history[0]:
        return 0.7
    return 0.9 if record.get("type") == "gemini" and "id" in record and "content" in record else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests, then what became of the other records."""
    ledger = Ledger(context.meanings)
    threads = []
    for log in _logs(source, ledger):
        session = _Chat(context, ledger, log.head, source.name)
        for kind, names in log.steps:
            if kind == "message":
                session.message(names[0], *log.messages[names[0]])
            elif kind == "rewind":
                session.rewind(names[0])
            else:
                session.replace(names, log.messages)
        threads.append(session.thread)
    yield from records_of(threads, context, ledger, reports_usage=True)


class _Log:
    """A chat's header, its messages as they were last written (with the number of their first record), and what was
    done to the history: (message, [id]) it grew, (rewind, [id]) it was cut, (replace, ids) it is these.
    """

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.messages: dict[str, tuple[int, dict[str, Any]]] = {}
        self.steps: list[tuple[str, list[str]]] = []

    def message(self, ordinal: int, message: dict[str, Any], name: str) -> bool:
        """Take a message; False if it is a new version of one that is known."""
        if name in self.messages:
            first, before = self.messages[name]
            # What replaces the history has no counts of its own.
            self.messages[name] = first, {**{k: v for k, v in before.items() if k in ("tokens", "model")}, **message}
            return False
        self.messages[name] = ordinal, message
        self.steps.append(("message", [name]))
        return True


def _logs(source: Source, ledger: Ledger) -> list[_Log]:
    """The chats of a file: each record that holds a whole one, and the one that the other records make together."""
    lines, chats = _Log(), []
    for ordinal, record in objects(source, ledger):
        if "messages" in record or "history" in record:
            chats.append(_whole(record, ledger))
        else:
            _take(lines, ordinal, record, ledger)
    return [*chats, *([lines] if lines.head or lines.steps or not chats else [])]


def _whole(whole: dict[str, Any], ledger: Ledger) -> _Log:
    log = _Log()
    ledger.used += 1
    log.head = whole
    for at, message in enumerate(as_list(whole.get("messages")) or as_list(whole.get("history")), 2):
        if not isinstance(message, dict):
            ledger.reject(at, "a message that is no JSON object")
        elif not log.message(at, message, str(message.get("id", f"message-{at}"))):
            ledger.duplicate("a message that was written again")
    return log


def _take(log: _Log, ordinal: int, line: dict[str, Any], ledger: Ledger) -> None:
    if "$set" in line:
        fields = as_dict(line["$set"])
        ledger.used += 1
        if isinstance(fields.get("messages"), list):
            given = {str(m.get("id", f"set-{ordinal}-{i}")): m for i, m in enumerate(fields["messages"]) if as_dict(m)}
            fresh = [name for name in given if name not in log.messages]
            log.messages.update({name: (ordinal, given[name]) for name in fresh})
            for name in given.keys() - set(fresh):
                log.message(ordinal, given[name], name)
            log.steps.append(("replace", list(given)))
        log.head.update({name: value for name, value in fields.items() if name != "messages"})
    elif "$rewindTo" in line:
        ledger.used += 1
        log.steps.append(("rewind", [str(line["$rewindTo"])]))
    elif "type" in line:
        if not log.message(ordinal, line, str(line.get("id", f"line-{ordinal}"))):
            ledger.duplicate("a message that was written again")
    else:
        log.head.update(line)
        ledger.used += 1


class _Chat:
    def __init__(self, context: Context, ledger: Ledger, head: dict[str, Any], place: str) -> None:
        self.ledger = ledger
        self.make = PartMaker(context)
        self.history: list[str] = []
        self.seen: set[str] = set()
        self.model = text_of(as_dict(head.get("meta")).get("model"))
        role = "subagent" if head.get("kind") == "subagent" else "main"
        self.thread = Thread(
            text_of(head.get("sessionId")) or "",
            NAME,
            role=role,
            parent_key=text_of(head.get("parentSessionId")) or (_folder(place) if role == "subagent" else None),
            started_s=seconds(head.get("startTime")),
            keeps_reasoning=False,
        )
        self.branches = Branches(self.thread)

    def rewind(self, name: str) -> None:
        """Take a message and those after it out of the history; all of it where there is no such message."""
        self._cut(self.history.index(name) if name in self.history else 0)

    def replace(self, names: list[str], messages: dict[str, tuple[int, dict[str, Any]]]) -> None:
        """The history is now these messages: what they share with it stays, the others are sent as they are here."""
        kept = 0
        while kept < min(len(names), len(self.history)) and names[kept] == self.history[kept]:
            kept += 1
        if kept < len(self.history):
            self._cut(kept)
            self.thread.compaction = True
        for name in names[kept:]:
            ordinal, message = messages[name]
            if name in self.seen or (_is_answer(message) and not message.get("tokens")):
                self._again(name, message)
            else:
                self.message(name, ordinal, message)

    def _cut(self, kept: int) -> None:
        self.history = self.history[:kept]
        if self.history:
            self.branches.enter(self.history[-1])
        else:
            self.thread.rewind(None)
            self.branches.last = None

    def _again(self, name: str, message: dict[str, Any]) -> None:
        """A message whose call was made before (or which no model gave) as a part of the next prompt."""
        self.seen.add(name)
        content = message.get("content", message.get("parts"))
        answer = _is_answer(message)
        parts = self.make.content(content, "assistant" if answer else "user").parts
        for call in map(as_dict, as_list(message.get("toolCalls"))):
            parts += [self.make.call(call.get("name"), call.get("args"), call.get("id")), *self._results(call)]
        self.thread.inputs += parts
        self._leave(name)

    def _leave(self, name: str) -> None:
        self.history.append(name)
        self.branches.leave(name)

    def message(self, name: str, ordinal: int, message: dict[str, Any]) -> None:
        """Take the next message of the history, its call made now."""
        self.seen.add(name)
        kind = kind_of(message) or kind_of(message, "role")
        at_s = seconds(message.get("timestamp") or message.get("ts"))
        content = message.get("content", message.get("parts"))
        if _is_answer(message):
            self._answer(ordinal, message, content, at_s)
        elif kind in ("user", "tool"):
            self.thread.add_input(self.make.content(content, "user").parts, at_s, "user")
        else:
            self.ledger.ignore("a notice")
            self._leave(name)
            return
        self.ledger.used += 1
        self._leave(name)

    def _answer(self, ordinal: int, message: dict[str, Any], content: Any, at_s: float | None) -> None:
        thread, make = self.thread, self.make
        usage = self.ledger.usage(ordinal, message.get("tokens") or message.get("usageMetadata"))
        thoughts = [make.text("reasoning", plain(thought)) for thought in as_list(message.get("thoughts"))]
        contents = make.content(content, "assistant")
        calls = [as_dict(call) for call in as_list(message.get("toolCalls"))]
        parts = [make.call(call.get("name"), call.get("args"), call.get("id")) for call in calls]
        names = [str(call.get("name")) for call in calls]
        thread.add_reply(thoughts + contents.parts + parts, contents.tools + names, at_s)
        thread.close(
            f"{thread.key}:{ordinal}",
            ordinal,
            at_s,
            usage=usage,
            model=text_of(message.get("model")) or self.model,
            dedupe_key=f"gemini_cli:{thread.key}:{message['id']}" if thread.key and "id" in message else None,
        )
        for call in calls:
            thread.add_input(self._results(call), seconds(call.get("timestamp")) or at_s, "tool")

    def _results(self, call: dict[str, Any]) -> list[Part]:
        result = call.get("result", call.get("resultDisplay"))
        return [part for block in (result if isinstance(result, list) else [result]) for part in self._result(block)]

    def _result(self, block: Any) -> list[Part]:
        answer = as_dict(as_dict(block).get("functionResponse"))
        return self.make.result(answer.get("response") if answer else block, answer.get("id"))


def _is_answer(message: dict[str, Any]) -> bool:
    return (kind_of(message) or kind_of(message, "role")) in _ANSWERS


def _folder(place: str) -> str | None:
    """The session that a sub-agent's file lies under: chats/<session>/<sub-agent>.jsonl."""
    steps = place.split("/")
    return steps[-2] if len(steps) >= 2 and steps[-2] != "chats" else None
