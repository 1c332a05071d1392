"""Does the wheel run where no checkout is? Builds and installs it, makes the demo with it, and opens the app's page.

    python tests/consumers/wheel.py

The wheel gets an environment of its own, which takes its dependencies from the environment that runs this program.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check(folder: Path) -> None:
    """Everything, in an empty folder."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", folder / "dist", ROOT], check=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    home = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = next(home.glob("lib/python3*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    subprocess.run([*pip, "--python", home / "bin/python", "install", "--no-deps", wheel], check=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRACETOWER_"))}

    def run(*words: object) -> str:
        done = subprocess.run([*map(str, words)], cwd=folder, env=clean, check=True, capture_output=True, text=True)
        return done.stdout

    where = run(home / "bin/python", "-c", "import traces, analysis, app; print(*traces.__path__, *app.__path__)")
    assert all(Path(place).is_relative_to(site) for place in where.split()), where
    made = json.loads(run(home / "bin/tracetower", "demo", "-o", "demo", "--json"))
    assert made, "the demo says nothing"
    report = json.loads(run(home / "bin/tracetower", "report", "demo", "--json"))
    assert 0.9 < report["hit_rate"]["ceiling"] < 1, report["hit_rate"]
    print(f"{wheel.name}: the demo's ceiling is {report['hit_rate']['ceiling']:.4f}")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [home / "bin/tracetower", "app", "demo", "--port", str(port), "--address", "127.0.0.1"]
    with (folder / "app.log").open("wb") as log:
        server = subprocess.Popen(words, cwd=folder, env=clean, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        for _ in range(600):
            assert server.poll() is None, (folder / "app.log").read_text("utf-8", "replace")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
                    assert b"<html" in page.read().lower()
                    break
            except OSError:
                time.sleep(0.1)
        else:
            raise AssertionError("the app did not answer within a minute")
    finally:
        server.terminate()
        server.wait(20)
    print("the app answers")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check(Path(scratch))
