"""A logged request body and its answer, of any provider, as a request of the dataset."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from traces.calls.entries import Entries, Entry
from traces.calls.history import History, LoggedCall
from traces.records import Context, Piece, Request
from traces.text.tools import classify
from traces.usage.rules import Usage, normalise

_NUMBER = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?", re.ASCII)

MAX_CHAIN = 20_000
"""The number of answers kept for calls that continue them."""


class Call(NamedTuple):
    """One model call as logged. Times in seconds; bodies as sent and received.

    `usage` is the usage object if the log has it outside the answer; `provider` and `disjoint` are for
    `traces.usage.rules.normalise`. A `status` other than ok means that the call reached the engine and did not finish.
    """

    key: str
    ordinal: int
    session: str | None = None
    request: Mapping[str, Any] | None = None
    answer: Any = None
    usage: Any = None
    provider: str | None = None
    disjoint: bool | None = None
    model: str | None = None
    arrival_s: float | None = None
    time_basis: str = "wall"
    ttft_s: float | None = None
    duration_s: float | None = None
    identity: str | None = None  # id of the answer, or of the record that logged it (with a prefix)
    status: str = "ok"
    cut: bool = False  # the log shortened the bodies: lengths are the provider's, the text is incomplete
    counts: Usage | None = None  # counts of one pass, if the answer had several
    compaction: bool = False  # what came before was compacted in the same answer
    rounds: int = 1  # passes that the counts are the sum of


class Calls:
    """Turns the calls of one source into requests.

    `fill`: the source has no usage, so the tokenizer's count is the length. Otherwise a length that was not reported
    stays unknown.
    """

    def __init__(self, context: Context, fill: bool = False) -> None:
        self._fill = fill
        self._digest = context.digest
        self._meanings = context.meanings
        self.entries = Entries(context, exact=fill)
        self.history = History(context)
        self._stored: OrderedDict[str, tuple[str | None, list[Entry]]] = OrderedDict()

    def request(self, call: Call, extra: list[Entry] | None = None, hidden: Piece | None = None) -> Request:
        """The request of a call.

        Args:
            call: The call.
            extra: Entries before those of the body: contents that the provider stores.
            hidden: Unknown content before these.

        Raises:
            ValueError: A count in the usage or a token id is not an integer.
        """
        body = call.request if isinstance(call.request, dict) else None
        answer = call.answer if isinstance(call.answer, dict) else None
        model = call.model or text_of(answer, "model", "modelVersion") or text_of(body, "model")
        counted = self.usage_of(call, answer, model)
        length = counted.input_tokens
        if call.rounds > 1 and length is not None:
            length = round(length / call.rounds)  # a server-side tool's result adds little to what was sent before
        replies = self._replies(answer)
        logged = LoggedCall()
        entries: list[Entry] = []
        if body is not None:
            heads, own = self.entries.of(body)
            earlier, missing = self._earlier(body, answer, own, replies)
            entries = [*(extra or ()), *heads, *earlier, *own]
            if missing is not None and hidden is None:
                seen = sum(entry.tokens for entry in entries)
                hidden = Piece(self._digest(missing), max(0, (length or 0) - seen), "unobserved")
            # The requested model name identifies the prompt: an answer names the version, and some calls have no
            # answer.
            logged = self.history.add(
                call.key,
                entries,
                length,
                replies,
                counted.output_tokens,
                text_of(body, "model") or model,
                hidden,
                not self._fill,
            )
        prompt = logged.prompt
        if prompt is not None and call.rounds > 1:
            prompt = prompt._replace(lengths="tokenizer")
        if prompt is not None and call.cut:
            prompt = prompt._replace(completeness="structure")
        work, classes = classify(name for entry in replies for name in entry.calls)
        return Request(
            key=call.key,
            session_key=call.session,
            ordinal=call.ordinal,
            arrival_s=call.arrival_s,
            time_basis=call.time_basis if call.arrival_s is not None else "none",
            ttft_s=_duration(call.ttft_s),
            duration_s=_duration(call.duration_s),
            model=model,
            input_tokens=logged.tokens if counted.input_tokens is None and self._fill else counted.input_tokens,
            cache_read_tokens=counted.cache_read_tokens,
            cache_write_tokens=counted.cache_write_tokens,
            output_tokens=counted.output_tokens,
            output_complete=_complete(answer, counted),
            output_tokens_estimate=_estimate(replies) if counted.output_tokens is None else None,
            reasoning_tokens=counted.reasoning_tokens,
            prompt=prompt,
            reply=logged.reply,
            trigger=trigger(entries),
            work=work,
            tool_classes=classes,
            stop_reason=stop_reason(answer),
            status=call.status,
            compaction=call.compaction,
            dedupe_key=dedupe_key(call.identity),
            # Of several copies, the one with a session and a time owns the call; transcripts rank their copies the same
            # way.
            copy_rank=(call.session is None, call.arrival_s is None),
        )

    def usage_of(self, call: Call, answer: Mapping[str, Any] | None, model: str | None) -> Usage:
        """The counts of a call: those that the log has, else those in the answer."""
        if call.counts is not None:
            return call.counts
        return normalise(usage_object(call, answer), call.provider, call.disjoint, self._meanings, model, True)

    def _replies(self, answer: Mapping[str, Any] | None) -> list[Entry]:
        ids = answer.get("output_token_ids") if answer is not None else None
        if isinstance(ids, list) and ids:
            return [_said(entry) for entry in self.entries.token_ids(ids)]
        found: list[Entry] = []
        for one in reply_messages(answer):
            if isinstance(one, str):  # a completion: no message, only text after the prompt
                found += [_said(entry) for entry in self.entries.text(one)]
            else:
                found.append(self.entries.message(one))
        return found

    def _earlier(
        self, body: Mapping[str, Any], answer: Mapping[str, Any] | None, own: list[Entry], replies: list[Entry]
    ) -> tuple[list[Entry], str | None]:
        """The stored items that a Responses call continues, and a name for those that are not in the source.

        Instructions and tools come from the call itself: `previous_response_id` does not include them.
        """
        conversation = body.get("conversation")
        if isinstance(conversation, dict):
            conversation = conversation.get("id")
        conversation = conversation if isinstance(conversation, str) else None
        above = text_of(body, "previous_response_id") or (conversation if conversation in self._stored else None)
        at = above
        links: list[list[Entry]] = []
        while at is not None and at in self._stored and len(links) < MAX_CHAIN:
            at, added = self._stored[at]
            links.append(added)
        identity = text_of(answer, "id") if answer is not None and isinstance(answer.get("output"), list) else None
        if identity is not None and identity != above:
            self._stored[identity] = (above, [*own, *replies])
            if conversation is not None:
                self._stored[conversation] = (identity, [])
            while len(self._stored) > MAX_CHAIN:
                self._stored.popitem(last=False)
        earlier = [entry for added in reversed(links) for entry in added]
        return earlier, None if at is None else f"before response {at}"


def dedupe_key(identity: str | None) -> str | None:
    """A key that all copies of a call share. Anthropic's ids have no prefix, as in the transcripts of its own agent."""
    return identity if identity is None or identity.startswith("msg_") else f"response:{identity}"


def _said(entry: Entry) -> Entry:
    return entry._replace(pieces=tuple(piece._replace(role="assistant") for piece in entry.pieces))


def usage_object(call: Call, answer: Mapping[str, Any] | None) -> Any:
    """The usage object of a call as logged, or None."""
    usage = call.usage
    if not usage and answer is not None:
        usage = answer.get("usage") or answer.get("usageMetadata") or answer.get("usage_metadata")
    return usage or None


def reply_messages(answer: Mapping[str, Any] | None) -> list[Any]:
    """The messages of an answer, in the shape in which the next request sends them again."""
    if answer is None:
        return []
    choices = answer.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        text = choices[0].get("text")
        return [message] if isinstance(message, dict) else [text] if isinstance(text, str) else []
    candidates = answer.get("candidates")
    if isinstance(candidates, list) and candidates and isinstance(candidates[0], dict):
        content = candidates[0].get("content")
        return [content] if isinstance(content, dict) else []
    output = answer.get("output")
    if isinstance(output, list):
        return output
    if isinstance(output, dict) and isinstance(output.get("message"), dict):
        return [output["message"]]
    if answer.get("role") == "assistant" or (answer.get("type") == "message" and answer.get("content")):
        return [{**answer, "role": "assistant"}]
    return []


def stop_reason(answer: Mapping[str, Any] | None) -> str | None:
    """Why an answer ended, in the provider's term."""
    if answer is None:
        return None
    for name in ("choices", "candidates"):
        found = answer.get(name)
        if isinstance(found, list) and found and isinstance(found[0], dict):
            return text_of(found[0], "finish_reason", "finishReason")
    if isinstance(answer.get("incomplete_details"), dict):
        return text_of(answer["incomplete_details"], "reason")
    return text_of(answer, "stop_reason", "stopReason") or (
        text_of(answer, "status") if isinstance(answer.get("output"), list) else None
    )


def trigger(entries: list[Entry]) -> str:
    """What a prompt answers: `tool` if a tool result ends it, `user` if a person's message does."""
    for entry in reversed(entries):
        if entry.head or entry.exact or not entry.pieces:
            continue
        roles = {piece.role for piece in entry.pieces}
        if "tool_result" in roles:
            return "tool"
        return "user" if roles & {"user", "image"} else "unknown"
    return "unknown"


def text_of(value: Any, *names: str) -> str | None:
    """The first of the fields `names` with a non-empty text."""
    if isinstance(value, dict):
        for name in names:
            found = value.get(name)
            if found and isinstance(found, str):
                return found
    return None


def number_of(value: Any, *names: str) -> float | None:
    """The first of the fields `names` with a finite number, possibly written as text (CSV)."""
    if isinstance(value, dict):
        for name in names:
            found = value.get(name)
            if isinstance(found, str) and _NUMBER.fullmatch(found):
                found = float(found)
            if isinstance(found, (int, float)) and not isinstance(found, bool) and abs(found) < 1e18:
                return float(found)
    return None


def _duration(seconds: float | None) -> float | None:
    return round(seconds, 6) if seconds is not None and 0 <= seconds < 1e7 else None


def _complete(answer: Mapping[str, Any] | None, counted: Usage) -> bool | None:
    if answer is None or counted.output_tokens is None:
        return None
    return not answer.get("incomplete")


def _estimate(replies: list[Entry]) -> int | None:
    return sum(entry.tokens for entry in replies) or None
