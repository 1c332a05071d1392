"""Chains inside a session, from prefixes alone: which prompt continues which, and which starts anew.

A session may hold several conversations at once (side requests, or sub-agents that its files do not mark). A prompt
that contains all of an earlier one continues it; a second prompt that does so is a branch. A prompt that contains no
earlier one starts a new chain if a later request still continues the conversation before it; otherwise it replaces
that conversation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.tree.compiled import njit

STEPS = ("start", "continue", "branch", "new_chain", "replace")
"""start: first of its session · continue: contains an earlier prompt that no other had continued · branch: contains one
that another had continued · new_chain: contains none, and a later request continues the session's previous prompt ·
replace: contains none, and no later request continues it."""


def chain_steps(
    prefix_tokens: NDArray[Any],
    session: NDArray[Any],
    order: NDArray[Any],
    previous_row: NDArray[Any],
    deepest_row: NDArray[Any],
    deepest_shared_tokens: NDArray[Any],
    tolerance: NDArray[Any],
) -> NDArray[np.int8]:
    """The step of each request, int8[r], index into `STEPS`; -1 where its prompt or session is unknown.

    Args:
        prefix_tokens: int64[r], prompt lengths; 0 unknown.
        session: int64[r], session codes; -1 unknown.
        order: int64[r], rows in arrival order.
        previous_row, deepest_row, deepest_shared_tokens: of `analysis.kernel.transitions.Transitions`.
        tolerance: int64[r], tokens by which a prompt may miss the end of the one it continues.
    """
    arrays = (
        np.ascontiguousarray(a, np.int64)
        for a in (prefix_tokens, session, order, previous_row, deepest_row, deepest_shared_tokens, tolerance)
    )
    step: NDArray[np.int8] = _steps(*arrays)
    return step


@njit(cache=True)
def _steps(prefix: Any, session: Any, order: Any, previous: Any, deepest: Any, shared: Any, tolerance: Any) -> Any:
    step = np.full(len(prefix), -1, np.int8)
    continued = np.zeros(len(prefix), np.bool_)
    for row in order:
        # Without a session or a known prompt there is no step.
        if session[row] < 0 or prefix[row] <= 0:
            continue
        # p: the earlier prompt that shares most. It is continued if it ends, within the tolerance, inside this one.
        p = deepest[row]
        if previous[row] < 0:
            step[row] = 0
        elif p >= 0 and shared[row] > 0 and shared[row] >= prefix[p] - tolerance[row] and prefix[row] > prefix[p]:
            step[row] = 2 if continued[p] else 1
            continued[p] = True
        else:
            step[row] = 4
    # Second pass: a replacement whose previous prompt was continued after all is a new chain.
    for row in order:
        if step[row] == 4 and continued[previous[row]]:
            step[row] = 3
    return step
