"""The workload without some changes of its history: prompts become longer where they were compacted or rewritten.

A prompt whose change is undone becomes its session's previous prompt (as already changed by earlier undoing) and what
it adds to that. Every other prompt continues the prompt it shared most with, as before, so a change stays undone in all
prompts that follow. The prompts are inserted into a new tree, and sharing is measured there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.why.edited.virtual_prompts import ADDED, NODE_BITS, EditedTree, planned_tree
from traces.tree.compiled import njit

Rows = NDArray[np.int64]


class Undone(NamedTuple):
    """What to undo, int64[r] each; `previous` is -1 where a prompt stays as it is.

    Attributes:
        previous: the request whose prompt this one continues instead.
        shared: tokens that both share, at most `own_place`.
        own_place, place: where the two are equal again after the change, in this prompt and in the previous one; at
            most `behind` and `upto`.
        upto: leading tokens of the previous prompt that this one then starts with.
        behind: place in this prompt from which its own tokens follow them.
        carried: a request whose history this one sends again after a change that is not undone. Text that undone
            changes restored in that request is in this prompt too, as new tokens. -1 none.
    """

    previous: Rows
    shared: Rows
    own_place: Rows
    place: Rows
    upto: Rows
    behind: Rows
    carried: Rows


def undone_workload(
    parent: NDArray[Any],
    start: NDArray[Any],
    end: NDArray[Any],
    leaf: NDArray[Any],
    order: NDArray[Any],
    match_row: NDArray[Any],
    match_tokens: NDArray[Any],
    undone: Undone,
    left_out: NDArray[np.bool_],
    tolerance: NDArray[Any],
    chance_tokens: int,
) -> EditedTree:
    """Insert every prompt again, with the changes undone. Takes time proportional to the nodes of new tokens.

    Args:
        parent, start, end: the tree.
        leaf: int64[r], node of each prompt; -1 unknown.
        order: int64[r], rows in arrival order. A change is undone only if its previous prompt comes before it.
        match_row, match_tokens: int64[r], the earlier request that shares most, and how much (`longest_matches`).
        undone: what to undo.
        left_out: bool[n], nodes that an undone prompt does not add (summaries of text that it still contains).
        tolerance: int64[r], tokens by which a prompt may miss the end of the one that it extends.
        chance_tokens: tokens that a prompt may share with a changed one after the change by chance. It continues from
            there only if it shares more, or extends that prompt.
    """
    given = (
        *(np.ascontiguousarray(a, np.int64) for a in (parent, start, end, leaf, order, match_row, match_tokens)),
        *(np.ascontiguousarray(a, np.int64) for a in undone),
        np.ascontiguousarray(left_out, np.bool_),
        np.ascontiguousarray(tolerance, np.int64),
        chance_tokens,
    )
    return planned_tree(_plan, given, len(leaf))


@njit(cache=True)
def _moved(at: Any, to: Any, link: Any, head: Any, token: Any) -> Any:
    """The position of `token` in the new prompt, from the prompt's marks, deepest first.

    A mark says that the text after `at` begins at `to` in the new prompt; a stretch that is left out is shorter."""
    cap = np.int64(1) << np.int64(62)
    mark = head
    while mark >= 0 and at[mark] >= token:
        cap = min(cap, to[mark])
        mark = link[mark]
    there = token if mark < 0 else to[mark] + token - at[mark]
    return min(there, cap)


@njit(cache=True)
def _plan(
    parent: Any, start: Any, end: Any, leaf: Any, order: Any, match_row: Any, match_tokens: Any,
    previous: Any, shared: Any, own_place: Any, place: Any, upto: Any, behind: Any, carried: Any,
    left_out: Any, tolerance: Any, chance: Any, write: Any,
    out_row: Any, out_base: Any, out_keep: Any, out_first: Any, out_reply: Any, out_end: Any, value: Any, size: Any,
) -> Any:  # fmt: skip
    """Base, kept tokens and runs of every prompt; with `write` false only counts (rows, runs)."""
    rows = 0
    runs = 0
    marks = 0
    at, to, link = np.empty(1024, np.int64), np.empty(1024, np.int64), np.empty(1024, np.int64)
    placed = np.zeros(len(leaf), np.bool_)
    head = np.full(len(leaf), -1, np.int64)
    path = np.empty(64, np.int64)
    for row in order:
        node = leaf[row]
        if node < 0:
            continue
        # The prompt that this one continues, and up to where: the previous one if the change is undone, else the match.
        q = previous[row]
        undo = q >= 0 and placed[q]
        base = q if undo else match_row[row]
        own = behind[row] if undo else match_tokens[row]
        alike = shared[row] if undo else own
        if alike == 0 and not undo:
            base = np.int64(-1)
        keep = np.int64(0)
        top: Any = np.int64(-1)
        if marks + 3 > len(at):
            at, to, link = _longer(at), _longer(to), _longer(link)
        if base >= 0:
            top = head[base]
            # What is shared only by chance after a change does not count: go back to before the change.
            if not undo and own < end[leaf[base]] - tolerance[row]:
                while top >= 0 and own - at[top] <= chance:
                    own = alike = min(own, at[top])
                    top = link[top]
                top = head[base]
            # Where the shared text lies in the base as it was changed.
            keep = _moved(at, to, link, top, upto[row] if undo else own)
            middle = _moved(at, to, link, top, place[row]) if undo else keep
            there = _moved(at, to, link, top, alike)
            # This prompt has the base's marks up to there, then marks of its own.
            while top >= 0 and at[top] >= alike:
                top = link[top]
            if _moved(at, to, link, top, alike) != there:
                at[marks], to[marks], link[marks] = alike, there, top
                top = marks
                marks += 1
            if undo and own_place[row] < own:
                at[marks], to[marks], link[marks] = own_place[row], middle, top
                top = marks
                marks += 1
            if undo:
                at[marks], to[marks], link[marks] = own, keep, top
                top = marks
                marks += 1
        if write:
            out_row[rows], out_base[rows], out_keep[rows], out_first[rows] = row, base, keep, runs
        # Restored text that a change sends again comes next, as a run of its own.
        length = keep
        again = carried[row]
        if again >= 0 and placed[again] and not undo:
            m = end[leaf[again]]
            brought = _moved(at, to, link, head[again], m) - m - (keep - own)
            if brought > 0:
                if write:
                    value[runs] = ADDED | (np.uint64(row) << NODE_BITS)
                    size[runs] = brought
                runs += 1
                length += brought
                at[marks], to[marks], link[marks] = own, length, top
                top = marks
                marks += 1
        # The rest of the prompt: its nodes after `own`, without those that are left out.
        depth = 0
        up = node
        while up > 0 and end[up] > own:
            if depth == len(path):
                path = _longer(path)
            path[depth] = up
            depth += 1
            up = parent[up]
        for i in range(depth - 1, -1, -1):
            part = path[i]
            begin = max(start[part], own)
            if undo and left_out[part]:
                if marks + 2 > len(at):
                    at, to, link = _longer(at), _longer(to), _longer(link)
                at[marks], to[marks], link[marks] = begin, length, top
                at[marks + 1], to[marks + 1], link[marks + 1] = end[part], length, marks
                top = marks + 1
                marks += 2
                continue
            if write:
                value[runs] = (np.uint64(part) << NODE_BITS) + np.uint64(begin - start[part])
                size[runs] = end[part] - begin
            length += end[part] - begin
            runs += 1
        if write:
            out_reply[rows] = out_end[rows] = runs
        head[row] = top
        placed[row] = True
        rows += 1
    return rows, runs


@njit(cache=True)
def _longer(values: Any) -> Any:
    longer = np.empty(2 * len(values), np.int64)
    longer[: len(values)] = values
    return longer
