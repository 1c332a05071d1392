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

from app.visit.server import used_bytes
from app.widgets import formats
from traces.source.limits import UPLOAD_LIMITS

COPY_BYTES = 1 << 20
LONGEST_NAME = 80
VISITOR_BYTES = 2 << 30
"""What one visitor may keep on this server: files as they were sent, and the datasets made of them."""
SERVER_BYTES = 16 << 30
"""What all visitors together may keep."""
HELD_BYTES = 2 << 30
"""What all visitors together may hold in memory, sent and not yet read."""


class TooMuch(ValueError):
    """More was sent than the limits allow."""


def check(sent: list[Any], kept: int, server: Path) -> None:
    """Refuse what is more than one visitor, or all of them, may keep.

    Args:
        sent: the files in the box.
        kept: bytes of the visitor's other uploads.
        server: the folder of all visitors.

    Raises:
        TooMuch: the message says which limit, and what to do.
    """
    size = sum(upload.size for upload in sent)
    if kept + size > VISITOR_BYTES:
        raise TooMuch(
            f"you may keep {VISITOR_BYTES >> 30} GiB on this server, and {size / 1e9:,.1f} GB more would be too much. "
            "Read large traces with the command line and send the zip of tracetower bundle"
        )
    if used_bytes(server) + size > SERVER_BYTES or held_bytes() > HELD_BYTES:
        raise TooMuch("this server's visitors keep as much as it has room for. Try again later")


def held_bytes() -> int:
    """Bytes of all visitors' files that are in memory, not yet read."""
    from streamlit import runtime

    if not runtime.exists():
        return 0
    storage = getattr(runtime.get_instance().uploaded_file_mgr, "file_storage", {})
    return sum(len(record.data) for files in list(storage.values()) for record in list(files.values()))


def forget(sent: list[Any]) -> None:
    """Give back the memory that sent files hold."""
    from streamlit import runtime
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    context = get_script_run_ctx()
    if context is None or not runtime.exists():
        return
    manager: Any = runtime.get_instance().uploaded_file_mgr
    for upload in sent:
        manager.remove_file(context.session_id, upload.file_id)


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
        TooMuch: above the limits in files or bytes; nothing is left behind.
    """
    if len(uploads) > UPLOAD_LIMITS.entries:
        raise TooMuch(
            f"{formats.count(len(uploads))} files were sent; at most {formats.count(UPLOAD_LIMITS.entries)} are taken"
        )
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
                    if written > VISITOR_BYTES:
                        raise TooMuch(f"more than {VISITOR_BYTES >> 30} GiB were sent")
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
