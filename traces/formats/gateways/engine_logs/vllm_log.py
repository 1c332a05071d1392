"""vLLM server logs with --enable-log-requests (and --enable-log-outputs): prompts as text or token ids."""

from __future__ import annotations

import ast
import re
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson

from traces.calls.model_calls import Call, Calls
from traces.records import Context, Note, Record, Reject, Skipped
from traces.source.sources import Head, Source

NAME = "vllm_log"
SUMMARY = {
    "carries": "prompts as text or token ids where they are logged; outputs with --enable-log-outputs",
    "time": "the server's clock without a year: times between calls",
    "computes": "hit rates and lengths where prompts are logged whole",
    "notes": "--max-log-len cuts prompts; since late 2025 prompts are in DEBUG lines; no usage, no sessions",
}
WAITING = 4096

_TEXT = r"(None|'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\")"
_TIME = re.compile(r"\b(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?")
_RECEIVED = re.compile(r"Received request ([^\s:]+): (.*)", re.DOTALL)
_DETAILS = re.compile(r"Request (\S+) details: (.*)", re.DOTALL)
_ANSWERED = re.compile(r"Generated response (\S+?)(?: \((streaming[^)]*)\))?: output: " + _TEXT + r"(.*)", re.DOTALL)
_PROMPT = re.compile(r"\bprompt: " + _TEXT)
_IDS = re.compile(r"(prompt|output)_token_ids: \[([\d, ]*)\]")
_REASON = re.compile(r"finish_reason: (\w+)")


class _Waiting(NamedTuple):
    ordinal: int
    at_s: float | None
    basis: str
    text: str | None = None
    ids: list[int] | None = None
    output: str | None = None
    output_ids: list[int] | None = None
    reason: str | None = None


def sniff(head: Head, name: str) -> float:
    """Sure where the server's own lines are in the first bytes."""
    if b"Received request " in head.data and (b"SamplingParams(" in head.data or b"lora_request" in head.data):
        return 0.9
    marks = (b"vLLM API server version", b"[async_llm.py", b"[api_server.py", b"Avg prompt throughput")
    return 0.5 if head.first_line[:1] != b"{" and any(mark in head.data for mark in marks) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the requests in the order in which they were received."""
    log = _Log(context)
    others = 0
    for ordinal, line in source.lines():
        if line is None:
            yield Reject(ordinal, "a line too long to be held")
            continue
        text = line.decode("utf-8", "replace")
        if "eceived request " not in text and " details: " not in text and "Generated response " not in text:
            others += bool(text.strip())
            continue
        try:
            found = log.take(ordinal, text)
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            yield Reject(ordinal, str(error)[:80] if isinstance(error, ValueError) else "a prompt that cannot be read")
            continue
        yield from found
    yield from log.end()
    if others:
        yield Skipped("ignored", others, "lines of other things")
    if log.empty:
        yield Note(
            f"{log.empty:,} requests are logged without their prompt: start vLLM with --enable-log-requests and "
            "VLLM_LOGGING_LEVEL=DEBUG, or trace a proxy"
        )


class _Log:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context, fill=True)
        self.waiting: OrderedDict[str, _Waiting] = OrderedDict()
        self.early: OrderedDict[str, tuple[str | None, list[int] | None]] = OrderedDict()  # details come first
        self.empty = 0

    def take(self, ordinal: int, text: str) -> list[Record]:
        """Take a line; requests come out when enough newer ones wait."""
        if text.startswith("{"):
            message = orjson.loads(text).get("message")
            text = message if isinstance(message, str) else text
        received, details, answered = _RECEIVED.search(text), _DETAILS.search(text), _ANSWERED.search(text)
        if received:
            at, basis = _time(text[: received.start()])
            prompt, ids = _prompt(received.group(2))
            before = self.early.pop(received.group(1), (None, None))
            prompt, ids = prompt or before[0], ids or before[1]
            done = []
            if received.group(1) in self.waiting:
                done.append(self._taken(received.group(1)))
            self.waiting[received.group(1)] = _Waiting(ordinal, at, basis, prompt, ids)
            while len(self.waiting) > WAITING:
                done.append(self._taken(next(iter(self.waiting))))
            return done
        if details:
            prompt, ids = _prompt(details.group(2))
            known = self.waiting.get(details.group(1))
            if known is not None:
                self.waiting[details.group(1)] = known._replace(text=prompt or known.text, ids=ids or known.ids)
            else:
                self.early[details.group(1)] = (prompt, ids)
                while len(self.early) > WAITING:
                    self.early.popitem(last=False)
        elif answered and answered.group(1) in self.waiting:
            self._answer(answered)
        return [Skipped("ignored", 1, "a further line about a request", ordinal)]

    def _answer(self, answered: re.Match[str]) -> None:
        known = self.waiting[answered.group(1)]
        output = _literal(answered.group(3))
        ids = _ids(answered.group(4)).get("output")
        if answered.group(2) == "streaming delta":
            output = (known.output or "") + (output or "")
            ids = [*(known.output_ids or ()), *(ids or ())]
        reason = _REASON.search(answered.group(4))
        self.waiting[answered.group(1)] = known._replace(
            output=output or known.output,
            output_ids=ids or known.output_ids,
            reason=reason.group(1) if reason and reason.group(1) != "None" else known.reason,
        )

    def _taken(self, identity: str) -> Record:
        one = self.waiting.pop(identity)
        cut = one.text is not None and one.ids is not None and len(one.text) == len(one.ids) > 0
        body: dict[str, Any] | None = None
        if one.ids:
            body = {"prompt_token_ids": one.ids}
        elif one.text:
            body = {"prompt": one.text}
        else:
            self.empty += 1
        answer: dict[str, Any] | None = None
        if one.output is not None or one.output_ids is not None:
            usage = {"completion_tokens": len(one.output_ids)} if one.output_ids else None
            answer = {"choices": [{"text": one.output or "", "finish_reason": one.reason}], "usage": usage}
            if one.ids:
                answer["output_token_ids"] = one.output_ids
        try:
            request = self.calls.request(
                Call(
                    key=str(one.ordinal),
                    ordinal=one.ordinal,
                    request=body,
                    answer=answer,
                    arrival_s=one.at_s,
                    time_basis=one.basis,
                    cut=cut,
                )
            )
        except ValueError as error:
            return Reject(one.ordinal, str(error))
        return request._replace(input_tokens=None) if cut else request

    def end(self) -> Iterator[Record]:
        """What still waits."""
        while self.waiting:
            yield self._taken(next(iter(self.waiting)))


def _time(text: str) -> tuple[float | None, str]:
    match = _TIME.search(text)
    if match is None:
        return None, "none"
    year, *rest, fraction = match.groups()
    try:
        # vLLM's own format has no year; any leap year serves for differences.
        moment = datetime(int(year or 2000), *(int(part) for part in rest), tzinfo=UTC)  # type: ignore[arg-type,misc]
    except ValueError:
        return None, "none"
    seconds = moment.timestamp() + (float(f"0.{fraction}") if fraction else 0.0)
    return seconds, "wall" if year else "trace"


def _prompt(text: str) -> tuple[str | None, list[int] | None]:
    match = _PROMPT.search(text)
    if match is None:
        return None, _ids(text).get("prompt")
    return _literal(match.group(1)), _ids(text[match.end() :]).get("prompt")


def _literal(text: str) -> str | None:
    value = ast.literal_eval(text)
    return value if isinstance(value, str) else None


def _ids(text: str) -> dict[str, list[int]]:
    return {kind: [int(one) for one in ids.split(",") if one.strip()] for kind, ids in _IDS.findall(text)}
