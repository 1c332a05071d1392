"""Token counts may be any number: nothing takes memory by them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traces.calls.entries import Entries
from traces.dataset.building.builder import Builder
from traces.dataset.building.tables import finish
from traces.dataset.layout import Dataset
from traces.intake.ingest import ingest
from traces.intake.reading import LazyTokenizer, Options, context_of
from traces.records import Base, Blocks, Piece, Prompt, Request

HUGE = 1 << 25


def _request(at: int, prompt: Prompt | Blocks, tokens: int) -> Request:
    return Request(f"r{at}", "s", at, float(at), input_tokens=tokens, prompt=prompt)


def _tables(*requests: Request) -> dict[str, list[tuple[object, ...]]]:
    builder = Builder()
    builder.begin("name", "test")
    builder.take(requests)
    builder.end()
    tables = finish(builder).tables
    return {name: table.rows() for name, table in tables.items()} | {"columns": [tuple(tables["divergences"].columns)]}


def test_prompts_of_hidden_text_part_and_go_on_alike() -> None:
    head, tail = Piece(1, HUGE, "unobserved"), Piece(9, HUGE, "user")
    first = Prompt((head, Piece(2, 100, "user"), tail), completeness="no_head")
    second = Prompt((Piece(3, 200, "user"), tail), Base("r1", False, HUGE), completeness="no_head")
    tables = _tables(_request(1, first, 2 * HUGE + 100), _request(2, second, 2 * HUGE + 200))
    (divergence,) = (dict(zip(tables["columns"][0], row, strict=True)) for row in tables["divergences"])
    assert divergence["start_token"] == HUGE
    lengths = [divergence[name] for name in ("previous_line_tokens", "line_tokens", "resumed_tokens")]
    assert lengths == [100, 200, HUGE]


def test_blocks_without_ids_are_one_run() -> None:
    rows = [_request(at, Blocks([1, 2, at], 512), HUGE + at) for at in (5, 6)]
    tables = _tables(*rows)
    assert len(tables["requests"]) == 2
    assert len(tables["prefixes"]) < 10


@pytest.mark.parametrize("ids", [[1, 2.5], [1, -1], [1, 1 << 32], [1, "2"], [1, [2]], [1, None]])
def test_token_ids_are_whole_numbers(ids: list[object]) -> None:
    entries = Entries(context_of(Options(), LazyTokenizer("bytes"), Builder().digest))
    with pytest.raises((ValueError, TypeError), match="whole numbers"):
        entries.token_ids(ids)  # type: ignore[arg-type]


def test_a_label_may_hold_commas(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": 2048, "output_length": 1, "hash_ids": [1, "2,3,4,5,6", 7]},
        {"timestamp": 1, "input_length": 1536, "output_length": 1, "hash_ids": [1, "2,3,4,5,6", 7]},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    receipt = ingest([str(path)], tmp_path / "ds", Options(format="mooncake"))
    assert receipt["records"]["used"] == 2
    requests = Dataset(tmp_path / "ds").read("requests")
    assert requests["prefix_tokens"].to_list() == [2048, 1536]
