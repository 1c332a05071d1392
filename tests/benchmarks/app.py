"""How soon the app shows something: title and first chart in headless Chromium, on a server that was visited before.

Run by hand: `python tests/benchmarks/app.py`. Prints seconds and their ratio to the limits (title 1.5 s, first chart
2.5 s, medians of five visits, a fresh browser profile each).
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


def serve(port: int, log: Path) -> subprocess.Popen[bytes]:
    """The app on `port`, ready to be visited."""
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


def main() -> None:
    """Print a table of the pages."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium on this machine")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = serve(port, Path(folder) / "log")
        try:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            for name in ("overview", "cache"):
                address = f"http://127.0.0.1:{port}/{name}?dataset=demo&arrivals=staggered:600"
                first = visit(browser, address)
                later = [visit(browser, address) for _ in range(VISITS)]
                for what, limit in LIMITS_S.items():
                    median = statistics.median(v[what] for v in later)
                    print(
                        f"{name:9} {what:12} first visit {first[what]:5.2f} s, then {median:5.2f} s = "
                        f"{median / limit:4.2f} x the limit of {limit} s"
                    )
        finally:
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
