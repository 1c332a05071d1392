"""Baseten Parquet: one request a row, with block hashes, times, lengths and two guesses at the session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from traces.formats.table.prompts import Prompts
from traces.records import Blocks, Context, Prompt, Record, Reject, Request, Skipped
from traces.source import rows as table_rows
from traces.source.clock import to_seconds
from traces.source.sources import Head, Source
from traces.usage.rules import count

NAME = "baseten"
SUMMARY = {
    "carries": "block hashes, prompt texts, lengths, cached tokens, times, durations, sessions",
    "time": "wall clock (unix milliseconds)",
    "blocks": "the row's block size, else --block-size, else 64; whole blocks only (floor)",
    "computes": "shapes, hit rates, the reported rate, capacity curves",
}
SESSION_SCOPE = "trace"
BLOCK_TOKENS = 64
_NEEDED = {"timestamp_start_unix_ms", "input_tokens", "output_tokens"}
_SESSIONS = ("provided_session_id", "poor_man_session_id")


def sniff(head: Head, name: str) -> float:
    """Sure of a Parquet file with the format's time column and one of its own."""
    if table_rows.kind(head) != "parquet":
        return 0.0
    columns = set(table_rows.columns(head))
    return 0.97 if columns >= _NEEDED and columns & {"prompt", "total_hashes", *_SESSIONS} else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    session_column = _session_column(source)
    prompts = Prompts(context)
    for number, row in table_rows.rows(source):
        if isinstance(row, str):
            yield Reject(number, row)
            continue
        try:
            yield _record(row, number, session_column, prompts, context.block_tokens)
        except (ValueError, OverflowError) as error:
            yield Reject(number, str(error)[:120])


def _session_column(source: Source) -> str | None:
    """The provided session where it ever repeats, else the guessed one."""
    seen: dict[str, set[Any]] = {name: set() for name in _SESSIONS}
    repeats: dict[str, bool] = dict.fromkeys(_SESSIONS, False)
    for _, row in source.parquet_rows(list(_SESSIONS)):
        for name in _SESSIONS:
            value = row.get(name)
            if value is not None and not isinstance(value, list | dict):
                repeats[name] |= value in seen[name]
                seen[name].add(value)
        if repeats[_SESSIONS[0]]:
            break
    return next((n for n in _SESSIONS if repeats[n]), next((n for n in _SESSIONS if seen[n]), None))


def _record(row: dict[str, Any], number: int, sessions: str | None, prompts: Prompts, default: int | None) -> Record:
    tokens = count(row.get("input_tokens"), "input_tokens")
    output = count(row.get("output_tokens"), "output_tokens")
    if row.get("request_canceled") and not output:
        return Skipped("failed_attempt", 1, "a call that was cancelled before it answered", number)
    block = count(row.get("block_size"), "block_size") or default or BLOCK_TOKENS
    if block >= 1 << 30:
        raise ValueError("block_size is absurdly large")
    session = row.get(sessions) if sessions else None
    key = None if session is None else str(session)
    hashes, text = row.get("total_hashes"), row.get("prompt")
    prompt: Blocks | Prompt | None = None
    if isinstance(hashes, list) and hashes and tokens is not None:
        # Hashes past the prompt's whole blocks are those of the answer.
        prompt = Blocks(hashes[: tokens // block], block, "floor")
    elif isinstance(text, str) and text:
        prompt, counted = prompts.of_text(key, str(number), text)
        tokens = counted if tokens is None else tokens
    return Request(
        key=str(number),
        session_key=key,
        ordinal=number,
        arrival_s=to_seconds(row.get("timestamp_start_unix_ms"), "ms"),
        time_basis="wall",
        ttft_s=_seconds(row.get("duration_ttft_ms")),
        duration_s=_seconds(row.get("duration_e2e_ms")),
        model=next((row[n] for n in ("model_name", "model") if isinstance(row.get(n), str)), None),
        input_tokens=tokens,
        cache_read_tokens=count(row.get("cached_tokens_reference"), "cached_tokens_reference"),
        output_tokens=output,
        output_complete=False if row.get("request_canceled") else None,
        prompt=prompt,
    )


def _seconds(value: Any) -> float | None:
    if isinstance(value, float) and value != value:
        return None
    seconds = to_seconds(value, "ms")
    return seconds if seconds is None or seconds >= 0 else None
