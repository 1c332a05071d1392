"""Where numba keeps compiled code on a machine that offers no place for it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PLACE = "NUMBA_CACHE_DIR"
ROOT = Path(__file__).resolve().parents[2]


def keep_compiled_code() -> None:
    """Name a folder for compiled code where neither the package's folder nor the user's cache can be written.

    numba refuses to compile then. The folder is the user's own in the temporary folder, so that nobody else can put
    code there; without one, code is compiled anew by every process.
    """
    if os.environ.get(PLACE) or os.access(ROOT / "analysis" / "kernel", os.W_OK):
        return
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    above = next((folder for folder in (cache, *cache.parents) if folder.exists()), None)
    if above is not None and above.is_dir() and os.access(above, os.W_OK):
        return
    folder = Path(tempfile.gettempdir()) / f"tracetower-compiled-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
        if about.st_uid != os.getuid() or about.st_mode & 0o077 or folder.is_symlink():
            folder = Path(tempfile.mkdtemp(prefix="tracetower-compiled-"))
    except OSError:
        return
    os.environ[PLACE] = str(folder)
