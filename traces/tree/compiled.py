"""The one door to numba: where compiled code is kept, so that it is never older than the sources it was made from.

Numba looks only at the file of a compiled function. A change in a function that it calls, or in a record that it is
handed, is not noticed: the old code would run, or its index could not be read. So the folder for compiled code is named
after all sources that hold compiled functions.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from numba import config, njit

__all__ = ["njit"]

PROJECT = Path(__file__).resolve().parents[2]
KEPT = 3
"""Folders of compiled code that stay when a new one is made."""

_NAME = re.compile(r"[0-9a-f]{16}")


ROOMS = ("analysis", "traces/dataset", "traces/synth", "traces/tree")
"""Where compiled functions and the records that they are handed lie."""


def fingerprint(project: Path = PROJECT) -> str:
    """16 hex digits of the names and texts of all sources that hold compiled functions."""
    whole = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((project / room).rglob("*.py")):
            text = path.read_bytes()
            if b"njit" in text or b"numba_norc" in text or b"np.dtype(" in text:
                whole.update(path.relative_to(project).as_posix().encode() + b"\0" + text + b"\0")
    return whole.hexdigest()[:16]


def place() -> Path | None:
    """The folder that holds the folders of compiled code; None where nothing can be kept.

    It is NUMBA_CACHE_DIR where that is set, else the user's cache, else a folder in the temporary folder that only this
    user can write, so that nobody else can put code there.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    own = Path(tempfile.gettempdir()) / f"tracetower-compiled-{os.getuid()}"
    for folder in [Path(named)] if named else [cache / "tracetower" / "compiled", own]:
        with contextlib.suppress(OSError, RuntimeError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            about = folder.lstat()
            mine = about.st_uid == os.getuid() and not about.st_mode & 0o022 and not folder.is_symlink()
            if os.access(folder, os.W_OK) and (mine or named):
                return folder
    return None


def keep(folder: Path, name: str) -> Path:
    """The folder called `name` in `folder`; older ones of ours are removed but for the newest."""
    chosen = folder / name
    with contextlib.suppress(OSError):
        if not chosen.exists():
            chosen.mkdir(mode=0o700)
            ours = [p for p in folder.iterdir() if _NAME.fullmatch(p.name) and p.is_dir() and not p.is_symlink()]
            for old in sorted(ours, key=lambda p: p.stat().st_mtime, reverse=True)[KEPT + 1 :]:
                shutil.rmtree(old, ignore_errors=True)
    return chosen


def _nowhere() -> Path:
    """A folder for this process alone."""
    folder = Path(tempfile.mkdtemp(prefix="tracetower-compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


_place = place()
vars(config)["CACHE_DIR"] = str(keep(_place, fingerprint()) if _place else _nowhere())
