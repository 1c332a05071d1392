"""Unobserved heads: the part of a prompt before its first logged message."""

from __future__ import annotations

from typing import Any

import numpy as np

from traces.tree.compiled import njit


@njit(cache=True)
def head_end_of_nodes(parent: Any, start: Any, end: Any, role: Any, unobserved: int) -> Any:
    """Per node: tokens of the `unobserved` nodes that its path starts with, int64[n].

    Parents may have larger ids than children, so each node climbs to the first ancestor whose answer is known. This
    takes O(n) in total.
    """
    count = parent.size
    found = np.full(count, -1, np.int64)
    found[0] = 0
    stack = np.empty(count, np.int64)
    for node in range(count):
        top = 0
        at = node
        while found[at] < 0:
            stack[top] = at
            top += 1
            at = parent[at]
        while top > 0:
            top -= 1
            child = stack[top]
            above = parent[child]
            if role[child] == unobserved and found[above] == start[child]:
                found[child] = end[child]
            else:
                found[child] = found[above]
    return found
