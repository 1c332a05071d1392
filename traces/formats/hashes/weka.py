"""Weka (kv-cache-tester) session JSON: one conversation a file, 64-token block ids, sub-agents nested."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import msgspec

from traces.formats.hashes.hash_rows import BlockSize, Count
from traces.records import Blocks, Context, Record, Reject, Request, Session, Skipped
from traces.source.sources import Head, Source, parse_json

NAME = "weka"
SUMMARY = {
    "carries": "block ids, lengths, times inside a session, sub-agents, head length, stop reasons",
    "time": "seconds from the session's start",
    "blocks": "64 tokens, whole blocks only (floor); ids are comparable inside a file",
    "computes": "shapes, hit rates, transitions, sub-agents; capacity needs an arrival model (times are per session)",
}
DEFAULT_BLOCK_TOKENS = 64


class _Entry(msgspec.Struct, rename={"input": "in", "output": "out"}):
    t: float | None = None
    type: str = "n"
    model: str | None = None
    input: Count | None = None
    output: Count | None = None
    hash_ids: msgspec.Raw = msgspec.Raw(b"null")
    input_types: list[str] | None = None
    output_types: list[str] | None = None
    stop: str | None = None
    api_time: float | None = None
    ttft: float | None = None
    requests: list[msgspec.Raw] | None = None
    duration_ms: float | None = None
    tool_tokens: Count | None = None
    system_tokens: Count | None = None


class _File(msgspec.Struct):
    requests: list[msgspec.Raw]
    id: Any = None
    block_size: BlockSize | None = None
    hash_id_scope: str | None = None
    tool_tokens: Count | None = None
    system_tokens: Count | None = None


_decode_file = msgspec.json.Decoder(_File).decode
_decode_entry = msgspec.json.Decoder(_Entry).decode


def sniff(head: Head, name: str) -> float:
    """Sure where the file starts as one object with the format's own keys."""
    data = head.data.lstrip()
    if not data.startswith(b"{"):
        return 0.0
    if b'"hash_id_scope"' in data[:4096] and b'"requests"' in data:
        return 0.95
    return 0.8 if b'"block_size"' in data[:4096] and b'"requests"' in data and b'"hash_ids"' in data else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield each session, its sub-agents and their requests, in file order."""
    ordinal, ids = 0, set[str]()
    for number, data in source.lines():
        if data is None:
            yield Reject(number, "a session longer than 256 MiB")
        elif data and not data.isspace():
            try:
                file = _decode_file(data)
            except (msgspec.DecodeError, ValueError, RecursionError) as error:
                yield Reject(number, _reason(data, error))
                continue
            del data  # a file of 100 MB is not held twice
            name = str(file.id) if isinstance(file.id, str | int) else ""
            name = f"{number}/" if number > 1 and (not name or name in ids) else f"{name}/" if name else ""
            ids.add(name.removesuffix("/"))
            ordinal = yield from _session(file, name, ordinal, context)


def _session(file: _File, name: str, ordinal: int, context: Context) -> Generator[Record, None, int]:
    """Yield one session, whose keys start with `name` (its id, else its place); return its last entry's ordinal."""
    block = file.block_size or context.block_tokens or DEFAULT_BLOCK_TOKENS
    scope = "dataset" if file.hash_id_scope == "global" else f"file#{name}" if name else "file"
    main = f"{name}main"
    yield Session(main, role="main", head_tokens=_head(file.tool_tokens, file.system_tokens))
    agents, last = 0, None
    for raw in file.requests:
        ordinal += 1
        entry = _entry(raw)
        if isinstance(entry, str):
            yield Reject(ordinal, entry)
        elif entry.type == "subagent":
            agents += 1
            yield Skipped("ignored", 1, "the envelope of a sub-agent", ordinal)
            key = f"{name}subagent-{agents}"
            head = _head(entry.tool_tokens, entry.system_tokens)
            yield Session(key, parent_key=main, spawn_request_key=last, role="subagent", head_tokens=head)
            inner = [_entry(r) for r in entry.requests or []]
            shift = _shift(entry, inner)
            for child in inner:
                ordinal += 1
                yield _request(child, ordinal, key, shift, block, scope)
        else:
            request = _request(entry, ordinal, main, 0.0, block, scope)
            last = request.key if isinstance(request, Request) else last
            yield request
    return ordinal


def _reason(data: bytes, error: Exception) -> str:
    try:
        value = parse_json(data)
    except ValueError as problem:
        return str(problem)
    return "not a JSON object" if not isinstance(value, dict) else str(error)[:120]


def _entry(raw: msgspec.Raw) -> _Entry | str:
    try:
        return _decode_entry(raw)
    except RecursionError:
        return "nested too deeply"
    except (msgspec.DecodeError, ValueError) as error:
        return str(error)[:120]


def _head(tools: int | None, system: int | None) -> int | None:
    return None if tools is None and system is None else (tools or 0) + (system or 0)


def _shift(agent: _Entry, inner: list[_Entry | str]) -> float | None:
    """Seconds to add to a sub-agent's inner times.

    A sub-agent's `t` is when it ended, so it started at t - duration. Inner times count from there or from the
    session's start: whichever the first one is nearer to. Without a duration, inner times below `t` count from `t`.
    """
    times = [e.t for e in inner if isinstance(e, _Entry) and e.t is not None]
    if agent.t is None or not times:
        return 0.0 if agent.t is not None else None
    if agent.duration_ms is not None:
        start = agent.t - agent.duration_ms / 1000
        return start if abs(times[0]) <= abs(times[0] - start) else 0.0
    return agent.t if times[0] < agent.t else 0.0


def _request(entry: _Entry | str, ordinal: int, session: str, shift: float | None, block: int, scope: str) -> Record:
    if isinstance(entry, str):
        return Reject(ordinal, entry)
    if entry.input is None or entry.input < 0 or (entry.output is not None and entry.output < 0):
        return Reject(ordinal, "no input length, or a negative one")
    ids: Any = None
    text = bytes(entry.hash_ids)
    if text != b"null":
        if not text.startswith(b"["):
            return Reject(ordinal, "hash_ids is not a list")
        ids = text[1:-1]
    inputs, outputs = entry.input_types or [], entry.output_types or []
    return Request(
        key=str(ordinal),
        session_key=session,
        ordinal=ordinal,
        arrival_s=None if entry.t is None or shift is None else entry.t + shift,
        time_basis="relative",
        ttft_s=entry.ttft,
        duration_s=entry.api_time,
        model=entry.model,
        input_tokens=entry.input,
        output_tokens=entry.output,
        prompt=None if ids is None else Blocks(ids, block, "floor", scope),
        trigger="tool" if "tool_result" in inputs else "user" if "text" in inputs else "unknown",
        tool_classes=("tool",) if "tool_use" in outputs else (),
        stop_reason=entry.stop or None,
    )
