"""The turns of one session: where the tokens of each prompt went, and what happened between the prompts."""

from __future__ import annotations

import polars as pl

from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from analysis.why.consecutive import consecutive
from analysis.why.misses import Misses
from analysis.why.provider.gap import provider_losses
from analysis.why.session_losses import REMEDIES
from analysis.why.transition_losses import detailed

CHANGE = (
    "changed_from_turn", "change_kind", "change_role", "change_message", "start_token", "line_token", "line_tokens",
    "previous_line_tokens", "resumed_tokens", "keeps_end",
)  # fmt: skip
"""How a prompt differs from the session's previous one, from the table `divergences`: the turn of that prompt, what
kind of text changed, the role and the place of its message, and where and how long the changed lines are."""


def session_turns(
    warehouse: Warehouse, question: Question, found: Misses, losses: pl.DataFrame, session_id: int
) -> pl.DataFrame:
    """One row per selected request of a session whose prompt is known, by turn. Empty where there is none.

    Args:
        warehouse, question: the dataset, and which requests count.
        found: where their tokens went.
        losses: `analysis.why.session_losses.request_losses` of them.
        session_id: the session.

    Returns:
        row, request_id, turn, model, arrival_s, gap_s (end of the session's previous request to this arrival),
        duration_s, ttft_s, output_tokens, transition (in detail), previous_turn and shared_previous_tokens (the
        session's previous prompt, and what both share), previous_prefix_tokens, prefix_tokens, a column for each of
        `CAUSES` (they sum to prefix_tokens), lost_tokens (the sum of the columns `REMEDIES`), sub_agents and
        sub_agent_tokens (sessions that this turn is known to have started, and their prompts), and of the provider
        reported_tokens, achievable_tokens and reported_cause; then the columns of `CHANGE`, null where the dataset
        records no change.
    """
    loaded, kinds = warehouse.loaded(), warehouse.kinds()
    mine = loaded.requests["session_id"] == session_id
    rows = mine.fill_null(False).arg_true().cast(pl.Int64)
    rows = rows.filter(rows.is_in(warehouse.grouped(question, "all")["row"].implode()))
    facts = _facts(warehouse, question, rows)
    names = pl.col("row").is_in(rows.implode())
    provider = provider_losses(warehouse, question, found).filter(names)
    kind = kinds[rows]
    previous = kind["previous_row"].cast(pl.Int64)
    has = previous >= 0
    turn_of = loaded.requests["turn"].gather(previous.clip(0)).set(~has, None)
    shared = kind["shared_previous_tokens"].cast(pl.Int64).set(~has, None)
    before = loaded.requests["prefix_tokens"].gather(previous.clip(0)).set(~has, None)
    return (
        pl.DataFrame({"row": rows})
        .with_columns(
            previous_turn=turn_of,
            shared_previous_tokens=shared,
            previous_prefix_tokens=before,
            transition=detailed(warehouse).gather(rows),
        )
        .join(facts, on="row", how="left", maintain_order="left")
        .join(found.rows.filter(names).drop("lost_tokens"), on="row", how="left", maintain_order="left")
        .join(losses.filter(names).select("row", "lost_tokens", *REMEDIES), on="row", how="left", maintain_order="left")
        .join(_sub_agents(warehouse, session_id), on="request_id", how="left", maintain_order="left")
        .with_columns(pl.col("sub_agents").fill_null(0))
        .join(
            provider.select("row", reported_tokens="read", achievable_tokens="achievable", reported_cause="cause"),
            on="row", how="left", maintain_order="left",
        )
        .join(_changes(warehouse, rows), on="row", how="left", maintain_order="left")
        .sort("turn", "row")
    )  # fmt: skip


def _facts(warehouse: Warehouse, question: Question, rows: pl.Series) -> pl.DataFrame:
    columns = ["row", "request_id", "turn", "model", "arrival_s", "gap_s", "duration_s", "ttft_s", "output_tokens"]
    file = warehouse.prepare(question).facts
    return pl.scan_parquet(file, glob=False).select(columns).filter(pl.col("row").is_in(rows.implode())).collect()


def _sub_agents(warehouse: Warehouse, session_id: int) -> pl.DataFrame:
    """Sessions that each request of the session started, and the tokens of all their prompts."""
    children = (
        warehouse.dataset.read("sessions")
        .filter(pl.col("parent_session_id") == session_id)
        .select("session_id", request_id="spawn_request_id")
        .drop_nulls()
    )
    requests = warehouse.loaded().requests.select("session_id", "prefix_tokens")
    sizes = (
        requests.join(children, on="session_id").group_by("request_id", "session_id").agg(pl.col("prefix_tokens").sum())
    )
    return sizes.group_by("request_id").agg(
        sub_agents=pl.len().cast(pl.Int64), sub_agent_tokens=pl.col("prefix_tokens").sum()
    )


def _changes(warehouse: Warehouse, rows: pl.Series) -> pl.DataFrame:
    turns = warehouse.loaded().requests["turn"]
    table = consecutive(warehouse).filter(pl.col("row").is_in(rows.implode())).unique("row", keep="first")
    return table.rename({"kind": "change_kind", "role": "change_role", "message": "change_message"}).select(
        "row", pl.Series("changed_from_turn", turns.gather(table["previous_row"])), *CHANGE[1:]
    )
