"""Keyed digests: equal content gives equal numbers inside one dataset and tells nothing outside it."""

from __future__ import annotations

import secrets
from hashlib import blake2b

LONG_CHARS = 1 << 20


class KeyedDigest:
    """A callable `digest(text or bytes) -> int` of 64 bits under a dataset's secret key."""

    def __init__(self, key: bytes | None = None) -> None:
        self.key = key or secrets.token_bytes(32)
        self._keyed = blake2b(digest_size=8, key=self.key)

    def __call__(self, content: str | bytes) -> int:
        """Return the digest of `content`."""
        if isinstance(content, str) and len(content) > LONG_CHARS:
            state = self._keyed.copy()  # no second copy of a very long text
            for start in range(0, len(content), LONG_CHARS):
                state.update(content[start : start + LONG_CHARS].encode("utf-8", "surrogatepass"))
            return int.from_bytes(state.digest(), "little")
        state = self._keyed.copy()  # keying anew costs as much as a short text
        state.update(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content)
        return int.from_bytes(state.digest(), "little")

    def hex(self, content: str | bytes) -> str:
        """A 128-bit keyed digest as hex, for naming inputs."""
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        return blake2b(data, digest_size=16, key=self.key).hexdigest()
