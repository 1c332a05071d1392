"""Damage to a dataset's manifest and tables, seeded; by hand: python -m tests.traces.dataset.mutations 0 10000."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

from traces.intake.ingest import ingest
from traces.schema import TABLES

ROWS = [
    {"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1, 2, 3]},
    {"timestamp": 1000, "input_length": 12, "output_length": 2, "hash_ids": [1, 2, 4]},
    {"timestamp": 2000, "input_length": 16, "output_length": 2, "hash_ids": [1, 2, 4, 5]},
    {"timestamp": 3000, "input_length": 4, "output_length": 2, "hash_ids": [9]},
]
ODD: list[Any] = [
    None, True, -1, -3, 0, 1, 2, 5, 7, 10**6, 2**31, 2**48, 10**12, 2**63, 2**64, 1e400, -0.5, "", "x", "..", "/etc",
    "../../../etc", "y" * 300, "a/b", "\x00", "tables-000000000000", [], [1], {}, {"a": {}}, [[[[]]]],
]  # fmt: skip
NUMBERS = [-(2**63), -(10**12), -3, -1, 0, 1, 2, 3, 5, 100, 2**31 - 1, 2**31, 2**40, 2**48, 10**12, 2**63 - 1]
FLOATS = [float("nan"), float("inf"), float("-inf"), -1e300, 1e300, -5.0, 0.0, 1e16]


def tiny(folder: Path) -> Path:
    """A dataset of four requests."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = folder / "trace.jsonl"
    trace.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    from traces.intake.ingest import Options

    ingest([str(trace)], folder / "ds", Options(block_tokens=4))
    return folder / "ds"


def damage(dataset: Path, random_: random.Random) -> str:
    """Change one thing in the manifest or in a table; return what."""
    return (_manifest if random_.random() < 0.4 else _table)(dataset, random_)


def _manifest(dataset: Path, random_: random.Random) -> str:
    path = dataset / "manifest.json"
    whole = json.loads(path.read_text())
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        for key in value if isinstance(value, dict) else range(len(value)):
            places.append((value, key))
            if isinstance(value[key], dict | list):
                walk(value[key])

    walk(whole)
    parent, key = random_.choice(places)
    value = random_.choice(ODD)
    if random_.random() < 0.25:
        del parent[key]
        said = f"manifest: {key} deleted"
    else:
        parent[key] = value
        said = f"manifest: {key} = {value!r:.40}"
    text = json.dumps(whole)
    if random_.random() < 0.05:
        text, said = text[: random_.randrange(len(text))], said + ", cut"
    path.write_text(text)
    return said


def _table(dataset: Path, random_: random.Random) -> str:
    name = random_.choice(["sources", "sessions", "requests", "requests", "prefixes", "prefixes", "divergences"])
    path = next(dataset.glob(f"tables*/{name}.parquet"))
    if random_.random() < 0.1:
        data = bytearray(path.read_bytes())
        at = random_.randrange(len(data))
        data[at] ^= 1 << random_.randrange(8)
        path.write_bytes(bytes(data[:at]) if random_.random() < 0.5 else bytes(data))
        return f"{name}: damaged at byte {at}"
    frame = pl.read_parquet(path)
    column = random_.choice(TABLES[name])
    said = f"{name}.{column.name}"
    choice = random_.random()
    if choice < 0.08:
        frame, said = frame.drop(column.name), said + " dropped"
    elif choice < 0.16:
        frame, said = frame.with_columns(pl.lit("x").alias(column.name)), said + " of text"
    elif choice < 0.22:
        frame, said = pl.concat([frame, frame]), f"{name}: twice"
    elif choice < 0.28:
        frame, said = frame.reverse(), f"{name}: reversed"
    elif frame.height:
        values = FLOATS if column.dtype == pl.Float64 else [*NUMBERS, None]
        value, row = random_.choice(values), random_.randrange(frame.height)
        numeric = column.dtype.is_numeric() if hasattr(column.dtype, "is_numeric") else False
        new = pl.lit(value if numeric else None).cast(column.dtype, strict=False)
        old = pl.col(column.name)
        frame = frame.with_columns(pl.when(pl.int_range(pl.len()) == row).then(new).otherwise(old).alias(column.name))
        said += f"[{row}] = {value}"
    frame.write_parquet(path)
    return said


def attempt(good: Path, folder: Path, seed: int, commands: list[list[str]]) -> str:
    """Damage a copy of `good` and give it to commands: "refused", "answered", or what went wrong."""
    from click.testing import CliRunner

    from app.cli import group
    from traces.dataset.layout import Dataset, NotADataset

    copy = folder / "a" / "b" / "copy"
    shutil.copytree(good, copy)
    before = {path for path in folder.rglob("*") if copy not in path.parents}
    said = damage(copy, random.Random(seed))
    started = time.monotonic()
    outcome = "answered"
    try:
        Dataset(copy)
    except NotADataset as error:
        outcome = f"{said}: more than one line: {error}" if "\n" in str(error) else "refused"
    except Exception as error:
        outcome = f"{said}: {type(error).__name__}: {error}"
    for command in commands if outcome == "answered" else commands[:1]:
        result = CliRunner().invoke(group, [word.format(dataset=copy, out=copy / "out") for word in command])
        if result.exit_code not in (0, 1, 2) or not isinstance(result.exception, SystemExit | None):
            outcome = f"{said}: {command[0]}: exit {result.exit_code}, {result.exception!r}"
        elif "unexpected " in result.output:  # the one line that stands for a traceback
            outcome = f"{said}: {command[0]}: {result.output:.300}"
        elif (outcome == "refused") != (result.exit_code == 1) and command[0] == "report":
            outcome = f"{said}: {command[0]}: {outcome}, but exit {result.exit_code}: {result.output:.200}"
    if time.monotonic() - started > 10 * max(1, len(commands)):
        outcome = f"{said}: took more than 10 s a command"
    if {path for path in folder.rglob("*") if copy not in path.parents} != before:
        outcome = f"{said}: wrote outside of the dataset"
    shutil.rmtree(folder / "a")
    return outcome


EVERY = [
    ["report", "{dataset}", "--json"],
    ["curve", "{dataset}", "--definition", "vllm", "--capacity-tokens", "8", "--json"],
    ["curve", "{dataset}", "--definition", "sglang", "--capacity-tokens", "8", "--json"],
    ["misses", "{dataset}", "--json"],
    ["profile", "{dataset}", "-o", "{out}.json"],
    ["export", "{dataset}", "--to", "mooncake", "-o", "{out}.jsonl"],
    ["bundle", "{dataset}", "-o", "{out}.zip"],
]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        made, counts = tiny(Path(scratch) / "made"), Counter[str]()
        (Path(scratch) / "try").mkdir()
        for number in range(int(sys.argv[1]), int(sys.argv[2])):
            print(number, end="\r", flush=True)  # the last one, should this process die
            counts[attempt(made, Path(scratch) / "try", number, EVERY)] += 1
        for text, times in counts.most_common():
            print(times, text)
