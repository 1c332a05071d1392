"""Requests and tokens of every subtree of the prefix tree, and the rectangles that show them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from analysis.kernel.heavy_paths import children
from traces.tree.compiled import njit

FAR = 2**62


class Sums(NamedTuple):
    """Per node, of the selected requests: those at it (`here`) and at or below it, their tokens from the node on, and
    its distinct tokens; the least and the largest session; and the children (`child[first[n]:first[n + 1]]`)."""

    here: Any
    requests: Any
    tokens: Any
    distinct: Any
    low: Any
    high: Any
    first: Any
    child: Any


def subtree_sums(parent: Any, start: Any, end: Any, leaf: Any, session: Any) -> Sums:
    """Sum the requests of a tree, one pass down and one up.

    Args:
        parent, start, end: the tree (`traces.dataset.layout.Tree`).
        leaf, session: int64 per selected request: the node of its prompt, and its session (-1 unknown).
    """
    return Sums(*_sum_up(parent, start, end, leaf, session))


@njit(cache=True)
def _sum_up(parent: Any, start: Any, end: Any, leaf: Any, session: Any) -> Any:
    n = len(parent)
    here = np.zeros(n, np.int64)
    low = np.full(n, FAR, np.int64)
    high = np.full(n, -1, np.int64)
    # What ends at each node. A request without a session counts as one of its own: no session is named for it.
    for i in range(len(leaf)):
        v = leaf[i]
        here[v] += 1
        low[v] = min(low[v], session[i])
        high[v] = max(high[v], session[i])
    first, child = children(parent)
    # Breadth first from the root, then back: every node is summed after all nodes below it.
    order = np.empty(n, np.int32)
    order[0] = 0
    length = 1
    for i in range(n):
        v = order[i]
        for k in range(first[v], first[v + 1]):
            order[length] = child[k]
            length += 1
    requests = here.copy()
    tokens = np.zeros(n, np.int64)
    distinct = np.zeros(n, np.int64)
    for i in range(n - 1, -1, -1):
        v = order[i]
        if requests[v] == 0:
            continue
        size = end[v] - start[v]
        tokens[v] += requests[v] * size
        distinct[v] += size
        if v > 0:
            up = parent[v]
            requests[up] += requests[v]
            tokens[up] += tokens[v]
            distinct[up] += distinct[v]
            low[up] = min(low[up], low[v])
            high[up] = max(high[up], high[v])
    return here, requests, tokens, distinct, low, high, first, child


@njit(cache=True)
def rectangles(
    start: Any, end: Any, role: Any, roles: Any, root: Any, fold: Any, least: Any, here: Any, requests: Any,
    tokens: Any, distinct: Any, low: Any, high: Any, first: Any, child: Any,
) -> Any:  # fmt: skip
    """The rectangles below `root`: arrays of node, x0, x1, y0, y1, part, requests, tokens, distinct_tokens, nodes,
    role, and the least and largest session (see `analysis.sessions.icicle.Icicle`)."""
    room = 256
    ints: Any = np.empty((room, 9), np.int64)  # node, part, requests, tokens, distinct, nodes, role, low, high
    places: Any = np.empty((room, 4), np.float64)  # x0, x1, y0, y1
    used: Any = 0
    heads = [np.int64(root)]
    lefts = [0.0]
    of_role = np.zeros(roles, np.int64)
    head: Any
    v: Any
    large: Any
    chain: Any = np.empty(64, np.int64)
    while len(heads) > 0:
        head = heads.pop()
        x = lefts.pop()
        # Fold: follow the largest child while it has enough of the first node's requests.
        links = 0
        v = head
        of_role[:] = 0
        whole = np.int64(0)
        size = np.int64(0)
        while True:
            if links == len(chain):
                chain = np.concatenate((chain, np.empty(links, np.int64)))
            chain[links] = v
            links += 1
            whole += requests[v] * (end[v] - start[v])
            size += end[v] - start[v]
            if role[v] >= 0:
                of_role[role[v]] += end[v] - start[v]
            best = np.int64(-1)
            for k in range(first[v], first[v + 1]):
                c = np.int64(child[k])
                if requests[c] > 0 and (best < 0 or requests[c] > requests[best]):
                    best = c
            # The root of the whole tree has no tokens: it is no stretch of prefix, and stays apart.
            if best < 0 or v == 0 or requests[best] < max(least, 1) or requests[best] < fold * requests[head]:
                break
            v = best
        last: Any = v
        top = start[head]
        main: Any = np.argmax(of_role) if size > 0 else -1
        # What leaves the stretch: requests that end before its last node, small branches, and large branches.
        ended = np.int64(0)
        ended_depth = np.int64(0)
        small = np.int64(0)
        small_nodes = np.int64(0)
        small_tokens = np.int64(0)
        small_distinct = np.int64(0)
        small_depth = np.int64(0)
        small_low = np.int64(FAR)
        small_high = np.int64(-1)
        small_last = np.int64(0)
        large = 0
        for i in range(links):
            v = chain[i]
            depth = end[v] - top
            if v != last:
                ended += here[v]
                ended_depth += here[v] * depth
            for k in range(first[v], first[v + 1]):
                c = np.int64(child[k])
                if requests[c] == 0 or (i + 1 < links and c == chain[i + 1]):
                    continue
                if requests[c] < least:
                    small += requests[c]
                    small_nodes += 1
                    small_tokens += tokens[c]
                    small_distinct += distinct[c]
                    small_depth += requests[c] * depth
                    small_low = min(small_low, low[c])
                    small_high = max(small_high, high[c])
                    if v == last:
                        small_last += requests[c]
                else:
                    large += 1
        need = used + large + 4
        if need > room:
            grown = max(2 * room, need)
            ints = np.concatenate((ints, np.empty((grown - room, 9), np.int64)))
            places = np.concatenate((places, np.empty((grown - room, 4), np.float64)))
            room = grown
        # The stretch itself, as wide as the requests that reach its last node and go on in large branches or end there.
        for piece in range(3):
            if piece == 0:
                wide = float(requests[last] - small_last)
                deep = float(end[last] - top)
                left = x
            elif piece == 1:
                # the part of the stretch above the small branches, of their mean depth
                wide = float(small)
                deep = small_depth / small if small > 0 else 0.0
                left = x + float(requests[last] - small_last)
            else:
                # requests that end on the way, of their mean depth, at the right end
                wide = float(ended)
                deep = ended_depth / ended if ended > 0 else 0.0
                left = x + float(requests[head] - ended)
            if wide <= 0 or deep <= 0:
                continue
            ints[used] = (head, 0, requests[head], whole, size, links, main, low[head], high[head])
            places[used] = (left, left + wide, float(top), float(top) + deep)
            used += 1
        if small > 0 and small_tokens > 0:
            left = x + float(requests[last] - small_last)
            under = float(top) + small_depth / small
            ints[used] = (
                head, 1, small, small_tokens, small_distinct, small_nodes, -1, small_low, small_high
            )  # fmt: skip
            places[used] = (left, left + float(small), under, under + small_tokens / small)
            used += 1
        # Large branches, the widest first: those of the last node below it, those on the way right of it, each with its
        # part of the stretch.
        inside = x
        beside = x + float(requests[last] - small_last + small)
        found = np.empty(large, np.int64)
        large = 0
        for i in range(links - 1, -1, -1):
            v = chain[i]
            for k in range(first[v], first[v + 1]):
                c = np.int64(child[k])
                if requests[c] > 0 and requests[c] >= least and not (i + 1 < links and c == chain[i + 1]):
                    found[large] = c
                    large += 1
        for i in np.argsort(-requests[found], kind="mergesort"):
            c = found[i]
            heads.append(c)
            if start[c] == end[last]:
                lefts.append(inside)
                inside += float(requests[c])
                continue
            depth = float(start[c] - top)
            if depth > 0:
                ints[used] = (head, 0, requests[head], whole, size, links, main, low[head], high[head])
                places[used] = (beside, beside + float(requests[c]), float(top), float(top) + depth)
                used += 1
            lefts.append(beside)
            beside += float(requests[c])
    i, p = ints[:used], places[:used]
    return (
        i[:, 0].copy(), p[:, 0].copy(), p[:, 1].copy(), p[:, 2].copy(), p[:, 3].copy(), i[:, 1].copy(),
        i[:, 2].copy(), i[:, 3].copy(), i[:, 4].copy(), i[:, 5].copy(), i[:, 6].copy(), i[:, 7].copy(), i[:, 8].copy(),
    )  # fmt: skip
