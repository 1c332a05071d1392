"""SQL that a person writes reads the dataset's tables and caches, answers in any type, and fails in one line."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from analysis.headline.curves import curve
from analysis.store.axes import AXES
from analysis.store.catalog import queries
from analysis.store.question import BadQuestion, Question, parse_window
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import Options, ingest
from traces.schema import TABLES

ROWS = [
    {"timestamp": i * 1000, "input_length": 24, "output_length": 5, "hash_ids": [i % 2, 5, 9 - i],
     "session_id": "ab"[i % 2]}
    for i in range(6)
]  # fmt: skip
STRANGE_NAMES = ["it's", "a[1]", "a*b?", "two\nlines", "no\u00a0break", "{a,b}", "a\\b", "a%20b#c", 'q"q', "x=1"]


def made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ingest([str(folder / "t.jsonl")], folder / "ds", Options(block_tokens=8))
    return folder / "ds"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return open_dataset(made(tmp_path_factory.mktemp("sql") / "d"))


@pytest.mark.parametrize("name", STRANGE_NAMES)
def test_a_dataset_in_a_folder_of_any_name_answers(name: str, tmp_path: Path) -> None:
    (tmp_path / "a1").mkdir()  # what the pattern a[1] would match
    strange = open_dataset(made(tmp_path / name))
    for table in (*TABLES, "facts", "runs", "selected"):
        strange.sql(f"SELECT count(*) FROM {table}", Question())  # noqa: S608
    assert curve(strange, Question(), capacity_blocks=[1, 99])["hit_tokens"].to_list() == [0, 64]
    assert strange.sql("SELECT sum(hit_tokens)::BIGINT AS n FROM selected", Question())["n"][0] == 64


@pytest.mark.parametrize("table", TABLES)
def test_every_documented_table_has_its_columns(warehouse: Warehouse, table: str) -> None:
    got = warehouse.sql(f"SELECT * FROM {table} LIMIT 1", Question())  # noqa: S608
    assert got.columns == [column.name for column in TABLES[table]]


@pytest.mark.parametrize(
    "text",
    ["", "SELEC 1", "SELECT 1; SELECT 2", "DROP TABLE requests", "COPY requests TO '/tmp/x'", "ATTACH '/tmp/x.db'",
     "INSTALL httpfs", "LOAD httpfs", "SET memory_limit = '1TB'", "PRAGMA version", "CALL duckdb_settings()",
     "EXPLAIN SELECT 1", "SELECT * FROM nowhere", "SELECT nope FROM requests", "SELECT 1 +", "SELECT '\udcff'",
     "PIVOT requests ON model USING count(*)", "SELECT * FROM by_axis('nope')", "SELECT error('two\nlines')"],
)  # fmt: skip
def test_what_is_no_answerable_select_is_refused_in_one_line(warehouse: Warehouse, text: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        warehouse.sql(text, Question())
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("function", ["read_text", "read_blob", "read_csv", "read_json", "read_parquet", "glob"])
@pytest.mark.parametrize(
    "path",
    ["private/**", "private/*/*", "manifest.json", "*", "tables-*/../manifest.json", "../t.jsonl", "/etc/passwd"],
)
def test_no_function_reads_a_file_besides_tables_and_caches(warehouse: Warehouse, function: str, path: str) -> None:
    target = path if path.startswith("/") else f"{warehouse.dataset.path}/{path}"
    with pytest.raises(BadQuestion):
        warehouse.sql(f"SELECT * FROM {function}('{target}')", Question())  # noqa: S608


@pytest.mark.parametrize("text", ["FROM BY_AXIS()", 'FROM "by_axis"()', "FROM query('FROM by_' || 'axis()')"])
def test_queries_can_be_named_in_any_way(tmp_path: Path, text: str) -> None:
    fresh = open_dataset(made(tmp_path / "d"))
    assert fresh.sql(text, Question()).equals(fresh.query("by_axis", Question()))


def test_values_of_every_type_come_back(warehouse: Warehouse) -> None:
    row = warehouse.sql(
        "SELECT TIMESTAMPTZ '2026-01-02 03:04:05Z' AS t, [1, 2] AS l, NULL AS n, 1.5::DECIMAL(9, 2) AS d, "
        "'x'::BLOB AS b, 1 / 0 AS z, 'inf'::DOUBLE AS i, sum(range)::HUGEINT AS h, "
        "INTERVAL 1 DAY AS v, {'a': [INTERVAL 1 DAY]} AS s, MAP {'k': 1} AS m, 7 AS m FROM range(4)",
        Question(),
    ).row(0, named=True)
    assert row == {
        "t": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "l": [1, 2], "n": None, "d": Decimal("1.50"), "b": b"x",
        "z": None, "i": float("inf"), "h": Decimal(6), "v": "1 day", "s": "{'a': [1 day]}", "m": "{k=1}", "m_1": 7,
    }  # fmt: skip
    assert warehouse.sql("SUMMARIZE requests", Question()).height == len(TABLES["requests"])


@pytest.mark.parametrize("capacities", ["2", 2, [2], "2,9"])
def test_one_capacity_is_a_list_of_one(warehouse: Warehouse, capacities: Any) -> None:
    assert warehouse.query("lru_curve", Question(), capacities=capacities)["hit_tokens"][0] == 0


@pytest.mark.parametrize(
    ("query", "values"),
    [("by_axis", {"axis": "nope"}), ("lru_curve", {"capacities": "x"}), ("sessions", {"most": "1.5"}),
     ("sessions", {"most": 1.5}), ("sessions", {"least": "1"}), ("hit_rate", {"block": "x"}), ("nope", {})],
)  # fmt: skip
def test_queries_name_what_is_wrong(warehouse: Warehouse, query: str, values: dict[str, Any]) -> None:
    with pytest.raises(BadQuestion) as refused:
        warehouse.query(query, Question(), **values)
    if "axis" in values:
        assert all(axis in str(refused.value) for axis in AXES)


@pytest.mark.parametrize("name", [name for name in queries() if "causes" not in queries()[name].parameters])
def test_every_query_answers_without_parameters(warehouse: Warehouse, name: str) -> None:
    by_name = warehouse.query(name, Question())
    assert by_name.equals(warehouse.sql(f"FROM {name}()", Question()))


@pytest.mark.parametrize(
    "text", [",", "", "last:", "from:,to:", "last:2", "last:0", "from:5,to:1", "from:5,to:5", "from:1,", ",to:1", "to:",
             "from:1to:2", "from:1,to:2,", "last:nan", "from:1e,to:2", "ALL"],
)  # fmt: skip
def test_windows_that_say_nothing_are_refused(text: str) -> None:
    with pytest.raises(BadQuestion) as refused:
        parse_window(text)
    assert refused.value.parameter == "window"


@pytest.mark.parametrize(
    ("text", "want"),
    [("all", (None, None, None)), ("last:0.5", (0.5, None, None)), ("from:1", (None, 1.0, None)),
     ("to:2", (None, None, 2.0)), ("from:-1.5,to:2e3", (None, -1.5, 2000.0))],
)  # fmt: skip
def test_windows(text: str, want: tuple[float | None, ...]) -> None:
    assert parse_window(text) == want
