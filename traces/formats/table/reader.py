"""Any table: JSONL, a JSON array, CSV, TSV or Parquet with the columns that people use, or named with --map."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson

from traces.formats.table.cells import (
    duration,
    failed,
    failed_with,
    first,
    ids_of,
    label,
    number_in,
    parsed,
    unit_in,
    usage_of,
    whole,
)
from traces.formats.table.columns import PROMPTS, Columns, checked_mapping, resolve
from traces.formats.table.prompts import Prompts
from traces.records import Blocks, Context, Note, Piece, Prompt, Record, Reject, Request, Session, Skipped
from traces.source import rows as table_rows
from traces.source.clock import parse_time, to_seconds
from traces.source.sources import Head, Source
from traces.usage.rules import Usage

NAME = "table"
SUMMARY = {
    "carries": "whatever its columns name: times, sessions, models, usage, and prompts as text, messages, token ids or "
    "block ids",
    "time": "seconds unless --time-unit or the column's name says otherwise; ISO texts with their offsets",
    "blocks": "block_size column, else --block-size, else 512; text shares to the token",
    "computes": "shapes and the reported rate from usage; hit rates where a prompt column is there",
}
SESSION_SCOPE = "trace"
DEFAULT_BLOCK_TOKENS = 512
EPOCH_FROM = 1e9  # seconds: 2001; a smaller number counts from a zero of its own


def sniff(head: Head, name: str) -> float:
    """Surer the more of the usual columns there are, never surer than a format of its own."""
    columns = resolve(table_rows.columns(head), {})
    if not columns.tells_lengths:
        return 0.0
    found = columns.found
    if not columns.usage and not {"time", "session", "model", "hash_ids", "token_ids"} & found.keys():
        return 0.3
    return 0.5 if "usage" in found or any(name in found for name in PROMPTS) else 0.4


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield one request a row."""
    try:
        mapping = checked_mapping(context.mapping)
    except ValueError as error:
        yield Reject(0, str(error))
        return
    yield from _Table(source, context, mapping).read()


class _Table:
    def __init__(self, source: Source, context: Context, mapping: dict[str, str]) -> None:
        self.source = source
        self.context = context
        self.mapping = mapping
        self.prompts = Prompts(context)
        self.scope = source.digest().hex()
        self.parents: dict[str, str] = {}
        self.assumed_block = 0
        self.assumed_lengths = 0
        self.requests = 0
        self.with_prompt = 0

    def read(self) -> Iterator[Record]:
        known: dict[tuple[str, ...], tuple[Columns, bool]] = {}
        for ordinal, row in table_rows.rows(self.source, lambda names: resolve(names, self.mapping).names):
            if isinstance(row, str):
                yield Reject(ordinal, row)
                continue
            keys = tuple(row)
            columns, is_call = known.get(keys) or self._columns(keys)
            if len(known) < 1000:
                known[keys] = columns, is_call
            if not is_call:
                yield Reject(ordinal, "no column names a prompt or a number of tokens: name the columns with --map")
                continue
            try:
                yield from self._row(ordinal, row, columns)
            except (ValueError, OverflowError, RecursionError) as error:
                yield Reject(ordinal, _reason(error))
        yield from self._notes()

    def _columns(self, keys: tuple[str, ...]) -> tuple[Columns, bool]:
        columns = resolve(keys, self.mapping)
        return columns, columns.tells_a_call

    def _row(self, ordinal: int, row: dict[str, Any], columns: Columns) -> Iterator[Record]:
        def value(meaning: str) -> Any:
            return first(row, columns.found.get(meaning, ()))[1]

        status = value("status")
        if failed(status) or failed_with(value("error")):
            yield Skipped("failed_attempt", 1, "a call that failed", ordinal)
            return
        arrival, basis = self._time(row, columns, "time")
        session = label(value("session"))
        usage = usage_of(row, columns, self.context.meanings)
        key = str(ordinal)
        prompt, tokens = self._prompt(row, columns, session, key, usage)
        reply = self._reply(row, columns, prompt)
        parent = label(value("parent_session"))
        agent = label(value("agent"))
        if session is not None and (parent is not None or agent is not None) and session not in self.parents:
            self.parents[session] = parent or ""
            yield Session(session, parent_key=parent, agent=agent)
        self.requests += 1
        self.with_prompt += prompt is not None
        dedupe, rank = self._identity(row, columns, arrival, usage, session)
        yield Request(
            key=key,
            session_key=session,
            ordinal=ordinal,
            arrival_s=arrival,
            time_basis=basis,
            ttft_s=duration(row, columns, "ttft"),
            duration_s=self._lasted(row, columns, arrival, basis),
            model=label(value("model")),
            input_tokens=usage.input_tokens if usage.input_tokens is not None else tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            output_tokens_estimate=sum(p.tokens for p in reply) if reply and usage.output_tokens is None else None,
            reasoning_tokens=usage.reasoning_tokens,
            prompt=prompt,
            reply=reply,
            stop_reason=label(value("stop_reason")),
            dedupe_key=dedupe,
            copy_rank=rank,
        )

    def _prompt(
        self, row: dict[str, Any], columns: Columns, session: str | None, key: str, usage: Usage
    ) -> tuple[Prompt | Blocks | None, int | None]:
        """The prompt and its length in tokens, from the first prompt column that has a value."""
        for meaning in PROMPTS:
            _, value = first(row, columns.found.get(meaning, ()))
            if value is None:
                continue
            if meaning == "prompt" and isinstance(value, str):
                return self.prompts.of_text(session, key, value)
            if meaning in ("messages", "prompt"):
                messages = parsed(value)
                if not isinstance(messages, list):
                    raise ValueError(f"{meaning} is not a list of messages")
                if messages and meaning == "prompt" and all(type(m) is int for m in messages):
                    return self.prompts.of_ids(session, key, messages)
                system = first(row, columns.found.get("system", ()))[1]
                tools = parsed(first(row, columns.found.get("tools", ()))[1])
                return self.prompts.of_messages(session, key, messages, system, tools)
            ids = ids_of(value, meaning)
            if meaning == "token_ids":
                return self.prompts.of_ids(session, key, ids)
            return self._blocks(row, columns, ids, usage)
        return None, None

    def _reply(self, row: dict[str, Any], columns: Columns, prompt: Prompt | Blocks | None) -> tuple[Piece, ...] | None:
        """The reply's tokens after a prompt of tokens; its ids only if the prompt has ids of the same vocabulary."""
        if not isinstance(prompt, Prompt):
            return None
        _, ids = first(row, columns.found.get("output_token_ids", ()))
        if ids is not None and first(row, columns.found.get("token_ids", ()))[1] is not None:
            return self.prompts.reply_of_ids(ids_of(ids, "output_token_ids"))
        return self.prompts.reply(first(row, columns.found.get("response", ()))[1])

    def _blocks(
        self, row: dict[str, Any], columns: Columns, ids: list[Any], usage: Usage
    ) -> tuple[Prompt | Blocks | None, int | None]:
        said = whole(first(row, columns.found.get("block_size", ()))[1], "block_size")
        block = said or self.context.block_tokens
        if block is None:
            self.assumed_block += 1
            block = DEFAULT_BLOCK_TOKENS
        if not 0 < block < 1 << 31:
            raise ValueError("a block size below 1 or absurdly large")
        labels: list[Any] | bytes = ids
        if ids and set(map(type, ids)) == {int} and min(ids) >= 0 and max(ids) < 1 << 64:
            labels = orjson.dumps(ids)[1:-1]
        if usage.input_tokens is None:
            self.assumed_lengths += 1
            return Blocks(labels, block), len(ids) * block
        return Blocks(labels, block), None

    def _time(self, row: dict[str, Any], columns: Columns, meaning: str) -> tuple[float | None, str]:
        """Seconds and their basis.

        Raises:
            ValueError: for a value that is no time.
        """
        column, value = first(row, columns.found.get(meaning, ()))
        if value is None:
            return None, "none"
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp(), "wall"
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp(), "wall"
        if isinstance(value, str):
            number = number_in(value)
            if number is None:
                seconds = parse_time(re.sub(r"\s*UTC$", "+00:00", value.strip()))
                if seconds is None:
                    raise ValueError(f"{meaning} is a text that is no time")
                return seconds, "wall"
            value = number
        if isinstance(value, Decimal):
            value = float(value)
        seconds = to_seconds(value, self.context.time_unit or unit_in(column))
        return seconds, "wall" if seconds is not None and seconds >= EPOCH_FROM else "trace"

    def _lasted(self, row: dict[str, Any], columns: Columns, arrival: float | None, basis: str) -> float | None:
        lasted = duration(row, columns, "duration")
        if lasted is not None or arrival is None:
            return lasted
        end, end_basis = self._time(row, columns, "end")
        return end - arrival if end is not None and end_basis == basis and end >= arrival else None

    def _identity(
        self, row: dict[str, Any], columns: Columns, arrival: float | None, usage: Usage, session: str | None
    ) -> tuple[str | None, tuple[Any, ...]]:
        """What copies of a call share, and which copy owns it.

        A logical id or a short id counts inside its input only; what a plain `id` names is not known, so copies must
        agree in time and lengths too. The copy with known usage owns the call; of the attempts of a logical operation
        the last.
        """
        unknown = usage.output_tokens is None
        logical = label(first(row, columns.found.get("logical_id", ()))[1])
        if logical is not None:
            return f"table|{self.scope}|logical|{logical}", (unknown, None if arrival is None else -arrival)
        request = label(first(row, columns.found.get("request_id", ()))[1])
        if request is not None:
            scope = "" if len(request) >= 16 and not request.isdigit() else self.scope
            return f"table|{scope}|request|{request}", (unknown, arrival)
        plain_id = label(first(row, columns.found.get("id", ()))[1])
        if plain_id is not None:
            same = (plain_id, session, arrival, usage.input_tokens, usage.output_tokens)
            return f"table|{self.scope}|id|{same}", ()
        return None, ()

    def _notes(self) -> Iterator[Record]:
        if self.requests and not self.with_prompt:
            yield Note(table_rows.LENGTHS_ONLY)
        if self.assumed_block:
            yield Note(
                f"{self.assumed_block:,} rows have hash_ids and no block size: {DEFAULT_BLOCK_TOKENS} tokens a block "
                "were assumed (--block-size N)"
            )
        if self.assumed_lengths:
            yield Note(
                f"{self.assumed_lengths:,} rows have hash_ids and no input_tokens: each id was counted as a whole block"
            )
        if self.prompts.guesses:
            yield Note(
                f"{self.prompts.guesses:,} images, documents or encrypted parts are in the prompts: their tokens are "
                "assumed"
            )


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)[:160]
