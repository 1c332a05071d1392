"""How soon the app shows something: title and first chart in headless Chromium, on a server that was visited before.

Run by hand: `python tests/benchmarks/app.py`. Prints seconds (medians of five visits, a fresh browser profile each),
their ratio to the limits, and to a bare Streamlit page with a title and one chart on the same machine: what is above 1
there is ours.
"""

from __future__ import annotations

import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

APP = Path(__file__).resolve().parents[2] / "app"
LIMITS_S = {"title": 1.5, "first chart": 2.5}
VISITS = 5
BARE = """
import altair as alt, polars as pl, streamlit as st
st.title("Bare")
st.altair_chart(alt.Chart(pl.DataFrame({"x": [1, 2], "y": [1, 2]})).mark_line().encode(x="x", y="y"))
"""


def serve(script: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """A Streamlit script on `port`, ready to be visited."""
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        str(script),
        "--server.port",
        str(port),
        "--server.headless",
        "true",
    ]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRACETOWER_", "STREAMLIT_"))}
    server = subprocess.Popen(command, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1):
                return server
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def visit(browser: Any, address: str) -> dict[str, float]:
    """Seconds from asking for the page to its title and to its first drawn chart."""
    page = browser.new_context(viewport={"width": 1400, "height": 1000}).new_page()
    start = time.monotonic()
    page.goto(address, wait_until="commit")
    page.wait_for_selector("h1", timeout=60_000)
    title = time.monotonic() - start
    page.wait_for_selector("[data-testid=stVegaLiteChart] svg, [data-testid=stVegaLiteChart] canvas", timeout=60_000)
    chart = time.monotonic() - start
    page.context.close()
    return {"title": title, "first chart": chart}


def free_ports() -> tuple[int, int]:
    """Two ports that nobody listens on."""
    with socket.socket() as one, socket.socket() as two:
        for probe in (one, two):
            probe.bind(("", 0))
        return int(one.getsockname()[1]), int(two.getsockname()[1])


def main() -> None:
    """Print a table of the pages."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium on this machine")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        script = Path(folder) / "bare.py"
        script.write_text(BARE)
        bare_port, port = free_ports()
        servers = [serve(script, bare_port, Path(folder) / "bare.log"), serve(APP, port, Path(folder) / "log")]
        try:
            flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
            browser = playwright.chromium.launch(executable_path=chromium, args=flags)
            pages = {"bare": f"http://127.0.0.1:{bare_port}/"}
            for name in ("overview", "cache"):
                pages[name] = f"http://127.0.0.1:{port}/{name}?dataset=demo&arrivals=staggered:600"
            first = {name: visit(browser, address) for name, address in pages.items()}
            later: dict[str, list[dict[str, float]]] = {name: [] for name in pages}
            for _ in range(VISITS):  # in turns, so that a busy machine is busy for all of them
                for name, address in pages.items():
                    later[name].append(visit(browser, address))
            for what, limit in LIMITS_S.items():
                bare = statistics.median(v[what] for v in later["bare"])
                for name, visits in later.items():
                    median = statistics.median(v[what] for v in visits)
                    print(
                        f"{what:12} {name:9} first visit {first[name][what]:5.2f} s, then {median:5.2f} s = "
                        f"{median / limit:4.2f} x the limit of {limit} s = {median / bare:4.2f} x bare"
                    )
        finally:
            for server in servers:
                server.terminate()
                server.wait(10)


if __name__ == "__main__":
    main()
