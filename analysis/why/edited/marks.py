"""Marks: stretches of paths that change between consecutive prompts, by the node that contains their end."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit


class Change(NamedTuple):
    """Changes between a prompt and the previous one, p rows.

    Attributes:
        row, previous_row: int64[p], the two requests.
        line_token: int64[p], where the changed lines begin in both.
        line_tokens, previous_line_tokens: int64[p], their lengths (0: nothing).
        resumed_tokens: int64[p], equal tokens right after them.
    """

    row: NDArray[np.int64]
    previous_row: NDArray[np.int64]
    line_token: NDArray[np.int64]
    line_tokens: NDArray[np.int64]
    previous_line_tokens: NDArray[np.int64]
    resumed_tokens: NDArray[np.int64]


class Marks(NamedTuple):
    """Marks by node: those of node v are first[v] to first[v + 1]; above[v] is the number of marks on the path to v."""

    first: NDArray[np.int64]
    begin: NDArray[np.int64]
    stop: NDArray[np.int64]
    above: NDArray[np.int64]


def marks_of(parent: Any, start: Any, leaf: Any, change: Change) -> Marks:
    """The marks of the changes of both prompts, each once."""
    rows = np.concatenate([change.row, change.previous_row])
    begin = np.concatenate([change.line_token, change.line_token])
    stop = begin + np.concatenate([change.line_tokens, change.previous_line_tokens])
    node = _nodes_at(parent, start, leaf[rows], np.maximum(stop, 1))
    marks = np.unique(np.stack([node, begin, stop], axis=1), axis=0)
    first = np.searchsorted(marks[:, 0], np.arange(len(parent) + 1)).astype(np.int64)
    own = np.diff(first)
    return Marks(first, np.ascontiguousarray(marks[:, 1]), np.ascontiguousarray(marks[:, 2]), _sum_above(parent, own))


@njit(cache=True)
def _nodes_at(parent: Any, start: Any, leaf: Any, stop: Any) -> Any:
    """The node of each path that contains the last token before `stop`."""
    out = np.empty(len(leaf), np.int64)
    for i in range(len(leaf)):
        node = leaf[i]
        while node > 0 and start[node] >= stop[i]:
            node = parent[node]
        out[i] = node
    return out


@njit(cache=True)
def _sum_above(parent: Any, own: Any) -> Any:
    """Σ of `own` on the path to each node; parents may have larger ids."""
    out = np.full(len(parent), -1, np.int64)
    out[0] = own[0]
    stack = np.empty(len(parent), np.int64)
    for node in range(len(parent)):
        top = 0
        at = node
        while out[at] < 0:
            stack[top] = at
            top += 1
            at = parent[at]
        while top > 0:
            top -= 1
            child = stack[top]
            out[child] = out[parent[child]] + own[child]
    return out


@njit(cache=True)
def collect(
    parent: Any, first: Any, begin: Any, stop: Any, above: Any, leaf: Any, length: Any, low: Any, high: Any
) -> int:
    """Writes the marks on the path to `leaf`, sorted and merged where they overlap, to `low` and `high`. Returns how
    many."""
    found = 0
    node = leaf
    while node >= 0 and above[node] > 0:
        for m in range(first[node], first[node + 1]):
            if stop[m] > length or found == len(low):
                continue
            i = found
            while i > 0 and (low[i - 1] > begin[m] or (low[i - 1] == begin[m] and high[i - 1] > stop[m])):
                low[i] = low[i - 1]
                high[i] = high[i - 1]
                i -= 1
            low[i] = begin[m]
            high[i] = stop[m]
            found += 1
        node = parent[node]
    kept = 0
    for i in range(found):
        if kept > 0 and low[i] <= high[kept - 1] and (low[i] < high[kept - 1] or low[i] == low[kept - 1]):
            high[kept - 1] = max(high[kept - 1], high[i])
        else:
            low[kept] = low[i]
            high[kept] = high[i]
            kept += 1
    return kept


@njit(cache=True)
def mapped(low: Any, high: Any, marks: Any, fill: Any, token: Any) -> Any:
    """The position of `token` after the marks before it are replaced. A mark that contains it counts as replaced up to
    there, without its constant line."""
    out = token
    for i in range(marks):
        if high[i] <= token:
            out += fill - (high[i] - low[i])
        elif low[i] < token:
            out -= token - low[i]
    return out
