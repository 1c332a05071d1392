"""The pages, run without a browser: empty, on a tiny dataset of known answers, and on a broken one."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from streamlit.testing.v1 import AppTest

from app.visit.uploads import sent as uploads
from app.widgets import formats
from tests.places import ROOT

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
PAGES = ("views/data/data.py", "views/overview/overview.py", "views/cache/cache.py")

# two sessions of two requests, blocks of 4: each second prompt extends its first by one block
ROWS = [
    {"timestamp": t, "session_id": s, "input_length": 4 * len(i), "output_length": 2, "hash_ids": i, "block_size": 4}
    for t, s, i in ((0, "a", [1, 2]), (1000, "b", [1, 5]), (9000, "a", [1, 2, 3]), (99000, "b", [1, 5, 6]))
]


def make(folder: Path, rows: list[dict[str, object]] = ROWS) -> Path:
    from traces.intake.ingest import ingest

    source = folder / "trace.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(source)], folder / "tiny")
    return folder / "tiny"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("app"))


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch):
    """Start the app on a dataset, or on none, and go to a page."""

    def start(dataset: Path | None, page: str, **params: str) -> AppTest:
        monkeypatch.delenv("TRACETOWER_DATA_ROOTS", raising=False)
        monkeypatch.delenv("TRACETOWER_DATASET", raising=False)
        if dataset is not None:
            monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
        at = AppTest.from_file(SCRIPT, default_timeout=300)
        for name, value in params.items():
            at.query_params[name] = value
        at.run()
        if page != PAGES[0]:
            at.switch_page(page).run()
        return at

    return start


def figures(at: AppTest) -> dict[str, str]:
    return {m.label: m.value for m in at.metric}


@pytest.mark.parametrize("page", PAGES)
def test_empty_pages_say_how_to_begin(on, page: str) -> None:
    at = on(None, page)
    assert not at.exception
    assert at.title[0].value == {"data": "Data", "overview": "Overview", "cache": "Cache"}[Path(page).stem]
    if page == PAGES[0]:
        assert at.button(key="open-demo").label == "Open the demo"
    else:
        assert "Nothing is open yet" in at.info[0].value
        assert "tracetower app" in at.code[0].value
    assert not at.error


@pytest.mark.parametrize("page", PAGES)
def test_broken_dataset_is_a_message_with_the_next_step(on, tiny: Path, tmp_path: Path, page: str) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken)
    next(broken.glob("tables-*/prefixes.parquet")).unlink()
    at = on(broken, page)
    assert not at.exception
    assert len(at.error) == 1
    assert "prefixes missing" in at.error[0].value
    assert "ingest it again" in at.error[0].value
    if page == PAGES[0]:
        assert at.button(key="open-demo")


def test_damaged_table_shows_no_traceback_and_no_path(on, tiny: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tiny, broken)
    shutil.rmtree(broken / "cache", ignore_errors=True)
    next(broken.glob("tables-*/requests.parquet")).write_bytes(b"not parquet")
    at = on(broken, "views/overview/overview.py")
    assert not at.exception
    text = " ".join(e.value for e in at.error)
    assert "ingest it again" in text
    assert "Traceback" not in text
    assert str(tmp_path) not in text


def test_data_page_shows_the_receipt_first(on, tiny: Path) -> None:
    at = on(tiny, PAGES[0])
    assert not at.exception
    assert "Receipt" in at.subheader[0].value
    shown = figures(at)
    assert shown["Requests"] == "4"
    assert shown["Input tokens"] == "40"
    assert shown["Output tokens"] == "8"
    assert shown["Records rejected"] == "0"


def test_rejects_are_listed(on, tmp_path: Path) -> None:
    source = tmp_path / "trace.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS) + '{"timestamp": 5, "input_len\n')
    from traces.intake.ingest import ingest

    ingest([str(source)], tmp_path / "cut")
    at = on(tmp_path / "cut", PAGES[0])
    assert figures(at)["Records rejected"] == "1"
    table = at.dataframe[0].value
    assert table["Line or entry"].tolist() == ["5"]
    assert "JSON" in table["Reason"][0]


def test_overview_gives_the_figures_of_the_report(on, tiny: Path) -> None:
    at = on(tiny, "views/overview/overview.py")
    assert not at.exception
    assert not at.error
    shown = figures(at)
    # shared full blocks: 0, 1, 2, 2 of 2, 2, 3, 3
    assert shown["Achievable hit rate (ceiling)"] == formats.rate(5 / 10)
    assert shown["Reported hit rate"] == formats.UNKNOWN
    assert shown["Gap to the ceiling"] == formats.UNKNOWN
    assert shown["Input : output"] == f"5.0{formats.SPACE}:{formats.SPACE}1"
    assert shown["Turns of a session"] == "2.0"
    assert shown["Each token is sent"] == f"2.00{formats.SPACE}×"


def test_overview_has_charts_with_words_for_them(on, tiny: Path) -> None:
    at = on(tiny, "views/overview/overview.py")
    charts = at.get("vega_lite_chart") or at.get("arrow_vega_lite_chart")
    assert len(charts) >= 4
    assert all(chart.proto.alt for chart in charts)


def test_filter_that_leaves_nothing_offers_reset(on, tmp_path: Path) -> None:
    alone = {
        "timestamp": 500,
        "input_length": 4,
        "output_length": 1,
        "hash_ids": [9],
        "session_id": "c",
        "block_size": 4,
    }
    at = on(make(tmp_path, [*ROWS, alone]), "views/overview/overview.py")
    at.multiselect(key="trajectory_type").set_value(["single"])
    at.selectbox(key="window").set_value("last:0.5").run()
    assert not at.exception
    assert "No request is left" in at.warning[0].value
    assert "trajectory type = single" in at.warning[0].value
    next(b for b in at.button if b.label == "Reset filters").click().run()
    assert figures(at)["Input tokens"] == "44"


def test_cache_page_answers_when_the_slider_moves(on, tiny: Path) -> None:
    at = on(tiny, "views/cache/cache.py")
    assert not at.exception
    assert not at.error
    slider = next(s for s in at.select_slider if s.key == "capacity")
    slider.set_value(4).run()
    label = next(m for m in at.metric if m.label.startswith("Hit rate at"))
    assert label.value == formats.rate(5 / 10)
    slider = next(s for s in at.select_slider if s.key == "capacity")
    slider.set_value(1).run()
    label = next(m for m in at.metric if m.label.startswith("Hit rate at"))
    # one block: only the first block of the second prompt is still there, prompts having touched it last
    assert label.value == formats.rate(3 / 10)


def test_cache_page_asks_for_arrivals_and_takes_the_suggestion(on, tmp_path: Path) -> None:
    rows = [
        {"session_id": s, "timestamp": t, "input_length": 512 * n, "output_length": 1, "hash_ids": list(range(n))}
        for s in "ab" for t, n in ((0, 1), (1000, 2))
    ]  # fmt: skip
    dataset = make(tmp_path, rows)  # type: ignore[arg-type]
    tables = next(dataset.glob("tables-*"))
    sources = pl.read_parquet(tables / "sources.parquet").with_columns(time_basis=pl.lit("relative"))
    sources.write_parquet(tables / "sources.parquet")
    at = on(dataset, "views/cache/cache.py")
    assert not at.exception
    assert "When do these sessions start?" in at.info[0].value
    assert not at.select_slider
    at.button(key="arrive-staggered:600").click().run()
    assert not at.exception
    assert at.selectbox(key="arrivals").value == "staggered:600"
    assert at.select_slider(key="capacity")


def test_nothing_reused_is_said(on, tmp_path: Path) -> None:
    rows = [
        {"timestamp": t, "input_length": 8, "output_length": 1, "hash_ids": [t, t + 1], "block_size": 4} for t in (0, 9)
    ]
    at = on(make(tmp_path, rows), "views/cache/cache.py")  # type: ignore[arg-type]
    assert not at.exception
    assert "Nothing is reused here" in at.info[0].value


def test_length_only_trace_teaches(on, tmp_path: Path) -> None:
    source = tmp_path / "azure.csv"
    source.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.0,100,10\n2024-05-10 00:00:01.0,300,20\n"
    )
    from traces.intake.ingest import ingest

    ingest([str(source)], tmp_path / "lengths")
    at = on(tmp_path / "lengths", "views/cache/cache.py")
    assert not at.exception
    assert "no block identity" in at.info[0].value
    at.switch_page("views/overview/overview.py").run()
    assert not at.exception
    assert not at.error
    assert figures(at)["Achievable hit rate (ceiling)"] == formats.UNKNOWN
    assert figures(at)["Input : output"] == f"13{formats.SPACE}:{formats.SPACE}1"


def test_bad_arrivals_are_explained(on, tiny: Path) -> None:
    at = on(tiny, "views/overview/overview.py", arrivals="every day")
    assert not at.exception
    assert len(at.error) == 1
    assert "staggered" in at.error[0].value


def test_demo_opens_and_its_arrivals_are_shown(on) -> None:
    at = on(None, PAGES[0])
    at.button(key="open-demo").click().run()
    assert not at.exception
    assert figures(at)["Files read"] == "10"
    at.switch_page("views/cache/cache.py").run()
    assert at.selectbox(key="arrivals").value == "staggered:600"
    assert at.select_slider(key="capacity")


def test_path_box_is_limited_to_its_roots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from app.visit import known

    root, secret = tmp_path / "root", tmp_path / "secret"
    (root / "team").mkdir(parents=True)
    secret.mkdir()
    (root / "way-out").symlink_to(secret)
    monkeypatch.setenv("TRACETOWER_DATA_ROOTS", str(root))
    assert known.within_roots("team") == root / "team"
    assert known.within_roots(str(root / "team")) == root / "team"
    for text in ("../secret", str(secret), "way-out", "missing", "/etc/passwd", "team/../../secret", "\0"):
        with pytest.raises(known.OutsideRoots, match="nothing of that name"):
            known.within_roots(text)
    monkeypatch.delenv("TRACETOWER_DATA_ROOTS")
    with pytest.raises(known.OutsideRoots):
        known.within_roots(".")


class Sent:
    def __init__(self, name: str, data: bytes) -> None:
        self.name, self._data, self._at = name, data, 0

    def seek(self, place: int) -> int:
        self._at = place
        return place

    def read(self, size: int = -1) -> bytes:
        chunk = self._data[self._at : self._at + size] if size >= 0 else self._data[self._at :]
        self._at += len(chunk)
        return chunk


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a.jsonl", ["a.jsonl"]),
        ("proj/subagents/agent-1.jsonl", ["proj", "subagents", "agent-1.jsonl"]),
        ("../../etc/passwd", ["etc", "passwd"]),
        ("/etc/cron.d/x", ["etc", "cron.d", "x"]),
        ("..\\..\\boot.ini", ["boot.ini"]),
        (".ssh/id_rsa", ["ssh", "id_rsa"]),
        ("a b\n$(x).json", ["a_b_x_.json"]),
        ("..", ["file"]),
        ("", ["file"]),
    ],
)
def test_sent_names_never_climb(name: str, parts: list[str]) -> None:
    assert uploads.safe_parts(name) == parts


def test_what_was_sent_is_saved_once_each(tmp_path: Path) -> None:
    sent = [Sent("t.jsonl", b"one"), Sent("t.jsonl", b"two"), Sent("d/t.jsonl", b"three"), Sent("../t.jsonl", b"four")]
    inputs = uploads.save(sent, tmp_path)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert sorted(f.read_bytes() for f in files) == [b"four", b"one", b"three", b"two"]
    assert len({Path(i).parent for i in inputs}) == 1
    assert all(tmp_path in f.parents for f in files)


def test_a_bundle_is_opened_and_a_hostile_one_is_not(tiny: Path, tmp_path: Path) -> None:
    from traces.dataset.bundle import bundle, is_bundle, open_bundle
    from traces.dataset.layout import Dataset, NotADataset

    bundle(Dataset(tiny), tmp_path / "good.zip")
    assert is_bundle(tmp_path / "good.zip")
    opened = open_bundle(tmp_path / "good.zip", tmp_path / "good")
    assert opened.read("requests").height == 4
    assert re.fullmatch(r"[0-9a-f]{12}", opened.key)

    def spoiled(name: str, change) -> Path:
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(tmp_path / "good.zip") as good, zipfile.ZipFile(path, "w") as out:
            for entry in good.namelist():
                out.writestr(entry, change(entry, good.read(entry)))
        return path

    def key(entry: str, data: bytes) -> bytes:
        return json.dumps(json.loads(data) | {"content_key": "../../x"}).encode() if entry == "manifest.json" else data

    with pytest.raises(NotADataset, match="content_key"):
        open_bundle(spoiled("key", key), tmp_path / "key")

    def table(name: str, **columns: pl.Expr):
        def change(entry: str, data: bytes) -> bytes:
            if not entry.endswith(f"/{name}.parquet"):
                return data
            part = tmp_path / "part.parquet"
            pl.read_parquet(data).with_columns(**columns).write_parquet(part)
            return part.read_bytes()

        return change

    far = pl.when(pl.col("parent_id").is_null()).then(None).otherwise(10**12).cast(pl.Int64)
    loop = pl.when(pl.col("parent_id").is_null()).then(None).otherwise(pl.col("prefix_id")).cast(pl.Int64)
    for name, change in (
        ("far", table("prefixes", parent_id=far)),
        ("loop", table("prefixes", parent_id=loop)),
        ("leaf", table("requests", prefix_id=pl.lit(10**9, pl.Int64))),
        ("column", table("requests", prefix_id=pl.lit("x"))),
        ("junk", lambda entry, data: b"junk" if entry.endswith(".parquet") else data),
    ):
        with pytest.raises(NotADataset):
            open_bundle(spoiled(name, change), tmp_path / name)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (formats.tokens(None), "–"),
        (formats.tokens(0), "0"),
        (formats.tokens(950), "950"),
        (formats.tokens(1_240_000), "1.24\u00a0M"),
        (formats.tokens(999_999), "1.00\u00a0M"),
        (formats.tokens(50_397_681), "50.4\u00a0M"),
        (formats.count(48210), "48\u202f210"),
        (formats.count(None), "–"),
        (formats.rate(0.93384), "93.4\u00a0%"),
        (formats.rate(0.99999), "> 99.9\u00a0%"),
        (formats.rate(0.00001), "< 0.1\u00a0%"),
        (formats.rate(1.0), "100.0\u00a0%"),
        (formats.rate(0.0), "0.0\u00a0%"),
        (formats.rate(float("nan")), "–"),
        (formats.ratio(38.2), "38\u00a0:\u00a01"),
        (formats.ratio(3.42), "3.4\u00a0:\u00a01"),
        (formats.seconds(0.42), "420\u00a0ms"),
        (formats.seconds(3.14), "3.1\u00a0s"),
        (formats.seconds(720), "12\u00a0min"),
        (formats.seconds(18_000), "5.0\u00a0h"),
        (formats.seconds(None), "–"),
        (formats.size(73_685_532_672), "68.6\u00a0GiB"),
        (formats.points(-0.134), "−13.4\u00a0points"),
        (formats.points(0.0), "0.0\u00a0points"),
        (formats.short(1_050_000), "1.05M"),
    ],
)
def test_one_formatter(written: str, expected: str) -> None:
    assert written == expected


def test_charts_get_few_rows() -> None:
    from app.widgets.charts import scales

    scales.limited(pl.DataFrame({"x": range(2000)}))
    with pytest.raises(scales.TooManyRows):
        scales.limited(pl.DataFrame({"x": range(2001)}))


def test_labels_at_line_ends_keep_apart() -> None:
    from app.widgets.charts import lines

    places = lines.spread([0.2, 0.90, 0.91, 0.92])
    assert places[0] == 0.2
    assert all(b - a >= 0.055 - 1e-6 for a, b in pairwise(places))


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("hit_rate", "The achievable hit rate"), ("hit_rate", "Ceiling"), ("hit_rate", "Low and high"),
        ("hit_rate", "Reported"), ("hit_rate", "Gap"),
        ("overlap", "Re-processing factor"), ("overlap", "Distinct tokens"),
        ("workload", "Ratios"), ("workload", "Input counts"), ("workload", "Turns"),
        ("workload", "New tokens per turn"),
    ],
)  # fmt: skip
def test_every_figure_has_its_own_sentence(query: str, label: str) -> None:
    from analysis.store.catalog import queries
    from app.widgets import figures as pieces

    sentence = pieces.definition(query, label)
    assert sentence.startswith(label)
    assert len(sentence) < len(queries()[query].help)
