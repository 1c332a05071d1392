"""The tree that the prompts would make if changing lines were removed, constant, or at the end of the prompt.

A *mark* is a stretch of a path that changes between consecutive prompts. The stretch is removed from every prompt whose
path contains all of it. Each prompt is then written as what it adds to the prompt with which it shares most: the one it
shared most with before, or the previous one, up to the end of what the two have in common after the change. All prompts
are inserted into a new tree, so nothing is estimated. Text that is equal only by chance, after other changes, is
unknown and counts as not shared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.why.edited.marks import Change, collect, mapped, marks_of
from analysis.why.edited.virtual_prompts import ADDED, NODE_BITS, EditedTree, planned_tree
from traces.tree.compiled import njit


def changed_tree(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    session: NDArray[Any],
    match_row: NDArray[Any],
    match_tokens: NDArray[Any],
    change: Change,
    constant: bool,
) -> EditedTree:
    """Insert every prompt again without the changing lines.

    Args:
        parent, start, end: the tree.
        leaf: int64[r], node of each prompt; -1 unknown.
        order: int64[r], rows in arrival order.
        session: int64[r], session codes; -1 unknown.
        match_row, match_tokens: int64[r], the earlier request that shares most, and how much (`longest_matches`).
        change: what changes.
        constant: replace each change by a line that is the same in all prompts of the session, as long as the first
            changed line there; else remove it.
    """
    up, begin, reach = (np.ascontiguousarray(a, np.int64) for a in (parent, start, end))
    leaves = np.ascontiguousarray(leaf, np.int64)
    marks = marks_of(up, begin, leaves, change)
    count = len(leaves)
    fill = np.zeros(count, np.int64)  # tokens of the constant line, by row
    if constant:
        first: dict[int, int] = {}
        longest = np.where(change.previous_line_tokens > 0, change.previous_line_tokens, change.line_tokens)
        for code, tokens in zip(session[change.row].tolist(), longest.tolist(), strict=True):
            first.setdefault(code, tokens)
        fill = np.array([first.get(code, 0) for code in session.tolist()], np.int64)
    pair = np.full(count, -1, np.int64)
    pair[change.row] = np.arange(len(change.row))
    given = (
        up, begin, reach, leaves, np.ascontiguousarray(order, np.int64), np.ascontiguousarray(session, np.int64),
        np.ascontiguousarray(match_row, np.int64), np.ascontiguousarray(match_tokens, np.int64), pair,
        *(np.ascontiguousarray(c, np.int64) for c in change[1:]), *marks, fill,
    )  # fmt: skip
    return planned_tree(_plan, given, count)


@njit(cache=True)
def _plan(
    parent: Any, start: Any, end: Any, leaf: Any, order: Any, session: Any, match_row: Any, match_tokens: Any,
    pair: Any, previous_row: Any, line_token: Any, line_tokens: Any, previous_line_tokens: Any, resumed: Any,
    first: Any, begin: Any, stop: Any, above: Any, fill: Any, write: Any,
    out_row: Any, out_base: Any, out_keep: Any, out_run: Any, out_reply: Any, out_end: Any, value: Any, size: Any,
) -> Any:  # fmt: skip
    """Base, kept tokens and runs of every prompt; with `write` false only counts (rows, runs)."""
    rows = 0
    runs = 0
    low, high = np.empty(4096, np.int64), np.empty(4096, np.int64)
    base_low, base_high = np.empty(4096, np.int64), np.empty(4096, np.int64)
    path = np.empty(1, np.int64)
    for row in order:
        node = leaf[row]
        if node < 0:
            continue
        n = end[node]
        # The base: the prompt that shares most, up to the end of what both have in common.
        marks = collect(parent, first, begin, stop, above, node, n, low, high)
        base, keep, at = -1, np.int64(0), np.int64(0)
        p = match_row[row]
        if p >= 0 and match_tokens[row] > 0:
            others = collect(parent, first, begin, stop, above, leaf[p], end[leaf[p]], base_low, base_high)
            at = match_tokens[row]
            # a change that ends after the common part is not the same change in both prompts
            for i in range(marks):
                if low[i] < at < high[i] or (high[i] == low[i] == at):
                    at = low[i]
            for i in range(others):
                if base_low[i] < at < base_high[i] or (base_high[i] == base_low[i] == at):
                    at = base_low[i]
            base = p
            keep = mapped(base_low, base_high, others, fill[p], at)
            # an empty change at the very end of the kept part belongs to the rest
        # Or the previous prompt, up to the end of what both have in common after the change, if that is more.
        x = pair[row]
        if x >= 0:
            q = previous_row[x]
            others = collect(parent, first, begin, stop, above, leaf[q], end[leaf[q]], base_low, base_high)
            reach = line_token[x] + previous_line_tokens[x] + resumed[x]
            kept = mapped(base_low, base_high, others, fill[q], reach)
            if kept >= keep:
                base = q
                keep = kept
                at = line_token[x] + line_tokens[x] + resumed[x]
        # the nodes of the path after `at`; for text that moves to the end, after the first mark
        depth = 0
        top = node
        lowest = at if marks == 0 else min(at, low[0])
        while top > 0 and end[top] > lowest:
            depth += 1
            top = parent[top]
        if depth > len(path):
            path = np.empty(2 * depth, np.int64)
        top = node
        for i in range(depth - 1, -1, -1):
            path[i] = top
            top = parent[top]
        if write:
            out_row[rows], out_base[rows], out_keep[rows], out_run[rows] = row, base, keep, runs
        # Pass over the marks that the base has already.
        mark = 0
        while mark < marks and (high[mark] < at or (high[mark] == at and low[mark] < at)):
            mark += 1
        if x >= 0 and base == previous_row[x] and mark < marks and low[mark] == high[mark] and high[mark] <= at:
            mark += 1  # the empty change of this pair: its constant line is already in the base
        # Write the rest without its marks, or with the constant line in their place.
        i = 0
        token = at
        while token < n or mark < marks:
            if mark < marks and low[mark] <= token:
                if fill[row] > 0:
                    if write:
                        value[runs] = ADDED | (np.uint64(session[row] + 1) << np.uint64(31))
                        size[runs] = fill[row]
                    runs += 1
                token = max(token, high[mark])
                mark += 1
                continue
            until = n if mark == marks else low[mark]
            while i < depth and end[path[i]] <= token:
                i += 1
            if i == depth:
                break
            to = min(until, end[path[i]])
            if write:
                value[runs] = (np.uint64(path[i]) << NODE_BITS) + np.uint64(token - start[path[i]])
                size[runs] = to - token
            runs += 1
            token = to
        if write:
            out_reply[rows] = runs
        # For the longer form, write what the marks removed, after the end.
        for m in range(marks):
            token = low[m]
            i = 0
            while token < high[m]:
                while end[path[i]] <= token:
                    i += 1
                to = min(high[m], end[path[i]])
                if write:
                    value[runs] = (np.uint64(path[i]) << NODE_BITS) + np.uint64(token - start[path[i]])
                    size[runs] = to - token
                runs += 1
                token = to
        if write:
            out_end[rows] = runs
        rows += 1
    return rows, runs
