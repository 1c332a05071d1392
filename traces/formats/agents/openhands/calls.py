"""OpenHands' logs of single model calls: a file a call, with the whole prompt, the response and its usage.

The files do not say which conversation they belong to. The logs of a folder are read together, by time: a call
continues the conversation whose last prompt its own begins with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context
from traces.transcripts.ledger import Ledger, document
from traces.transcripts.parts import Part, PartMaker, as_dict, as_list, seconds, text_of
from traces.transcripts.turns import Thread
from traces.usage.passes import passes
from traces.usage.rules import normalise

if TYPE_CHECKING:
    from traces.source.sources import Source


def is_call(value: dict[str, Any]) -> bool:
    """Whether `value` is the log of a call."""
    return isinstance(value.get("messages"), list) and isinstance(value.get("response"), dict) and "cost" in value


def threads(source: Source, context: Context, ledger: Ledger) -> list[Thread]:
    """The conversations of all logs in the folder of `source`."""
    make = PartMaker(context, exact=True)
    calls = sorted(_calls(source, ledger), key=lambda call: seconds(call.get("timestamp")) or 0.0)
    found: list[Thread] = []
    for ordinal, call in enumerate(calls, 1):
        ledger.used += 1
        response = as_dict(call.get("response"))
        schemas = as_list(call.get("tools")) or as_list(as_dict(call.get("kwargs")).get("tools"))
        whole = make.tools(schemas)
        messages = as_list(call.get("messages"))
        whole += [part for message in messages for part in make.message(as_dict(message)).parts]
        thread = _continued(found, whole)
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        contents = make.message({"role": "assistant", **as_dict(choice.get("message"))})
        end, took = seconds(call.get("timestamp")), _number(call.get("latency_sec"))
        try:
            usage, several = (
                normalise(as_dict(response.get("usage")), meanings=make.meanings),
                passes(response.get("usage")),
            )
        except ValueError as error:
            ledger.reject(ordinal, str(error))
            usage, several = None, []
        thread.add_reply(contents.parts, contents.tools)
        name = text_of(response.get("id"))
        turn = thread.close(
            f"{ordinal}",
            ordinal,
            usage=usage if usage is not None and usage.input_tokens else None,
            model=text_of(response.get("model")),
            stop_reason=text_of(choice.get("finish_reason")),
            trigger="tool" if as_dict(messages[-1] if messages else None).get("role") == "tool" else "user",
            dedupe_key=f"openhands:{name}" if name else None,
        )
        turn.whole, turn.duration_s = whole, took
        turn.passes = several
        turn.arrival_s = None if end is None else end - (took or 0.0)
        if thread.started_s is None:
            thread.started_s = turn.arrival_s
    return found


def _calls(source: Source, ledger: Ledger) -> Iterator[dict[str, Any]]:
    folder = source.name.rpartition("/")[0]
    names = [n for n in sorted(source.siblings) if n.rpartition("/")[0] == folder and n.endswith(".json")]
    for name in names or [source.name]:
        other = source.siblings.get(name, source)
        if other is source:
            value = document(other, ledger)
            if isinstance(value, dict) and is_call(value):
                yield value
            continue
        start = other.head().data[:4096]
        if b'"messages"' not in start:
            continue
        value = document(other, Ledger())  # what is no log of a call is left for its own reader
        if isinstance(value, dict) and is_call(value):
            source.claim(name)
            yield value


def _continued(found: list[Thread], whole: list[Part]) -> Thread:
    keys = [part.key for part in whole]
    best: Thread | None = None
    for thread in found:
        before = thread.turns[-1].whole or []
        if [part.key for part in before] == keys[: len(before)]:
            longer = best is None or len(before) > len(best.turns[-1].whole or [])
            best = thread if longer else best
    if best is None:
        best = Thread(f"conversation-{len(found) + 1}", "openhands", hidden_head=False)
        found.append(best)
    return best


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 1e9 else None
