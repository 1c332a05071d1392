"""The prefix tree at a block size, cut at the depths where engines stop. Every engine definition reads it.

An engine looks up a prompt except for its last token, caches it to its last full block, and caches all generated tokens
except the last one. The tree's nodes are cut at these three depths of every request. Each piece (an *atom*) is then
looked up, cached and evicted as a whole, so a request is a walk over a few atoms instead of single blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit

Ints = NDArray[np.int64]


class BlockPaths(NamedTuple):
    """Requests in the order they run, over atoms of whole blocks.

    Per atom: `parent` (-1 above the first), `blocks`. Per request: `row` (the caller's row), `leaf` (atom at the depth
    of the last cached block, -1 for none), `prompt_tokens`, and in blocks `lookup` ((P - 1) // B: an engine always
    computes the last token), `prompt` (P // B), `cached` ((P + O - 1) // B: the last token sampled has no KV),
    `prompt_slots` and `slots` (blocks occupied, including partial ones, after prefill and at the end).
    """

    parent: Ints
    blocks: Ints
    row: Ints
    leaf: Ints
    prompt_tokens: Ints
    lookup: Ints
    prompt: Ints
    cached: Ints
    prompt_slots: Ints
    slots: Ints
    block_tokens: int
    unknown_replies: int
    unknown_outputs: int

    @property
    def requests(self) -> int:
        """Number of requests that take part."""
        return len(self.leaf)

    @property
    def distinct_blocks(self) -> int:
        """Number of different blocks over all requests."""
        return int(self.blocks.sum())


def block_paths(
    parent: Ints,
    start: Ints,
    end: Ints,
    leaf: Ints,
    order: Ints,
    output_tokens: Ints,
    block_tokens: int,
    reply_leaf: Ints | None = None,
) -> BlockPaths:
    """Prepare a tree and its requests for an engine definition.

    Args:
        parent, start, end: the prefix tree, tokens on the path; node 0 is the root. Parents may have larger ids.
        leaf: node whose path is the prompt, per request row; -1 where the prompt is unknown (the request is skipped).
        order: rows in arrival order.
        output_tokens: generated tokens per row; -1 (unknown) is taken as one token, and `unknown_outputs` counts it.
        block_tokens: block or page size in tokens.
        reply_leaf: node after the reply per row, -1 where its text is not known: no other request shares those blocks.
            A node that is not below its prompt counts as unknown.

    Raises:
        ValueError: a block size below 1.
    """
    if block_tokens < 1:
        raise ValueError(f"block size {block_tokens} must be at least 1 token")
    rows = order[leaf[order] >= 0].astype(np.int64)
    prompt_leaf = leaf[rows].astype(np.int64)
    tokens = end[prompt_leaf].astype(np.int64)
    output = output_tokens[rows].astype(np.int64)
    unknown_outputs = int((output < 0).sum())
    computed = tokens + np.maximum(np.where(output < 0, 1, output) - 1, 0)
    reply = np.full(len(rows), -1, np.int64) if reply_leaf is None else reply_leaf[rows].astype(np.int64)
    reply[~_below(parent.astype(np.int64), start.astype(np.int64), reply, prompt_leaf)] = -1
    bottom = np.where(reply >= 0, reply, prompt_leaf)
    private = end[bottom] < computed
    unknown_replies = int(((reply < 0) & (computed > tokens)).sum())

    base = len(parent)
    extra = np.flatnonzero(private)
    parents = np.concatenate([parent.astype(np.int64), bottom[extra]])
    starts = np.concatenate([start.astype(np.int64), end[bottom[extra]].astype(np.int64)])
    ends = np.concatenate([end.astype(np.int64), computed[extra]])
    bottom[extra] = base + np.arange(len(extra))

    b = block_tokens
    top, low = starts // b, ends // b
    # A request without tokens has nothing to look up: P - 1 must not become negative.
    depths = np.stack([np.maximum(tokens - 1, 0) // b, tokens // b, computed // b], axis=1)
    nodes = _nodes_at(parents, top, bottom, depths)
    atom_parent, atom_blocks, cut_atoms = _cut(parents, top, low, nodes, depths)
    leaves = np.where(depths[:, 2] > 0, cut_atoms[:, 2], -1)
    return BlockPaths(
        parent=_skip_empty(atom_parent, atom_blocks),
        blocks=atom_blocks,
        row=rows,
        leaf=leaves,
        prompt_tokens=tokens,
        lookup=depths[:, 0].copy(),
        prompt=depths[:, 1].copy(),
        cached=depths[:, 2].copy(),
        prompt_slots=-(-tokens // b),
        slots=-(-computed // b),
        block_tokens=b,
        unknown_replies=unknown_replies,
        unknown_outputs=unknown_outputs,
    )


@njit(cache=True)
def _below(parent: Ints, start: Ints, reply: Ints, prompt: Ints) -> NDArray[np.bool_]:
    """Whether each reply's node is its prompt's node or below it."""
    out = np.zeros(len(reply), np.bool_)
    for r in range(len(reply)):
        node = reply[r]
        # Climb until the prompt's node or a node that starts before it.
        while node >= 0 and node != prompt[r] and start[node] >= start[prompt[r]]:
            node = parent[node]
        out[r] = node == prompt[r]
    return out


@njit(cache=True)
def _nodes_at(parent: Ints, top: Ints, bottom: Ints, depths: Ints) -> Ints:
    """Node that holds the block ending at each depth of each request's path; -1 at depth 0."""
    out = np.full(depths.shape, -1, np.int64)
    for r in range(len(bottom)):
        node = bottom[r]
        # The three depths descend, so one climb towards the root passes all of them.
        for c in range(2, -1, -1):
            depth = depths[r, c]
            if depth == 0:
                continue
            while top[node] >= depth:
                node = parent[node]
            out[r, c] = node
    return out


def _cut(parent: Ints, top: Ints, low: Ints, nodes: Ints, depths: Ints) -> tuple[Ints, Ints, Ints]:
    """Cut nodes at inner depths. Returns (parent, blocks) of the atoms and the atom ending at each depth."""
    flat_node, flat_depth = nodes.ravel(), depths.ravel()
    inner = (flat_node >= 0) & (flat_depth < low[np.maximum(flat_node, 0)])
    width = int(low.max(initial=0)) + 1
    keys = flat_node * width + flat_depth
    cuts = np.unique(keys[inner])
    cut_node, cut_depth = cuts // width, cuts % width
    count = len(parent)
    # Upper pieces get new ids and the last piece keeps the node's id, so the parents of its children stay valid.
    first = np.ones(len(cuts), bool)
    first[1:] = cut_node[1:] != cut_node[:-1]
    last = np.ones(len(cuts), bool)
    last[:-1] = first[1:]
    ids = count + np.arange(len(cuts))
    new_parent = np.where(first, parent[cut_node], ids - 1)
    new_top = np.where(first, top[cut_node], np.concatenate([[0], cut_depth[:-1]])[: len(cuts)])
    parents = np.concatenate([parent, new_parent])
    blocks = np.concatenate([low - top, cut_depth - new_top])
    parents[cut_node[last]] = ids[last]
    blocks[cut_node[last]] = low[cut_node[last]] - cut_depth[last]
    atoms = flat_node.copy()
    atoms[inner] = count + np.searchsorted(cuts, keys[inner])
    return parents, blocks, atoms.reshape(nodes.shape)


@njit(cache=True)
def _skip_empty(parent: Ints, blocks: Ints) -> Ints:
    """The nearest ancestor with at least one block, -1 for none."""
    out = np.full(len(parent), -2, np.int64)
    for node in range(len(parent)):
        above = parent[node]
        # Climb over empty nodes until one that has blocks or whose answer is known.
        while above >= 0 and blocks[above] == 0 and out[above] == -2:
            above = parent[above]
        if above >= 0 and blocks[above] == 0:
            above = out[above]
        out[node] = above
        # Store the answer for every empty node passed, so that each is passed once.
        step = parent[node]
        while step >= 0 and blocks[step] == 0 and out[step] == -2:
            out[step] = above
            step = parent[step]
    return out


@njit(cache=True)
def walk(parent: Ints, leaf: int, scratch: Ints) -> int:
    """Write the atoms of a path into `scratch`, root first; returns how many. `scratch` must hold the deepest path."""
    n = 0
    atom = leaf
    while atom >= 0:
        scratch[n] = atom
        n += 1
        atom = parent[atom]
    # The walk went from leaf to root; reverse it.
    for i in range(n // 2):
        scratch[i], scratch[n - 1 - i] = scratch[n - 1 - i], scratch[i]
    return n


@njit(cache=True)
def deepest_path(parent: Ints, leaf: Ints) -> int:
    """Atoms on the longest path of any request."""
    depth = np.zeros(len(parent), np.int64)
    longest = 0
    for r in range(len(leaf)):
        atom, n = leaf[r], 0
        # Climb to the first atom whose depth is known.
        while atom >= 0 and depth[atom] == 0:
            n += 1
            atom = parent[atom]
        total = n + (depth[atom] if atom >= 0 else 0)
        longest = max(longest, total)
        # Store the depth of every atom passed.
        atom = leaf[r]
        while atom >= 0 and depth[atom] == 0:
            depth[atom] = total
            total -= 1
            atom = parent[atom]
    return longest
