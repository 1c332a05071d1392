"""Converts block ids into runs of the prefix tree, parsing only new ids.

In a coding-agent trace, turn T repeats the ids of turn T-1. The raw text of the ids is compared with that of an earlier
prompt (one memcmp) and only the rest is parsed, so the cost of a row grows with the ids that it adds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.source.sources import parse_json
from traces.tree.compiled import njit

MAX_TEXT_BYTES = 16 << 20
"""Most raw id text kept for comparison; the oldest is dropped first. If its text was dropped, a prompt is parsed
whole."""


class Known(NamedTuple):
    """An earlier prompt: the text of its full blocks' ids, their number, and the request's row."""

    text: bytes
    blocks: int
    row: int


class Added(NamedTuple):
    """The ids that a prompt adds: `base` is the row it extends (-1 none), `text` or `labels` are the ids after that."""

    base: int
    base_blocks: int
    text: bytes
    labels: list[Any] | None
    total: int  # ids in all


class KnownTexts:
    """Texts of earlier prompts, by session or, without sessions, by their last full block's id."""

    def __init__(self) -> None:
        self._by_session: dict[Any, Known] = {}
        self._by_last_id: dict[int, dict[bytes, Known]] = {}
        self._bytes = 0

    def add(
        self, space: int, session: Any, ids: bytes | list[Any], full_blocks: int, started_blocks: int, row: int
    ) -> Added:
        """Return what `ids` add to an earlier prompt, and remember them.

        Args:
            space: namespace of the ids.
            session: key of the session, or None.
            ids: a list of labels, or a JSON array's inner text.
            full_blocks: whole blocks of the prompt.
            started_blocks: the same with a partial last block; more ids than that are not remembered.
            row: the request's row.
        """
        if isinstance(ids, list):
            return Added(-1, 0, b"", ids, len(ids))
        ids = ids.strip()
        if ids.endswith(b'"') or ids.startswith(b'"'):
            return _labelled(ids)
        known: dict[Any, Known]
        if session is not None:
            known = self._by_session
            base = known.get(session)
            if base is not None:
                length = len(base.text)
                if not ids.startswith(base.text) or (len(ids) > length > 0 and ids[length] != 44):
                    base = None
        else:
            known = self._by_last_id.setdefault(space, {})
            base = _deepest(known, ids)
        if base is not None and base.blocks <= full_blocks:
            tail = ids[len(base.text) + 1 :] if base.text else ids
            added = Added(base.row, base.blocks, tail, None, base.blocks + (tail.count(b",") + 1 if tail else 0))
        else:
            added = Added(-1, 0, ids, None, ids.count(b",") + 1 if ids else 0)
        if b'"' in added.text:
            return _labelled(ids)  # a comma may stand inside a label
        extra = added.total - full_blocks
        if extra < 0 or added.total > started_blocks:
            return added
        text = ids[: ids.rfind(b",")] if extra == 1 and b"," in added.text else (b"" if extra == 1 else ids)
        if extra == 1 and not text and base is not None and added.base >= 0:
            text = base.text  # the one id added is the partial block's
        if text:
            key = session if session is not None else _last_id(text)
            self._put(known, key, Known(text, full_blocks, row), base)
        return added

    def _put(self, known: dict[Any, Known], key: Any, new: Known, base: Known | None) -> None:
        """Remember `new` and drop the prompt that it continues, which is rarely continued twice."""
        old = known.pop(key, None)
        if old is not None:
            self._bytes -= len(old.text)
        if base is not None and base is not old and known is not self._by_session:
            gone = known.pop(_last_id(base.text), None)
            self._bytes -= len(gone.text) if gone is not None else 0
        known[key] = new
        self._bytes += len(new.text)
        while self._bytes > MAX_TEXT_BYTES and len(known) > 1:
            self._bytes -= len(known.pop(next(iter(known))).text)

    def clear(self) -> None:
        """Forget all texts (after a row with invalid ids)."""
        self._by_session.clear()
        self._by_last_id.clear()
        self._bytes = 0


def _last_id(text: bytes) -> bytes:
    return text[text.rfind(b",") + 1 :].strip()


def _deepest(known: dict[bytes, Known], ids: bytes) -> Known | None:
    """The known prompt with the most ids that `ids` extend, searched from the end."""
    separator = b", " if b", " in ids[:64] else b","
    rest, seen = ids, 0
    while rest and seen < 4096:
        parts = rest.rsplit(separator, 64)
        whole = len(parts) <= 64
        for part in filter(known.__contains__, reversed(parts if whole else parts[1:])):
            if _extends(ids, known[part].text):
                return known[part]
        if whole:
            return None
        seen += 64
        rest = parts[0]
    return None


def _extends(ids: bytes, text: bytes) -> bool:
    return ids.startswith(text) and (len(ids) == len(text) or not text or ids[len(text)] == 44)


def _labelled(ids: bytes) -> Added:
    labels = _labels(ids)
    return Added(-1, 0, ids, labels, ids.count(b",") + 1 if labels is None else len(labels))


def _labels(ids: bytes) -> list[Any] | None:
    try:
        return list(parse_json(b"[" + ids + b"]"))
    except ValueError:
        return None


@njit(cache=True)
def parse_ids(text: Any, starts: Any, ends: Any, bases: Any, out: Any, out_start: Any) -> Any:
    """Parse comma separated whole numbers; return int8 per row: 1 fine, 0 not (or its base in this batch is not).

    Args:
        text: uint8, the rows' texts together.
        starts: int64 per row, where its text starts in `text`.
        ends: int64 per row, where it ends.
        bases: int64 per row, the place in this batch of the row it extends (-1 none or earlier).
        out: uint64, receives the ids.
        out_start: int64 per row and one more; receives where each row's ids start in `out`.
    """
    rows = starts.size
    fine = np.ones(rows, np.int8)
    used = 0
    limit = np.uint64(1844674407370955161)  # (2^64 - 1) // 10
    for i in range(rows):
        out_start[i] = used
        if bases[i] >= 0 and fine[bases[i]] == 0:
            fine[i] = 0
            continue
        value = np.uint64(0)
        digits = 0
        expect = ends[i] > starts[i]
        for at in range(starts[i], ends[i]):
            c = text[at]
            if 48 <= c <= 57:
                if value > limit or (value == limit and c > 53):
                    fine[i] = 0
                    break
                value = value * np.uint64(10) + np.uint64(c - 48)
                digits += 1
            elif c == 44:
                if digits == 0:
                    fine[i] = 0
                    break
                out[used] = value
                used += 1
                value = np.uint64(0)
                digits = 0
            elif c == 32 or c == 9 or c == 10 or c == 13:
                if digits > 0 and at + 1 < ends[i] and 48 <= text[at + 1] <= 57:
                    fine[i] = 0
                    break
            else:
                fine[i] = 0
                break
        if expect and fine[i] == 1:
            if digits == 0:
                fine[i] = 0
            else:
                out[used] = value
                used += 1
        if fine[i] == 0:
            used = out_start[i]
    out_start[rows] = used
    return fine


def unit_of(label: Any, digest: Any) -> int:
    """The 64-bit unit of one id label: integers below 2^64 unchanged, other labels as a keyed digest.

    Raises:
        ValueError: for floats, booleans, null and nested values, which are not ids.
    """
    if isinstance(label, bool) or label is None or isinstance(label, float | list | dict):
        raise ValueError(f"a block id is a {type(label).__name__}, not a whole number or a string")
    if isinstance(label, int) and 0 <= label < 1 << 64:
        return label
    return int(digest(str(label))) | (1 << 63)


def units_of(labels: list[Any], digest: Any) -> NDArray[np.uint64]:
    """`unit_of` for a list."""
    return np.fromiter((unit_of(label, digest) for label in labels), np.uint64, len(labels))
