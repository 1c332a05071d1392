"""Usage objects made with a hidden meaning come back with that meaning, or with a warning: never silently wrong."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from traces.intake.ingest import ingest


class Call(NamedTuple):
    """What happened: the prompt's uncached, read and written tokens, the answer's visible and reasoning tokens."""

    fresh: int
    read: int
    written: int
    visible: int
    reasoning: int

    @property
    def prompt(self) -> int:
        return self.fresh + self.read + self.written

    @property
    def answer(self) -> int:
        return self.visible + self.reasoning


class Writer(NamedTuple):
    """How a tool writes it down."""

    input: str  # includes | excludes | excludes read
    apart: bool  # reasoning stands beside the output
    total: bool
    names: tuple[str, ...]  # of input, read, written, output, reasoning, total; a dot nests
    container: str


NAMES = (
    ("prompt_tokens", "prompt_tokens_details.cached_tokens", "cache_creation_input_tokens", "completion_tokens",
     "completion_tokens_details.reasoning_tokens", "total_tokens"),
    ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "total_tokens"),
    ("inputTokens", "cacheReadTokens", "cacheWriteTokens", "outputTokens", "reasoningTokens", "totalTokens"),
    ("Input Tokens", "Cache Read", "Cache Write", "Output Tokens", "Reasoning Tokens", "Total Tokens"),
    ("INPUT_TOKENS", "CACHE_READ_TOKENS", "CACHE_CREATION_TOKENS", "OUTPUT_TOKENS", "THINKING_TOKENS", "TOTAL_TOKENS"),
    ("tokensIn", "cacheReads", "cacheWrites", "tokensOut", "thoughtsTokenCount", "totalTokenCount"),
    ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens",
     "total_tokens"),
)  # fmt: skip
CONTAINERS = ("row", "usage", "text", "response", "beside", "csv")

tokens = st.integers(1, 5000)
calls = st.lists(
    st.builds(Call, tokens, st.one_of(st.just(0), st.integers(1, 90_000)), st.one_of(st.just(0), tokens), tokens,
              st.one_of(st.just(0), tokens)), min_size=1, max_size=6)  # fmt: skip
writers = st.builds(
    Writer,
    st.sampled_from(["includes", "excludes", "excludes read"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(NAMES),
    st.sampled_from(CONTAINERS),
)


def written(writer: Writer, call: Call) -> dict[str, Any]:
    figure = {"includes": call.prompt, "excludes": call.fresh, "excludes read": call.fresh + call.written}[writer.input]
    output = call.visible if writer.apart else call.answer
    values = [figure, call.read, call.written, output, call.reasoning, call.prompt + call.answer]
    usage: dict[str, Any] = {}
    for name, value in zip(writer.names[: 6 if writer.total else 5], values, strict=False):
        outer, _, inner = name.partition(".")
        if inner and writer.container not in ("row", "csv"):
            usage.setdefault(outer, {})[inner] = value
        else:
            usage[inner or outer] = value
    return usage


def row(writer: Writer, at: int, call: Call) -> dict[str, Any]:
    usage = written(writer, call)
    head: dict[str, Any] = {"timestamp": 1_780_000_000 + at, "session_id": "a", "model": "m"}
    if writer.container in ("row", "csv"):
        return {**head, **usage}
    if writer.container == "text":
        return {**head, "usage": json.dumps(usage)}
    if writer.container == "usage":
        return {**head, "usage": usage}
    answer: dict[str, Any] = {"role": "assistant", "content": "yes"}
    messages = {"messages": [{"role": "user", "content": "go on"}]}
    if writer.container == "response":
        return {**head, "request": messages, "response": {**answer, "usage": usage}}
    return {**head, **messages, "response": answer, "usage": usage}


def read(rows: list[dict[str, Any]], as_csv: bool) -> tuple[pl.DataFrame, dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("log.csv" if as_csv else "log.jsonl")
        text = io.StringIO()
        if as_csv:
            table = csv.DictWriter(text, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        else:
            text.write("".join(json.dumps(one) + "\n" for one in rows))
        path.write_text(text.getvalue())
        receipt = ingest([str(path)], Path(folder) / "dataset")
        (tables,) = (Path(folder) / "dataset").glob("**/requests.parquet")
        return pl.read_parquet(tables).sort("record_ordinal"), receipt


@settings(deadline=None, max_examples=150)
@given(writers, calls)
@example(
    Writer("excludes read", False, True, NAMES[0], "response"),
    [Call(1, 0, 0, 1, 1), Call(1, 0, 1, 1, 0), Call(1, 1, 0, 1, 1)],
)  # the third total fits two pairs of meanings; the first decides the output, and so the input of the third
@example(Writer("excludes", False, True, NAMES[0], "usage"), [Call(1, 1, 0, 1, 1)])  # fits two pairs: says so
def test_a_hidden_meaning_is_found_or_warned_about(writer: Writer, made: list[Call]) -> None:
    frame, receipt = read([row(writer, at, call) for at, call in enumerate(made)], writer.container == "csv")
    found = frame.select("input_tokens", "output_tokens").rows()
    wanted = [(call.prompt, call.answer) for call in made]
    assert found == wanted or receipt["warnings"], (writer, made, found, receipt["evidence"])
    assert frame["cache_read_tokens"].to_list() == [call.read for call in made]


def readings(writer: Writer, call: Call) -> set[tuple[int, int]]:
    """The prompts and answers that the figures of a call can mean, as far as their total allows."""
    figure, read, wrote, output, reasoning, total = list(written(writer._replace(container="row"), call).values())
    prompts = {figure, figure + read + wrote, figure + read, figure + wrote}
    return {(p, a) for p in prompts for a in (output, output + reasoning) if p + a == total}


@settings(deadline=None, max_examples=80)
@given(writers.filter(lambda writer: writer.total), calls)
def test_totals_that_allow_one_reading_are_enough(writer: Writer, made: list[Call]) -> None:
    assume(all(len(readings(writer, call)) == 1 for call in made))
    frame, receipt = read([row(writer, at, call) for at, call in enumerate(made)], writer.container == "csv")
    assert frame.select("input_tokens", "output_tokens").rows() == [(call.prompt, call.answer) for call in made]
    assert not receipt["warnings"] or writer.container in ("row", "csv", "usage", "text"), receipt["warnings"]
