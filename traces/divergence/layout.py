"""Whether two texts differ by their layout only: whitespace, escapes, the kind of quotes, the order of keys."""

from __future__ import annotations

import re
from collections import Counter

from traces.divergence.difference import difference

WINDOW_CHARS = 400
"""How much of two texts is compared when only their layout may differ."""

LAYOUT_CHARS = 8
"""Characters besides whitespace that have to go on alike behind a change of layout."""


def same_but_layout(a: str, b: str, ends: bool = False, least: int = LAYOUT_CHARS) -> bool:
    """Whether two texts part by whitespace, escapes or the order of keys only: what else there is goes on alike.

    `ends`: `a` is over, and `b` may go on. `least`: characters besides whitespace that have to be alike there.
    """
    if a == b:
        return False
    bare_a, bare_b = bare(a), bare(b)
    if bare_a == bare_b and (len(bare_a) >= 2 or (a.strip() == b.strip() == "" and a != "" != b)):
        return True
    found = difference(a, b)
    alike = difference(bare_a, bare_b).low
    if alike - len(bare(a[: found.low])) >= (2 if ends and alike == len(bare_a) else least):
        return True
    return len(bare_a) == len(bare_b) >= LAYOUT_CHARS and "{" in bare_a and _fields(bare_a) == _fields(bare_b)


def _fields(bare: str) -> Counter[str]:
    """The keys and values of a JSON text in no order."""
    return Counter(re.split(r"[,{}\[\]]", bare))


_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&"}


def bare(text: str) -> str:
    """A text without what its layout adds: whitespace, escapes, the kind of quotes."""
    if "\\u" in text:
        text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)
    if "&" in text:
        for entity, char in _ENTITIES.items():
            text = text.replace(entity, char)
    return re.sub(r"\s+|\\[nrt]|\\", "", text).replace("'", '"')
