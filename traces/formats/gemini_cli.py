"""Gemini CLI chats (JSON or JSONL under ~/.gemini/tmp/<project>/chats).

Facts: google-gemini/gemini-cli, packages/core/src/services/chatRecordingService.ts. JSONL lines are upserts: the same
message id again replaces it, `$set` replaces fields (messages too), `$rewindTo` drops what follows a message. The CLI
sends its system prompt and tools (not logged), then the curated history: the thoughts of earlier turns are not sent
back. `tokens.input` includes cached tokens; `output` excludes thoughts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agent_lines import Ledger, document, objects, opening
from traces.formats.agent_parts import PartMaker, as_dict, as_list, kind_of, plain, seconds, text_of
from traces.formats.agent_requests import requests_of
from traces.formats.agent_turns import Thread
from traces.records import Context, Record, Request
from traces.usage import Usage, normalise

if TYPE_CHECKING:
    from traces.sources import Source

NAME = "gemini_cli"
SESSION_SCOPE = "dataset"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, tool calls and results, usage with cache reads, times",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "system prompt and tools are not logged: prompts start with an unobserved head; a message's last version "
    "counts, rewound messages are gone",
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
    ledger = Ledger()
    head, messages = _chat(source, ledger)
    session = _Chat(context, ledger, head)
    for ordinal, message in messages:
        session.message(ordinal, message)
    count = 0
    for record in requests_of([session.thread], context, reports_usage=True):
        count += isinstance(record, Request)
        yield record
    yield from ledger.finish(count)


def _chat(source: Source, ledger: Ledger) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    """(header, messages with the number of the record that told them last)."""
    record = opening(source.head())
    if isinstance(record, dict) and not ("messages" in record or "history" in record):
        return _upserts(source, ledger)
    whole = document(source, ledger)
    if not isinstance(whole, dict):
        if whole is not None:
            ledger.reject(1, "not a chat: no JSON object")
        return {}, []
    ledger.used += 1
    listed = as_list(whole.get("messages")) or as_list(whole.get("history"))
    for at, message in enumerate(listed, 2):
        if not isinstance(message, dict):
            ledger.reject(at, "a message that is no JSON object")
    return whole, [(at, message) for at, message in enumerate(listed, 2) if isinstance(message, dict)]


def _upserts(source: Source, ledger: Ledger) -> tuple[dict[str, Any], list[tuple[int, dict[str, Any]]]]:
    head: dict[str, Any] = {}
    messages: dict[str, tuple[int, dict[str, Any]]] = {}
    for ordinal, line in objects(source, ledger):
        if "$set" in line:
            fields = as_dict(line["$set"])
            if isinstance(fields.get("messages"), list):
                given = [m for m in fields["messages"] if isinstance(m, dict)]
                ledger.duplicate("a message that was written again", len(messages))
                messages = {str(m.get("id", f"set-{ordinal}-{i}")): (ordinal, m) for i, m in enumerate(given)}
                ledger.used += len(messages) - 1
            head.update({name: value for name, value in fields.items() if name != "messages"})
            ledger.used += 1
        elif "$rewindTo" in line:
            ids = list(messages)
            at = ids.index(str(line["$rewindTo"])) if str(line["$rewindTo"]) in messages else len(ids)
            gone = [messages.pop(name) for name in ids[at:]]
            ledger.ignore("a message that was rewound", len(gone))
            ledger.used += 1
        elif "type" in line:
            name = str(line.get("id", f"line-{ordinal}"))
            if name in messages:
                ledger.duplicate("a message that was written again")
            messages[name] = (messages[name][0] if name in messages else ordinal, line)
        else:
            head.update(line)
            ledger.used += 1
    return head, list(messages.values())


class _Chat:
    def __init__(self, context: Context, ledger: Ledger, head: dict[str, Any]) -> None:
        self.ledger = ledger
        self.make = PartMaker(context)
        self.model = text_of(as_dict(head.get("meta")).get("model"))
        role = "subagent" if head.get("kind") == "subagent" else "main"
        self.thread = Thread(
            text_of(head.get("sessionId")) or "",
            NAME,
            role=role,
            parent_key=text_of(head.get("parentSessionId")),
            started_s=seconds(head.get("startTime")),
            keeps_reasoning=False,
        )

    def message(self, ordinal: int, message: dict[str, Any]) -> None:
        kind = kind_of(message) or kind_of(message, "role")
        at_s = seconds(message.get("timestamp") or message.get("ts"))
        content = message.get("content", message.get("parts"))
        if kind in _ANSWERS:
            self._answer(ordinal, message, content, at_s)
        elif kind in ("user", "tool"):
            self.thread.add_input(self.make.content(content, "user").parts, at_s, "user")
        else:
            self.ledger.ignore("a notice")
            return
        self.ledger.used += 1

    def _answer(self, ordinal: int, message: dict[str, Any], content: Any, at_s: float | None) -> None:
        thread, make = self.thread, self.make
        usage: Usage | None = None
        try:
            usage = normalise(message.get("tokens") or message.get("usageMetadata"))
        except ValueError as error:
            self.ledger.reject(ordinal, str(error))
        thoughts = [make.text("reasoning", plain(thought)) for thought in as_list(message.get("thoughts"))]
        told = make.content(content, "assistant")
        calls = [as_dict(call) for call in as_list(message.get("toolCalls"))]
        parts = [make.call(call.get("name"), call.get("args"), call.get("id")) for call in calls]
        names = [str(call.get("name")) for call in calls]
        thread.add_reply(thoughts + told.parts + parts, told.tools + names, at_s)
        thread.close(
            f"{thread.key}:{ordinal}",
            ordinal,
            at_s,
            usage=usage if usage is not None and any(usage[:5]) else None,
            model=text_of(message.get("model")) or self.model,
            dedupe_key=f"gemini_cli:{thread.key}:{message['id']}" if thread.key and "id" in message else None,
        )
        for call in calls:
            result = call.get("result", call.get("resultDisplay"))
            body = [
                part for block in (result if isinstance(result, list) else [result]) for part in self._result(block)
            ]
            thread.add_input(body, seconds(call.get("timestamp")) or at_s, "tool")

    def _result(self, block: Any) -> list[Any]:
        answer = as_dict(as_dict(block).get("functionResponse"))
        return self.make.result(answer.get("response") if answer else block, answer.get("id"))
