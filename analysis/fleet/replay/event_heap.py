"""Pending events of a replay: a binary heap by time."""

from __future__ import annotations

from analysis.fleet.replay.books import Books
from analysis.kernel.numba_norc import norc_inner

COMPUTED, FINISHED, ARRIVED = range(3)  # at one time, in this order


@norc_inner()
def push(d: Books, when: float, what: int, attempt: int, request: int) -> None:
    """Heap order: time, then COMPUTED before FINISHED before ARRIVED, then arrival order."""
    key = (what << 48) | (attempt << 40) | request
    at = d.sums[0].pending
    d.sums[0].pending += 1
    while at > 0:
        up = (at - 1) >> 1
        if d.heap_s[up] < when or (d.heap_s[up] == when and d.heap_key[up] <= key):
            break
        d.heap_s[at] = d.heap_s[up]
        d.heap_key[at] = d.heap_key[up]
        at = up
    d.heap_s[at] = when
    d.heap_key[at] = key


@norc_inner()
def pop(d: Books) -> int:
    """Take the earliest event: (what << 48) | (attempt << 40) | request."""
    key = d.heap_key[0]
    d.sums[0].pending -= 1
    n = d.sums[0].pending
    when = d.heap_s[n]
    last = d.heap_key[n]
    at = 0
    while True:
        down = 2 * at + 1
        if down >= n:
            break
        if down + 1 < n and (
            d.heap_s[down + 1] < d.heap_s[down]
            or (d.heap_s[down + 1] == d.heap_s[down] and d.heap_key[down + 1] < d.heap_key[down])
        ):
            down += 1
        if when < d.heap_s[down] or (when == d.heap_s[down] and last <= d.heap_key[down]):
            break
        d.heap_s[at] = d.heap_s[down]
        d.heap_key[at] = d.heap_key[down]
        at = down
    d.heap_s[at] = when
    d.heap_key[at] = last
    return key
