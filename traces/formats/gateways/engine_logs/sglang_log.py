"""SGLang request logs: --log-requests, as JSON (--log-requests-format json) or text, an event a line among others."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.calls.session_headers import caller
from traces.formats.gateways.engine_logs import sglang_text
from traces.records import Context, Note, Piece, Record, Reject, Request, Session, Skipped
from traces.source.logged_times import first_moment
from traces.source.sources import Head, Source, parse_json

NAME = "sglang_log"
SUMMARY = {
    "carries": "usage with cached tokens, times, latency; prompts as token ids or text from level 2 on",
    "time": "wall, the server's local time read as UTC",
    "computes": "lengths, reported cache figures, concurrency; hit rates at level 3 (level 2 cuts at 2,048)",
    "notes": "pickle dumps (--dump-requests-folder) are refused: they would run code",
}
WAITING = 16_384
_CUT = sglang_text.CUT
_CUT_LENGTH = 2048


class _Received(NamedTuple):
    ordinal: int
    at_s: float | None
    event: Mapping[str, Any]
    body: Mapping[str, Any] | None = None


def sniff(head: Head, name: str) -> float:
    """Sure where the log's events are in the first bytes."""
    events = b'"event": "request.' in head.data or b'"event":"request.' in head.data
    text = b"Receive: obj=" in head.data or b"Finish: obj=" in head.data
    return 0.95 if (events and b'"rid"' in head.data) or (text and b"rid=" in head.data) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the requests as they finish; those that never did come last."""
    log = _Log(context)
    others = 0
    for ordinal, line in source.lines():
        if line is None:
            yield Reject(ordinal, "a line too long to be held")
            continue
        start = line.find(b"{")
        text = b": obj=" in line
        if not text and (b'"request.' not in line or start < 0):
            others += bool(line.strip())
            continue
        try:
            found = sglang_text.event(line.decode("utf-8", "replace")) if text else parse_json(line[start:])
            if found is None:
                others += 1
                continue
            yield from log.take(ordinal, found)
        except (ValueError, RecursionError) as error:
            yield Reject(ordinal, str(error)[:120] if isinstance(error, ValueError) else "nested too deeply")
    yield from log.end()
    if others:
        yield Skipped("ignored", others, "lines of other things")
    if log.cut:
        yield Note(f"{log.cut:,} prompts are cut in the log: only their beginnings are known (--log-requests-level 3)")


class _Log:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.digest = context.digest
        self.open: OrderedDict[str, _Received] = OrderedDict()
        self.sessions: set[str] = set()
        self.cut = 0

    def take(self, ordinal: int, event: Any) -> Iterator[Record]:
        """Take one event."""
        kind = text_of(event, "event")
        rid = event.get("rid") if isinstance(event, dict) else None
        if not isinstance(event, dict) or kind is None:
            yield Reject(ordinal, "no event of a request")
            return
        if isinstance(rid, str) and rid.startswith("HEALTH_CHECK"):
            yield Skipped("ignored", 1, "a health check", ordinal)
            return
        rid = rid if isinstance(rid, str) else f"line {ordinal}" if rid is None else str(rid)[:200]
        if kind == "request.received.openai":
            known = self.open.get(rid)
            if known is not None and isinstance(event.get("obj"), dict):
                self.open[rid] = known._replace(body=event["obj"])
            yield Skipped("ignored", 1, "a request that is logged elsewhere", ordinal)
        elif kind == "request.received":
            self.open[rid] = _Received(ordinal, first_moment(event, "timestamp"), event)
            if len(self.open) > WAITING:
                yield from self._request(self.open.popitem(last=False)[1], None, None)
        elif kind == "request.finished":
            known = self.open.pop(rid, None)
            if known is not None:
                yield Skipped("ignored", 1, "the arrival of a request", known.ordinal)
            yield from self._request(known, event, ordinal)
        else:
            yield Skipped("ignored", 1, "another event", ordinal)

    def end(self) -> Iterator[Record]:
        """Requests that did not finish inside the log."""
        while self.open:
            received = self.open.popitem(last=False)[1]
            try:
                yield from self._request(received, None, None)
            except (ValueError, RecursionError) as error:
                yield Reject(received.ordinal, str(error)[:120])

    def _request(
        self, received: _Received | None, finished: Mapping[str, Any] | None, ordinal: int | None
    ) -> Iterator[Record]:
        events = [e for e in (finished, received.event if received else None) if e is not None]
        place = ordinal if ordinal is not None else received.ordinal if received else 0
        sent: Mapping[str, Any] = next((e["obj"] for e in events if isinstance(e.get("obj"), dict)), {})
        out = finished.get("out") if finished is not None else None
        out = out[0] if isinstance(out, list) and out else out
        meta = out.get("meta_info") if isinstance(out, dict) else None
        meta = meta if isinstance(meta, dict) else {}
        headers = next((e["headers"] for e in events if e.get("headers")), None)
        who = caller(headers, None)
        session = who.session or _session_parameter(sent)
        if session is not None and session not in self.sessions:
            self.sessions.add(session)
            yield Session(session, parent_key=who.parent, agent=who.agent, agent_version=who.version)
        body, rest = self._body(sent, received, meta, place)
        latency = number_of(meta, "e2e_latency")
        ended = first_moment(finished, "timestamp")
        start = received.at_s if received is not None else None
        if start is None and ended is not None and latency is not None:
            start = ended - latency
        reason = meta.get("finish_reason")
        reason = text_of(reason, "type") if isinstance(reason, dict) else reason
        if reason == "abort":
            yield Skipped("failed_attempt", 1, "an aborted request", place)
            return
        text = out.get("text") if isinstance(out, dict) else None
        answer = {"choices": [{"text": text, "finish_reason": reason if isinstance(reason, str) else None}]}
        request = self.calls.request(
            Call(
                key=str(place),
                ordinal=place,
                session=session,
                request=body if rest is None else None,
                answer=answer if finished is not None else None,
                usage=_usage(meta),
                model=text_of(sent, "model") or text_of(received.body if received else None, "model"),
                arrival_s=start,
                duration_s=latency,
            )
        )
        yield request if rest is None or body is None else self._with_rest(request, body, rest)

    def _body(
        self, sent: Mapping[str, Any], received: _Received | None, meta: Mapping[str, Any], place: int
    ) -> tuple[dict[str, Any] | None, str | None]:
        """(what is known of the prompt, a name for the part that the log cut away)."""
        ids, text = sent.get("input_ids"), sent.get("text")
        if isinstance(ids, list) and ids:
            if isinstance(ids[0], list):
                ids = ids[0]
            if _CUT in ids:
                self.cut += 1
                return {"prompt_token_ids": ids[: ids.index(_CUT)]}, f"rest of {place}"
            return {"prompt_token_ids": ids}, None
        if isinstance(text, str) and text:
            half = _CUT_LENGTH // 2
            if len(text) == _CUT_LENGTH + len(_CUT) and text[half : half + len(_CUT)] == _CUT:
                self.cut += 1
                return {"prompt": text[:half]}, f"rest of {place}"
            return {"prompt": text}, None
        body = received.body if received is not None else None
        return (dict(body), None) if body is not None and body.get("messages") else (None, None)

    def _with_rest(self, request: Request, body: Mapping[str, Any], rest: str) -> Request:
        """A cut prompt as long as the engine counted it: its beginning is shared, the rest matches nothing."""
        logged = self.calls.history.add(request.key, self.calls.entries.of(body)[1], None, model=request.model)
        if logged.prompt is None or logged.tokens is None or request.input_tokens is None:
            return request
        hidden = Piece(self.digest(rest), max(0, request.input_tokens - logged.tokens), "unobserved")
        return request._replace(
            prompt=logged.prompt._replace(pieces=(*logged.prompt.pieces, hidden), completeness="structure")
        )


def _session_parameter(sent: Mapping[str, Any]) -> str | None:
    parameters = sent.get("session_params")
    return text_of(parameters, "id") or text_of(sent, "session_id")


def _usage(meta: Mapping[str, Any]) -> dict[str, Any] | None:
    if meta.get("prompt_tokens") is None:
        return None
    usage = {"prompt_tokens": meta.get("prompt_tokens"), "completion_tokens": meta.get("completion_tokens")}
    if meta.get("cached_tokens") is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": meta["cached_tokens"]}
    if meta.get("reasoning_tokens") is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": meta["reasoning_tokens"]}
    return usage
