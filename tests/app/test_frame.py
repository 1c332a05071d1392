"""The frame of every command: one line for every error, exit codes, --debug, Ctrl-C, SIGTERM, control characters."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
from click.testing import CliRunner

from app.cli import COMMANDS, group
from app.commands.shell.command import command
from app.widgets.plain_text import markdown, printable, spreadsheet_safe
from tests.places import ROOT

HOSTILE = "a\x1b]0;title\x07b\x9b31mc\u202ed\u2066e\x7ff\rg"
SHOWN = "a\\x1b]0;title\\x07b\\x9b31mc\\u202ed\\u2066e\\x7ff\\x0dg"


def ends(error: Callable[[], Any], *words: str) -> Any:
    @command("fails")
    @click.option("--block-size", type=int)
    def fails(block_size: int | None) -> None:
        error()

    return CliRunner().invoke(fails, list(words))


def raising(error: BaseException) -> Callable[[], Any]:
    def act() -> None:
        raise error

    return act


def bad(*words: Any) -> BaseException:
    from analysis.store.question import BadQuestion

    return BadQuestion(*words)


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (lambda: raising(bad("100 is no multiple of 64", "block_size", [64, 128])), 2,
         "Error: --block-size: 100 is no multiple of 64. Try --block-size 64\n"),
        (lambda: raising(bad("no such thing", "arrivals", ["closed:8"])), 2, "Error: no such thing\n"),
        (lambda: raising(FileNotFoundError(2, "No such file or directory", "/x/y\x1b[2J")), 1,
         "Error: /x/y\\x1b[2J: No such file or directory. Check the path, its permissions and the free space\n"),
        (lambda: raising(OSError(28, "No space left on device")), 1, "Error: No space left on device."),
        (lambda: raising(MemoryError()), 1, "Error: not enough memory."),
        (lambda: raising(ZeroDivisionError("by\nzero")), 1, "ZeroDivisionError at tests/app/test_frame.py:"),
        (lambda: raising(KeyboardInterrupt()), 130, "Interrupted.\n"),
        (lambda: raising(click.UsageError("wrong \x1b")), 2, "Error: wrong \\x1b\n"),
    ],
)  # fmt: skip
def test_every_error_is_one_line(error: Any, code: int, says: str) -> None:
    result = ends(error())
    assert result.exit_code == code
    assert says in result.stderr
    assert "Traceback" not in result.output
    message = result.stderr.split("\n\n")[-1]
    assert message.count("\n") == 1


def test_debug_shows_the_traceback_and_the_same_line(monkeypatch: pytest.MonkeyPatch) -> None:
    fail = raising(ZeroDivisionError("by zero"))
    for words, value in ((["--debug"], ""), ([], "1")):
        monkeypatch.setenv("TRACETOWER_DEBUG", value)
        result = ends(fail, *words)
        assert result.exit_code == 1
        assert "Traceback" in result.stderr
        assert "by zero. Add --debug" in result.stderr
        assert os.environ["TRACETOWER_DEBUG"] == value


def test_every_command_takes_debug_and_has_an_example() -> None:
    for name in COMMANDS:
        text = CliRunner().invoke(group, [name, "--help"]).stdout
        assert "--debug" in text, name
        assert f"  tracetower {name}" in text, name


def test_control_characters_of_data_are_shown_not_obeyed(tmp_path: Path) -> None:
    assert printable(HOSTILE) == SHOWN
    assert printable("two\nlines\tof Ünïcödé – 中文") == "two\nlines\tof Ünïcödé – 中文"
    assert "\x1b" not in markdown(HOSTILE)
    rows = [
        {"timestamp": t, "session_id": "s", "model": HOSTILE + "\n=1+1", "input_tokens": 10 + t, "output_tokens": 1}
        for t in range(3)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = CliRunner().invoke(group, ["ingest", str(tmp_path / "t.jsonl"), "-o", str(tmp_path / "ds")])
    assert result.exit_code == 0, result.output
    for words in (["report", "--by", "model"], ["query", "--sql", "SELECT model FROM requests"], ["misses"]):
        result = CliRunner().invoke(group, [words[0], str(tmp_path / "ds"), *words[1:]])
        assert result.exit_code == 0, result.output
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\x7f", "\r"} & set(result.output), words
    assert "title" in CliRunner().invoke(group, ["report", str(tmp_path / "ds"), "--by", "model"]).output


def test_cells_that_a_spreadsheet_would_run_are_quoted() -> None:
    frame = pl.DataFrame(
        {
            "name": ["=1+1", "+1", "-1", "@x", "fine", None],
            "n": [-1, 2, 3, 4, 5, 6],
            "of": [["=a"], [], None, [], [], []],
        }
    )
    safe = spreadsheet_safe(frame)
    assert safe["name"].to_list() == ["'=1+1", "'+1", "'-1", "'@x", "fine", None]
    assert safe["n"].to_list() == frame["n"].to_list()
    assert safe["of"].to_list()[:2] == ["['=a']", "[]"]


def test_sigterm_ends_a_command_with_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "waits")
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "ingest", "-", "-o", str(tmp_path / "ds")], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(3)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 143
    assert said == "Terminated.\n"
    assert not list(tmp_path.glob("*ds*"))


def test_no_page_imports_a_command() -> None:
    for room in ("views", "visit", "widgets"):
        for path in (ROOT / "app" / room).rglob("*.py"):
            assert "app.commands" not in path.read_text("utf-8"), path
