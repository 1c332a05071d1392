"""Block ids from the prefix tree: (node, position) -> an integer, equal exactly for equal prefixes.

A block of B tokens belongs to the node that holds its last token, so its id also stands for everything before it, as in
the prefix-chained ids of hash traces. A partial last block has an id too, one per node where prompts end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.dataset.layout import Tree
from traces.tree.compiled import njit


class BlockIds:
    """Ids of the blocks of `block_tokens` tokens of a tree: dense from 0, whole blocks first, then partial ones."""

    def __init__(self, tree: Tree, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._parent = tree.parent
        self._first = tree.start // block_tokens
        self._end = tree.end
        owned = tree.end // block_tokens - self._first
        self._base = np.cumsum(owned) - owned
        self.whole = int(owned.sum())
        """Number of whole blocks in the tree: smaller ids are whole blocks, the others are partial ones."""

    def of(self, leaf: int, tail: bool = True) -> NDArray[np.int64]:
        """Ids along the path root -> `leaf`, int64[⌈end/B⌉], or [⌊end/B⌋] without `tail`."""
        tokens = int(self._end[leaf])
        count = tokens // self.block_tokens
        partial = tail and tokens % self.block_tokens > 0
        out = np.empty(count + partial, np.int64)
        _fill(self._parent, self._first, self._base, leaf, count, out)
        if partial:
            out[count] = self.whole + leaf
        return out


@njit(cache=True)
def _fill(parent: Any, first: Any, base: Any, leaf: Any, count: Any, out: Any) -> None:
    """Write the ids of the `count` whole blocks on the path to `leaf` into `out`."""
    node = leaf
    upto = count
    while node > 0 and upto > 0:
        for block in range(first[node], upto):
            out[block] = base[node] + block - first[node]
        upto = min(upto, first[node])
        node = parent[node]


@njit(cache=True)
def shared_tokens(parent: Any, start: Any, end: Any, a: Any, b: Any) -> Any:
    """Tokens that the paths to the nodes `a` and `b` have in common."""
    while a != b:
        if start[a] >= start[b] and a > 0:
            a = parent[a]
        else:
            b = parent[b]
    return end[a]


@njit(cache=True)
def shared_with_previous(parent: Any, start: Any, end: Any, leaf: Any, previous: Any) -> Any:
    """Per request, the tokens it shares with the request at place `previous` (-1 none): int64[r]."""
    out = np.zeros(leaf.size, np.int64)
    for i in range(leaf.size):
        if previous[i] >= 0 and leaf[i] >= 0 and leaf[previous[i]] >= 0:
            out[i] = shared_tokens(parent, start, end, leaf[i], leaf[previous[i]])
    return out


def scattered(ids: NDArray[np.int64], salt: int) -> NDArray[np.uint64]:
    """64-bit ids that look like hashes: distinct for distinct ids, and almost certainly distinct across datasets.

    The mixing is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
    2014), a bijection.
    """
    x = ids.astype(np.uint64) + np.uint64(salt & 0xFFFFFFFFFFFFFFFF)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
