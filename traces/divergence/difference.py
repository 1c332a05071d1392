"""Where two texts that are alike but for a stretch differ, and the words that the stretch is in."""

from __future__ import annotations

import re
from typing import NamedTuple

ID_LABEL = re.compile(
    r"""(?:id|uuid|guid|ulid|nonce|salt|seed|token|hash|trace|span|session|request|req|call|run|key|cch|etag|buster"""
    r"""|signature|correlation|conversation|thread|build|version)["'`*>)\]]*\s*(?:[:=#]+|\bis\b)?\s*["'`*(\[<]*$""",
    re.IGNORECASE,
)
"""What stands before an id."""

_JOINED = re.compile(r"[0-9A-Za-z_:./\\@+~%=-]")


class Difference(NamedTuple):
    """Two texts that are alike but for a stretch: `low` to `high_before`, and `low` to `high_after`."""

    before: str
    after: str
    low: int
    high_before: int
    high_after: int

    @property
    def label(self) -> str:
        """What stands before the stretch, alike in both."""
        return self.before[: self.low]

    @property
    def changed(self) -> tuple[str, str]:
        """The stretch in both."""
        return self.before[self.low : self.high_before], self.after[self.low : self.high_after]

    def words(self, joined: re.Pattern[str] = _JOINED) -> tuple[str, str, int]:
        """The stretch in both, as far as words reach, and where they begin."""
        start = self.low
        while start > 0 and joined.match(self.before[start - 1]):
            start -= 1
        named = re.match(r"[A-Za-z]\w+[:=]", self.before[start : self.low])
        start += named.end() if named else 0
        return _grown(self.before, start, self.high_before, joined), _grown(
            self.after, start, self.high_after, joined
        ), start  # fmt: skip

    @property
    def mostly(self) -> bool:
        """Whether the texts are alike for more than half of either."""
        a, b = self.changed
        return 2 * len(a) < len(self.before) and 2 * len(b) < len(self.after)


def alike(a: str, b: str) -> int:
    """How many leading characters two texts share."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # a[:low] is shared, and a[:high] is looked at in halves
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def difference(before: str, after: str) -> Difference:
    """Where two texts differ."""
    low = alike(before, after)
    size = min(len(before), len(after)) - low
    tail = alike(before[len(before) - size :][::-1], after[len(after) - size :][::-1])
    return Difference(before, after, low, len(before) - tail, len(after) - tail)


def _grown(text: str, start: int, high: int, joined: re.Pattern[str]) -> str:
    while high < len(text) and joined.match(text[high]):
        high += 1
    return text[start:high]
