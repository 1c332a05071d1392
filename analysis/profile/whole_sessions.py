"""Lists the sessions of a small workload turn by turn, because so few sessions do not define distributions."""

from __future__ import annotations

import polars as pl

from analysis.profile.cut_sessions import SAMPLE, TRIGGERS

FEW = 30
"""Workloads with fewer top-level sessions than this are listed session by session."""

MOST_TURNS = 8192
"""The most requests that are listed one by one."""

TURN = ("n", "kept", "lag", "output_tokens", "reasoning_tokens", "at_s", "duration_s", "code", "agents_started")
"""The numbers of a turn: prompt tokens, tokens shared with the closest earlier prompt of the session, turns back to
that prompt, output, reasoning, seconds since the session's start, duration, trigger (0 unknown, 1 tool, 2 user),
sub-agents that it starts. Null is unknown."""

Session = list[list[float | None]]
"""A session: its turns, each a list of the numbers in `TURN`."""


def are_few(frame: pl.DataFrame) -> bool:
    """Whether sessions are listed turn by turn."""
    return frame.height <= MOST_TURNS and frame.filter(pl.col("depth") == 0)["s"].n_unique() < FEW


def with_agents_started(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds to each request how many sub-agents it started. Those without a known request count for the session's first.

    Args:
        frame: requests with request_id, session_id, s, t and, of sub-agents, parent_session_id and spawn_request_id.
    """
    agents = frame.filter((pl.col("t") == 0) & pl.col("parent_session_id").is_not_null())
    known = frame.select(spawn_request_id="request_id", spawned=pl.lit(True))
    agents = agents.select("parent_session_id", "spawn_request_id").join(known, on="spawn_request_id", how="left")
    by_request = agents.filter(pl.col("spawned")).group_by(request_id="spawn_request_id").len("here")
    others = agents.filter(pl.col("spawned").is_null()).group_by(session_id="parent_session_id").len("somewhere")
    return (
        frame.join(by_request, on="request_id", how="left", maintain_order="left")
        .join(others, on="session_id", how="left", maintain_order="left")
        .with_columns(
            agents_started=pl.col("here").fill_null(0)
            + pl.when(pl.col("t") == 0).then(pl.col("somewhere").fill_null(0)).otherwise(0)
        )
        .drop("here", "somewhere")
    )


def whole_sessions(rows: pl.DataFrame) -> list[Session] | None:
    """The turns of each session of a stratum as numbers, in order of session starts.

    Args:
        rows: requests of a stratum with s (session), t (turn from 0), rank, and the columns of `TURN` except code and
            at_s.

    Returns:
        A list of turns per session (see `TURN`); None if there are many sessions.
    """
    starts = rows.filter(pl.col("t") == 0)
    if starts.height != rows["s"].n_unique() or starts.height > SAMPLE:
        return None
    code = pl.col("trigger").fill_null("unknown").replace_strict(TRIGGERS, range(3), default=0, return_dtype=pl.Int64)
    turns = rows.with_columns(
        code=code,
        at_s=pl.col("arrival_s") - pl.col("arrival_s").min().over("s"),
        kept=pl.when(pl.col("prefix_tokens").is_not_null()).then("kept"),
    )
    numbers = turns.sort("rank", "s", "t").select(
        "s", turn=pl.concat_list([pl.col(name).cast(pl.Float64) for name in TURN])
    )
    return numbers.group_by("s", maintain_order=True).agg("turn")["turn"].to_list()
