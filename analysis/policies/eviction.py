"""A cache of blocks under other eviction rules than LRU: replayed per capacity, exact under the model below.

The model is that of `analysis.kernel.reuse`: a request looks up all its blocks, its leading cached blocks hit, then all
its blocks are in the cache and others leave until the capacity holds again. Whatever the rule, a block never leaves
before those behind it (its prefix would be useless without it), so only the last cached blocks of a path can go, and
the blocks of the request that runs go last. `belady` alone may drop the running request's blocks before others.

All blocks of a tree node are used by the same requests, so the cache is kept by node: how many of its blocks are held,
a prefix of them. What a rule must know of a node is kept at the last held node of each path and handed to the parent
when that one is emptied. So a request costs as much as the nodes it adds, not its length.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.policies.block_tree import BlockTree, Uses
from traces.tree.compiled import njit

RULES = {
    "lru": "least recently used",
    "belady": "the one whose next use is furthest away: no rule can hit more, and none can know it beforehand",
    "lfu": "fewest uses since it was cached, then least recently used",
    "slru": "used once before used more often, then least recently used (SGLang's slru)",
    "fifo": "the one that was cached first",
    "mru": "most recently used",
    "filo": "the one that was cached last",
    "session": "what no session's last prompt holds (superseded, or its session has ended), then what only sub-agents' "
    "hold, then least recently used; it must know when a session ends",
    "heads": "what one session used before what several did, then least recently used: shared heads stay",
}
"""Rules by name: what leaves first."""

_CODES = {name: code for code, name in enumerate(RULES)}
LRU, BELADY, LFU, SLRU, FIFO, MRU, FILO, SESSION, HEADS = range(len(RULES))
_CLASS = float(1 << 40)  # above every position in time
NEVER = float(1 << 52)


class Order(NamedTuple):
    """The requests in arrival order.

    Attributes:
        leaf: int32[r], node of each prompt; -1 unknown.
        session: int32[r], dense code; -1 unknown.
        ends: bool[r], the last request of its session.
        main: bool[r], of a main session, not of a sub-agent.
    """

    leaf: NDArray[np.int32]
    session: NDArray[np.int32]
    ends: NDArray[np.bool_]
    main: NDArray[np.bool_]


def replay(tree: BlockTree, order: Order, rule: str, capacity_blocks: int, used: Uses | None = None) -> Any:
    """Hit blocks of each request in a cache of that many blocks under a rule of `RULES`. int64[r], in arrival order.

    Args:
        used: `uses(tree, order.leaf)`, which `belady` needs.
    """
    none = Uses(np.zeros(len(tree.parent) + 1, np.int64), np.zeros(0, np.int32))
    first, at = used if used is not None and rule == "belady" else none
    sessions = int(order.session.max()) + 1 if len(order.session) else 0
    return _replay(*tree, *order, sessions, _CODES[rule], capacity_blocks, first, at)


@njit
def _key(
    node: int, rule: int, time: Any, born: Any, used: Any, owners: Any, subs: Any, shared: Any, following: Any
) -> float:
    """What leaves first has the smallest key."""
    if rule == LRU:
        return float(time[node])
    if rule == BELADY:
        return -following[node]
    if rule == LFU:
        return float(used[node]) * _CLASS + time[node]
    if rule == SLRU:
        return (_CLASS if used[node] > 1 else 0.0) + time[node]
    if rule == FIFO:
        return float(born[node])
    if rule == MRU:
        return -float(time[node])
    if rule == FILO:
        return -float(born[node])
    if rule == SESSION:
        held = 2.0 if owners[node] > 0 else 1.0 if subs[node] > 0 else 0.0
        return held * _CLASS + time[node]
    return (_CLASS if shared[node] else 0.0) + time[node]


@njit
def _replay(
    parent: Any, before: Any, blocks: Any, leaf: Any, session: Any, ends: Any, main: Any, sessions: int, rule: int,
    capacity: int, first: Any, at: Any,
) -> Any:  # fmt: skip
    n = len(parent)
    held = np.zeros(n, np.int64)  # cached blocks of each node
    kids = np.zeros(n, np.int32)  # children with cached blocks
    stamp = np.zeros(n, np.int64)  # an entry of the heap counts if it has its node's stamp
    time = np.zeros(n, np.int64)  # last use, of the node or of what was cached behind it
    born = np.zeros(n, np.int64)  # when it was cached
    used = np.zeros(n, np.int64)  # uses since then
    owners = np.zeros(n, np.int32)  # main sessions whose last prompt ends here, or behind it in what has left
    subs = np.zeros(n, np.int32)  # the same of sub-agents
    user = np.full(n, -1, np.int32)  # the session that used it
    shared = np.zeros(n, np.bool_)  # several did
    following = np.zeros(n, np.float64)  # next use (belady)
    place = first.copy()  # of each node, the first use that is not over
    last = np.full(sessions, -1, np.int32)  # node of each session's last prompt
    last_main = np.zeros(sessions, np.bool_)
    hits = np.zeros(len(leaf), np.int64)
    missing = np.empty(n, np.int32)
    heap = [(0.0, np.int64(0), np.int64(0))]
    heap.pop()
    total = 0
    for t in range(len(leaf)):
        x = leaf[t]
        if x < 0:
            continue
        # from the end of the prompt up to the first node that is cached: what is above it is cached as well
        node, count = x, 0
        while node > 0 and held[node] == 0:
            missing[count] = node
            count += 1
            node = parent[node]
        hits[t] = before[node] + held[node] if node > 0 else 0
        s = session[t]
        # the session's last prompt was another one: it is superseded
        if rule == SESSION and s >= 0 and last[s] > 0:
            old = last[s]
            while old > 0 and held[old] == 0:
                old = parent[old]
            if old > 0:
                if last_main[s]:
                    owners[old] -= 1
                else:
                    subs[old] -= 1
                if kids[old] == 0:
                    stamp[old] += 1
                    key = _key(old, rule, time, born, used, owners, subs, shared, following)
                    heapq.heappush(heap, (key, np.int64(old), stamp[old]))
        if s >= 0:
            last[s] = -1
        if x == 0:
            continue
        # everything of this prompt is cached now
        if node > 0:
            total += blocks[node] - held[node]
            held[node] = blocks[node]
        for i in range(count - 1, -1, -1):
            new = missing[i]
            held[new] = blocks[new]
            total += blocks[new]
            kids[parent[new]] += 1
            stamp[parent[new]] += 1
            born[new] = t
            used[new] = owners[new] = subs[new] = 0
            user[new] = -1
            shared[new] = False
        # what the rules know of its end
        time[x] = t
        used[x] += 1
        if s >= 0:
            shared[x] = shared[x] or (user[x] >= 0 and user[x] != s)
            user[x] = s
            if not ends[t]:
                last[s] = x
                last_main[s] = main[t]
                if main[t]:
                    owners[x] += 1
                else:
                    subs[x] += 1
        # the running prompt's end goes last: it stands in the heap only afterwards, or at once under belady
        running = x
        stamp[x] += 1
        if rule == BELADY:
            running = 0
            if kids[x] == 0:
                following[x] = _next(x, t, place, first, at)
                heapq.heappush(heap, (-following[x], np.int64(x), stamp[x]))
        # others leave, the last blocks of a path first, until the capacity holds
        while total > capacity:
            if len(heap) == 0:
                key, y = 0.0, np.int64(running)  # only this prompt is left, and it is too long
            else:
                key, y, mark = heapq.heappop(heap)
                if mark != stamp[y]:
                    continue
            leave = min(total - capacity, held[y])
            held[y] -= leave
            total -= leave
            if held[y] > 0:
                if y != running:
                    heapq.heappush(heap, (key, y, stamp[y]))
                continue
            # the node is empty: its parent is the end of the path, and takes over what is known
            stamp[y] += 1
            above = parent[y]
            kids[above] -= 1
            if y == running:
                running = above
            if above == 0:
                continue
            time[above] = max(time[above], time[y])
            used[above] += used[y]
            owners[above] += owners[y]
            subs[above] += subs[y]
            several = user[above] >= 0 and user[y] >= 0 and user[above] != user[y]
            shared[above] = shared[above] or shared[y] or several
            user[above] = max(user[above], user[y])
            if kids[above] == 0 and above != running:
                if rule == BELADY:
                    following[above] = _next(above, t, place, first, at)
                stamp[above] += 1
                key = _key(above, rule, time, born, used, owners, subs, shared, following)
                heapq.heappush(heap, (key, np.int64(above), stamp[above]))
        if running > 0 and kids[running] == 0 and held[running] > 0:
            stamp[running] += 1
            key = _key(running, rule, time, born, used, owners, subs, shared, following)
            heapq.heappush(heap, (key, np.int64(running), stamp[running]))
    return hits


@njit
def _next(node: int, t: int, place: Any, first: Any, at: Any) -> float:
    """The node's first use after position t."""
    while place[node] < first[node + 1] and at[place[node]] <= t:
        place[node] += 1
    return float(at[place[node]]) if place[node] < first[node + 1] else NEVER
