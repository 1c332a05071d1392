"""Cline, Roo Code and Kilo Code tasks: a folder with api_conversation_history.json and ui_messages.json; Cline's CLI.

Facts: cline/cline and RooCodeInc/Roo-Code, src/core/task, src/core/task-persistence, src/shared/ExtensionMessage.ts.
The history holds the messages as sent, in Anthropic's shape or (Roo, `version` 2) in the AI SDK's; counts are in the
UI's `api_req_started` messages, JSON in a text. Without a stated `apiProtocol` they leave cached tokens out of the
input, under "openai" these are in it, under "anthropic" it depends on the version: calls with more
cached tokens than input show which. After a summary or a truncation only messages without a mark (`condenseParent`,
`truncationParent`) are sent; older versions overwrote the rest, and what is gone is unobserved. Cline keeps all and
says which range it left out. Cline's command line and desktop app keep a session in
`<id>.json` (totals) and `<id>.messages.json` (messages, each answer with `metrics`), whose `inputTokens` is the whole
request (apps/vscode/src/sdk/message-translator.ts).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from traces.records import Context, Record
from traces.source.sources import parse_json
from traces.transcripts.ledger import Ledger, document, opening
from traces.transcripts.parts import Part, PartMaker, as_dict, as_list, kind_of, plain, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread
from traces.usage.rules import Usage, normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "cline"
SIBLINGS = True
SUMMARY = {
    "carries": "messages, tool calls, usage with cache reads and writes, times",
    "time": "wall clock (ms since the epoch)",
    "computes": "hit rates, reported and achievable; lengths are the provider's",
    "notes": "Roo Code, Kilo Code and Cline's command line too; files of one task are read together; system "
    "prompts are not logged",
}

_ROLES = {"user", "assistant", "tool", "reasoning"}
_OTHERS = {"uuid", "session_id", "sessionId", "message", "timestamp", "created", "usage"}
"""Fields of other logs' messages, which Cline's histories do not have."""


def sniff(head: Any, name: str) -> float:
    """Sure of the UI's messages; fairly sure of a history in Anthropic's shape."""
    value = as_dict(opening(head))
    beside = any(n.endswith("ui_messages.json") for n in head.siblings)
    messages = value.get("messages")
    if {"session_id", "provider", "model", "started_at"} <= value.keys() and not messages:
        return 0.9  # the totals of a session of the command line
    if isinstance(messages, list):
        first = as_dict(messages[0]) if messages else {}
        if value.get("version") == 2 and "role" in first:
            return 0.9 if beside or "ts" in first else 0.5
        return 0.9 if "sessionId" in value and "role" in first and ("ts" in first or "metrics" in first) else 0.0
    listed = [record for record in head.records if isinstance(record, dict)]
    if any(m.get("say") == "api_req_started" and "ts" in m for m in listed):
        return 0.95
    if "say" in value and "ts" in value:
        return 0.9
    bare = not any(m.keys() & _OTHERS for m in listed)
    roles = {kind_of(m, "role") or kind_of(m) for m in listed}
    if not bare or not roles <= _ROLES or not isinstance(value.get("content"), list):
        return 0.0
    return 0.9 if beside or "ts" in value else 0.5 if len(listed) > 1 else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    ledger = Ledger(context.meanings)
    value = document(_messages(source, ledger), ledger)
    folder = source.name.rpartition("/")[0]
    history, shown = value, None
    if isinstance(value, list) and any("say" in as_dict(m) or "ask" in as_dict(m) for m in value):
        history, shown = [], value
    for name in ("ui_messages.json", "task_metadata.json", "history_item.json"):
        path = f"{folder}/{name}" if folder else name
        other = source.siblings.get(path)
        if other is not None and other is not source and shown is not value:
            source.claim(path)
            shown = document(other, ledger) if name == "ui_messages.json" else shown
            if name != "ui_messages.json":
                ledger.ignore("a file about the task")
    make = PartMaker(context)
    if isinstance(history, dict) and history.get("version") == 2:
        history = history.get("messages")
    if isinstance(history, dict):
        thread = _command_line(history, make, ledger)
    else:
        thread = _task(as_list(history), _calls(as_list(shown), make, ledger), make, ledger)
    yield from records_of([thread], context, ledger, reports_usage=True)


def _messages(source: Source, ledger: Ledger) -> Source:
    """The file with the messages of a session whose totals are in another; `source` itself without such a pair."""
    stem = source.name.removesuffix(".json")
    other = source.siblings.get(f"{stem}{_MESSAGES}")
    if other is not None:
        source.claim(other.name)
        ledger.ignore("the totals of a session")
        return other
    totals = f"{source.name.removesuffix(_MESSAGES)}.json" if source.name.endswith(_MESSAGES) else ""
    if totals in source.siblings:
        source.claim(totals)
        ledger.ignore("the totals of a session")
    return source


_MESSAGES = ".messages.json"


class _Call(NamedTuple):
    """What the UI shows of a call: when it was sent, its counts, the messages that were left out of its prompt."""

    at_s: float
    usage: Usage | None
    left_out: tuple[int, int] | None = None


def _calls(shown: list[Any], make: PartMaker, ledger: Ledger) -> list[_Call]:
    started: list[tuple[int, dict[str, Any], dict[str, Any]]] = []
    for at, value in enumerate(shown, 1):
        message = as_dict(value)
        if message.get("say") != "api_req_started":
            ledger.ignore("a message of the UI")
            continue
        text = message.get("text")
        try:
            started.append((at, message, as_dict(parse_json(text.encode())) if isinstance(text, str) and text else {}))
        except (ValueError, UnicodeEncodeError) as error:
            ledger.reject(at, str(error))
    found: list[_Call] = []
    for at, message, counts in started:
        names = [n for n in ("tokensIn", "tokensOut", "cacheReads", "cacheWrites") if n in counts]
        try:
            protocol = text_of(counts.get("apiProtocol"))
            usage = normalise({n: counts[n] for n in names}, protocol, protocol is None, make.meanings)
        except ValueError as error:
            ledger.reject(at, str(error))
            continue
        if counts.get("cancelReason") and not any(usage[:5]):
            ledger.failed("a call that was cancelled")
            continue
        left_out = message.get("conversationHistoryDeletedRange")
        whole = isinstance(left_out, list) and len(left_out) == 2 and all(type(n) is int and n >= 0 for n in left_out)
        found.append(
            _Call(
                seconds(message.get("ts")) or 0.0,
                usage if any(usage[:5]) else None,
                (left_out[0], left_out[1]) if whole and isinstance(left_out, list) else None,
            )
        )
        ledger.used += 1
    return found


def _task(history: list[Any], calls: list[_Call], make: PartMaker, ledger: Ledger) -> Thread:
    thread = Thread("main", NAME)
    answers = sum(as_dict(m).get("role") == "assistant" for m in history)
    spare = len(calls) - answers  # calls whose messages are gone (condensed), or that were tried again
    at_call = 0
    sent_parts: list[list[Part]] = []
    left_out: tuple[int, int] | None = None
    for at, value in enumerate(history, 1):
        message = as_dict(value)
        at_s = seconds(message.get("ts"))
        contents = make.message(message)
        ledger.used += 1
        if message.get("isSummary") or message.get("isTruncationMarker"):
            kept = [parts for earlier, parts in zip(history, sent_parts, strict=False) if not _marked(earlier)]
            summary = [part._replace(role="summary") for part in contents.parts]
            thread.restart([part for parts in kept for part in parts] + summary)
        elif kind_of(message, "role") in ("", "assistant"):
            usage, started = None, None
            if "role" not in message:  # reasoning apart from the answer that it belongs to
                thought = make.text("reasoning", plain(message.get("summary")), str(message.get("encrypted_content")))
                thread.add_reply([thought], [], at_s)
                sent_parts.append([thought])
                continue
            while spare > 0 and at_call < len(calls) and at_s is not None and _next_is_nearer(calls, at_call, at_s):
                _gone(thread, calls[at_call], at_call)
                at_call, spare = at_call + 1, spare - 1
            if at_call < len(calls):
                started, usage, left = calls[at_call]
                at_call += 1
                if left != left_out and left is not None:
                    thread.restart([p for parts in sent_parts[: left[0]] + sent_parts[left[1] + 1 :] for p in parts])
                left_out = left
            thread.add_reply(contents.parts, contents.tools, at_s)
            ledger.used -= usage is not None  # both files have this call
            ledger.duplicate("the count of an answer", int(usage is not None))
            model = text_of(as_dict(message.get("modelInfo")).get("modelId"))
            turn = thread.close(f"main:{at}", 2 * len(calls) + at, at_s, usage=usage, model=model)
            turn.arrival_s = started or turn.arrival_s
        else:
            thread.add_input(contents.parts, at_s, "tool" if contents.results else "user")
        sent_parts.append(contents.parts)
    for call in calls[at_call:]:
        _gone(thread, call, at_call)
        at_call += 1
    return thread


def _marked(message: Any) -> bool:
    """Whether a message is only kept for the UI: a summary or a truncation stands for it."""
    return bool(as_dict(message).get("condenseParent") or as_dict(message).get("truncationParent"))


def _next_is_nearer(calls: list[_Call], at: int, at_s: float) -> bool:
    return at + 1 < len(calls) and calls[at + 1].at_s <= at_s


def _gone(thread: Thread, call: _Call, at: int) -> None:
    parent, inputs, trigger = thread.parent, list(thread.inputs), thread.trigger
    turn = thread.close(f"call:{at}", at + 1, call.at_s or None, usage=call.usage)
    turn.inputs, turn.arrival_s = [], call.at_s or None
    if turn.input_tokens is None:
        thread.parent = parent
    thread.inputs, thread.trigger = inputs, trigger


def _command_line(log: dict[str, Any], make: PartMaker, ledger: Ledger) -> Thread:
    thread = Thread(text_of(log.get("sessionId")) or "main", NAME)
    thread.head = make.content(log.get("systemPrompt") or log.get("system_prompt"), "system").parts
    if "messages" not in log:
        ledger.ignore(f"the totals of a session: its calls are in <id>{_MESSAGES}")
    for at, value in enumerate(as_list(log.get("messages")), 1):
        message = as_dict(value)
        at_s, contents = seconds(message.get("ts")), make.message(message)
        ledger.used += 1
        if message.get("role") != "assistant":
            thread.add_input(contents.parts, at_s, "tool" if contents.results else "user")
            continue
        usage = ledger.usage(at, message.get("metrics"), disjoint=False)
        thread.add_reply(contents.parts, contents.tools, at_s)
        thread.close(
            f"{thread.key}:{at}",
            at,
            at_s,
            usage=usage,
            model=text_of(as_dict(message.get("modelInfo")).get("id")) or text_of(log.get("model")),
        )
    return thread
