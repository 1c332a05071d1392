"""The prefix tree as an icicle: a rectangle is as wide as the requests that share a stretch of prefix, and as high as
the stretch is long in tokens. So areas are prompt tokens, and a wide, high rectangle is what a cache reuses most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from analysis.sessions.subtrees import rectangles, subtree_sums
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse
from traces.records import ROLES

FOLDED_SHARE = 0.8
"""A child joins its parent's rectangle while it has at least this share of the rectangle's requests."""
SMALL_SHARE = 400
"""Children with fewer than 1/400 of the requests are joined into one rectangle."""
MOST_RECTANGLES = 1500

PARTS = ("shared", "branches")
"""The kinds of rectangles; the position is the code."""


class Icicle(NamedTuple):
    """The rectangles, and the whole that they sum to.

    Attributes:
        rectangles: one row per rectangle: node (the first of its stretch), x0, x1 (requests), y0, y1 (tokens of the
            prompt), part (shared: a stretch of prefix; branches: many small ones, drawn as one of mean height),
            requests and tokens (of prompts, both of the whole stretch), distinct_tokens, nodes (how many it stands
            for), role (of most of its tokens; null for branches), session_id (null: several, or unknown).
            x1 − x0 times y1 − y0 summed over all rectangles is `prompt_tokens`.
        prompt_tokens: of these requests, from the start of the root on.
        distinct_tokens: of the tree from the root down, each once.
        requests: selected requests at or below the root.
        least_requests: children with fewer requests are joined.
    """

    rectangles: pl.DataFrame
    prompt_tokens: int
    distinct_tokens: int
    requests: int
    least_requests: int


def icicle(
    warehouse: Warehouse, question: Question, root: int = 0, fold: float = FOLDED_SHARE, small: int = SMALL_SHARE
) -> Icicle:
    """The prefixes of the selected requests, below one node of the tree.

    Args:
        warehouse, question: the dataset, and which requests count.
        root: the node to start from; 0 is the whole tree.
        fold: share of a rectangle's requests with which a child joins it; above 1 none does.
        small: children with fewer than 1/small of the root's requests are joined; 0: none are.

    Raises:
        BadQuestion: no such node.
    """
    loaded = warehouse.loaded()
    tree = loaded.tree
    if not 0 <= root < len(tree.parent):
        raise BadQuestion(f"the tree has no node {root}", "root", [0])
    rows = warehouse.grouped(question, "all")["row"].to_numpy()
    leaf, session = loaded.leaf[rows].astype(np.int64), loaded.session[rows].astype(np.int64)
    sums = subtree_sums(tree.parent, tree.start, tree.end, leaf, session)
    requests, tokens, distinct = int(sums.requests[root]), int(sums.tokens[root]), int(sums.distinct[root])
    least = -(-requests // small) if small else 0
    while True:
        out = rectangles(tree.start, tree.end, tree.role, len(ROLES), root, fold, least, *sums)
        if len(out[0]) <= MOST_RECTANGLES or fold > 1:
            break
        least = max(2, 2 * least)  # too many to draw: join more
    node, x0, x1, y0, y1, part, requests_of, tokens_of, distinct_of, nodes, role, low, high = out
    ids = loaded.requests.select("session_id").with_columns(code=pl.Series(loaded.session))
    names = ids.filter(pl.col("code") >= 0).unique("code")
    one = pl.DataFrame({"code": np.where((low == high) & (low >= 0), low, -1)}).join(
        names, on="code", how="left", maintain_order="left"
    )
    roles = pl.Series(list(ROLES), dtype=pl.String)
    frame = pl.DataFrame(
        {
            "node": node, "x0": x0, "x1": x1, "y0": y0, "y1": y1,
            "part": pl.Series(list(PARTS)).gather(part),
            "requests": requests_of, "tokens": tokens_of, "distinct_tokens": distinct_of, "nodes": nodes,
            "role": roles.gather(np.maximum(role, 0)).set(pl.Series(role < 0), None),
            "session_id": one["session_id"],
        }
    )  # fmt: skip
    return Icicle(frame, tokens, distinct, requests, least)
