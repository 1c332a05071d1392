"""Weka (kv-cache-tester) session JSON: a file per top-level session, sub-agents nested one level, 64-token blocks.

Whole blocks have ids (⌊in/64⌋ of them), local to the file and numbered from 1 in order of appearance. A sub-agent that
its parent waits for is written as completed, with its end as `t` and its duration; one that runs in parallel with its
parent is written as async_launched, with its start as `t`. Inner times count from the sub-agent's start. AIPerf rejects
any other key.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from analysis.export.planners import Written
from analysis.export.planners.output import new_folder
from analysis.export.rows import ExportSelection, Row

_JSON = orjson.OPT_SERIALIZE_NUMPY
_UNKNOWN_MODEL = "unknown"


class _Lost:
    """Counts of what the format cannot express."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, what: str, count: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + count

    def notes(self) -> list[str]:
        return [f"{count:,} {what}" for what, count in self.counts.items()]


def write(out: ExportSelection, path: Path) -> Written:
    """Write a folder with a file per top-level session."""
    lost = _Lost()
    width = max(4, len(str(out.frame["family"].n_unique())))
    files = requests = 0
    models: set[str] = set()
    with new_folder(path) as folder:
        for rows in out.families():
            document = _document(rows, out, f"session_{files:0{width}d}", lost)
            (folder / f"session_{files:0{width}d}.json").write_bytes(orjson.dumps(document, option=_JSON))
            files += 1
            requests += len(rows)
            models.update(r.model for r in rows if r.model is not None)
    notes = [f"{files:,} files", *lost.notes(), *_unshared(out)]
    if len(models) > 1:
        notes.append(f"{len(models)} models: Dynamo and AISimulate take one model per corpus")
    notes.append("times count from each session's start: the replayer decides when sessions start")
    return Written(
        requests, notes,
        [
            f"aiperf profile --custom-dataset-type weka_trace --input-file {path} --url URL --model MODEL "
            "--endpoint-type chat --concurrency 8",
            f"aisimulate predict -c config.yaml   # traffic.source: {{type: trace, paths: [{path}], format: weka}}",
            f"inference-perf --config_file config.yml   # data.weka_trace_replay.trace_directory: {path}",
            f"tracetower ingest {path} -o DATASET",
        ],
    )  # fmt: skip


def _unshared(out: ExportSelection) -> list[str]:
    """The sharing across files that is lost, in hit tokens of an unbounded cache."""
    lost = out.hit_tokens() - out.hit_tokens("family")
    if not lost:
        return []
    return [
        f"{lost:,} tokens that an unbounded cache shares across files are not shared in what is written: ids are local "
        "to a file (mooncake keeps them)"
    ]


def _document(rows: list[Row], out: ExportSelection, name: str, lost: _Lost) -> dict[str, Any]:
    parts: dict[int | None, list[Row]] = {}
    for row in rows:
        parts.setdefault(row.session, []).append(row)
    main, agents = _roles(parts, lost)
    ids = _LocalIds()
    zero = next((r.arrival_s for r in main if r.arrival_s is not None), None)
    entries: list[tuple[float, int, dict[str, Any]]] = []
    ended: float | None = None
    for row in main:
        t = _seconds(row, zero)
        entry = _request(row, t, out, lost)
        if ended is not None and t >= ended:
            entry["think_time"] = round(t - ended, 6)
        ended = None if row.duration_s is None else t + row.duration_s
        entries.append((t, 1, entry))
    for number, agent in enumerate(agents):
        entries.append(_agent(agent, main, zero, f"agent_{number + 1:03d}", out, lost))
    first = entries[0]
    rest = sorted(entries[1:], key=lambda e: (e[0], e[1]))
    if rest and rest[0][0] < first[0]:
        lost.add("sub-agents start before their parent's first request: they are written after it")
    _number(first[2], rest, ids)
    return {
        "id": name,
        "models": _models(rows),
        "block_size": out.block,
        "hash_id_scope": "local",
        **_head(main),
        "requests": [first[2], *(entry for _, _, entry in rest)],
    }


def _models(rows: list[Row]) -> list[str]:
    return sorted({row.model or _UNKNOWN_MODEL for row in rows})


def _head(rows: list[Row]) -> dict[str, int]:
    return {} if rows[0].head is None else {"tool_tokens": rows[0].head, "system_tokens": 0}


def _roles(parts: dict[int | None, list[Row]], lost: _Lost) -> tuple[list[Row], list[list[Row]]]:
    """The top-level session's requests, and those of each sub-agent, with deeper levels flattened to one."""
    tops = [s for s, rows in parts.items() if rows[0].parent is None or rows[0].parent not in parts]
    main = parts[tops[0]]
    agents = [rows for s, rows in parts.items() if s != tops[0]]
    deeper = sum(rows[0].parent is not None and rows[0].parent != tops[0] for rows in agents)
    if deeper:
        lost.add("sub-agents of sub-agents are written one level deep", deeper)
    return main, agents


def _seconds(row: Row, zero: float | None) -> float:
    return 0.0 if row.arrival_s is None or zero is None else round(row.arrival_s - zero, 6)


class _LocalIds:
    """Block ids of one file, numbered from 1 in order of appearance."""

    def __init__(self) -> None:
        self.known: dict[int, int] = {}

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        known = self.known
        return np.array([known.setdefault(i, len(known) + 1) for i in ids.tolist()], np.int64)


def _number(first: dict[str, Any], rest: list[tuple[float, int, dict[str, Any]]], ids: _LocalIds) -> None:
    """Replace tree ids by the file's own, in file order."""
    for entry in [first, *(e for _, _, e in rest)]:
        for request in entry.get("requests", [entry]):
            request["hash_ids"] = ids.of(request["hash_ids"])


def _request(row: Row, t: float, out: ExportSelection, lost: _Lost) -> dict[str, Any]:
    if row.arrival_s is None:
        lost.add("requests without a time are written at their session's start")
    if row.output is None:
        lost.add("requests without a known output are written with one output token")
    if row.leaf < 0:
        lost.add("requests without a known prompt are written as if they shared nothing")
    entry: dict[str, Any] = {
        "t": t,
        "type": "s" if row.ttft_s is not None else "n",
        "model": row.model or _UNKNOWN_MODEL,
        "in": row.tokens,
        "out": 1 if row.output is None else row.output,
        "hash_ids": out.ids.of(row.leaf, tail=False) if row.leaf >= 0 else np.zeros(0, np.int64),
        "input_types": {"user": ["text"], "tool": ["tool_result"]}.get(row.trigger, []),
        "output_types": ["text", "tool_use"] if row.calls_tools else ["text"],
        "stop": row.stop or "",
    }
    if row.duration_s is not None:
        entry["api_time"] = row.duration_s
    if row.ttft_s is not None:
        entry["ttft"] = row.ttft_s
    return entry


def _agent(
    rows: list[Row], main: list[Row], zero: float | None, name: str, out: ExportSelection, lost: _Lost
) -> tuple[float, int, dict[str, Any]]:
    times = [_seconds(r, zero) for r in rows]
    start = min(times)
    ends = [t + (r.duration_s or 0.0) for t, r in zip(times, rows, strict=True)]
    lasted_ms = math.ceil(round((max(ends) - start) * 1000, 3))  # AIPerf accepts only whole milliseconds
    end = round(start + lasted_ms / 1000, 6)
    waits = not any(start < _seconds(r, zero) < end for r in main)
    inner = [
        _request(r, round(t - start, 6), out, lost)
        for t, r in sorted(zip(times, rows, strict=True), key=lambda p: p[0])
    ]
    entry: dict[str, Any] = {
        "t": end if waits else start,
        "type": "subagent",
        "agent_id": name,
        "subagent_type": "unknown",
        "duration_ms": lasted_ms if waits else None,
        "total_tokens": sum(r.tokens + (r.output or 0) for r in rows) if waits else None,
        "tool_use_count": sum(r.calls_tools for r in rows) if waits else None,
        "status": "completed" if waits else "async_launched",
        "requests": inner,
        "models": _models(rows),
        **_head(rows),
    }
    return entry["t"], 0 if waits else 2, entry
