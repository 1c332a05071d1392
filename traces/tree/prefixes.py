"""The prefix tree: every token run is stored once, and a prompt is a pointer to its leaf.

A *unit* is the smallest thing that prompts can share: one token of text, or one native block of a hash trace. A node
holds a run of units, either explicit (a slice of a pool of 64-bit ids) or virtual (unit i is `value + i`: a run known
by one key and a length). The children of a node differ in their first unit, so the tree branches exactly where two
prompts differ. Except for node ids, the tree does not depend on the order in which prompts arrive. A request points to
the node at whose end its prompt ends; a split gives the upper part a new id, so these pointers stay valid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.source.limits import MOST_TOKENS
from traces.tree.insertion import Batch, Content, insert_batch
from traces.tree.nodes import COLUMNS, VIRTUAL, Nodes, grown, rehash


class PrefixTree:
    """The tree while it is built. `leaf`, `full` and `reply` are int64 arrays by request row, owned by the caller."""

    def __init__(self) -> None:
        zeros = np.zeros
        self.nodes = Nodes(
            zeros(1024, np.int64), zeros(1024, np.int64), zeros(1024, np.int64), zeros(1024, np.int32),
            zeros(1024, np.int64), zeros(1024, np.uint64), zeros(1024, np.int32), zeros(1024, np.int8),
            zeros(4096, np.uint64), zeros(4096, np.int64), np.array([1, 0, 0], np.int64),
        )  # fmt: skip
        self.nodes.parent[0] = -1
        self.nodes.per_unit[0] = 1
        self.nodes.offset[0] = VIRTUAL

    @property
    def size(self) -> int:
        """Number of nodes, including the root."""
        return int(self.nodes.n[0])

    def reserve(self, new_nodes: int, new_units: int) -> None:
        """Make room for `new_nodes` more nodes and `new_units` more pool units."""
        nodes, count = self.nodes, self.size + new_nodes + 1
        arrays = {name: grown(getattr(nodes, name), count) for name in COLUMNS}
        pool = grown(nodes.pool, int(nodes.n[1]) + new_units)
        self.nodes = nodes._replace(**arrays, pool=pool)
        if count * 2 > nodes.table.size:
            size = 1 << (count * 2).bit_length()
            self.nodes = self.nodes._replace(table=np.zeros(size, np.int64))
            rehash(self.nodes)

    def insert(
        self,
        batch: Batch,
        leaf: NDArray[np.int64],
        full: NDArray[np.int64],
        reply: NDArray[np.int64],
        content: Content | None = None,
    ) -> None:
        """Insert the prompts of `batch` in order; writes leaf, full, reply and content digests of their rows.

        A prompt of more than `MOST_TOKENS` is not inserted: its row of `full` is `TOO_LONG`.
        """
        runs = batch.run_count.size
        self.reserve(2 * runs + 3 * batch.base_kind.size, batch.units.size)
        digests = Content.of(leaf.size) if content is None else content
        insert_batch(self.nodes, batch, leaf, full, reply, digests.prompt, digests.call, MOST_TOKENS)

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays in use, by name (without pool and table)."""
        return {name: getattr(self.nodes, name)[: self.size] for name in COLUMNS}

    def pool(self) -> NDArray[np.uint64]:
        """The explicit unit ids in use."""
        return self.nodes.pool[: int(self.nodes.n[1])]

    @classmethod
    def restore(cls, columns: dict[str, NDArray[Any]], pool: NDArray[np.uint64]) -> PrefixTree:
        """The tree that `columns` and `pool` came from."""
        tree = cls()
        count = columns["parent"].size
        types = {name: getattr(tree.nodes, name).dtype for name in COLUMNS}
        arrays = {name: np.ascontiguousarray(columns[name], dtype=types[name]) for name in COLUMNS}
        table = np.zeros(1 << (count * 2 + 64).bit_length(), np.int64)
        used = np.array([count, pool.size, 0], np.int64)
        tree.nodes = Nodes(**arrays, pool=np.array(pool, np.uint64), table=table, n=used)
        rehash(tree.nodes)
        return tree
