"""The page Export, run without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from tests.analysis.export.exported import mooncake_file, read
from tests.places import ROOT

SCRIPT = str(ROOT / "app" / "streamlit_app.py")
ROWS = [
    {"timestamp": t, "session_id": s, "input_length": 4 * len(ids), "output_length": 2, "hash_ids": ids,
     "block_size": 4}
    for t, s, ids in ((0, "a", [1, 2]), (1000, "b", [1, 5]), (9000, "a", [1, 2, 3]))
]  # fmt: skip


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    dataset = read(mooncake_file(tmp_path / "t.jsonl", ROWS), tmp_path).dataset.path
    monkeypatch.delenv("TRACETOWER_DATA_ROOTS", raising=False)
    monkeypatch.setenv("TRACETOWER_DATASET", str(dataset))
    at = AppTest.from_file(SCRIPT, default_timeout=300).run()
    return at.switch_page("views/export.py").run()


def test_preview_command_and_download(page: AppTest) -> None:
    assert not page.exception
    assert page.selectbox(key="to").value == "weka"
    page.selectbox(key="to").set_value("mooncake").run()
    page.button(key="export-go").click().run()
    assert not page.exception
    assert any("3 records" in m.value for m in page.markdown)
    preview = page.code[0].value.splitlines()
    assert [json.loads(line)["input_length"] for line in preview] == [8, 8, 12]
    codes = [c.value for c in page.code]
    assert "aiperf analyze-trace mooncake --block-size 4" in codes
    assert any(c.startswith("tracetower export") and "--to mooncake -o mooncake" in c for c in codes)


def test_a_target_that_cannot_carry_the_trace_says_why(page: AppTest) -> None:
    page.selectbox(key="to").set_value("aiconfigurator").run()
    page.button(key="export-go").click().run()
    assert not page.exception
    assert any("--isl" in c.value for c in page.code)
