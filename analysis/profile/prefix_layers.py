"""Layers of the first prompts of top-level sessions: shared with most sessions, with some, with none."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.profile.distributions import describe
from traces.dataset.layout import Tree
from traces.tree.compiled import njit

GLOBAL_SHARE = 0.5
"""The global layer is what at least this share of first prompts starts with."""


def prefix_layers(tree: Tree, leaf: NDArray[np.int64], head: NDArray[np.float64]) -> dict[str, Any] | None:
    """Layers of the first prompts that end at `leaf` (one per top-level session, no -1); None if there are none.

    Returns:
        global (tokens that half of the sessions or more start with), group (figures of the tokens shared with at least
        one other session beyond that), session (figures of the rest), groups (how many different group prefixes),
        zipf_alpha (slope of the logarithm of group sizes over that of their ranks; None below three groups) and head
        (figures of tools + system if the source gives them).
    """
    if not leaf.size:
        return None
    through = _through(tree.parent, leaf, tree.parent.size)
    least = max(2, int(np.ceil(GLOBAL_SHARE * leaf.size)))
    shared_node = _deepest_node(tree.parent, through, leaf, 2)
    shared = tree.end[np.maximum(shared_node, 0)] * (shared_node > 0)
    common = int(tree.end[through >= least].max(initial=0))
    _, sizes = np.unique(shared_node[shared_node > 0], return_counts=True)
    sizes = np.sort(sizes)[::-1]
    alpha = None
    if sizes.size >= 3:
        alpha = float(max(0.0, -np.polyfit(np.log(np.arange(1, sizes.size + 1)), np.log(sizes), 1)[0]))
    alone = np.arange(leaf.size)
    return {
        "global_tokens": common,
        "group_tokens": describe(np.maximum(shared - common, 0).astype(np.float64), alone),
        "session_tokens": describe((tree.end[leaf] - shared).astype(np.float64), alone),
        "groups": int(sizes.size),
        "zipf_alpha": alpha,
        "head_tokens": describe(head, alone),
    }


@njit(cache=True)
def _through(parent: Any, leaf: Any, nodes: Any) -> Any:
    """The number of prompts that pass through each node."""
    out = np.zeros(nodes, np.int64)
    for i in range(leaf.size):
        node = leaf[i]
        while node > 0:
            out[node] += 1
            node = parent[node]
    return out


@njit(cache=True)
def _deepest_node(parent: Any, through: Any, leaf: Any, least: Any) -> Any:
    """Per prompt: the deepest node on its path through which at least `least` prompts pass; 0 none."""
    out = np.zeros(leaf.size, np.int64)
    for i in range(leaf.size):
        node = leaf[i]
        while node > 0 and through[node] < least:
            node = parent[node]
        out[i] = max(node, 0)
    return out
