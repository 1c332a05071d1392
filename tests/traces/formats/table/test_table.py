"""The format `table`: columns as people name them, and the shared cases that are tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.places import SHARED
from traces.dataset.layout import Dataset
from traces.digests import KeyedDigest
from traces.formats.table.columns import checked_mapping, resolve
from traces.formats.table.prompts import Prompts
from traces.intake.ingest import Options, ingest
from traces.records import Context
from traces.text.tokens import load_tokenizer

CASES = SHARED / "cases"


def read(path: Path, tmp_path: Path, **options: Any) -> tuple[dict[str, Any], pl.DataFrame, Dataset]:
    target = tmp_path / "dataset"
    receipt = ingest([str(path)], target, Options(**{"tokenizer": "bytes", **options}))
    dataset = Dataset(target)
    return receipt, dataset.read("requests"), dataset


def table(tmp_path: Path, name: str, content: str | list[dict[str, Any]], **options: Any) -> Any:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else "\n".join(map(json.dumps, content)))
    return read(path, tmp_path, **options)


def ceiling(dataset: Dataset, block: int) -> int:
    """Hit tokens of an unbounded cache: whole blocks of all prompts less those of the tree."""
    prompts, tree = dataset.read("requests")["prefix_tokens"], dataset.read("prefixes")
    return block * int((prompts // block).sum() - (tree["end_token"] // block - tree["start_token"] // block).sum())


# the shared cases -----------------------------------------------------------------------------------------------


def case(number: str) -> tuple[Path, dict[str, Any]]:
    folder = next(CASES.glob(f"{number}-*"))
    return folder / "input.jsonl", json.loads((folder / "expected.json").read_text())


def test_anthropic_input_is_read_creation_and_rest(tmp_path: Path) -> None:
    path, expected = case("10")
    receipt, requests, _ = read(path, tmp_path)
    assert receipt["formats"] == {"table": 1}
    assert receipt["input_tokens"] == expected["input_tokens"]
    assert requests["cache_read_tokens"].sum() == expected["cached_input_tokens"]


def test_providers_may_be_mixed_and_unknown_is_not_zero(tmp_path: Path) -> None:
    path, expected = case("12")
    receipt, requests, _ = read(path, tmp_path)
    known = requests.filter(pl.col("cache_read_tokens").is_not_null())
    assert receipt["requests"] == expected["requests"]
    assert receipt["input_tokens"] == expected["input_tokens"]
    assert receipt["output_tokens"] == expected["output_tokens"]
    assert known["cache_read_tokens"].sum() == expected["cached_input_tokens"]
    assert known["input_tokens"].sum() == expected["cache_known_input_tokens"]
    assert known.height == expected["cache_known_requests"]


@pytest.mark.parametrize("zone", ["UTC", "America/Los_Angeles", "Asia/Kolkata"])
def test_offsets_are_honoured(tmp_path: Path, zone: str) -> None:
    path, expected = case("16")
    _, requests, _ = read(path, tmp_path)
    day = pl.col("started_at").dt.convert_time_zone(zone).dt.date().cast(pl.String)
    found = requests.group_by(day.alias("day")).agg(pl.col("input_tokens").sum())
    assert dict(found.rows()) == expected["by_day"][zone]


@pytest.mark.parametrize("tokenizer", ["bytes", "o200k_base"])
def test_special_tokens_are_text(tmp_path: Path, tokenizer: str) -> None:
    path, expected = case("22")
    receipt, requests, _ = read(path, tmp_path, tokenizer=tokenizer)
    assert receipt["requests"] == expected["requests"]
    assert receipt["records"]["rejected"] == 0
    for tokens, size in zip(requests["input_tokens"], expected["utf8_bytes"], strict=True):
        assert 1 <= tokens <= size
        assert tokenizer != "bytes" or tokens == size


def test_text_shares_to_the_token(tmp_path: Path) -> None:
    path, expected = case("23")
    receipt, _, dataset = read(path, tmp_path)
    assert receipt["input_tokens"] == expected["as_is"]["input_tokens"]
    assert ceiling(dataset, 16) == 0
    assert ceiling(dataset, 1) == 2 * expected["first_divergence"]["byte_offset"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    stripped = [row | {"prompt": row["prompt"].split("\n", 1)[1]} for row in rows]
    (tmp_path / "stripped").mkdir()
    receipt, _, dataset = table(tmp_path / "stripped", "x.jsonl", stripped)
    assert receipt["input_tokens"] == expected["stripped"]["input_tokens"]
    assert ceiling(dataset, 16) == expected["stripped"]["hit_tokens"]


# columns --------------------------------------------------------------------------------------------------------


def test_columns_go_by_many_names(tmp_path: Path) -> None:
    content = (
        "Timestamp,Session ID,Prompt Tokens,completion_tokens,cached_tokens,hash_ids,block_size\r\n"
        "1.5,x,40,2,0,1 2 3,16\r\n"
        '2,x,60.0,,32,"[1, 2, 4, 5]",16\r\n'
        "\r\n"
        "3,x,1\r\n"
        "4,x,-1,,,,\r\n"
    )
    receipt, requests, dataset = table(tmp_path, "a.csv", content)
    assert receipt["records"] == {"read": 4, "used": 2, "rejected": 2, "duplicate": 0, "ignored": 0}
    assert [r["line"] for r in receipt["rejects"]] == [5, 6]
    assert requests["input_tokens"].to_list() == [40, 60]
    assert requests["output_tokens"].to_list() == [2, None]
    assert requests["cache_read_tokens"].to_list() == [0, 32]
    assert requests["arrival_s"].to_list() == [0.0, 0.5]
    assert requests["session_id"].n_unique() == 1
    assert ceiling(dataset, 16) == 32


def test_columns_can_be_mapped(tmp_path: Path) -> None:
    content = "when\ttoks\tconv\ttokens_in\n2024-01-01T00:00:00+02:00\t12\tq\tx\n2024-01-01 00:00:00.5\t14\tq\tx\n"
    mapping = {"time": "when", "input_tokens": "toks", "session_id": "conv"}
    receipt, requests, _ = table(tmp_path, "b.tsv", content, format="table", mapping=mapping)
    assert receipt["records"]["used"] == 2
    assert requests["input_tokens"].to_list() == [12, 14]
    assert requests["arrival_s"].to_list() == [0.0, 7200.5]
    assert requests["session_id"].null_count() == 0


def test_a_mapped_column_makes_a_table(tmp_path: Path) -> None:
    receipt, requests, _ = table(
        tmp_path, "m.csv", "when,toks\n1,5\n2,6\n", mapping={"ts": "when", "input_tokens": "toks"}
    )
    assert receipt["formats"] == {"table": 1}
    assert requests["input_tokens"].to_list() == [5, 6]
    with pytest.raises(ValueError, match="no such name"):
        ingest([str(tmp_path / "m.csv")], None, Options(mapping={"nonsense": "when"}))


def test_a_mapping_of_no_name_lists_the_names() -> None:
    with pytest.raises(ValueError, match=r"Known: .*input_tokens"):
        checked_mapping({"nonsense": "x"})


def test_a_mapped_column_is_not_also_found_by_its_name() -> None:
    columns = resolve(["prompt_tokens", "tokens"], {"output_tokens": "prompt_tokens", "input_tokens": "tokens"})
    assert dict(columns.usage) == {"tokens": "input_tokens", "prompt_tokens": "output_tokens"}


@pytest.mark.parametrize(
    ("row", "unit", "seconds"),
    [
        ({"ts": 5}, None, 4.0),
        ({"ts": 5000}, "ms", 4.0),
        ({"timestamp_ms": 5000}, None, 4.0),
        ({"start_time_unix_nano": "5000000000"}, None, 4.0),
        ({"start": 5, "timestamp": 99}, None, 4.0),
        ({"ts": "5.0"}, None, 4.0),
    ],
)
def test_times_have_units(tmp_path: Path, row: dict[str, Any], unit: str | None, seconds: float) -> None:
    name = next(iter(row))
    first = {name: type(row[name])(float(row[name]) / 5) if name != "start_time_unix_nano" else "1000000000"}
    rows = [first | {"input_tokens": 1}, row | {"input_tokens": 1}]
    _, requests, _ = table(tmp_path, "t.jsonl", rows, time_unit=unit)
    assert requests["arrival_s"].to_list() == [0.0, seconds]


def test_numbers_since_the_epoch_are_wall_clock(tmp_path: Path) -> None:
    receipt, requests, _ = table(tmp_path, "t.jsonl", [{"ts": 1772951940, "end": 1772951942.5, "input_tokens": 1}])
    assert receipt["time_basis"] == "wall"
    assert str(requests["started_at"][0]) == "2026-03-08 06:39:00+00:00"
    assert requests["duration_s"][0] == 2.5


def test_a_missing_or_impossible_time_is_not_zero(tmp_path: Path) -> None:
    rows = [{"ts": None, "input_tokens": 1}, {"ts": "soon", "input_tokens": 1}, {"ts": True, "input_tokens": 1}]
    receipt, requests, _ = table(tmp_path, "t.jsonl", rows, format="table")
    assert requests["arrival_s"].to_list() == [None]
    assert [r["reason"] for r in receipt["rejects"]] == ["time is a text that is no time", "a time is no number"]


def test_milliseconds_read_as_seconds_are_refused_with_the_way_out(tmp_path: Path) -> None:
    rows = [{"ts": 1, "input_tokens": 1}, {"ts": 1772951940000, "input_tokens": 1}]
    receipt, _, _ = table(tmp_path, "t.jsonl", rows)
    assert "--time-unit" in receipt["rejects"][0]["reason"]


# retries and copies ---------------------------------------------------------------------------------------------


def test_the_attempt_that_succeeded_is_the_request(tmp_path: Path) -> None:
    rows = [
        {"ts": 1, "logical_id": "o1", "status": 529, "input_tokens": 10},
        {"ts": 2, "logical_id": "o1", "status": 200, "input_tokens": 10, "output_tokens": 3},
        {"ts": 3, "logical_id": "o2", "status": "error"},
        {"ts": 4, "status": "ok", "input_tokens": 7},
        {"ts": 5, "error": "overloaded", "input_tokens": 7},
    ]
    receipt, requests, _ = table(tmp_path, "r.jsonl", rows)
    assert receipt["failed_attempts"] == 3
    assert receipt["records"] == {"read": 5, "used": 2, "rejected": 0, "duplicate": 0, "ignored": 3}
    assert requests["arrival_s"].to_list() == [0.0, 2.0]


def test_of_attempts_without_a_status_the_last_counts(tmp_path: Path) -> None:
    rows = [{"ts": t, "logical_id": "o", "input_tokens": 10, "output_tokens": t} for t in (1, 2, 3)]
    receipt, requests, _ = table(tmp_path, "r.jsonl", rows)
    assert (receipt["records"]["used"], receipt["records"]["duplicate"]) == (1, 2)
    assert requests["output_tokens"].to_list() == [3]


def test_a_repeated_request_id_is_one_call(tmp_path: Path) -> None:
    rows = [{"ts": 1, "request_id": "q", "input_tokens": 3}, {"ts": 1, "request_id": "q", "input_tokens": 3}]
    assert table(tmp_path, "r.jsonl", rows)[0]["records"]["duplicate"] == 1


def test_an_id_that_names_a_conversation_loses_no_call(tmp_path: Path) -> None:
    rows = [{"ts": t, "id": "conversation", "input_tokens": 3} for t in (1, 2)]
    assert table(tmp_path, "r.jsonl", rows)[0]["records"]["used"] == 2


# prompts --------------------------------------------------------------------------------------------------------


def messages(*texts: str) -> list[dict[str, str]]:
    return [{"role": "user" if i % 2 == 0 else "assistant", "content": text} for i, text in enumerate(texts)]


def test_messages_share_what_they_share(tmp_path: Path) -> None:
    rows = [
        {"ts": 1, "session_id": "a", "messages": messages("abc")},
        {"ts": 2, "session_id": "a", "messages": messages("abc", "defgh", "ij")},
        {"ts": 3, "session_id": "a", "messages": messages("abc", "deXXX")},
        {"ts": 4, "session_id": "b", "messages": messages("abc", "deXXX")},
    ]
    _, requests, dataset = table(tmp_path, "m.jsonl", rows)
    lengths = [4 + 3, 4 + 3 + 4 + 5 + 4 + 2, 4 + 3 + 4 + 5, 4 + 3 + 4 + 5]
    assert requests["prefix_tokens"].to_list() == lengths
    assert ceiling(dataset, 1) == 7 + (7 + 4 + 2) + 16
    assert set(dataset.read("prefixes")["role"]) >= {"user", "assistant", "template"}


def test_the_order_of_keys_matters(tmp_path: Path) -> None:
    one, other = {"name": "f", "arguments": {"a": 1, "b": 2}}, {"name": "f", "arguments": {"b": 2, "a": 1}}
    rows = [{"ts": t, "messages": [{"role": "assistant", "tool_calls": [call]}]} for t, call in enumerate((one, other))]
    _, requests, _ = table(tmp_path, "m.jsonl", rows)
    assert requests["prefix_id"].n_unique() == 2


def test_base64_is_never_counted_as_text(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 50_000}}
    receipt, requests, _ = table(tmp_path, "m.jsonl", [{"ts": 1, "messages": [{"role": "user", "content": [image]}]}])
    assert requests["prefix_tokens"].to_list() == [1504]
    assert any("images" in warning for warning in receipt["warnings"])


def test_token_ids_share_exactly(tmp_path: Path) -> None:
    rows = [
        {"ts": 1, "token_ids": [1, 2, 3, 4]},
        {"ts": 2, "token_ids": "1 2 3 9 9"},
        {"ts": 3, "token_ids": [1.5]},
        {"ts": 4, "token_ids": [-1]},
    ]
    receipt, requests, dataset = table(tmp_path, "i.jsonl", rows)
    assert requests["input_tokens"].to_list() == [4, 5]
    assert ceiling(dataset, 1) == 3
    assert receipt["records"]["rejected"] == 2


def test_block_ids_may_be_labels(tmp_path: Path) -> None:
    rows = [
        {"ts": 1, "input_tokens": 40, "hash_ids": "ab cd ef"},
        {"ts": 2, "input_tokens": 48, "hash_ids": ["ab", "cd", "xx"]},
        {"ts": 3, "input_tokens": 48, "hash_ids": [18446744073709551615, 2, 3]},
        {"ts": 4, "input_tokens": 48, "hash_ids": [1.5, 2, 3]},
    ]
    receipt, _, dataset = table(tmp_path, "h.jsonl", rows, block_tokens=16, format="table")
    assert ceiling(dataset, 16) == 32
    assert receipt["records"]["rejected"] == 1


def test_an_unknown_block_size_is_said(tmp_path: Path) -> None:
    receipt, _, _ = table(tmp_path, "h.jsonl", [{"ts": 1, "prompt_tokens": 40, "hash_ids": [1]}])
    assert any("512 tokens a block were assumed" in warning for warning in receipt["warnings"])


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="ab\n \t.é{", max_size=60), st.integers(1, 400), st.sampled_from(["o200k_base", "bytes"]))
def test_encoding_by_segments_is_encoding(text: str, times: int, name: str) -> None:
    tokenizer = load_tokenizer(name)
    prompts = Prompts(Context(tokenizer, KeyedDigest()))
    whole = text * times
    assert np.array_equal(prompts.encode(whole), tokenizer.encode(whole))


# files ----------------------------------------------------------------------------------------------------------


def test_an_array_and_a_parquet_file_are_tables(tmp_path: Path) -> None:
    (tmp_path / "array.json").write_text('[{"time": 1, "input_tokens": 5}, {"time": 2, "input_tokens": "6"}, 3]')
    receipt, requests, _ = read(tmp_path / "array.json", tmp_path)
    assert requests["input_tokens"].to_list() == [5, 6]
    assert receipt["records"]["rejected"] == 1
    rows = pa.table(
        {"ts": pa.array([1, 2], pa.timestamp("us")), "input_tokens": [3.0, float("nan")], "prompt": ["a", "b"]}
    )
    pq.write_table(rows, tmp_path / "rows.parquet")
    receipt = ingest([str(tmp_path / "rows.parquet")], None, Options(tokenizer="bytes"))
    assert receipt["input_tokens"] == 3 + 1


def test_tables_yield_to_formats_of_their_own(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 40, "output_length": 1, "hash_ids": [1]}
    assert table(tmp_path, "m.jsonl", [row])[0]["formats"] == {"mooncake": 1}


def test_logged_messages_in_parquet_are_a_table(tmp_path: Path) -> None:
    rows = pa.table({"ts": [1.0], "messages": [json.dumps(messages("hi", "hello", "more"))]})
    pq.write_table(rows, tmp_path / "rows.parquet")
    receipt = ingest([str(tmp_path / "rows.parquet")], None, Options(tokenizer="bytes"))
    assert receipt["formats"] == {"table": 1}
    assert receipt["input_tokens"] == 3 * 4 + 2 + 5 + 4


def test_no_rate_without_prompts_is_said(tmp_path: Path) -> None:
    receipt, _, _ = table(tmp_path, "l.jsonl", [{"ts": 1, "input_tokens": 40}])
    assert any(warning.startswith("lengths only") for warning in receipt["warnings"])
