"""Aider's analytics log (JSON Lines of events): counts of tokens for each message, nothing of the texts.

Facts: Aider-AI/aider, aider/analytics.py. `message_send` has the counts of one message to the model; `launched` starts
a process, and a chat that was cleared starts again. There is no session id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record, Request, Session
from traces.transcripts.ledger import Ledger, objects
from traces.transcripts.parts import as_dict, seconds, text_of
from traces.usage.rules import normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "aider_analytics"
SUMMARY = {
    "carries": "lengths of prompts and answers, models, times",
    "time": "wall clock (s since the epoch)",
    "computes": "shape and rates; no hit rate: there are neither texts nor cached counts",
    "notes": "sessions are inferred: a launch or a cleared chat starts one",
}
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


def sniff(head: Any, name: str) -> float:
    """Sure of events with properties and a time."""
    records = [r for r in head.records if isinstance(r, dict)]
    shaped = [r for r in records if r.keys() >= {"event", "properties", "time"} and "user_id" in r]
    return 0.95 if records and len(shaped) == len(records) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the messages as requests, session by session."""
    ledger, session, used = Ledger(), 0, 0
    fresh = True
    for ordinal, line in objects(source, ledger):
        event, properties = line.get("event"), as_dict(line.get("properties"))
        if event in ("launched", "command_clear", "command_reset"):
            session, fresh = session + 1, True
        if event != "message_send":
            ledger.ignore("an event that is no call")
            continue
        ledger.used += 1
        model = text_of(properties.get("main_model"))
        try:
            usage = normalise({name: properties.get(name) for name in _COUNTS}, meanings=context.meanings, model=model)
        except ValueError as error:
            ledger.used -= 1
            ledger.reject(ordinal, str(error))
            continue
        if fresh:
            yield Session(f"chat-{session}", agent="aider", role="main", native=False)
            fresh = False
        used += 1
        yield Request(
            key=str(ordinal),
            session_key=f"chat-{session}",
            ordinal=ordinal,
            arrival_s=seconds(line.get("time")),
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            output_complete=True,
            trigger="user",
        )
    yield from ledger.finish(used)
