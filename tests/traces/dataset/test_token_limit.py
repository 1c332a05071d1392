"""One limit for token counts: what enters is below it, what reaches it is refused, what is below it is answered."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from app.cli import group
from tests.traces.dataset.mutations import EVERY, tiny
from traces.dataset.building.builder import Builder
from traces.dataset.building.tables import finish
from traces.dataset.layout import Dataset, NotADataset
from traces.intake.ingest import ingest
from traces.records import Base, Piece, Prompt, Request
from traces.schema import TABLE_TOKENS, TABLES
from traces.source.limits import MOST_TOKENS

CLAIMS = {
    "counts": ("requests", [c.name for c in TABLES["requests"] if c.unit == "tokens" and c.name != "prefix_tokens"]),
    "outputs": ("requests", ["output_tokens"]),
    "paths": ("prefixes", ["end_token"]),
}


def claiming(dataset: Path, claim: str, tokens: int) -> None:
    """Write `tokens` into every row of some columns; only the ends of leaves, where those are the tree's."""
    table, names = CLAIMS[claim]
    path = next(dataset.glob(f"tables-*/{table}.parquet"))
    frame = pl.read_parquet(path)
    leaf = ~pl.col("prefix_id").is_in(frame["parent_id"].implode()) if claim == "paths" else pl.lit(True)
    frame = frame.with_columns(
        pl.when(leaf).then(pl.lit(tokens, pl.Int64)).otherwise(name).alias(name) for name in names
    )
    frame.write_parquet(path)
    if claim == "paths":
        path = next(dataset.glob("tables-*/requests.parquet"))
        lengths = pl.col("prefix_id").replace_strict(frame["prefix_id"], frame["end_token"], default=None)
        pl.read_parquet(path).with_columns(prefix_tokens=lengths).write_parquet(path)


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_is_below_the_limit_is_answered_in_little_memory(tmp_path: Path, claim: str) -> None:
    ds = tiny(tmp_path / "made")
    claiming(ds, claim, TABLE_TOKENS - 1)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for command in [*EVERY, ["curve", "{dataset}", "--definition", "vllm", "--json"]]:
        result = CliRunner().invoke(group, [word.format(dataset=ds, out=tmp_path / "out") for word in command])
        left_out = command[0] == "export" and "and are left out" in result.stderr
        assert result.exit_code == 0 or left_out, (command, result.output)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - used < 1 << 20  # KiB


@pytest.mark.parametrize("claim", CLAIMS)
def test_what_reaches_the_limit_is_refused(tmp_path: Path, claim: str) -> None:
    ds = tiny(tmp_path / "made")
    claiming(ds, claim, TABLE_TOKENS)
    with pytest.raises(NotADataset, match="is not below"):
        Dataset(ds)


def test_no_record_claims_more(tmp_path: Path) -> None:
    rows = [{"timestamp": 1, "prompt_tokens": n, "completion_tokens": 1} for n in (5, MOST_TOKENS, MOST_TOKENS + 1)]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    receipt = ingest([str(tmp_path / "t.jsonl")], tmp_path / "ds")
    assert receipt["records"]["used"] == 2
    assert receipt["records"]["rejected"] == 1
    assert Dataset(tmp_path / "ds").read("requests")["input_tokens"].max() == MOST_TOKENS


def test_prompts_that_grow_beyond_the_limit_are_rejects() -> None:
    """Each prompt extends the one before by its claimed reply; those that extend a reject are rejects too."""
    third = MOST_TOKENS // 3
    builder = Builder()
    builder.begin("t.jsonl", "table")
    for i in range(6):
        prompt = Prompt((Piece(i, third, "user"),), Base(f"r{i - 1}") if i else None)
        reply = (Piece(100 + i, MOST_TOKENS if i == 1 else third, "assistant"),)
        builder.take([Request(f"r{i}", "s", i + 1, float(i), prompt=prompt, reply=reply)])
    builder.end()
    tables = finish(builder).tables
    assert tables["requests"]["record_ordinal"].to_list() == [1, 2]
    assert tables["rejects"]["record_ordinal"].to_list() == [3, 4, 5, 6]
    assert tables["prefixes"]["end_token"].to_list()[-1] == 3 * third + MOST_TOKENS
