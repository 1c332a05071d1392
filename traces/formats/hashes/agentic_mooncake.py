"""Agentic Mooncake v1 and v2: Mooncake rows with request ids and the dependencies between them.

v2 starts with a header line that gives the block size. A session whose first request waits for a request of another
session was spawned by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from traces.formats.hashes.hash_rows import HashRow, rows
from traces.records import Blocks, Context, Record, Reject, Request, Session, Skipped
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source

NAME = "agentic_mooncake"
SUMMARY = {
    "carries": "block ids, lengths, sessions, sub-agents, dependencies; times of requests that wait for nothing",
    "time": "milliseconds from an unknown zero; a request that waits for another has no time of its own",
    "blocks": "the header's block size (v2), else --block-size, else 512; ids are comparable inside a file",
    "computes": "shapes, hit rates, transitions, sub-agents; capacity needs an arrival model where times are missing",
}
DEFAULT_BLOCK_TOKENS = 512
SCHEMA = "dynamo.agentic_mooncake"


class _Dependency(msgspec.Struct):
    request_id: str | int
    relation: str | None = None


class _Tool(msgspec.Struct):
    tool_class: str | None = None


class _Row(HashRow):
    request_id: str | int | None = None
    schema: Any = None
    hash_id_scope: Any = None
    parent_session_id: str | int | None = None
    play_id: str | int | None = None
    not_before_ms: int | float | None = None
    recorded_api_time_ms: int | float | None = None
    wait_for: list[str | int] | None = None
    dependencies: list[_Dependency] | None = None
    tool_events: list[_Tool] | None = None


_decoder = msgspec.json.Decoder(_Row)


def sniff(head: Head, name: str) -> float:
    """Sure of the header of v2; of v1 where a row has a request id, block ids and its own fields."""
    record = head.record
    if not isinstance(record, dict):
        return 0.0
    if record.get("schema") == SCHEMA:
        return 0.99
    if not {"request_id", "hash_ids"} <= record.keys() or not {"input_length", "input_tokens"} & record.keys():
        return 0.0
    own = {"wait_for", "branches", "prefix_reset", "dependencies", "play_id", "tool_wait_ms", "not_before_ms"}
    return 0.97 if own & set().union(*(r.keys() for r in head.records if isinstance(r, dict))) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield sessions as they appear, and one request a line."""
    block = context.block_tokens or DEFAULT_BLOCK_TOKENS
    scope = "file"
    session_of: dict[str, str] = {}
    seen: set[str] = set()
    for one in rows(source, _decoder, _is_header):
        if isinstance(one, Reject):
            yield one
            continue
        number, row, tokens, ids = one
        if _is_header(row):
            block = row.block_size or block
            scope = "dataset" if row.hash_id_scope == "global" else "file"
            yield Skipped("ignored", 1, "the header", number)
            continue
        start = next((t for t in (row.timestamp, row.created_time, row.not_before_ms) if t is not None), None)
        try:
            arrival = to_seconds(start, context.time_unit or "ms")
            lasted = to_seconds(row.recorded_api_time_ms, "ms")
        except ValueError as error:
            yield Reject(number, str(error))
            continue
        if row.request_id is None:
            yield Reject(number, "no request_id")
            continue
        session = _session(row)
        request = f"{row.play_id}|{row.request_id}"
        if session is not None:
            session_of[request] = session
            if session not in seen:
                seen.add(session)
                yield _opened(row, session, session_of)
        yield Request(
            key=request,
            session_key=session,
            ordinal=number,
            arrival_s=arrival,
            time_basis="trace",
            duration_s=lasted if lasted is None or lasted >= 0 else None,
            model=row.model,
            input_tokens=tokens,
            output_tokens=row.output,
            prompt=None if ids is None else Blocks(ids, row.block_size or block, "ceil", scope),
            trigger="tool" if row.tool_events else "unknown",
        )


def _is_header(row: _Row) -> bool:
    return row.schema == SCHEMA and row.request_id is None


def _session(row: _Row) -> str | None:
    return None if row.session_id is None else f"{row.play_id}|{row.session_id}"


def _opened(row: _Row, session: str, session_of: dict[str, str]) -> Session:
    """The session that `row` opens, with the session and request that spawned it."""
    waits = [str(d.request_id) for d in row.dependencies or [] if d.relation in (None, "spawn")]
    waits += [str(w) for w in row.wait_for or []]
    for request_id in waits:
        request = f"{row.play_id}|{request_id}"
        parent = session_of.get(request)
        if parent is not None and parent != session:
            return Session(session, parent_key=parent, spawn_request_key=request, role="subagent")
    if row.parent_session_id is not None and row.parent_session_id != row.session_id:
        return Session(session, parent_key=f"{row.play_id}|{row.parent_session_id}", role="subagent")
    return Session(session, role="main")
