"""One row per request: where its tokens went, what it lost, and what the provider reported."""

from __future__ import annotations

import numpy as np
import polars as pl

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.causes import CAUSES
from analysis.why.misses import Misses
from analysis.why.provider.gap import provider_losses
from analysis.why.transition_losses import detailed


def request_misses(warehouse: Warehouse, question: Question, found: Misses) -> pl.DataFrame:
    """The selected requests whose prompt is known, by arrival.

    Returns:
        request_id, session_id, turn, arrival_s (under the arrival model), model, transition (in detail),
        prefix_tokens, a column for each of `CAUSES` (they sum exactly to prefix_tokens), lost_tokens (tokens of the
        session's last prompt after the place where this one differs from all earlier ones). If the provider's reads are
        known, also reported_tokens, achievable_tokens, gap_tokens (achievable − reported) and reported_cause
        (`analysis.why.provider.gap.CAUSES`).
    """
    requests = warehouse.loaded().requests
    arrived = warehouse.arrived(question.arrivals)
    place = np.empty(requests.height, np.int64)
    place[arrived.order] = np.arange(requests.height)
    about = requests.select("request_id", "session_id", "turn", "model").with_columns(
        row=pl.Series(np.arange(requests.height)),
        arrival_s=pl.Series(arrived.arrival_s, nan_to_null=True),
        transition=detailed(warehouse),
        place=pl.Series(place),
    )
    losses = provider_losses(warehouse, question, found).select(
        "row", reported_tokens="read", achievable_tokens="achievable", gap_tokens="gap", reported_cause="cause"
    )
    return (
        warehouse.grouped(question, "all")
        .select("row")
        .join(about, on="row", how="inner", maintain_order="left")
        .join(found.rows, on="row", how="inner", maintain_order="left")
        .join(losses, on="row", how="left", maintain_order="left")
        .sort("place")
        .select(
            "request_id", "session_id", "turn", "arrival_s", "model", "transition", "prefix_tokens", *CAUSES,
            "lost_tokens", "reported_tokens", "achievable_tokens", "gap_tokens", "reported_cause",
        )
    )  # fmt: skip
