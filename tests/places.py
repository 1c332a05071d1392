"""Where tests find things."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "samples"


def _unpacked(archive: Path) -> Path:
    """The folder that holds what the archive holds; unpacked once, whatever the number of test processes."""
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    cache = ROOT / ".pytest_cache"
    place = cache if os.access(cache if cache.exists() else ROOT, os.W_OK) else Path(tempfile.gettempdir())
    place.mkdir(exist_ok=True)
    folder = place / f"tracetower-shared-{digest}"
    if not folder.exists():
        made = Path(tempfile.mkdtemp(dir=place))
        with tarfile.open(archive) as tar:
            tar.extractall(made, filter="data")
        try:
            made.rename(folder)
        except OSError:  # another process was first
            shutil.rmtree(made, ignore_errors=True)
    return folder


SHARED = _unpacked(SAMPLES / "shared" / "traces.tar.xz")
"""Real traces, cases with answers, golden figures, engine records (tests/samples/shared/SOURCES.md)."""
