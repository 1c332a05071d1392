"""Inputs that are known and not read: why, and what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from traces.source.database import tables
from traces.source.head import Head


class Refusal(NamedTuple):
    """A kind of input: how it is recognised, and the reason with the way on."""

    fits: Callable[[Head], bool]
    reason: str


def refusal(head: Head) -> str | None:
    """Why an input is known not to be a trace of single calls, or None."""
    return next((known.reason for known in REFUSALS if known.fits(head)), None)


def unknown(head: Head) -> str:
    """What to do with an input that no reader recognises."""
    names = sorted(tables(head))
    if names:
        listed = ", ".join(names[:8])
        return f"a SQLite database that is not recognised (tables {listed}): export the calls as CSV or JSON Lines"
    if re.fullmatch(rb"\.{0,2}/[^\n\0]{1,1000}\n?", head.start):
        return "a path: a symbolic link that was copied as a file. Name what it points to as an input"
    return (
        "not recognised as any format (tracetower formats lists them); name it with --format, or its columns with --map"
    )


def _starts(*starts: bytes) -> Callable[[Head], bool]:
    return lambda head: head.data.startswith(starts)


def _records(fits: Callable[[dict[str, Any]], bool], *fields: str) -> Callable[[Head], bool]:
    """Whether one of the first records is such; it has one of `fields`."""
    return lambda head: (
        not head.fields.isdisjoint(fields) and any(fits(record) for record in head.records if isinstance(record, dict))
    )


def _has(record: dict[str, Any], field: str, values: Iterable[str]) -> bool:
    found = record.get(field)
    return isinstance(found, str) and found in values


def _codex_exec(record: dict[str, Any]) -> bool:
    turn = _has(record, "type", ("turn.completed", "turn.failed")) and ("usage" in record or "error" in record)
    item = _has(record, "type", ("item.started", "item.updated", "item.completed"))
    thread = _has(record, "type", ("thread.started",)) and "thread_id" in record
    return "payload" not in record and (thread or turn or (item and isinstance(record.get("item"), dict)))


def _kiro(record: dict[str, Any]) -> bool:
    data, payload = record.get("data"), record.get("payload")
    if isinstance(data, dict) and _has(record, "kind", ("Prompt", "AssistantMessage", "ToolResults")):
        return True
    if isinstance(payload, dict) and ("promptTurnSummaries" in payload or "operationType" in payload):
        return True
    chat = isinstance(record.get("chat"), list) and "executionId" in record and "actionId" in record
    saved = isinstance(record.get("history"), list) and {"conversation_id", "valid_history_range"} <= record.keys()
    return chat or saved or "rts_model_state" in (record.get("session_state") or ())


def _batch_request(record: dict[str, Any]) -> bool:
    return "custom_id" in record and (isinstance(record.get("params"), dict) or {"body", "url"} <= record.keys())


_LMCACHE = re.compile(rb"Reqid: ?\S{1,200},? Total tokens:? ?\d+,? LMCache hit tokens:? ?\d+", re.IGNORECASE)
_CURSOR_EXPORT = re.compile(rb"_Exported on .{4,60} from Cursor \(")
_USAGE_CSV = "Export the usage events as CSV (cursor.com, Dashboard, Usage) and give that"
_PAIRS = 'by custom_id and write one {"request": body, "response": answer} a line'
_AGENTSVIEW = re.compile(rb'\s*\{\s*"schema_version"\s*:\s*\d+\s*,\s*"(?:database_id|pricing)"\s*:')
_NO_TOKENS = (
    "it has no token counts. Record the model calls with a gateway (LiteLLM, Langfuse) or OpenTelemetry, "
    "and give that log"
)

REFUSALS = (
    Refusal(lambda head: not head.start.strip(), "empty"),
    Refusal(
        lambda head: head.start[8:12] == b"DUCK",
        "a DuckDB database (TraceLab ships its traces so): write its table as Parquet, "
        "duckdb FILE -c \"COPY (FROM TABLE) TO 'trace.parquet'\", and give that",
    ),
    Refusal(
        lambda head: {"ItemTable", "cursorDiskKV"} <= tables(head).keys(),
        f"Cursor's own database: it holds no usage of single calls. {_USAGE_CSV}",
    ),
    Refusal(
        lambda head: _CURSOR_EXPORT.search(head.start[:2048]) is not None,
        f"a chat exported from Cursor: what was shown, without prompts and usage. {_USAGE_CSV}",
    ),
    Refusal(
        lambda head: "conversations_v2" in tables(head) or {"conversations", "auth_kv"} <= tables(head).keys(),
        f"a database of Kiro's command line (Amazon Q): {_NO_TOKENS}",
    ),
    Refusal(
        _records(_batch_request, "custom_id"),
        f"requests of a batch: prompts without answers. Join each with its result {_PAIRS}",
    ),
    Refusal(
        lambda head: _LMCACHE.search(head.start) is not None,
        "a log of LMCache look-ups: token counts without prompts. Give the engine's request log, or a gateway's log of "
        "the same traffic",
    ),
    Refusal(
        _starts(b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "a Python pickle: reading it would run code. Convert it where it was made, to JSONL with one request per line",
    ),
    Refusal(
        _starts(b"\x89PNG", b"\xff\xd8\xff\xe0", b"%PDF", b"\x7fELF", b"GIF8"),
        "not a trace (an image, a document or a program)",
    ),
    Refusal(
        lambda head: bool(_AGENTSVIEW.match(head.data)) and b'"cost_source"' in head.data,
        "an agentsview export: sums per session or day, no single calls. "
        "Give the agents' own session files that it was made from",
    ),
    Refusal(
        lambda head: head.data.startswith((b"7z\xbc\xaf", b"Rar!\x1a\x07")) or head.data[257:262] == b"ustar",
        "an archive that is not read: give the folder, or a .zip",
    ),
    Refusal(
        _records(_codex_exec, "thread_id", "usage", "error", "item"),
        "the output of `codex exec --json`: it counts whole turns, those of a resumed thread from its start, and no "
        "single calls. Give the session's rollout file ($CODEX_HOME/sessions/**/rollout-*.jsonl), which has every call",
    ),
    Refusal(
        _records(_kiro, "data", "payload", "chat", "history", "session_state"),
        f"a session of Kiro, which logs credits: {_NO_TOKENS}",
    ),
    Refusal(
        lambda head: b"CORTEX_STEP_TYPE_" in head.data or head.data.lstrip().startswith(b"# Cascade Chat Conversation"),
        f"a conversation that Windsurf or Antigravity exported: {_NO_TOKENS}. Antigravity's own transcripts are read",
    ),
    Refusal(
        lambda head: head.suffix == ".pb" and b"\0" in head.data[:4096],
        f"a protocol buffer, as Windsurf and Antigravity keep conversations in, encrypted: {_NO_TOKENS}",
    ),
)
"""Every kind, the first that fits is the answer."""
