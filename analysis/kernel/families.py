"""Sharing inside families: a top-level session with its sub-agents."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.kernel.reuse import deepest_in_session


def family_codes(loaded: Any) -> np.ndarray[Any, Any]:
    """The code of each request's top-level session, int64[r]; -1 where the session is unknown."""
    sessions = loaded.requests.select("session_id", "parent_session_id").unique()
    parent = dict(sessions.rows())
    tops: dict[int, int] = {}
    for session in parent:
        top, seen = session, set()
        while parent.get(top) is not None and parent[top] in parent and top not in seen:
            seen.add(top)
            top = parent[top]
        tops[session] = top
    codes: dict[Any, int] = {}
    rows = []
    for session in loaded.requests["session_id"].to_list():
        rows.append(-1 if session is None else codes.setdefault(tops[session], len(codes)))
    return np.array(rows, np.int64)


def family_hits(loaded: Any, block: int) -> int:
    """Hit blocks if each family had its own unbounded cache: Σ over families of (full blocks − distinct blocks)."""
    family = family_codes(loaded)
    order = np.arange(family.size)
    shared, _ = deepest_in_session(loaded.paths, loaded.tree.end, loaded.leaf, order, family, block)
    return int(np.maximum(shared, 0).sum())
