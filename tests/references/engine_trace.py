"""Turns the recorded engine traces (lists of named token segments) into prefix-tree arrays, exact to the token."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

Segments = list[tuple[str, int]]


class TokenTree:
    """A radix tree over segments; token j of a segment is `token(name, j)`, so segments may share leading tokens."""

    def __init__(self, token: Callable[[str, int], int]) -> None:
        self.token = token
        self.parent, self.start, self.end = [-1], [0], [0]
        self.piece: list[tuple[str, int]] = [("", 0)]  # segment and the offset at which the node starts in it
        self.children: list[dict[int, int]] = [{}]

    def _new(self, parent: int, start: int, end: int, piece: tuple[str, int]) -> int:
        self.parent.append(parent)
        self.start.append(start)
        self.end.append(end)
        self.piece.append(piece)
        self.children.append({})
        return len(self.parent) - 1

    def _split(self, node: int, tokens: int) -> int:
        """Give the upper `tokens` tokens of a node a new id; the node keeps its own for the rest."""
        above, (name, offset) = self.parent[node], self.piece[node]
        upper = self._new(above, self.start[node], self.start[node] + tokens, (name, offset))
        self.children[above][self.token(name, offset)] = upper
        self.piece[node] = (name, offset + tokens)
        self.parent[node], self.start[node] = upper, self.start[node] + tokens
        self.children[upper] = {self.token(name, offset + tokens): node}
        return upper

    def insert(self, node: int, segments: Iterable[tuple[str, int]]) -> int:
        """Walk or grow the path `segments` below `node`; returns the node it ends at."""
        for name, length in segments:
            offset = 0
            while offset < length:
                child = self.children[node].get(self.token(name, offset))
                if child is None:
                    at = self.end[node]
                    child = self._new(node, at, at + length - offset, (name, offset))
                    self.children[node][self.token(name, offset)] = child
                    node, offset = child, length
                    continue
                size = min(self.end[child] - self.start[child], length - offset)
                other, other_offset = self.piece[child]
                same = size if (other, other_offset) == (name, offset) else 1
                while same < size and self.token(other, other_offset + same) == self.token(name, offset + same):
                    same += 1
                node = child if same == self.end[child] - self.start[child] else self._split(child, same)
                offset += same
        return node

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """parent, start, end as int64 arrays."""
        return {k: np.array(getattr(self, k), np.int64) for k in ("parent", "start", "end")}


def trace_arrays(
    requests: Iterable[tuple[Segments, Segments]], token: Callable[[str, int], int]
) -> dict[str, NDArray[np.int64]]:
    """Tree and requests of (prompt, answer) segment lists in arrival order, as `block_paths` takes them."""
    tree = TokenTree(token)
    # Splits keep a node's id for its lower part, so nodes found earlier stay right.
    leaves, replies, outputs = [], [], []
    for prompt, answer in requests:
        leaves.append(tree.insert(0, prompt))
        replies.append(tree.insert(leaves[-1], answer))
        outputs.append(sum(n for _, n in answer))
    named = {"leaf": leaves, "reply_leaf": replies, "output_tokens": outputs}
    return tree.arrays() | {k: np.array(v, np.int64) for k, v in named.items()}
