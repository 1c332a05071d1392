"""Dynamo: request traces (v1), the planner's warm-up trace, and a profiler request.

Schema dynamo.request.trace.v1 of lib/llm/src/request_trace/types.rs; the planner reads timestamp (ms), input_length and
output_length per row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.block_ids import scattered
from analysis.export.planners import Written
from analysis.export.planners.output import milliseconds, new_file
from analysis.export.planners.profiles.figures import Profile, concurrency, need, rate, whole, write_yaml
from analysis.export.selection import Outgoing

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


def write(out: Outgoing, path: Path) -> Written:
    """Write one request_end event a row, in arrival order; times count from 1970 (the trace's start)."""
    count = untimed = 0
    with new_file(path) as file:
        for row in out.rows():
            arrival = milliseconds(row.arrival_s)
            lasted = milliseconds(row.duration_s)
            untimed += arrival is None
            request = {
                "request_id": f"{out.salt:016x}-{row.number}",
                "model": row.model or "unknown",
                "input_tokens": row.tokens,
                "output_tokens": row.output,
                "cached_tokens": row.cached,
                "request_received_ms": arrival,
                "total_time_ms": lasted,
                "ttft_ms": milliseconds(row.ttft_s),
                "replay": _replay(out, row.leaf, row.tokens),
                "finish_reason_metadata": None if row.stop is None else {"finish_reason": row.stop},
            }
            event: dict[str, Any] = {
                "schema": "dynamo.request.trace.v1",
                "event_type": "request_end",
                "event_time_unix_ms": None if arrival is None else round(arrival + (lasted or 0)),
                "event_source": "dynamo",
                "agent_context": _context(out.salt, row.session, row.parent),
                "request": {k: v for k, v in request.items() if v is not None},
            }
            event = {k: v for k, v in event.items() if v is not None}
            file.write(orjson.dumps({"timestamp": arrival or 0, "event": event}, option=_JSON))
            count += 1
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


def _context(salt: int, session: int | None, parent: int | None) -> dict[str, str] | None:
    if session is None:
        return None
    found = {"session_id": f"{salt:016x}-s{session}"}
    return found if parent is None else found | {"parent_session_id": f"{salt:016x}-s{parent}"}


def _replay(out: Outgoing, leaf: int, tokens: int) -> dict[str, Any] | None:
    if leaf < 0:
        return None
    hashes = scattered(out.ids.of(leaf), out.salt)
    return {"trace_block_size": out.block, "input_length": tokens, "input_sequence_hashes": hashes}


def write_warm_up(out: Outgoing, path: Path) -> Written:
    """Write arrivals and lengths for the planner's load predictor; rows without a time or an output are left out."""
    count = left = 0
    with new_file(path) as file:
        for row in out.rows():
            if row.arrival_s is None or row.output is None:
                left += 1
                continue
            record = {
                "timestamp": milliseconds(row.arrival_s), "input_length": row.tokens, "output_length": row.output,
            }  # fmt: skip
            file.write(orjson.dumps(record, option=_JSON))
            count += 1
    notes = [f"{left:,} requests have no known time or output and are left out"] if left else []
    return Written(count, notes, [f"# Dynamo planner: load_predictor_warmup_trace: {path}"])


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
