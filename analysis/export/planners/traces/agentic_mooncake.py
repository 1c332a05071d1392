"""Agentic Mooncake v2: a header, then whole prompts with request ids and what each request waits for.

A request waits for the previous request of its session, and the first request of a sub-agent for the request that
spawned it. A request that a session sends after a sub-agent ended joins that sub-agent. `not_before_ms` keeps the
recorded time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.planners import Written
from analysis.export.planners.output import milliseconds, new_file
from analysis.export.rows import ExportSelection, Row

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
SCHEMA, VERSION = "dynamo.agentic_mooncake", 2
_KEPT = 64  # most requests of one session that run at once


def write(out: ExportSelection, path: Path) -> Written:
    """Write the header and one row per request, in arrival order."""
    ends = _Ends()
    last = _last_of_sessions(out)
    count = joins = 0
    header = {
        "schema": SCHEMA,
        "version": VERSION,
        "block_size": out.block,
        "hash_id_scope": "local",
        "source": {"format": "mooncake", "digest": f"{out.salt:016x}"},
    }
    with new_file(path) as file:
        file.write(orjson.dumps(header, option=_JSON))
        for row in out.rows():
            waits = ends.dependencies(row)
            joins += sum(w["relation"] == "join" for w in waits)
            record: dict[str, Any] = {
                "request_id": f"r{row.number}",
                "play_id": f"p{row.family}",
                "session_id": f"s{row.session}" if row.session is not None else f"lone{row.number}",
                "model": row.model or "unknown",
                "input_length": row.tokens,
                "output_length": row.output,
                "hash_ids": out.block_ids(row),
                "not_before_ms": milliseconds(row.arrival_s),
                "recorded_api_time_ms": milliseconds(row.duration_s),
                "dependencies": waits,
            }
            file.write(orjson.dumps({k: v for k, v in record.items() if v is not None}, option=_JSON))
            ends.sent(row, row.session is not None and last.get(row.session) == row.number)
            count += 1
    notes = [f"{joins:,} requests wait for a sub-agent to end", "stop reasons and roles have no place in this format"]
    if ends.overlapping:
        notes.append(
            f"{ends.overlapping:,} requests were sent while all earlier ones of their session ran: a replay waits"
        )
    return Written(
        count,
        notes,
        [
            f"aisimulate predict -c config.yaml   # traffic.source: {{type: trace, paths: [{path}], "
            "format: agentic_mooncake}, traffic.load: {type: trace_timestamps, agentic_lanes: 8}",
            f"tracetower ingest {path} -o DATASET",
        ],
    )


def _last_of_sessions(out: ExportSelection) -> dict[int, int]:
    """The number of each sub-agent's last request."""
    agents = out.frame.filter(out.frame["parent"].is_not_null())
    return dict(agents.select("session", "number").iter_rows())  # numbers ascend, so the last one stays


class _Ends:
    """The end times of the requests that others wait for."""

    def __init__(self) -> None:
        self.overlapping = 0
        self._open: dict[int, list[tuple[int, float | None]]] = {}  # session -> its last requests and when they ended
        self._ended: dict[int, list[tuple[int, float]]] = {}  # session -> sub-agents' last requests not joined yet
        self._request_end: dict[int, float | None] = {}

    def dependencies(self, row: Row) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if row.session is None:
            return found
        if row.previous is not None:
            found.append(self._sequence(row, row.previous))
        elif row.spawned_by is not None and row.spawned_by < row.number:
            found.append(_wait(row, row.spawned_by, self._request_end.get(row.spawned_by), "spawn"))
        waiting = self._ended.get(row.session)
        if waiting and row.arrival_s is not None:
            for number, end in waiting:
                if end <= row.arrival_s:
                    found.append(_wait(row, number, end, "join"))
            self._ended[row.session] = [w for w in waiting if w[1] > row.arrival_s]
        return found

    def _sequence(self, row: Row, previous: int) -> dict[str, Any]:
        """The session's latest request that had ended; if none had, the previous request and its end."""
        for number, end in reversed(self._open[row.session or 0]):
            if end is not None and row.arrival_s is not None and end <= row.arrival_s:
                return _wait(row, number, end, "sequence")
        self.overlapping += self._open[row.session or 0][-1][1] is not None
        return {"request_id": f"r{previous}", "trigger": "completion", "delay_ms": 0, "relation": "sequence"}

    def sent(self, row: Row, last_of_agent: bool) -> None:
        """Remember a row that has been written."""
        end = None if row.arrival_s is None or row.duration_s is None else row.arrival_s + row.duration_s
        if row.session is None:
            return
        kept = self._open.setdefault(row.session, [])
        kept.append((row.number, end))
        del kept[:-_KEPT]
        if row.parent is not None and last_of_agent and end is not None:
            self._ended.setdefault(row.parent, []).append((row.number, end))
        self._request_end[row.number] = end


def _wait(row: Row, on: int, end: float | None, relation: str) -> dict[str, Any]:
    """Wait for the completion of request `on`, or for its dispatch if it was still running or its end is unknown."""
    if end is not None and row.arrival_s is not None and row.arrival_s >= end:
        delay = milliseconds(row.arrival_s - end)
        return {"request_id": f"r{on}", "trigger": "completion", "delay_ms": delay, "relation": relation}
    return {"request_id": f"r{on}", "trigger": "dispatch", "delay_ms": 0, "relation": relation}
