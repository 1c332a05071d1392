"""Folders that bundles are unpacked into: those of killed processes go, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.traces.dataset.mutations import tiny
from traces.dataset.bundle import bundle
from traces.dataset.layout import Dataset
from traces.dataset.unpacking import unpacked

KILLED = """
import os, signal, sys
from pathlib import Path
from traces.dataset.unpacking import unpacked
folder = unpacked(Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_leaves_nothing_after_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle(Dataset(tiny(tmp_path / "made")), tmp_path / "b.zip")
    scratch, elsewhere = tmp_path / "scratch", tmp_path / "elsewhere"
    scratch.mkdir()
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (scratch / "tracetower-bundle-link").symlink_to(elsewhere)
    (scratch / "tracetower-bundle-file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    used = unpacked(tmp_path / "b.zip")

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "b.zip")], env=os.environ | {"TMPDIR": str(scratch)}, check=False
    )
    assert killed.returncode == -9
    assert len(list(scratch.iterdir())) == 4, "the killed process left its folder"

    again = unpacked(tmp_path / "b.zip")
    left = {path.name for path in scratch.iterdir()}
    assert left == {Path(used.name).name, Path(again.name).name, "tracetower-bundle-link", "tracetower-bundle-file"}
    assert (Path(used.name) / "manifest.json").is_file()
    assert (elsewhere / "kept").is_file()
