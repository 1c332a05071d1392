"""The server: what it binds, what it keeps of visitors, what goes when; and the process that reads uploads."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from app.visit import server
from app.visit.uploads import reading, sent
from tests.places import ROOT

ROWS = [
    {"timestamp": 1000 * n, "input_length": 64 * n, "output_length": 5, "hash_ids": list(range(n))} for n in (3, 5, 9)
]


def write(path: Path, rows: list[dict[str, Any]] = ROWS) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_only_this_machine_is_served_unless_said_otherwise() -> None:
    config = tomllib.loads((ROOT / "app" / ".streamlit" / "config.toml").read_text("utf-8"))
    assert config["server"]["address"] == "localhost"
    assert config["client"]["showErrorDetails"] == "none"


def test_no_page_element_comes_from_another_host() -> None:
    script = (ROOT / "app" / "streamlit_app.py").read_text("utf-8")
    assert "favicon.svg" in script
    assert "http" not in (ROOT / "app" / "favicon.svg").read_text("utf-8").replace("http://www.w3.org/2000/svg", "")


def test_folders_of_dead_servers_are_cleared_and_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    start = "from app.visit import server; import time; print(server.server_folder(), flush=True); time.sleep(600)"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    running, killed = (
        subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE, env=environment, text=True)
        for _ in range(2)
    )
    places = []
    for process in (running, killed):
        assert process.stdout is not None
        places.append(Path(process.stdout.readline().strip()))
    (places[1] / "visit-x").mkdir()
    (places[1] / "visit-x" / "sent.jsonl").write_text("{}")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "lock").write_text("")
    (tmp_path / f"{server.PREFIX}link").symlink_to(elsewhere)
    try:
        killed.kill()
        killed.wait()
        assert server.clear_dead() == 1
        assert places[0].is_dir()
        assert not places[1].exists()
        assert (elsewhere / "lock").is_file()
        running.terminate()
        running.wait()
        assert server.clear_dead() == 1
    finally:
        running.kill()


def test_sigterm_ends_the_server_and_takes_its_files_along(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "STREAMLIT_SERVER_HEADLESS": "true"}
    command = [sys.executable, "-m", "app.cli", "app", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    health = f"http://127.0.0.1:{port}/_stcore/health"
    for _ in range(600):
        try:
            with urllib.request.urlopen(health, timeout=1):
                break
        except OSError:
            assert process.poll() is None
            time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(health, timeout=1)
    assert not list(tmp_path.glob("tracetower-*"))


def test_the_reading_process_gives_the_receipt_of_ingest(tmp_path: Path) -> None:
    from traces.intake.ingest import ingest

    source = write(tmp_path / "trace.jsonl")
    seen: list[dict[str, Any]] = []
    receipt = reading.read([source], tmp_path / "a", {"block_tokens": 64}, seen.append)
    direct = ingest([source], tmp_path / "b")
    assert receipt["requests"] == direct["requests"] == 3
    assert receipt["block_size"] == 64
    assert list(receipt) == list(direct)
    with pytest.raises(reading.NotRead, match="nothing usable") as refused:
        reading.read([write(tmp_path / "none.jsonl", [{"a": 1}])], tmp_path / "c", {}, seen.append)
    assert refused.value.receipt is not None


def test_a_visitor_who_leaves_takes_the_reading_along(tmp_path: Path) -> None:
    class Left(BaseException):
        """What Streamlit raises in the script of a visitor who left."""

    long = tmp_path / "long.jsonl"  # takes much longer than what follows
    long.write_text("".join(json.dumps(row) + "\n" for row in ROWS) * 150_000)
    pids: list[int] = []

    def leave(progress: dict[str, Any]) -> None:
        listed = subprocess.run(
            ["ps", "-o", "pid,args", "--ppid", str(os.getpid())], capture_output=True, text=True, check=True
        ).stdout
        pids.extend(int(line.split()[0]) for line in listed.splitlines() if "app.visit.uploads.reading_process" in line)
        raise Left

    with pytest.raises(Left):
        reading.read([str(long)], tmp_path / "d", {}, leave)
    assert pids
    left = [pid for pid in pids if Path(f"/proc/{pid}/status").exists()]
    assert not [pid for pid in left if "reading_process" in Path(f"/proc/{pid}/cmdline").read_text()]


def test_what_a_receipt_suggests_is_a_button() -> None:
    receipt = {
        "warnings": [
            "4 rows have more block ids than … (--block-size 64: sizes from 60 to 64 fit them all).",
            "no size said (--block-size N)", "deltas: name the format (--format mooncake-delta).",
        ],
        "rejects": [{"file": "x", "line": 1, "reason": "name the unit (--time-unit ms, us or ns)"}],
    }  # fmt: skip
    assert [(way.option, way.value) for way in reading.ways_on(receipt)] == [
        ("block_tokens", "64"), ("format", "mooncake-delta"), ("time_unit", "ms"), ("time_unit", "us"),
        ("time_unit", "ns"),
    ]  # fmt: skip


def test_a_wrong_block_size_names_one_that_fits(tmp_path: Path) -> None:
    from traces.intake.ingest import ingest

    receipt = ingest([write(tmp_path / "trace.jsonl")], None)
    assert [way.value for way in reading.ways_on(receipt)] == ["64"]


class Sent:
    def __init__(self, size: int) -> None:
        self.size = size


def test_uploads_have_totals(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"x" * 1000)
    kept = server.used_bytes(tmp_path)
    assert kept == 1000
    sent.check([Sent(sent.VISITOR_BYTES - 1000)], kept, tmp_path)
    with pytest.raises(sent.TooMuch, match=re.escape("tracetower bundle")):
        sent.check([Sent(sent.VISITOR_BYTES - 999)], kept, tmp_path)


def test_a_dataset_that_is_sent_is_opened_as_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.visit.desk import desk
    from app.visit.known import Known
    from traces.dataset.bundle import bundle
    from traces.dataset.layout import Dataset
    from traces.intake.ingest import ingest

    ingest([write(tmp_path / "trace.jsonl")], tmp_path / "ds")
    bundle(Dataset(tmp_path / "ds"), tmp_path / "ds.zip")
    for name in ("ds", "ds.zip"):
        opened = desk(Known(name, tmp_path / name, False))
        assert opened.warehouse.dataset.read("requests").height == 3
        assert desk(Known(name, tmp_path / name, False)) is opened
