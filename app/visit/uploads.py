"""What visitors send: saved under safe names in their own folder, within the limits for uploads.

Nothing a visitor sends is trusted: names never become paths. What archives hold is for
`traces.source.sources` and `traces.dataset.bundle` to check.
"""

from __future__ import annotations

import re
import secrets
import shutil
from pathlib import Path
from typing import Any

from traces.source.inputs import UPLOAD_LIMITS

COPY_BYTES = 1 << 20
LONGEST_NAME = 80


class TooMuch(ValueError):
    """More was sent than the limits allow."""


def safe_parts(name: str) -> list[str]:
    """The parts of a sent name as they may stand on disk: no climbing, no hidden files, no odd signs, not too long.

    Their order and endings stay, because readers tell sub-agents from folders and files from their endings.
    """
    parts = []
    for part in re.split(r"[/\\]+", name):
        clean = re.sub(r"[^A-Za-z0-9._-]+", "_", part).lstrip(".")
        if not clean.strip("_"):
            continue
        parts.append(clean if len(clean) <= LONGEST_NAME else clean[:40] + clean[-40:])
    return parts[-8:] or ["file"]


def save(uploads: list[Any], folder: Path) -> list[str]:
    """Write what was sent below `folder` and return the inputs to ingest.

    Raises:
        TooMuch: above `UPLOAD_LIMITS` in files or bytes; nothing is left behind.
    """
    if len(uploads) > UPLOAD_LIMITS.entries:
        raise TooMuch(f"{len(uploads):,} files were sent; at most {UPLOAD_LIMITS.entries:,} are taken")
    target = folder / f"sent-{secrets.token_hex(8)}"
    target.mkdir(mode=0o700)
    written = 0
    try:
        for upload in uploads:
            path = _free(target.joinpath(*safe_parts(upload.name)))
            path.parent.mkdir(parents=True, exist_ok=True)
            upload.seek(0)
            with path.open("xb") as out:
                while chunk := upload.read(COPY_BYTES):
                    written += len(chunk)
                    if written > UPLOAD_LIMITS.total_bytes:
                        raise TooMuch(f"more than {UPLOAD_LIMITS.total_bytes >> 30} GiB were sent")
                    out.write(chunk)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return sorted(str(p) for p in target.iterdir())


def _free(path: Path) -> Path:
    """`path`, or the next free name beside it; a file in the way of a folder moves the folder."""
    for parent in reversed(path.parents):
        if parent.is_file():
            path = parent.with_name(f"{parent.name}.d") / path.relative_to(parent)
            break
    number = 1
    found = path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found
