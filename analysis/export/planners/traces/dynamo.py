"""Dynamo: request traces (v1), the planner's warm-up trace, and a profiler request.

Schema dynamo.request.trace.v1 of lib/llm/src/request_trace/types.rs; the planner reads timestamp (ms), input_length and
output_length per row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.export.block_ids import scattered
from analysis.export.planners import Written
from analysis.export.planners.output import known, milliseconds, write_lines
from analysis.export.planners.profiles.figures import Profile, concurrency, need, rate, whole, write_yaml
from analysis.export.rows import ExportSelection, Row


def write(out: ExportSelection, path: Path) -> Written:
    """Write one request_end event per request, in arrival order; the trace starts at 1970-01-01."""
    count = write_lines(path, (_event(out, row) for row in out.rows()))
    untimed = out.frame["arrival_s"].null_count()
    notes = ["times count from the trace's start, written as if that were 1970-01-01"]
    if untimed:
        notes.append(f"{untimed:,} requests have no time")
    return Written(
        count, notes,
        [
            f"aisimulate predict -c config.yaml   # traffic.source: {{type: trace, paths: [{path}], format: dynamo}}",
            f"tracetower ingest {path} -o DATASET",
        ],
    )  # fmt: skip


def _event(out: ExportSelection, row: Row) -> dict[str, Any]:
    arrival, lasted = milliseconds(row.arrival_s), milliseconds(row.duration_s)
    request = {
        "request_id": f"{out.salt:016x}-{row.number}",
        "model": row.model or "unknown",
        "input_tokens": row.tokens,
        "output_tokens": row.output,
        "cached_tokens": row.cached,
        "request_received_ms": arrival,
        "total_time_ms": lasted,
        "ttft_ms": milliseconds(row.ttft_s),
        "replay": _replay(out, row),
        "finish_reason_metadata": None if row.stop is None else {"finish_reason": row.stop},
    }
    event = {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": None if arrival is None else round(arrival + (lasted or 0)),
        "event_source": "dynamo",
        "agent_context": _context(out.salt, row.session, row.parent),
        "request": known(request),
    }
    return {"timestamp": arrival or 0, "event": known(event)}


def _context(salt: int, session: int | None, parent: int | None) -> dict[str, str] | None:
    if session is None:
        return None
    found = {"session_id": f"{salt:016x}-s{session}"}
    return found if parent is None else found | {"parent_session_id": f"{salt:016x}-s{parent}"}


def _replay(out: ExportSelection, row: Row) -> dict[str, Any] | None:
    ids = out.block_ids(row)
    if ids is None:
        return None
    hashes = scattered(ids, out.salt)
    return {"trace_block_size": out.block, "input_length": row.tokens, "input_sequence_hashes": hashes}


def write_warm_up(out: ExportSelection, path: Path) -> Written:
    """Write arrivals and lengths for the planner's load predictor. Requests without time or output are left out."""
    count = write_lines(
        path,
        (
            {"timestamp": milliseconds(row.arrival_s), "input_length": row.tokens, "output_length": row.output}
            for row in out.rows("arrival_s", "output")
        ),
    )
    return Written(
        count, out.left_out("arrival_s", "output"), [f"# Dynamo planner: load_predictor_warmup_trace: {path}"]
    )


def write_profiler(profile: Profile, path: Path) -> Written:
    """Write a DynamoGraphDeploymentRequest: workload and SLA; name and model are placeholders."""
    isl, osl = need(profile, "input_tokens"), need(profile, "output_tokens")
    workload: dict[str, Any] = {"isl": whole(isl["mean"], 1), "osl": whole(osl["mean"], 1)}
    per_second, running = rate(profile), concurrency(profile)
    notes = ["one ISL and OSL, the means: buckets are in the profile (overall.buckets)"]
    if per_second is not None:
        workload["requestRate"] = round(per_second, 6)
    else:
        workload["concurrency"] = running or 8
        notes.append("the rate is unknown (name an arrival model): a concurrency stands in its place")
    document = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"name": "tracetower"},
        "spec": {"model": "MODEL", "backend": "auto", "workload": workload, "sla": {"ttft": 2000, "itl": 30}},
    }
    return write_yaml(path, document, notes, [f"kubectl apply -f {path}"])
