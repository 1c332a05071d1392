"""A secret of this user on this machine. It seals files in a dataset's cache/, which shows that they were written
here."""

from __future__ import annotations

import contextlib
import functools
import hmac
import os
import secrets
from pathlib import Path


def seal(*parts: bytes | str) -> str:
    """A digest of `parts` that nobody can compute without this machine's secret; 32 hex digits."""
    message = b"".join(len(data).to_bytes(8, "little") + data for data in map(_bytes, parts))
    return hmac.new(_secret(), message, "sha256").hexdigest()[:32]


def _bytes(part: bytes | str) -> bytes:
    return part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part


@functools.cache
def _secret() -> bytes:
    """Read or make the secret; where it cannot be kept, it lives as long as this process."""
    made = secrets.token_bytes(32)
    try:
        file = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "tracetower" / "secret"
    except RuntimeError:
        return made
    with contextlib.suppress(OSError):
        return _of_length(file.read_bytes())
    part = file.with_name(f"secret.{secrets.token_hex(4)}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.touch(mode=0o600)
        part.write_bytes(made)
        try:
            os.link(part, file)  # fails where another process was first
        finally:
            part.unlink(missing_ok=True)
    except OSError:
        with contextlib.suppress(OSError):
            return _of_length(file.read_bytes())
    return made


def _of_length(content: bytes) -> bytes:
    if len(content) < 32:
        raise OSError("the secret was cut short")
    return content
