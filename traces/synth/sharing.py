"""Chooses the earlier session with whose prompt the first prompt of a synthetic session shares."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit

RING = 4096
"""The number of earlier sessions of a level with whose prompts a new session may share."""

NEARBY, CLOSE, MOMENT = 1024, 0.02, 1.0
"""How many sessions are compared with the wanted one, the distance that is close enough (a sum of log ratios and
shares), and the seconds below which two ages count as equal."""

OTHERWISE = 1.0
"""The distance added if a session starts differently from the wanted one."""

GROUPS = 1 << 16
"""The most groups of sessions with the same start; older ones are forgotten."""


class Growing(NamedTuple):
    """The tree while it grows (room for what a batch adds) and its rings.

    parent, start, end: int64. n: int64[1], nodes in use. ring_first, ring_last: int64[2, RING], the node where the
    first and the last prompt of recent sessions of a level end. ring_shared: int64[2, RING], tokens of it that a later
    session starts with too (so that session touched them last). ring_first_s, ring_last_s: float64[2, RING], when those
    two prompts arrived. ring_keep, ring_group: int64[2, RING], what a session starts with that earlier ones do, and the
    group of those that do (-1 none). group_count: int64[GROUPS], sessions of a group. groups: int64[1], made so far.
    rings: int64[2], sessions put there so far. ring_own, ring_label: int64[2, RING], a session's number and that of the
    first one that starts as it does, as the profile numbers them (-1 unknown).
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
    ring_own: NDArray[np.int64]
    ring_label: NDArray[np.int64]


@njit(cache=True)
def shared_with(tree: Any, share: Any, parent_leaf: Any, level: Any, start_s: Any) -> Any:
    """(node, tokens, group, own): the prompt that a first prompt shares with, how many tokens, the group of sessions
    with the same start, and the session's own number.

    If it shares with no prompt, node and tokens are 0 and group is -1. If the profile says which sessions start alike,
    the choice is among those, near the one that started the wanted number of sessions earlier, with a long enough
    prompt. Chosen is the most similar one, by how many others start the same way, whether it has ended, what was
    touched since, and when.
    """
    whose, keep, lag, age, over = np.int64(share[1]), np.int64(share[2]), np.int64(share[3]), share[4], share[5] > 0
    own, label = np.int64(share[8]), np.int64(share[9])
    there = min(tree.rings[level], RING)
    if keep == 0 or whose == 0:
        return _instead(tree, level, own, there)
    if whose == 1 and parent_leaf > 0:
        return parent_leaf, keep, np.int64(-1), own
    if there == 0:
        return np.int64(0), np.int64(0), np.int64(-1), own if label < 0 else label
    lag = min(max(lag, np.int64(1)), there)
    best, chosen, found, some = np.inf, np.int64(-1), np.int64(0), False
    for step in range(2 * there):
        back = lag + (step + 1) // 2 if step % 2 else lag - step // 2
        if back < 1 or back > there:
            continue
        if step > NEARBY and found > 0 and (some or label < 0):
            break
        at = (tree.rings[level] - back) % RING
        if tree.ring_shared[level, at] >= keep:
            continue
        node, touched = tree.ring_last[level, at], tree.ring_last_s[level, at]
        if tree.end[tree.ring_first[level, at]] >= keep:
            node = tree.ring_first[level, at]
        if tree.end[node] < keep:
            continue
        alike = tree.ring_label[level, at] == label and abs(tree.ring_keep[level, at]) >= keep
        alike = label >= 0 and (alike or tree.ring_own[level, at] == label)
        some = some or bool(alike)
        if age < 0:
            tree.ring_shared[level, at] = keep
            return node, keep, np.int64(-1), own
        group, met = tree.ring_group[level, at], 1
        if group >= 0 and tree.ring_keep[level, at] == keep:
            met = tree.group_count[group % GROUPS]
        ended = touched <= start_s
        since = max(0.0, start_s - (touched if ended else tree.ring_first_s[level, at]))
        if math.isnan(since):  # a session without times
            since = age
        off = abs(math.log((since + MOMENT) / (age + MOMENT)))
        if not alike:
            off += OTHERWISE * (label >= 0) + abs(math.log(met / max(1.0, share[7])))
        off += (ended != over) + abs(tree.ring_shared[level, at] - share[6]) / keep
        if off < best:
            best, chosen, found = off, at, node
            if off <= CLOSE and (alike or label < 0):
                break
    if found == 0 or (label >= 0 and not some):  # it comes before the first session with this start, and replaces it
        return np.int64(0), np.int64(0), np.int64(-1), own if label < 0 else label
    tree.ring_shared[level, chosen] = keep
    group = tree.ring_group[level, chosen]
    if group < 0 or tree.ring_keep[level, chosen] != keep:
        group = tree.groups[0]
        tree.groups[0] += 1
        tree.group_count[group % GROUPS] = 1
        if tree.ring_group[level, chosen] < 0:
            tree.ring_group[level, chosen] = group
            if tree.ring_keep[level, chosen] >= 0:
                tree.ring_keep[level, chosen] = keep
    tree.group_count[group % GROUPS] += 1
    return found, keep, group, own


@njit(cache=True)
def _instead(tree: Any, level: Any, own: Any, there: Any) -> Any:
    """The answer of `shared_with` for a first prompt that no other session starts with, unless it was replaced."""
    for back in range(1, min(there, NEARBY) + 1 if own >= 0 else 1):
        at = (tree.rings[level] - back) % RING
        keep = -tree.ring_keep[level, at]
        if tree.ring_own[level, at] == own and tree.ring_label[level, at] == own and keep > 0:
            node = tree.ring_first[level, at]
            tree.ring_keep[level, at] = 0
            tree.ring_shared[level, at] = max(tree.ring_shared[level, at], keep)
            return node, keep, np.int64(-1), own
    return np.int64(0), np.int64(0), np.int64(-1), own
