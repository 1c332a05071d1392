"""What a page says of how a figure is computed: the function is there, and the equivalent query gives its digits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from analysis.headline.computed import COMPUTED, QUERIES, equivalent
from analysis.headline.curves import curve
from analysis.headline.eviction_age import eviction_age
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from analysis.why.caches.cache import Cache
from analysis.why.edited.what_ifs import what_if_table
from analysis.why.misses import by_group, misses
from analysis.why.provider.gap import provider_gap
from analysis.why.request_misses import request_misses
from analysis.why.session_losses import request_losses, session_losses
from tests.places import ROOT
from traces.intake.ingest import Options, ingest

BLOCK = 16
QUESTIONS = (
    Question(BLOCK),
    Question(BLOCK, window="last:0.5"),
    Question(BLOCK, where=(("session", "0"), ("session", "1"))),
    Question(BLOCK, window="from:20,to:140", where=(("session", "0"), ("session", "1"))),
)
AXES = ("all", "transition", "session")
CACHES = [Cache(), Cache(capacity_tokens=9 * BLOCK), Cache(ttl_s=40.0), Cache(capacity_tokens=20 * BLOCK, ttl_s=90.0)]


def prompts() -> list[dict[str, Any]]:
    """Three sessions that share a head, append, are rewritten, forget, and fork; and one request without a prompt."""
    rows, head = [], "you are a careful agent, and these are your tools. "
    for turn in range(6):
        for number, session in enumerate("abc"):
            text = head + "".join(f"{session} turn {t}: {session * (7 + 3 * t + number)}\n" for t in range(turn + 1))
            if (turn + number) % 4 == 3:
                text = text.replace("turn 1", "TURN one, written anew")
            rows.append({"ts": 100 + 31 * turn + 5 * number + number, "session_id": session, "prompt": text})
    rows.append({"ts": 400, "session_id": "a", "prompt": rows[3]["prompt"] + "another branch of what was asked"})
    rows.append({"ts": 401, "session_id": "d", "input_tokens": 7})
    return rows


def made(folder: Path, reads: bool) -> Warehouse:
    rows = prompts()
    if reads:
        for number, row in enumerate(rows[:-1]):
            row |= {
                "model": "ab"[number % 2],
                "input_tokens": len(row["prompt"]),
                "cache_read_tokens": 13 * number % 90,
            }
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return open_dataset(folder / "ds")


@pytest.fixture(autouse=True)
def short_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompts here are short, so the context caps are too."""
    monkeypatch.setattr("analysis.why.edited.what_ifs.CAPS", (40, 64, 100, 128, 1_000_000))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return made(tmp_path_factory.mktemp("computed"), reads=False)


def plain(rows: list[dict[str, Any]], names: list[str]) -> list[list[Any]]:
    return [[row[name] for name in names] for row in rows]


def same(warehouse: Warehouse, asked: Question, figure: str, rows: list[dict[str, Any]], **values: object) -> None:
    """Every column that the equivalent query has is the same in `rows`."""
    got = warehouse.sql(equivalent(figure, **values), asked)
    assert got.height
    assert got.rows() == [tuple(row) for row in plain(rows, got.columns)]


def ceiling(w: Warehouse, asked: Question) -> None:
    for axis in (*AXES, "trajectory_type"):
        same(w, asked, "ceiling", w.query("by_axis", asked, axis=axis).to_dicts(), axis=axis)
    (whole,) = w.sql(equivalent("ceiling", axis="all"), asked).to_dicts()
    assert whole["ceiling_hit_tokens"] == w.query("hit_rate", asked)["ceiling_hit_tokens"].item()


def capacity(w: Warehouse, asked: Question) -> None:
    for axis in AXES:
        sizes = [1, 3, 9, 20, 1000]
        same(w, asked, "capacity", curve(w, asked, axis, sizes).to_dicts(), axis=axis, capacities=sizes)


def ttl(w: Warehouse, asked: Question) -> None:
    for axis in AXES:
        ttls = [1.0, 31.0, 40.0, 1e6]
        same(w, asked, "ttl", curve(w, asked, axis, ttl_s=ttls).to_dicts(), axis=axis, ttls=ttls)


def tiers(w: Warehouse, asked: Question) -> None:
    for axis in AXES:
        sizes = [5, 11]
        same(w, asked, "tiers", curve(w, asked, axis, tiers_blocks=sizes).to_dicts(), axis=axis, capacities=sizes)


def ages(w: Warehouse, asked: Question) -> None:
    frame = eviction_age(w, asked, (3 * BLOCK, 9 * BLOCK, 20 * BLOCK))
    assert frame.height == 3
    for row in frame.to_dicts():
        shown = [
            {"evicted_tokens": row["evicted_tokens"], "age_s": row[f"age_s_{name}"]} for name in ("p10", "p50", "p90")
        ]
        same(w, asked, "eviction_age", shown, capacity=row["capacity_blocks"])


def of_cache(cache: Cache, axis: str = "all") -> dict[str, object]:
    size = cache.capacity_tokens
    return {"axis": axis, "capacity": None if size is None else size // BLOCK, "ttl_s": cache.ttl_s}


def causes(w: Warehouse, asked: Question) -> None:
    for cache in CACHES:
        for axis in AXES:
            rows = by_group(w, asked, misses(w, asked, cache), axis)
            same(w, asked, "causes", rows, **of_cache(cache, axis))


def requests(w: Warehouse, asked: Question) -> None:
    for cache in CACHES:
        rows = request_misses(w, asked, misses(w, asked, cache)).to_dicts()
        same(w, asked, "requests", rows, **of_cache(cache))


def sessions(w: Warehouse, asked: Question) -> None:
    for cache in CACHES:
        losses = request_losses(w, asked, misses(w, asked, cache))
        same(w, asked, "sessions", session_losses(w, asked, losses).to_dicts(), **of_cache(cache))


def what_ifs(w: Warehouse, asked: Question) -> None:
    frame = what_if_table(w, asked, misses(w, asked))
    rows = [row for row in frame.to_dicts() if row["what_if"] in ("block_size", "context_cap")]
    rows.sort(key=lambda row: (row["what_if"], row["value"]))
    sizes, caps = (
        [int(row["value"]) for row in rows if row["what_if"] == what] for what in ("block_size", "context_cap")
    )
    assert len(sizes) > 5
    assert len(caps) > 2
    same(w, asked, "what_ifs", rows, block_sizes=sizes, caps=caps)


OF_FIGURE: dict[str, Callable[[Warehouse, Question], None]] = {
    "ceiling": ceiling, "capacity": capacity, "ttl": ttl, "tiers": tiers, "eviction_age": ages, "causes": causes,
    "requests": requests, "sessions": sessions, "what_ifs": what_ifs,
}  # fmt: skip


@pytest.mark.parametrize("asked", QUESTIONS, ids=["all", "window", "filter", "both"])
@pytest.mark.parametrize("figure", OF_FIGURE)
def test_the_equivalent_query_gives_the_same_digits(warehouse: Warehouse, figure: str, asked: Question) -> None:
    OF_FIGURE[figure](warehouse, asked)


@pytest.mark.parametrize("asked", QUESTIONS[:3], ids=["all", "window", "filter"])
def test_reported_reads_against_what_is_shared(tmp_path: Path, asked: Question) -> None:
    w = made(tmp_path, reads=True)
    for axis in ("all", "model"):
        rows = sorted(provider_gap(w, asked, misses(w, asked), axis), key=lambda row: str(row["group"]))
        same(w, asked, "reported", rows, axis=axis)


def test_every_equivalent_query_is_compared() -> None:
    files = {path.stem for path in QUERIES.glob("[a-z]*.sql")}
    assert files == {figure for figure, how in COMPUTED.items() if not how.without_query} == {*OF_FIGURE, "reported"}


@pytest.mark.parametrize("figure", COMPUTED)
def test_the_function_exists(figure: str) -> None:
    module, _, name = COMPUTED[figure].function.rpartition(".")
    assert callable(getattr(import_module(module), name))


def test_pages_show_every_entry_of_the_table() -> None:
    shown = set()
    for path in (ROOT / "app").rglob("*.py"):
        shown |= set(re.findall(r'computed="(\w+)"', path.read_text("utf-8")))
    assert shown == set(COMPUTED)
