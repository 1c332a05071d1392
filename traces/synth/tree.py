"""Prompts of synthetic sessions as nodes of the prefix tree."""

from __future__ import annotations

from typing import Any

from traces.tree.compiled import njit


@njit(cache=True)
def _place(tree: Any, node: Any, keep: Any) -> Any:
    """The node that ends `keep` tokens from the root on the path to `node`; it is created if needed."""
    while node > 0 and tree.start[node] >= keep:
        node = tree.parent[node]
    if node == 0 or tree.end[node] <= keep:
        return node
    upper = tree.n[0]
    tree.n[0] += 1
    tree.parent[upper], tree.start[upper], tree.end[upper] = tree.parent[node], tree.start[node], keep
    tree.parent[node], tree.start[node] = upper, keep
    return upper


@njit(cache=True)
def _append(tree: Any, node: Any, end: Any) -> Any:
    """A new node below `node` up to `end` tokens."""
    new = tree.n[0]
    tree.n[0] += 1
    tree.parent[new], tree.start[new], tree.end[new] = node, tree.end[node], end
    return new


@njit(cache=True)
def prompt(tree: Any, base: Any, keep: Any, tokens: Any, native: Any) -> Any:
    """A prompt of `tokens` tokens that shares `keep` (whole native blocks of it) with the path to `base`: its node."""
    keep = min(keep, tokens) // native * native
    node = _place(tree, base, keep) if keep > 0 else 0
    if tokens == 0:
        return 0
    whole = tokens // native * native
    if whole > tree.end[node]:
        node = _append(tree, node, whole)
    if tokens > tree.end[node]:
        node = _append(tree, node, tokens)  # no other prompt shares a partial last block
    return node
