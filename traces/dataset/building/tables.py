"""A builder's records as the tables of a dataset."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from traces.dataset.building.appending import private_files, session_state
from traces.dataset.building.builder import Builder
from traces.dataset.building.copies import owners
from traces.dataset.building.request_rows import Input
from traces.dataset.building.successions import successions
from traces.dataset.table_checks import leads_back
from traces.divergence.tables import divergence_table
from traces.records import ROLES
from traces.schema import PREFIXES, REJECTS, REQUESTS, SESSIONS, SOURCES, polars_schema
from traces.tree.continuations import full_depths, infer_sessions
from traces.tree.prefixes import PrefixTree

TEXT_TOLERANCE_TOKENS = 16
"""What stands for a native block where the unit is a token."""


class Finished(NamedTuple):
    """A dataset's tables and private files, and how many requests were left out as copies of others in all ingests.

    `by_fingerprint` of them had ids of their own, or none (traces.dataset.building.copies).
    """

    tables: dict[str, pl.DataFrame]
    private: dict[str, Any]
    copies: int
    by_fingerprint: int
    warnings: list[str]


def finish(builder: Builder) -> Finished:
    """The tables of what the builder has taken so far; it can take more afterwards."""
    every = builder.all_rows()
    standing = _standing(builder, every)
    for label, successor in successions(standing, builder.inputs, builder.sessions, builder.requests.origins).items():
        builder.succeed(label, successor)
    standing = _standing(builder, every)
    owner, forks, by_fingerprint = owners(builder.copies, standing, builder.inputs, builder.sessions)
    rows, copies = standing.filter(pl.Series(owner)), standing.filter(pl.Series(~owner))
    replaced = builder.replaced + every.height - standing.height - _withdrawn(builder, every)
    order_of = input_order(builder.inputs)
    rows = rows.with_columns(
        input_order=pl.col("input_label").replace_strict(order_of, return_dtype=pl.Int64, default=0),
    )
    rows, inferred = _with_inferred_sessions(builder, rows)
    rows = _with_turns(rows)
    rows = rows.with_columns(
        started_at=pl.when("wall").then(pl.col("arrival_us")).cast(pl.Datetime("us", "UTC")),
    )
    zero = rows.select(pl.col("arrival_us").filter("wall").min()).item()
    start = pl.when("wall").then(pl.col("arrival_us") - (zero if zero is not None else 0)).otherwise("arrival_us")
    rows = rows.with_columns(arrival_s=start / 1e6)
    requests = rows.select(c.name for c in REQUESTS)
    if not requests["request_id"].is_sorted():
        requests = requests.sort("request_id")
    sessions, warnings = _sessions(builder, rows, inferred, forks)
    tables = {
        "sources": _sources(builder),
        "sessions": sessions,
        "requests": requests.cast(polars_schema(REQUESTS)),
        "prefixes": _prefixes(builder.tree),
        "divergences": _divergences(builder, rows),
        "rejects": pl.DataFrame(_rejects(builder), schema=polars_schema(REJECTS), orient="row"),
    }
    private = private_files(builder, copies, rows, replaced)
    return Finished(tables, private, copies.height + replaced, by_fingerprint, warnings)


def _standing(builder: Builder, every: pl.DataFrame) -> pl.DataFrame:
    """The requests of inputs that have no successor."""
    gone = [i.label for i in builder.inputs if i.successor is not None]
    return every.filter(~pl.col("input_label").is_in(gone)) if gone else every


def _withdrawn(builder: Builder, every: pl.DataFrame) -> int:
    return every.filter(pl.col("input_label").is_in(builder.withdrawn)).height if builder.withdrawn else 0


def _rejects(builder: Builder) -> list[tuple[str, int, str]]:
    gone = {i.label for i in builder.inputs if i.successor is not None}
    return [reject for reject in (*builder.requests.rejects, *builder.requests.late) if reject[0] not in gone]


def input_order(inputs: list[Input]) -> dict[str, int]:
    """Place of each input's label when inputs are sorted by name."""
    ranked = sorted(inputs, key=lambda i: (i.name, i.digest))
    return {i.label: place for place, i in enumerate(ranked)}


def _with_inferred_sessions(builder: Builder, rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Fill session_id where the source names none and prompts are known."""
    block_of = [s[2] for s in builder.sources]
    missing = rows.filter(pl.col("session_id").is_null() & pl.col("prefix_id").is_not_null())
    empty = pl.DataFrame(schema={"session_id": pl.Int64, "source_id": pl.Int32, "input_label": pl.String})
    if missing.is_empty():
        return rows, empty
    missing = missing.sort("arrival_us", "input_order", "record_ordinal", nulls_last=True, maintain_order=True)
    block = np.array([b or 1 for b in block_of], np.int64)[missing["source_id"].to_numpy()]
    columns = builder.tree.columns()
    depth = full_depths(missing["prefix_tokens"].to_numpy(), block)
    step = np.where(block == 1, TEXT_TOLERANCE_TOKENS, block)
    count = missing.height
    leaf = missing["prefix_id"].to_numpy()
    same = [pl.col(name) == pl.col(name).shift(1) for name in ("input_order", "record_ordinal")]
    compacted = missing.select(pl.all_horizontal("compaction", *same).fill_null(False)).to_series().to_numpy()
    after = np.where(compacted, np.arange(count) - 1, -1)
    first = infer_sessions(columns["parent"], columns["end"], leaf, depth, 2 * step, np.arange(count), after)
    starts = missing["request_id"].to_numpy()[first]
    next_id = len(builder.sessions)
    _, dense = np.unique(first, return_inverse=True)
    missing = missing.with_columns(session_id=pl.Series(dense + next_id, dtype=pl.Int64))
    known = missing.select("request_id", inferred_session="session_id")
    rows = rows.join(known, on="request_id", how="left", maintain_order="left").with_columns(
        session_id=pl.coalesce("session_id", "inferred_session")
    )
    firsts = missing.filter(pl.Series(starts == missing["request_id"].to_numpy()))
    return rows.drop("inferred_session"), firsts.select("session_id", "source_id", "input_label")


def _with_turns(rows: pl.DataFrame) -> pl.DataFrame:
    """Number the requests of each session by arrival, ties by input name, then record."""
    unknown = np.iinfo(np.int64).max
    session = rows["session_id"].fill_null(-1).to_numpy()
    arrival = rows["arrival_us"].fill_null(unknown).to_numpy()
    order = np.lexsort((rows["record_ordinal"].to_numpy(), rows["input_order"].to_numpy(), arrival, session))
    ordered = session[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if order.size else order
    turn = np.empty(order.size, np.int32)
    turn[order] = np.arange(order.size) - np.repeat(first, np.diff(np.append(first, order.size)))
    return rows.with_columns(turn=pl.Series(turn).set(pl.Series(session < 0), None))


def _divergences(builder: Builder, rows: pl.DataFrame) -> pl.DataFrame:
    native = np.array([s[2] or 1 for s in builder.sources], np.int64)
    excerpts = builder.excerpts if builder.keep_excerpts else None
    table = divergence_table(builder.tree, rows, native, [s[6] for s in builder.sources], builder.texts, excerpts)
    pairs = set(table.select("request_id", "previous_request_id").rows()) if builder.excerpts else set()
    builder.excerpts = {pair: texts for pair, texts in builder.excerpts.items() if pair in pairs}
    if builder.named is None or table.is_empty():
        return table
    # texts are not kept: what an earlier ingest named by them keeps its name
    pair = ["request_id", "previous_request_id"]
    before = builder.named.select(*pair, before="kind")
    both = table.join(before, on=pair, how="left", maintain_order="left")
    return both.with_columns(kind=pl.coalesce("kind", "before")).drop("before")


def _sources(builder: Builder) -> pl.DataFrame:
    names = [c.name for c in SOURCES]
    usage = builder.findings()
    data = [(i, *source, usage.sentence(source[0])) for i, source in enumerate(builder.sources)]
    return pl.DataFrame(data, schema={n: polars_schema(SOURCES)[n] for n in names}, orient="row")


def _sessions(
    builder: Builder, rows: pl.DataFrame, inferred: pl.DataFrame, forks: dict[int, int]
) -> tuple[pl.DataFrame, list[str]]:
    """The table, and a warning for each kind of link between sessions that leads around in a circle."""
    state = session_state(builder, rows)
    ids = state.select("key", "session_id")
    first = rows.group_by("session_id", maintain_order=True).agg(
        pl.col("source_id").first(), pl.col("started_at").min()
    )
    named = (
        state.join(first, on="session_id", how="inner", maintain_order="left")
        .join(ids.rename({"key": "parent_key", "session_id": "parent_session_id"}), on="parent_key", how="left")
        .join(ids.rename({"key": "forked_from_key", "session_id": "forked_from"}), on="forked_from_key", how="left")
    )
    copied = pl.DataFrame(
        {"session_id": list(forks), "copied_from": list(forks.values())},
        schema={"session_id": pl.Int64, "copied_from": pl.Int64},
    )
    named = named.join(copied, on="session_id", how="left").with_columns(pl.coalesce("forked_from", "copied_from"))
    owned = rows.select(spawn_row="request_id", spawn_request_id="request_id")
    named = named.join(owned, on="spawn_row", how="left").with_columns(
        session_source=pl.coalesce("session_source", pl.lit("native")),
        role=pl.coalesce("role", pl.when(pl.col("parent_key").is_not_null()).then(pl.lit("subagent")).otherwise(
            pl.lit("main"))),
        started_at=pl.coalesce(pl.col("started_at_us").cast(pl.Datetime("us", "UTC")), "started_at"),
    )  # fmt: skip
    found = inferred.with_columns(session_source=pl.lit("inferred"), role=pl.lit("main"))
    found = found.join(first.select("session_id", "started_at"), on="session_id", how="left")
    warnings = []
    for column, said in (("parent_session_id", "were started by"), ("forked_from", "copied the history of")):
        above = named[column]
        circular = pl.Series(leads_back(named["session_id"].to_numpy(), above.fill_null(-1).to_numpy()))
        if circular.any():
            one = named.filter(circular).row(0, named=True)
            warnings.append(
                f"{int(circular.sum()):,} sessions {said} each other in a circle (for example session "
                f"{one['session_id']}, by {one[column]}): they have no `{column}`"
            )
            named = named.with_columns(above.set(circular, None))
    names = [c.name for c in SESSIONS]
    together = pl.concat([named.select(n for n in names), found], how="diagonal_relaxed")
    return together.select(names).cast(polars_schema(SESSIONS)).sort("session_id"), warnings


def _prefixes(tree: PrefixTree) -> pl.DataFrame:
    columns = tree.columns()
    roles = pl.Series(list(ROLES), dtype=pl.String)
    parent = pl.Series(columns["parent"], dtype=pl.Int64)
    return pl.DataFrame(
        {
            "prefix_id": np.arange(tree.size, dtype=np.int64),
            "parent_id": parent.set(parent < 0, None),
            "start_token": columns["start"],
            "end_token": columns["end"],
            "role": roles.gather(pl.Series(columns["role"]).cast(pl.UInt32)),
        },
        schema=polars_schema(PREFIXES),
    )
