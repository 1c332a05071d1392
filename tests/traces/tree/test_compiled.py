"""Compiled code is kept for the sources it was made from, in a place that nobody else can write."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.places import ROOT
from traces.tree import compiled


def test_a_change_of_a_compiled_source_names_another_folder(tmp_path: Path) -> None:
    room = tmp_path / "analysis" / "kernel"
    room.mkdir(parents=True)
    (room / "loop.py").write_text("from traces.tree.compiled import njit\n")
    (room / "plain.py").write_text("x = 1\n")
    before = compiled.fingerprint(tmp_path)
    (room / "plain.py").write_text("x = 2\n")
    assert compiled.fingerprint(tmp_path) == before
    (room / "loop.py").write_text("from traces.tree.compiled import njit\nx = 2\n")
    assert compiled.fingerprint(tmp_path) != before


def test_every_compiled_function_comes_through_the_one_door() -> None:
    files = [path for package in ("traces", "analysis", "app") for path in (ROOT / package).rglob("*.py")]
    direct = {path.name for path in files if re.search(r"^\s*from numba import .*njit", path.read_text("utf-8"), re.M)}
    assert direct == {"compiled.py"}
    held = {path for path in files if "njit" in path.read_text("utf-8")}
    assert all(any(path.is_relative_to(ROOT / room) for room in compiled.ROOMS) for path in held)


def test_no_place_is_a_folder_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path))
    place = compiled.place()
    assert place is not None
    assert place.parent == tmp_path
    assert place.stat().st_mode & 0o777 == 0o700
    place.chmod(0o777)  # anyone could have put code there
    assert compiled.place() is None


def test_only_old_folders_of_ours_are_removed(tmp_path: Path) -> None:
    for k in range(6):
        compiled.keep(tmp_path, f"{k:016x}")
    (tmp_path / "theirs").mkdir()
    compiled.keep(tmp_path, f"{6:016x}")
    assert len([p for p in tmp_path.iterdir() if p.name != "theirs"]) == compiled.KEPT + 1
    assert (tmp_path / "theirs").is_dir()


def test_a_named_place_is_used(tmp_path: Path) -> None:
    code = "import traces.tree.compiled as c; print(c.config.CACHE_DIR)"
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={"NUMBA_CACHE_DIR": str(tmp_path), "HOME": "/nonexistent"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert Path(said.strip()).parent == tmp_path
