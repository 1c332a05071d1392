"""Inspect AI logs (.eval, a zip, or .json): every model event has the exact prompt.

Facts: UKGovernmentBEIS/inspect_ai, src/inspect_ai/log. Texts are kept once: `attachment://<hash>` points into the
sample's `attachments`; `input_refs` are [start, end) ranges of the sample's pool of messages. Events whose `cache` is
`read` were answered by Inspect's own cache, pending ones have no answer: neither reached a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.harnesses.inspect_archive import is_archive, samples_of
from traces.records import Context, Note, Record, Request
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import PartMaker, as_dict, as_list, seconds, text_of
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread
from traces.usage.rules import Usage, normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "inspect"
SUMMARY = {
    "carries": "exact prompts, tool schemas, usage with cache reads and writes, times, agents",
    "time": "wall clock (ISO 8601)",
    "computes": "hit rates, achievable (at the tokenizer's lengths) and reported",
    "notes": "a sample of an epoch is a session, an agent in it a sub-agent; whether input includes cached tokens is "
    "shown by the total",
}
_ATTACHMENT = "attachment://"


def sniff(head: Any, name: str) -> float:
    """Sure of a zip of samples with a journal, and of the JSON log's own keys."""
    if head.data[:2] == b"PK":
        return 0.97 if is_archive(head.data) else 0.0
    start = head.data[:65536]
    if head.data.lstrip()[:1] != b"{" or b'"eval"' not in start or b'"status"' not in start:
        return 0.0
    value = opening(head)
    log = isinstance(value, dict) and isinstance(value.get("eval"), dict) and "status" in value
    return 0.95 if log or b'"task_id"' in start else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions and requests, sample by sample."""
    ledger, count, difference = Ledger(), 0, 0
    if source.head().data[:2] == b"PK":
        samples = samples_of(source, ledger)
    else:
        samples = _logged_samples(source, ledger)
    make = PartMaker(context, exact=True)
    ordinal = 0
    for name, value in samples:
        if not isinstance(value, dict):
            ledger.reject(ordinal, "a sample that is no JSON object")
            continue
        sample = _Sample(name, value, make, ledger, ordinal)
        threads = sample.threads()
        ordinal = sample.ordinal
        for record in requests_of(threads, context, reports_usage=bool(value.get("model_usage"))):
            count += isinstance(record, Request)
            yield record
        difference += sample.difference()
    yield from ledger.finish(count)
    if difference:
        yield Note(f"inspect: the samples' own totals differ from their calls' sum by {difference:,} tokens")


def _logged_samples(source: Source, ledger: Ledger) -> Iterator[tuple[str, Any]]:
    for number, log in objects(source, ledger):
        for at, sample in enumerate(as_list(log.get("samples")), 1):
            yield str(at) if number == 1 else f"log-{number}-{at}", sample


def messages_of(sample: dict[str, Any], event: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that a model event of `sample` was given, with what is kept elsewhere put in its place."""
    messages = as_list(event.get("input"))
    pool = as_list(sample.get("message_pool")) or as_list(as_dict(sample.get("events_data")).get("messages"))
    for pair in as_list(event.get("input_refs")):
        if isinstance(pair, list) and len(pair) == 2 and all(isinstance(x, int) for x in pair):
            messages = [*messages, *pool[pair[0] : pair[1]]]
    attachments = as_dict(sample.get("attachments"))
    return [as_dict(_resolved(message, attachments)) for message in messages]


def _resolved(value: Any, attachments: dict[str, Any]) -> Any:
    if isinstance(value, str):
        return attachments.get(value[len(_ATTACHMENT) :], value) if value.startswith(_ATTACHMENT) else value
    if isinstance(value, list):
        return [_resolved(item, attachments) for item in value]
    return {k: _resolved(v, attachments) for k, v in value.items()} if isinstance(value, dict) else value


class _Sample:
    def __init__(self, name: str, sample: dict[str, Any], make: PartMaker, ledger: Ledger, before: int) -> None:
        self.name, self.sample, self.make, self.ledger, self.ordinal = name, sample, make, ledger, before
        self.attachments = as_dict(sample.get("attachments"))
        self.spans: dict[str, tuple[str | None, str | None]] = {}
        self.agents: dict[str, Thread] = {}
        self.total = 0

    def threads(self) -> list[Thread]:
        for value in as_list(self.sample.get("events")):
            self.ordinal += 1
            event = as_dict(value)
            if event.get("event") == "span_begin":
                self.spans[str(event.get("id"))] = (text_of(event.get("parent_id")), text_of(event.get("type")))
            if event.get("event") != "model":
                self.ledger.ignore("an event that is no model call")
            elif event.get("cache") == "read":
                self.ledger.ignore("answered by Inspect's own cache")
            elif event.get("pending"):
                self.ledger.ignore("a call without an answer yet")
            elif event.get("error") and not as_dict(event.get("output")).get("usage"):
                self.ledger.failed("failed attempt")
            else:
                self.ledger.used += 1
                self._call(event)
        if not self.agents:
            self._messages()
        return list(self.agents.values())

    def _call(self, event: dict[str, Any]) -> None:
        thread, output = self._thread(event), as_dict(event.get("output"))
        messages = messages_of(self.sample, event)
        whole = self.make.tools([self._resolved(tool) for tool in as_list(event.get("tools"))])
        for message in messages:
            whole += self.make.message(message).parts
        choice = as_dict(next(iter(as_list(output.get("choices"))), None))
        contents = self.make.message({"role": "assistant", **as_dict(self._resolved(choice.get("message")))})
        usage = self._usage(event, output)
        start, end = seconds(event.get("timestamp")), seconds(event.get("completed"))
        took = output.get("time") or event.get("working_time")
        thread.add_reply(contents.parts, contents.tools)
        last = messages[-1].get("role") if messages else None
        turn = thread.close(
            f"{self.name}:{self.ordinal}",
            self.ordinal,
            usage=usage,
            model=text_of(event.get("model")) or text_of(output.get("model")),
            stop_reason=text_of(choice.get("stop_reason")),
            trigger="tool" if last == "tool" else "user",
        )
        turn.whole, turn.arrival_s = whole, start
        turn.duration_s = took if isinstance(took, float) else (end - start if end and start else None)
        thread.started_s = start if thread.started_s is None else thread.started_s

    def _usage(self, event: dict[str, Any], output: dict[str, Any]) -> Usage | None:
        provider = str(event.get("model") or "").split("/")[0]
        try:
            usage = normalise(output.get("usage"), provider, meanings=self.make.meanings)
        except ValueError as error:
            self.ledger.reject(self.ordinal, str(error))
            return None
        logged = as_dict(output.get("usage")).get("total_tokens")
        self.total += logged if isinstance(logged, int) else 0
        return usage if usage.input_tokens else None

    def _thread(self, event: dict[str, Any]) -> Thread:
        """The agent whose span the event lies in; scorers' calls are a side session of their own."""
        span, chain, scorer = text_of(event.get("span_id")), [], False
        seen: set[str] = set()
        while span is not None and span in self.spans and span not in seen:
            seen.add(span)
            parent, kind = self.spans[span]
            if kind == "agent":
                chain.append(span)
            scorer = scorer or kind in ("scorer", "scorers")
            span = parent
        # The outermost agent is the sample's own; those inside it are its sub-agents.
        key = f"{self.name}/scorer" if scorer else "/".join([self.name, *reversed(chain[:-1])])
        thread = self.agents.get(key)
        if thread is None:
            role = "side" if scorer else "main" if key == self.name else "subagent"
            parent = None if role == "main" else self.name if scorer else key.rpartition("/")[0]
            thread = self.agents[key] = Thread(key, NAME, role=role, parent_key=parent, hidden_head=False)
        return thread

    def _messages(self) -> None:
        """A sample without model events: its calls are derived from its messages."""
        thread = Thread(self.name, NAME, hidden_head=True, time_basis="none")
        for value in as_list(self.sample.get("messages")):
            self.ordinal += 1
            message = as_dict(self._resolved(value))
            contents = self.make.message(message)
            self.ledger.used += 1
            if message.get("role") == "assistant":
                thread.add_reply(contents.parts, contents.tools)
                thread.close(f"{self.name}:{self.ordinal}", self.ordinal, model=text_of(message.get("model")))
            else:
                thread.add_input(contents.parts, None, "tool" if contents.results else "user")
        self.agents[self.name] = thread

    def _resolved(self, value: Any) -> Any:
        return _resolved(value, self.attachments)

    def difference(self) -> int:
        """Tokens of the sample's own totals beyond those of its calls."""
        totals = [as_dict(usage).get("total_tokens") for usage in as_dict(self.sample.get("model_usage")).values()]
        return sum(total for total in totals if isinstance(total, int)) - self.total if totals else 0
