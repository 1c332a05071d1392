"""The folder of a running server, below which all visitors' files lie, and what killed servers left.

A visitor's folder goes with the visit, the server's folder with the server. A server that was killed leaves its folder;
the next one clears it, and knows by the lock, which only a running server holds, that nobody uses it.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path

PREFIX = "tracetower-server-"
LOCK = "lock"


@cache
def server_folder() -> Path:
    """The folder of this server process (mode 0700), made and locked at its first use and removed when it ends."""
    clear_dead()
    folder = Path(tempfile.mkdtemp(prefix="tracetower-starting-"))
    lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # only a locked folder gets the name that `clear_dead` looks for
    named = folder.rename(folder.with_name(PREFIX + secrets.token_hex(8)))
    atexit.register(shutil.rmtree, named, ignore_errors=True)
    tempfile.tempdir = str(named)  # temporary files of this process are deleted with this folder
    return named


def clear_dead() -> int:
    """Remove the folders of servers that no longer run; returns how many there were."""
    cleared = 0
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            cleared += 1
        except OSError:
            pass  # its server runs
        finally:
            os.close(lock)
    return cleared


def used_bytes(folder: Path) -> int:
    """Bytes of the files below a folder, links not followed."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (a walk over many files)
            except OSError:
                continue  # removed meanwhile
    return total
