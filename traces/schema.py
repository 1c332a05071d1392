"""Every table of the dataset as a declaration: column, type, unit, meaning. Null is unknown, never 0."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl


class Column(NamedTuple):
    """One column: its polars type, its unit ("" where it has none) and what it means."""

    name: str
    dtype: Any
    unit: str
    meaning: str


Table = tuple[Column, ...]

SOURCES: Table = (
    Column("source_id", pl.Int32, "", "kind of input: format, ids, clock and lengths together"),
    Column("format", pl.String, "", "name of the reader"),
    Column("id_namespace", pl.String, "", "what block ids are comparable within: file | trace | dataset"),
    Column("native_block_tokens", pl.Int32, "tokens", "tokens a native block holds; 1 for text, null for lengths only"),
    Column("tail", pl.String, "", "a partial last block has an id of its own (ceil), none (floor); none for text"),
    Column("time_basis", pl.String, "", "wall | trace (zero unknown) | relative (to the session's start) | none"),
    Column("time_unit", pl.String, "", "unit of the times in the file"),
    Column("tokenizer", pl.String, "", "tokenizer of the lengths, where one was used"),
    Column("lengths", pl.String, "", "who counted: provider | tokenizer (an estimate) | trace"),
    Column("usage", pl.String, "", "what the format's usage figures mean, and what shows it; null without any"),
)

SESSIONS: Table = (
    Column("session_id", pl.Int64, "", "one chain of requests that shares a conversation"),
    Column(
        "session_source", pl.String, "", "native (the source names it) | inferred (from prompts that extend prompts)"
    ),
    Column("source_id", pl.Int32, "", "-> sources"),
    Column("input_label", pl.String, "", "the input that it was first met in (its name stays in private/)"),
    Column("parent_session_id", pl.Int64, "", "the session that started this sub-agent"),
    Column("spawn_request_id", pl.Int64, "", "the request whose tool call started it"),
    Column("forked_from", pl.Int64, "", "the session whose history this one copied"),
    Column("agent", pl.String, "", "coding agent"),
    Column("agent_version", pl.String, "", "its version"),
    Column("role", pl.String, "", "main | subagent | side | unknown"),
    Column("started_at", pl.Datetime("us", "UTC"), "UTC", "first known time"),
    Column(
        "head_tokens", pl.Int64, "tokens", "length of the prompt's head (tools + system), where the source tells it"
    ),
)

REQUESTS: Table = (
    Column("request_id", pl.Int64, "", "one model call that reached an engine"),
    Column("session_id", pl.Int64, "", "-> sessions; null where sessions are unknown"),
    Column("source_id", pl.Int32, "", "-> sources"),
    Column("input_label", pl.String, "", "the input it came from"),
    Column("turn", pl.Int32, "", "position in the session, from 0"),
    Column("arrival_s", pl.Float64, "s", "arrival on the source's clock (relative: since the session's start)"),
    Column("started_at", pl.Datetime("us", "UTC"), "UTC", "arrival on the wall clock"),
    Column("ttft_s", pl.Float64, "s", "arrival to first token"),
    Column("duration_s", pl.Float64, "s", "arrival to last token"),
    Column("model", pl.String, "", "model that answered"),
    Column("input_tokens", pl.Int64, "tokens", "all prompt tokens, cached included"),
    Column("cache_read_tokens", pl.Int64, "tokens", "prompt tokens the provider read from its cache"),
    Column("cache_write_tokens", pl.Int64, "tokens", "prompt tokens the provider wrote to its cache"),
    Column("output_tokens", pl.Int64, "tokens", "generated tokens as recorded, reasoning included"),
    Column("output_complete", pl.Boolean, "", "false where the record was written mid-stream"),
    Column("output_tokens_estimate", pl.Int64, "tokens", "an estimate from the visible reply where it is incomplete"),
    Column("reasoning_tokens", pl.Int64, "tokens", "part of output_tokens"),
    Column("prefix_id", pl.Int64, "", "-> prefixes: the path root -> prefix_id is the prompt"),
    Column("prefix_tokens", pl.Int64, "tokens", "tokens on that path"),
    Column("output_prefix_id", pl.Int64, "", "the node after the reply, where its text is known"),
    Column("prompt_completeness", pl.String, "", "full | no_head | structure | hashes | lengths"),
    Column("trigger", pl.String, "", "what the prompt ends with: user | tool | unknown"),
    Column("work", pl.String, "", "what the reply does: explore | edit | execute | plan | other | unknown"),
    Column("tool_classes", pl.List(pl.String), "", "classes of the tools the reply calls"),
    Column("stop_reason", pl.String, "", "why generation stopped"),
    Column("status", pl.String, "", "ok, or the error's class"),
    Column("compaction", pl.Boolean, "", "the source says the history was compacted before this request"),
    Column("record_ordinal", pl.Int64, "", "line or entry in the input, from 1"),
)

PREFIXES: Table = (
    Column("prefix_id", pl.Int64, "", "node of the prefix tree; 0 is the root"),
    Column("parent_id", pl.Int64, "", "its parent; null for the root"),
    Column("start_token", pl.Int64, "tokens", "tokens on the path above it"),
    Column("end_token", pl.Int64, "tokens", "tokens on the path with it"),
    Column(
        "role", pl.String, "", "system | tools | user | assistant | reasoning | tool_result | summary | … | unknown"
    ),
)

DIVERGENCES: Table = (
    Column("request_id", pl.Int64, "", "a prompt that parts from its session's previous one before either ends"),
    Column("previous_request_id", pl.Int64, "", "that previous request"),
    Column("start_token", pl.Int64, "tokens", "tokens that both share"),
    Column("role", pl.String, "", "role of the message in which they part"),
    Column("message", pl.Int32, "", "which message part that is, from 0"),
    Column("line_token", pl.Int64, "tokens", "where the changed lines (native blocks of a hash trace) begin"),
    Column("line_tokens", pl.Int64, "tokens", "length of the changed lines in this prompt; 0: they were taken out"),
    Column("previous_line_tokens", pl.Int64, "tokens", "their length in the previous prompt; 0: they were put in"),
    Column("resumed_tokens", pl.Int64, "tokens", "tokens alike in both prompts right behind the changed lines"),
    Column("keeps_end", pl.Boolean, "", "the end of the previous prompt stands in this one too: it goes on from there"),
    Column(
        "kind", pl.String, "", "clock | nonce | working_directory | tool_schema | stripped_reasoning | reminder | image"
        " | whitespace | summary, and where only the shape tells: compaction | edit; null where nothing does",
    ),
)  # fmt: skip

REJECTS: Table = (
    Column("input_label", pl.String, "", "the input"),
    Column("record_ordinal", pl.Int64, "", "line or entry in the input, from 1; 0 for the input itself"),
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
