"""Whose prompt the first prompt of a synthetic session shares with: earlier sessions, and the choice among them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

RING = 4096
"""Earlier sessions of a level whose prompts a new session may share with."""

NEARBY, CLOSE, MOMENT = 1024, 0.02, 1.0
"""Sessions that are looked at for one like the one asked for, how near to it is near enough (a sum of log ratios and
shares), and the seconds below which ages are not told apart."""

GROUPS = 1 << 16
"""Groups of sessions that start alike; older ones are forgotten."""


class Growing(NamedTuple):
    """The tree while it grows (room for what a batch adds) and its rings.

    parent, start, end: int64. n: int64[1], nodes in use. ring_first, ring_last: int64[2, RING], the node where the
    first and the last prompt of recent sessions of a level end. ring_shared: int64[2, RING], tokens of it that a later
    session starts with too (so that session touched them last). ring_first_s, ring_last_s: float64[2, RING], when those
    two prompts arrived. ring_keep, ring_group: int64[2, RING], what a session starts with that earlier ones do, and the
    group of those that do (-1 none). group_count: int64[GROUPS], sessions of a group. groups: int64[1], made so far.
    rings: int64[2], sessions put there so far.
    """

    parent: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    n: NDArray[np.int64]
    ring_first: NDArray[np.int64]
    ring_last: NDArray[np.int64]
    ring_shared: NDArray[np.int64]
    ring_first_s: NDArray[np.float64]
    ring_last_s: NDArray[np.float64]
    ring_keep: NDArray[np.int64]
    ring_group: NDArray[np.int64]
    group_count: NDArray[np.int64]
    groups: NDArray[np.int64]
    rings: NDArray[np.int64]


@njit(cache=True)
def shared_with(tree: Any, share: Any, parent_leaf: Any, level: Any, start_s: Any) -> Any:
    """(node, tokens, group): whose prompt a first prompt shares with, how far, and who else does; (0, 0, -1) nobody's.

    Of the sessions around the one that started as many sessions back as asked for, with a prompt long enough, the one
    that is most like the one asked for: by how many others start so, whether it is over, what was touched since, when.
    """
    whose, keep, lag, age, over = np.int64(share[1]), np.int64(share[2]), np.int64(share[3]), share[4], share[5] > 0
    nobody = np.int64(0), np.int64(0), np.int64(-1)
    if keep == 0 or whose == 0:
        return nobody
    if whose == 1 and parent_leaf > 0:
        return parent_leaf, keep, np.int64(-1)
    there = min(tree.rings[level], RING)
    if there == 0:
        return nobody
    lag = min(max(lag, np.int64(1)), there)
    best, chosen, found = np.inf, np.int64(-1), np.int64(0)
    for step in range(2 * there):
        back = lag + (step + 1) // 2 if step % 2 else lag - step // 2
        if back < 1 or back > there:
            continue
        if step > NEARBY and found > 0:
            break
        at = (tree.rings[level] - back) % RING
        if tree.ring_shared[level, at] >= keep:
            continue
        node, touched = tree.ring_last[level, at], tree.ring_last_s[level, at]
        if tree.end[tree.ring_first[level, at]] >= keep:
            node = tree.ring_first[level, at]
        if tree.end[node] < keep:
            continue
        if age < 0:
            tree.ring_shared[level, at] = keep
            return node, keep, np.int64(-1)
        group, met = tree.ring_group[level, at], 1
        if group >= 0 and tree.ring_keep[level, at] == keep:
            met = tree.group_count[group % GROUPS]
        ended = touched <= start_s
        since = max(0.0, start_s - (touched if ended else tree.ring_first_s[level, at]))
        if math.isnan(since):  # a session without times
            since = age
        off = abs(math.log((since + MOMENT) / (age + MOMENT))) + abs(math.log(met / max(1.0, share[7])))
        off += (ended != over) + abs(tree.ring_shared[level, at] - share[6]) / keep
        if off < best:
            best, chosen, found = off, at, node
            if off <= CLOSE:
                break
    if found == 0:
        return nobody
    tree.ring_shared[level, chosen] = keep
    group = tree.ring_group[level, chosen]
    if group < 0 or tree.ring_keep[level, chosen] != keep:
        group = tree.groups[0]
        tree.groups[0] += 1
        tree.group_count[group % GROUPS] = 1
        if tree.ring_group[level, chosen] < 0:
            tree.ring_group[level, chosen], tree.ring_keep[level, chosen] = group, keep
    tree.group_count[group % GROUPS] += 1
    return found, keep, group
