"""Walks over pairs of prompts in a tree: where two prompts differ, what follows, and where they are equal again."""

from __future__ import annotations

from typing import Any

import numpy as np

from traces.tree.compiled import njit

MOST_PLACES = 64
"""The most places at which the end of one prompt is compared with another: a text of one repeated word has many."""


@njit(cache=True)
def parts_before(parent: Any, start: Any, end: Any, role: Any, leaf: Any, common: Any, template: Any) -> Any:
    """The number of message parts before the one that contains token `common`."""
    depth = 0
    node = leaf
    while node > 0:
        depth += 1
        node = parent[node]
    path = np.empty(depth, np.int64)
    node = leaf
    for i in range(depth - 1, -1, -1):
        path[i] = node
        node = parent[node]
    parts = 0
    last = -1
    for node in path:
        if start[node] > common:
            break
        if role[node] == template:
            last = -1
        elif role[node] != last:
            parts += 1
            last = role[node]
    return parts - 1 if last >= 0 else parts


@njit(cache=True)
def pairs_that_part(parent: Any, end: Any, leaf: Any, session: Any, native: Any, order: Any) -> Any:
    """Consecutive prompts of a session that differ before either ends: rows, previous rows, tokens in shared blocks."""
    count = len(order)
    row = np.empty(count, np.int64)
    previous = np.empty(count, np.int64)
    shared = np.empty(count, np.int64)
    found = 0
    q = -1
    for r in order:
        if q >= 0 and session[q] != session[r]:
            q = -1
        if leaf[r] < 0:
            continue
        if q >= 0:
            a, b = leaf[q], leaf[r]
            while a != b:  # parents may have larger ids, so the deeper end climbs
                if end[a] > end[b] or (end[a] == end[b] and a != 0):
                    a = parent[a]
                else:
                    b = parent[b]
            step = native[r]
            if end[a] < min(end[leaf[q]], end[leaf[r]]) // step * step:
                row[found] = r
                previous[found] = q
                shared[found] = end[a] // step * step
                found += 1
        q = r
    return row[:found], previous[:found], shared[:found]


@njit(cache=True)
def units_from(
    parent: Any,
    start: Any,
    end: Any,
    per_unit: Any,
    offset: Any,
    value: Any,
    role: Any,
    pool: Any,
    leaf: Any,
    begin: Any,
    longest: Any,
) -> Any:
    """Units of the path to `leaf` from token `begin`; of a virtual run, `longest` units, and the rest as one unit."""
    count = 0
    node = leaf
    while node > 0 and end[node] > begin:
        units = (end[node] - start[node]) // per_unit[node] - max(0, (begin - start[node]) // per_unit[node])
        count += units if offset[node] >= 0 else min(units, longest + 1)
        node = parent[node]
    ids = np.empty(count, np.uint64)
    explicit = np.empty(count, np.bool_)
    roles = np.empty(count, np.int8)
    tokens = np.empty(count, np.int64)
    starts = np.zeros(count, np.bool_)
    at = count
    node = leaf
    while node > 0 and end[node] > begin:
        skip = max(0, (begin - start[node]) // per_unit[node])
        units = (end[node] - start[node]) // per_unit[node] - skip
        shown = units if offset[node] >= 0 else min(units, longest + 1)
        at -= shown
        for i in range(shown):
            if offset[node] >= 0:
                ids[at + i] = pool[offset[node] + skip + i]
            else:
                ids[at + i] = value[node] + np.uint64(skip + i)
        explicit[at : at + shown] = offset[node] >= 0
        roles[at : at + shown] = role[node]
        tokens[at : at + shown] = per_unit[node]
        if shown < units:
            tokens[at + longest] = per_unit[node] * (units - longest)
            ids[at + longest] ^= np.uint64(units) << np.uint64(16)  # equal only if the rest is equally long
        starts[at] = skip == 0
        node = parent[node]
    return ids, explicit, roles, tokens, starts


@njit(cache=True)
def resume(
    ids_q: Any, explicit_q: Any, ids_k: Any, explicit_k: Any, cuts_q: Any, cuts_k: Any, at: Any, least: Any
) -> Any:
    """The ends of the fewest changed lines after which the two prompts are equal again, and for how many units; else 0.

    They must be equal for at least `least` units, or for a quarter of that if a prompt ends with them. If they are
    equal for less than four times `least`, it may be a phrase that occurs twice: a few lines later the two may be equal
    for much longer. Both are the same before `at`, so one of the two ends lies after it.
    """
    weak, weak_q, weak_k = 0, 0, 0
    for lines in range(1, len(cuts_q) + len(cuts_k) - 1):
        best = 0
        found_q, found_k = 0, 0
        for i in range(lines + 1):
            j = lines - i
            if i >= len(cuts_q) or j >= len(cuts_k):
                continue
            a, b = cuts_q[i], cuts_k[j]
            if a < at and b < at:
                continue
            left = min(len(ids_q) - a, len(ids_k) - b)
            same = 0
            while same < left and ids_q[a + same] == ids_k[b + same] and explicit_q[a + same] == explicit_k[b + same]:
                same += 1
            # the last token of a text may have merged with the next text
            if same > best and (same >= least or (same + 1 >= left and lines <= 5 and 4 * same >= least)):
                best = same
                found_q, found_k = a, b
        if best >= 4 * max(weak, least) or (
            best > weak and best + 1 >= min(len(ids_q) - found_q, len(ids_k) - found_k)
        ):
            return found_q, found_k, best
        if best > 0 and weak == 0:
            weak, weak_q, weak_k = best, found_q, found_k
    return weak_q, weak_k, weak


@njit(cache=True)
def common_tail(ids_q: Any, explicit_q: Any, ids_k: Any, explicit_k: Any, at: Any, window: Any) -> Any:
    """Where the end of q that also occurs in k begins, in q and in k; (-1, -1) if its last `window` units after `at`
    do not occur in k after `at`. If they occur several times, the place with the longest match before it."""
    size = min(window, len(ids_q) - at)
    if size < window // 4 or size < 1:
        return -1, -1
    first = len(ids_q) - size
    longest, found, tried = -1, -1, 0
    for b in range(at, len(ids_k) - size + 1):
        i = 0
        while i < size and ids_q[first + i] == ids_k[b + i] and explicit_q[first + i] == explicit_k[b + i]:
            i += 1
        if i == size:
            back = 0
            while (
                first - back > at
                and b - back > at
                and ids_q[first - back - 1] == ids_k[b - back - 1]
                and explicit_q[first - back - 1] == explicit_k[b - back - 1]
            ):
                back += 1
            if back > longest:
                longest, found = back, b
            tried += 1
            if tried == MOST_PLACES:
                break
    return (first - longest, found - longest) if found >= 0 else (-1, -1)


@njit(cache=True)
def found_ahead(
    ids_q: Any, explicit_q: Any, ids_k: Any, explicit_k: Any, start: Any, stop: Any, behind: Any, window: Any
) -> Any:
    """Cuts k from `start` to `stop` into windows. Returns the share of windows that occur in q after `behind`, and
    where the first of them occurs, or the second; -1 if neither does. If there is less than a window, the share is
    1."""
    tried, met, first = 0, 0, -1
    for begin in range(start, stop - window + 1, window):
        tried += 1
        for a in range(behind, len(ids_q) - window + 1):
            i = 0
            while i < window and ids_q[a + i] == ids_k[begin + i] and explicit_q[a + i] == explicit_k[begin + i]:
                i += 1
            if i == window:
                met += 1
                if first < 0 and tried <= 2:
                    first = a
                break
    return (met / tried if tried else 1.0), first
