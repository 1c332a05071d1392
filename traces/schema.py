"""Every table of the dataset as a declaration: column, type, unit, meaning, values. Null is unknown, never 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

TABLE_TOKENS = 1 << 31
"""No token column and no path in the prefix tree reaches this, because compiled code counts blocks in 32 bits and a
block may be one token. What one request may claim when it is read (traces.source.limits) is a 16th of it."""
MOST_IDS = 1 << 31
"""No id of a session, and no place in a session or a message, reaches this."""


class Column(NamedTuple):
    """One column of a table, and which values it may hold.

    Attributes:
        name: as in the Parquet file.
        dtype: polars type.
        unit: "" where it has none.
        meaning: one line of the data dictionary.
        known: no row may be null.
        least: the smallest value allowed; `FINITE` allows every number but NaN and infinity.
        below: the first value that is too large.
        refers: the table whose first column must hold every value.
    """

    name: str
    dtype: Any
    unit: str
    meaning: str
    known: bool = False
    least: float | None = None
    below: float | None = None
    refers: str | None = None


FINITE = -1e15
"""Least value of a column of seconds; its opposite is the first that is too large."""


def _identity(name: str, meaning: str, dtype: Any = pl.Int64) -> Column:
    return Column(name, dtype, "", meaning, known=True, least=0, below=1 << 48)


def _reference(name: str, table: str, meaning: str, dtype: Any = pl.Int64, known: bool = False) -> Column:
    return Column(name, dtype, "", meaning, known, 0, refers=table)


def _tokens(name: str, meaning: str, known: bool = False, dtype: Any = pl.Int64) -> Column:
    return Column(name, dtype, "tokens", meaning, known, 0, TABLE_TOKENS)


def _seconds(name: str, meaning: str) -> Column:
    return Column(name, pl.Float64, "s", meaning, least=FINITE, below=-FINITE)


Table = tuple[Column, ...]

SOURCES: Table = (
    _identity("source_id", "kind of input: format, ids, clock and lengths together", pl.Int32),
    Column("format", pl.String, "", "name of the reader"),
    Column("id_namespace", pl.String, "", "what block ids are comparable within: file | trace | dataset"),
    Column(
        *("native_block_tokens", pl.Int32, "tokens", "tokens a native block holds; 1 for text, null for lengths only"),
        least=1,
    ),
    Column("tail", pl.String, "", "a partial last block has an id of its own (ceil), none (floor); none for text"),
    Column("time_basis", pl.String, "", "wall | trace (zero unknown) | relative (to the session's start) | none"),
    Column("time_unit", pl.String, "", "unit of the times in the file"),
    Column("tokenizer", pl.String, "", "tokenizer of the lengths, where one was used"),
    Column("lengths", pl.String, "", "who counted: provider | tokenizer (an estimate) | trace"),
    Column("usage", pl.String, "", "what the format's usage figures mean, and what shows it; null without any"),
)

SESSIONS: Table = (
    Column("session_id", pl.Int64, "", "one chain of requests that shares a conversation", True, 0, MOST_IDS),
    Column(
        "session_source", pl.String, "", "native (the source names it) | inferred (from prompts that extend prompts)"
    ),
    _reference("source_id", "sources", "-> sources", pl.Int32, known=True),
    Column("input_label", pl.String, "", "the input that it was first met in (its name stays in private/)"),
    Column("parent_session_id", pl.Int64, "", "the session that started this sub-agent", False, 0, MOST_IDS),
    _reference("spawn_request_id", "requests", "the request whose tool call started it"),
    Column("forked_from", pl.Int64, "", "the session whose history this one copied", False, 0, MOST_IDS),
    Column("agent", pl.String, "", "coding agent"),
    Column("agent_version", pl.String, "", "its version"),
    Column("role", pl.String, "", "main | subagent | side | unknown"),
    Column("started_at", pl.Datetime("us", "UTC"), "UTC", "first known time"),
    _tokens("head_tokens", "length of the prompt's head (tools + system), where the source states it"),
)

REQUESTS: Table = (
    _identity("request_id", "one model call that reached an engine"),
    _reference("session_id", "sessions", "-> sessions; null where sessions are unknown"),
    _reference("source_id", "sources", "-> sources", pl.Int32, known=True),
    Column("input_label", pl.String, "", "the input it came from"),
    Column("turn", pl.Int32, "", "position in the session, from 0", False, 0, MOST_IDS),
    _seconds("arrival_s", "arrival on the source's clock (relative: since the session's start)"),
    Column("started_at", pl.Datetime("us", "UTC"), "UTC", "arrival on the wall clock"),
    _seconds("ttft_s", "arrival to first token"),
    _seconds("duration_s", "arrival to last token"),
    Column("model", pl.String, "", "model that answered"),
    _tokens("input_tokens", "all prompt tokens, cached included"),
    _tokens("cache_read_tokens", "prompt tokens the provider read from its cache"),
    _tokens("cache_write_tokens", "prompt tokens the provider wrote to its cache"),
    _tokens("output_tokens", "generated tokens as recorded, reasoning included"),
    Column("output_complete", pl.Boolean, "", "false where the record was written mid-stream"),
    _tokens("output_tokens_estimate", "an estimate from the visible reply where it is incomplete"),
    _tokens("reasoning_tokens", "part of output_tokens"),
    _reference("prefix_id", "prefixes", "-> prefixes: the path root -> prefix_id is the prompt"),
    _tokens("prefix_tokens", "tokens on that path"),
    _reference("output_prefix_id", "prefixes", "the node after the reply, where its text is known"),
    Column("prompt_completeness", pl.String, "", "full | no_head | structure | hashes | lengths"),
    Column("trigger", pl.String, "", "what the prompt ends with: user | tool | unknown"),
    Column("work", pl.String, "", "what the reply does: explore | edit | execute | plan | other | unknown"),
    Column("tool_classes", pl.List(pl.String), "", "classes of the tools the reply calls"),
    Column("stop_reason", pl.String, "", "why generation stopped"),
    Column("status", pl.String, "", "ok, or the error's class"),
    Column("compaction", pl.Boolean, "", "the source says the history was compacted before this request"),
    Column("record_ordinal", pl.Int64, "", "line or entry in the input, from 1", True, 0),
)

PREFIXES: Table = (
    _identity("prefix_id", "node of the prefix tree; 0 is the root"),
    _reference("parent_id", "prefixes", "its parent; null for the root"),
    _tokens("start_token", "tokens on the path above it", known=True),
    _tokens("end_token", "tokens on the path with it", known=True),
    Column(
        "role", pl.String, "", "system | tools | user | assistant | reasoning | tool_result | summary | … | unknown"
    ),
)

DIVERGENCES: Table = (
    _reference("request_id", "requests", "a prompt that parts from its session's previous one before either ends",
               known=True),
    _reference("previous_request_id", "requests", "that previous request", known=True),
    _tokens("start_token", "tokens that both share", known=True),
    Column("role", pl.String, "", "role of the message in which they part"),
    Column("message", pl.Int32, "", "which message part that is, from 0", False, 0, MOST_IDS),
    _tokens("line_token", "where the changed lines (native blocks of a hash trace) begin"),
    _tokens("line_tokens", "length of the changed lines in this prompt; 0: they were taken out"),
    _tokens("previous_line_tokens", "their length in the previous prompt; 0: they were put in"),
    _tokens("resumed_tokens", "tokens that both prompts have in common right after the changed lines"),
    Column("keeps_end", pl.Boolean, "", "this prompt also holds the end of the previous one, and continues from there"),
    Column(
        "kind", pl.String, "", "clock | nonce | working_directory | tool_schema | stripped_reasoning | reminder | image"
        " | whitespace | summary, and where only the shape decides: compaction | edit; null where nothing does",
    ),
)  # fmt: skip

REJECTS: Table = (
    Column("input_label", pl.String, "", "the input"),
    Column("record_ordinal", pl.Int64, "", "line or entry in the input, from 1; 0 for the input itself", True, 0),
    Column("reason", pl.String, "", "why it could not be used"),
)

TABLES: dict[str, Table] = {
    "sources": SOURCES,
    "sessions": SESSIONS,
    "requests": REQUESTS,
    "prefixes": PREFIXES,
    "divergences": DIVERGENCES,
    "rejects": REJECTS,
}


def polars_schema(table: Table) -> pl.Schema:
    """The table's columns and types for polars."""
    return pl.Schema({column.name: column.dtype for column in table})


def empty(name: str) -> pl.DataFrame:
    """A table without rows."""
    return pl.DataFrame(schema=polars_schema(TABLES[name]))
