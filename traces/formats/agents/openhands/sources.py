"""OpenHands: event streams of V0 (trajectory JSON, output.jsonl), of the V1 SDK, and logs of single model calls.

Facts: All-Hands-AI/OpenHands (openhands/events, evaluation/utils/shared.py) and OpenHands/software-agent-sdk. An event
is logged for each action and each observation, both with the model response they belong to: the response's id says
calls apart. `prompt_tokens` includes cached tokens. Times have no zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.agents.openhands import calls as openhands_calls
from traces.formats.agents.openhands.events import EventStream
from traces.formats.agents.openhands.sdk import SdkStream
from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, document, objects, opening
from traces.transcripts.parts import PartMaker, as_dict, as_list
from traces.transcripts.requests import records_of

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "openhands"
SIBLINGS = True
SUMMARY = {
    "carries": "messages, tool calls, usage with cache reads and writes, times; exact prompts in the logs of calls",
    "time": "wall clock without a zone (the model response's own time gives it where there is one)",
    "computes": "hit rates, reported and achievable",
    "notes": "V0 events, output.jsonl, V1 SDK events, and the logs of calls (those of a folder together)",
}


_EVENT = re.compile(r"(^|/)(\d+|event-\d+-[^/]*)\.json$")
"""The name of a file that holds one event."""


def sniff(head: Any, name: str) -> float:
    """Sure of the events' own fields."""
    value = opening(head)
    if not isinstance(value, dict):
        return 0.0
    if openhands_calls.is_call(value):
        return 0.95
    if "kind" in value and "source" in value and "timestamp" in value and "id" in value:
        return 0.9
    if isinstance(value.get("history"), list) and ("git_patch" in value or "test_result" in value):
        return 0.9
    if "stuck_detection" in value and "agent" in value:
        return 0.9  # the state of a conversation, which holds no calls
    return 0.9 if any(_is_event(event) for event in head.records[:8]) else 0.0


def _is_event(event: Any) -> bool:
    return isinstance(event, dict) and "source" in event and ("action" in event or "observation" in event)


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions and requests."""
    ledger = Ledger()
    value = opening(source.head())
    if isinstance(value, dict) and openhands_calls.is_call(value):
        threads = openhands_calls.threads(source, context, ledger)
    else:
        make = PartMaker(context)
        threads = [t for stream in _streams(source, value, make, ledger) for t in stream.threads()]
    yield from records_of(threads, context, ledger)


def _streams(source: Source, value: Any, make: PartMaker, ledger: Ledger) -> Iterator[EventStream | SdkStream]:
    if isinstance(value, dict) and "history" in value:
        ordinal = 0
        for number, row in objects(source, ledger):
            metrics = as_dict(row.get("metrics"))
            usages = {str(as_dict(u).get("response_id")): as_dict(u) for u in as_list(metrics.get("token_usages"))}
            history = [
                event for item in as_list(row.get("history")) for event in (item if isinstance(item, list) else [item])
            ]
            yield _events(f"row-{number}", history, make, ledger, usages, ordinal)
            ordinal += len(history)
    elif isinstance(value, dict) and "stuck_detection" in value:
        ledger.ignore("the state of a conversation; its calls are in its events")
    else:
        stored = len(source.siblings) > 1 and _EVENT.search(source.name) is not None
        rows = _files(source, ledger) if stored else None
        listed = [row for _, row in objects(source, ledger)] if rows is None else rows
        if any("kind" in row for row in listed):
            stream = SdkStream("main", make, ledger)
            for number, row in enumerate(listed, 1):
                stream.event(number, row)
            yield stream
        else:
            yield _events("main", listed, make, ledger, {}, 0)


def _files(source: Source, ledger: Ledger) -> list[dict[str, Any]]:
    """The events of one conversation that is stored as a file an event, in order."""
    folder = source.name.rpartition("/")[0]
    names = [n for n in source.siblings if n.rpartition("/")[0] == folder and _EVENT.search(n)]
    rows = []
    for name in sorted(names, key=lambda n: (len(n), n)):
        source.claim(name)
        row = document(source.siblings[name], ledger)
        rows += [row] if isinstance(row, dict) else []
    return rows


def _events(
    name: str, events: list[Any], make: PartMaker, ledger: Ledger, usages: dict[str, dict[str, Any]], before: int
) -> EventStream:
    stream = EventStream(name, make, ledger, usages)
    for at, event in enumerate(events, before + 1):
        if isinstance(event, dict):
            stream.event(at, event)
        else:
            ledger.reject(at, "an event that is no JSON object")
    stream.end(before + len(events))
    return stream
