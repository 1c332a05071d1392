"""In a real browser: from the demo to a CSV, back, and the link; an upload that is cut off, reloaded, and cancelled."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.places import ROOT

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
APP = ROOT / "app"
WAIT_MS = 40_000

pytest.importorskip("playwright", reason="playwright is not installed (pip install '.[dev]')")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app, started as `streamlit run app/` from another folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRACETOWER_", "STREAMLIT_"))}
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(APP),
        "--server.port",
        str(port),
        "--server.headless",
        "true",
    ]
    log = tmp_path_factory.mktemp("browser") / "server.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [*command, "--server.address", "127.0.0.1", "--server.fileWatcherType", "none"],
            cwd=log.parent, env=environment, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1):
                    break
            except OSError:
                assert server.poll() is None, log.read_text("utf-8", "replace")
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(10)


def test_from_the_demo_to_a_csv(address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
        page.set_default_timeout(WAIT_MS)
        page.goto(address)
        expect(page.get_by_role("heading", name="Data", level=1)).to_be_visible()
        page.get_by_role("button", name="Open the demo").click()
        expect(page.get_by_text("Receipt: demo")).to_be_visible()
        page.get_by_role("link", name="See what a cache of a size would hit").click()
        rate = (
            page.get_by_test_id("stMetric").filter(has_text=re.compile("Hit rate at")).get_by_test_id("stMetricValue")
        )
        expect(rate).to_have_text(re.compile(r"\d+\.\d\s%"))
        before = rate.inner_text()
        slider = page.get_by_role("slider", name=re.compile("Capacity of one replica")).first
        slider.focus()
        for _ in range(4):
            slider.press("ArrowLeft")
            _settled(page)  # every key press draws the figure and the buttons anew
        expect(rate).not_to_have_text(before)
        after = rate.inner_text()
        assert _number(after) < _number(before)
        expect(page).to_have_url(re.compile("dataset=demo"))
        expect(page).to_have_url(re.compile("capacity="))
        with page.expect_download() as download:
            page.get_by_role("button", name="CSV").first.click()
        target = tmp_path / "curve.csv"
        download.value.save_as(target)
        again = _open(browser, page.url)  # the link holds what was chosen
        figure = again.get_by_test_id("stMetric").filter(has_text=re.compile("Hit rate at"))
        expect(figure.get_by_test_id("stMetricValue")).to_have_text(after)
        for _ in range(4):
            page.go_back()  # one entry of the history for each change
        expect(rate).to_have_text(before)
        page.go_back()
        expect(page.get_by_role("heading", name="Data", level=1)).to_be_visible()
        shown = page.get_by_text("Traceback").count() + page.get_by_test_id("stException").count()
        browser.close()
    assert shown == 0
    rows = list(csv.DictReader(target.open(encoding="utf-8")))
    rates = [float(row["hit_rate"]) for row in rows]
    assert rates == sorted(rates)
    assert any(abs(100 * r - _number(after)) < 0.051 for r in rates)
    assert any(abs(100 * r - _number(before)) < 0.051 for r in rates)


def _open(browser: Any, address: str, **settings: Any) -> Any:
    page = browser.new_context(**settings).new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(address)
    return page


def _send(page: Any, file: Path, text: str) -> None:
    _settled(page)
    files = page.get_by_test_id("stFileUploader").locator("input[type=file]")
    file.write_text(text)
    files.set_input_files(file)
    page.get_by_role("button", name="Read what was sent").click()


def test_an_upload_outlives_a_cut_a_reload_and_a_cancel_and_is_nobody_elses(address: str, tmp_path: Path) -> None:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    rows = [{"timestamp": n, "input_length": 64 * n, "output_length": 5, "hash_ids": [*range(n)]} for n in (3, 5, 9)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context().new_page()
        page.set_default_timeout(WAIT_MS)
        lines: list[Any] = []
        cut = [0.0]

        def connect(line: Any) -> None:
            if time.monotonic() < cut[0]:
                line.close()
                return
            lines.append(line)
            line.connect_to_server()

        page.route_web_socket(re.compile("_stcore/stream"), connect)
        page.goto(address)
        _send(page, tmp_path / "secret-name.jsonl", text)
        expect(page.get_by_text("Receipt: secret-name")).to_be_visible()
        _settled(page)
        cut[0] = time.monotonic() + 3
        lines[-1].close()  # the connection is gone, and cannot be made again for 3 s
        connected = page.locator("[data-test-connection-state=CONNECTED]")
        expect(connected).to_have_count(0)
        expect(connected).to_have_count(1)
        page.get_by_role("link", name="Overview").first.click()
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        expect(page.get_by_text("3 of 3 requests")).to_be_visible()
        assert len(lines) > 1
        page.go_back()
        expect(page.get_by_text("Receipt: secret-name")).to_be_visible()
        page.reload()
        expect(page.get_by_text("Receipt: secret-name")).to_be_visible()

        other = _open(browser, address)  # another visitor, another browser profile
        expect(other.get_by_role("button", name="Open the demo")).to_be_visible()
        _settled(other)
        assert "secret-name" not in other.content()
        assert re.search("upload-[A-Za-z0-9_-]{30}", other.content()) is None
        _send(page, tmp_path / "broken.jsonl", "no trace\n")
        expect(page.get_by_text("nothing was opened")).to_be_visible()
        page.get_by_role("button", name="Delete it").click()
        expect(page.get_by_text("nothing was opened")).to_have_count(0)
        _send(page, tmp_path / "long.jsonl", text * 100_000)
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("the reading was cancelled")).to_be_visible()
        shown = [page.get_by_test_id("stException").count() for page in (page, other)]
        browser.close()
    assert shown == [0, 0]


def test_a_folder_of_claude_code_to_the_turn_that_lost_most_in_four_clicks(address: str) -> None:
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = _open(browser, f"{address}/?send=folder", viewport={"width": 1400, "height": 1000})
        folder = page.get_by_test_id("stFileUploader").locator("input[type=file]")
        folder.set_input_files(ROOT / "tests" / "samples" / "claude_code")
        page.get_by_role("button", name="Read what was sent").click()
        expect(page.get_by_text("Receipt: claude_code")).to_be_visible()
        page.get_by_role("link", name="Overview").first.click()  # 1: the answer
        expect(page.get_by_text("Achievable hit rate (ceiling)")).to_be_visible()
        page.get_by_role("link", name="Sessions").first.click()  # 2: the sessions, the worst on top
        expect(page.get_by_text("Click a row to open its session.")).to_be_visible()
        _settled(page)
        rows = page.get_by_test_id("stDataFrame").first.bounding_box()
        page.mouse.click(rows["x"] + 150, rows["y"] + 52)  # 3: the first row
        worst = page.get_by_role("button", name=re.compile(r"^Turn \d+: ")).first
        expect(worst).to_be_visible()
        number = re.findall(r"\d+", worst.inner_text())[0]
        worst.click()  # 4: its worst turn
        expect(page.get_by_text("Its neighbours")).to_be_visible()
        expect(page).to_have_url(re.compile(rf"session=1\b.*turn={number}\b"))
        page.go_back()
        expect(page.get_by_text("Its neighbours")).to_have_count(0)
        shown = page.get_by_test_id("stException").count()
        browser.close()
    assert shown == 0


def _settled(page: Any) -> None:
    """Wait until the script has rested for most of a second."""
    rested = 0
    for _ in range(400):
        page.wait_for_timeout(100)
        rested = rested + 1 if page.locator("[data-test-script-state=notRunning]").count() else 0
        if rested >= 8:
            return
    raise AssertionError("the page never came to rest")


def _number(text: str) -> float:
    return float(re.sub(r"[^\d.]", "", text))
