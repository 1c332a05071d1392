"""A finished builder to the dataset's tables, and back when a dataset is appended to."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.builder import Builder
from traces.dataset.building.request_rows import Input
from traces.dataset.layout import Dataset
from traces.dataset.paths import NotADataset
from traces.dataset.table_checks import leads_back
from traces.dataset.writing import check_private
from traces.digests import KeyedDigest
from traces.divergence.tables import divergence_table
from traces.records import ROLES
from traces.schema import PREFIXES, REJECTS, REQUESTS, SESSIONS, SOURCES, polars_schema
from traces.tree.continuations import full_depths, infer_sessions
from traces.tree.prefixes import VIRTUAL, Nodes, PrefixTree
from traces.usage.findings import Findings

TEXT_TOLERANCE_TOKENS = 16
"""What stands for a native block where the unit is a token."""

_SESSION_FIELDS = {
    "key": pl.UInt64,
    "parent_key": pl.UInt64,
    "forked_from_key": pl.UInt64,
    "spawn_key": pl.UInt64,
    "spawn_row": pl.Int64,
    "session_source": pl.String,
    "input_label": pl.String,
    "agent": pl.String,
    "agent_version": pl.String,
    "role": pl.String,
    "started_at_us": pl.Int64,
    "head_tokens": pl.Int64,
}


def finish(builder: Builder) -> tuple[dict[str, pl.DataFrame], dict[str, Any], int]:
    """Return (tables, private files, number of copies left out)."""
    rows = builder.all_rows()
    owners, forks = _owners(builder, rows)
    if owners.all():
        copies = rows.clear()
    else:
        copies, rows = rows.filter(pl.Series(~owners)), rows.filter(pl.Series(owners))
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
    sessions = _sessions(builder, rows, inferred, forks)
    tables = {
        "sources": _sources(builder),
        "sessions": sessions,
        "requests": requests.cast(polars_schema(REQUESTS)),
        "prefixes": _prefixes(builder.tree),
        "divergences": _divergences(builder, rows),
        "rejects": pl.DataFrame(
            [*builder.requests.rejects, *builder.requests.late], schema=polars_schema(REJECTS), orient="row"
        ),
    }
    return tables, _private(builder, copies, rows), copies.height


def input_order(inputs: list[Input]) -> dict[str, int]:
    """Place of each input's label when inputs are sorted by name."""
    ranked = sorted(inputs, key=lambda i: (i.name, i.digest))
    return {i.label: place for place, i in enumerate(ranked)}


def _owners(builder: Builder, rows: pl.DataFrame) -> tuple[NDArray[np.bool_], dict[int, int]]:
    """True for the one row of each call that counts: the smallest (rank, input name, ordinal).

    And for each session that logged calls again which belong to another: that session (its history was copied).
    """
    ids = rows["request_id"].to_numpy()
    owner = np.ones(ids.size, dtype=bool)
    repeated = list(builder.copies.repeated())
    if not repeated:
        return owner, {}
    places = np.flatnonzero(np.isin(ids, [row for row, _, _ in repeated])).tolist()
    place = {int(ids[i]): i for i in places}
    names = {i.label: (i.name, i.digest) for i in builder.inputs}
    labels = dict(zip(places, rows["input_label"].gather(places), strict=True))
    ordinals = dict(zip(places, rows["record_ordinal"].gather(places), strict=True))
    best: dict[int, tuple[Any, int]] = {}
    lost: list[tuple[int, int]] = []
    for row, digest, rank in repeated:
        i = place.get(row)
        if i is None:
            continue
        bid = (_comparable(rank), names[labels[i]], ordinals[i])
        held = best.get(digest)
        if held is None or bid < held[0]:
            if held is not None:
                owner[held[1]] = False
                lost.append((held[1], digest))
            best[digest] = (bid, i)
        else:
            owner[i] = False
            lost.append((i, digest))
    sessions = dict(zip(places, rows["session_id"].gather(places), strict=True))
    forks: dict[int, int] = {}
    for i, digest in lost:
        copied, original = sessions[i], sessions[best[digest][1]]
        if copied is not None and original is not None and copied != original:
            forks.setdefault(copied, original)
    return owner, forks


def _comparable(rank: Any) -> tuple[Any, ...]:
    """Ranks may hold None and numbers or text: None comes last, types never meet."""
    return tuple((2, "") if r is None else (1, r) if isinstance(r, str) else (0, r) for r in rank)


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
    table = divergence_table(builder.tree, rows, native, [s[6] for s in builder.sources], builder.texts)
    if builder.named is None or table.is_empty():
        return table
    # texts are not kept: what an earlier ingest named by them keeps its name
    pair = ["request_id", "previous_request_id"]
    before = builder.named.select(*pair, before="kind")
    both = table.join(before, on=pair, how="left", maintain_order="left")
    return both.with_columns(kind=pl.coalesce("kind", "before")).drop("before")


def _sources(builder: Builder) -> pl.DataFrame:
    names = [c.name for c in SOURCES]
    data = [(i, *source, builder.usage.sentence(source[0])) for i, source in enumerate(builder.sources)]
    return pl.DataFrame(data, schema={n: polars_schema(SOURCES)[n] for n in names}, orient="row")


def _session_state(builder: Builder) -> pl.DataFrame:
    columns = {name: [s.get(name) for s in builder.sessions] for name in _SESSION_FIELDS}
    open_keys = {
        i: s["spawn_key"] for i, s in enumerate(builder.sessions) if "spawn_key" in s and s.get("spawn_row") is None
    }
    named = builder.named_rows(set(open_keys.values())) if open_keys else {}
    for i, key in open_keys.items():
        columns["spawn_row"][i] = named.get(key)
    frame = pl.DataFrame(columns, schema=_SESSION_FIELDS)
    return frame.with_row_index("session_id").with_columns(pl.col("session_id").cast(pl.Int64))


def _sessions(builder: Builder, rows: pl.DataFrame, inferred: pl.DataFrame, forks: dict[int, int]) -> pl.DataFrame:
    state = _session_state(builder)
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
    above = named["parent_session_id"]
    circular = pl.Series(leads_back(named["session_id"].to_numpy(), above.fill_null(-1).to_numpy()))
    named = named.with_columns(parent_session_id=above.set(circular, None))
    names = [c.name for c in SESSIONS]
    together = pl.concat([named.select(n for n in names), found], how="diagonal_relaxed")
    return together.select(names).cast(polars_schema(SESSIONS)).sort("session_id")


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


# what appending needs ------------------------------------------------------------------------------------------


def _private(builder: Builder, copies: pl.DataFrame, rows: pl.DataFrame) -> dict[str, Any]:
    tree = builder.tree
    columns = tree.columns()
    native = rows.select("request_id", "session_id", "arrival_us", "wall").join(
        _native_sessions(builder), on="session_id", how="left", maintain_order="left"
    )
    times = native.select("request_id", "arrival_us", "wall", named_session="native")
    named_rows, digests = builder.copies.columns()
    texts: dict[int, str] = {}  # by identity: equal ranks in a row are one object
    for rank in builder.copies.ranks:
        if id(rank) not in texts:
            texts[id(rank)] = _rank_text(rank)
    ranks = pl.Series([texts[id(rank)] for rank in builder.copies.ranks], dtype=pl.String)
    dedupe = {"request_id": named_rows, "digest": digests, "rank": ranks}
    return {
        "key": builder.digest.key,
        "units.bin": tree.pool(),
        "nodes.parquet": pl.DataFrame({n: columns[n] for n in ("per_unit", "offset", "value", "space", "role")}),
        "times.parquet": times,
        "copies.parquet": copies,
        "sessions.parquet": _session_state(builder),
        "dedupe.parquet": pl.DataFrame(dedupe, schema={"request_id": pl.Int64, "digest": pl.UInt64, "rank": pl.String}),
        "state.json": {
            "inputs": [list(i) for i in builder.inputs],
            "spaces": builder.spaces,
            "origins": builder.requests.origins,
            "rows": builder.rows,
            "usage": builder.usage.state(),
        },
    }


def _native_sessions(builder: Builder) -> pl.DataFrame:
    ids = np.arange(len(builder.sessions), dtype=np.int64)
    return pl.DataFrame({"session_id": ids, "native": np.ones(ids.size, dtype=bool)})


def _rank_text(rank: tuple[Any, ...]) -> str:
    import orjson

    return orjson.dumps(list(rank)).decode()


def restore(dataset: Dataset) -> Builder:
    """The builder that wrote `dataset`, ready for more inputs.

    Raises:
        NotADataset: if private/ is not there (a bundle cannot be appended to) or is damaged.
    """
    check_private(dataset)
    try:
        return _restored(dataset)
    except (OSError, ValueError, TypeError, LookupError, pl.exceptions.PolarsError) as error:
        if isinstance(error, NotADataset):
            raise
        raise NotADataset(
            f"{dataset.name}: private/ is not valid ({type(error).__name__}), so nothing can be appended; "
            "ingest all inputs again into a new dataset"
        ) from None


class _State(msgspec.Struct):
    inputs: list[tuple[str, str, str, str, int | None]]
    spaces: dict[str, int]
    origins: dict[str, int]
    rows: int
    usage: Any = None


def _check_nodes(columns: dict[str, NDArray[Any]], pool: NDArray[np.uint64]) -> None:
    """Compiled code follows these without bounds checks.

    Raises:
        ValueError: where a run is not inside the pool, or not of whole units.
    """
    length = columns["end"] - columns["start"]
    unit, offset = columns["per_unit"].astype(np.int64), columns["offset"].astype(np.int64)
    units = length[1:] // np.maximum(unit[1:], 1)
    whole = (unit[1:] > 0).all() and (length[1:] % np.maximum(unit[1:], 1) == 0).all()
    inner = ((offset[1:] == VIRTUAL) | ((offset[1:] >= 0) & (offset[1:] <= pool.size - units))).all()
    if not whole or not inner or not ((columns["role"] >= 0) & (columns["role"] < len(ROLES))).all():
        raise ValueError("nodes.parquet")


def _restored(dataset: Dataset) -> Builder:
    import orjson

    def frame(name: str) -> pl.DataFrame:
        return pl.read_parquet(dataset.private_file(name), glob=False)

    state = msgspec.json.decode(dataset.private_file("state.json").read_bytes(), type=_State)
    builder = Builder(KeyedDigest(dataset.private_file("key").read_bytes()))
    prefixes = dataset.read("prefixes")
    nodes = frame("nodes.parquet")
    pool = np.fromfile(dataset.private_file("units.bin"), np.uint64)
    columns = {
        "parent": prefixes["parent_id"].fill_null(-1).to_numpy(),
        "start": prefixes["start_token"].to_numpy(),
        "end": prefixes["end_token"].to_numpy(),
        **{name: nodes[name].to_numpy() for name in ("per_unit", "offset", "value", "space", "role")},
    }
    _check_nodes(columns, pool)
    builder.tree = PrefixTree.restore({name: columns[name] for name in Nodes._fields[:8]}, pool)
    rows = dataset.read("requests").drop("turn", "arrival_s", "started_at")
    times = frame("times.parquet")
    rows = rows.join(times, on="request_id", how="left", maintain_order="left").with_columns(
        session_id=pl.when("named_session").then("session_id")
    )
    copies = frame("copies.parquet")
    both = pl.concat([rows.drop("named_session"), copies], how="diagonal_relaxed").sort("request_id")
    builder.rows = builder.first_new_row = state.rows
    size = max(1, builder.rows)
    if both["request_id"].is_duplicated().any() or not both["request_id"].is_between(0, size - 1).all():
        raise ValueError("copies.parquet")
    for name, column in (("leaf", "prefix_id"), ("reply", "output_prefix_id")):
        values = np.full(size, -1, np.int64)
        values[both["request_id"].to_numpy()] = both[column].fill_null(-1).to_numpy()
        if not both[column].drop_nulls().is_between(0, prefixes.height - 1).all():
            raise ValueError("copies.parquet")
        setattr(builder, name, values)
    builder.full = builder.leaf.copy()
    builder.requests.frames = [both.drop("prefix_id", "prefix_tokens", "output_prefix_id")]
    builder.inputs = [Input(*i) for i in state.inputs]
    builder.spaces, builder.requests.origins = state.spaces, state.origins
    builder.sources = [tuple(row[1:-1]) for row in dataset.read("sources").rows()]
    builder.usage = Findings(state.usage)
    builder.requests.rejects = dataset.read("rejects").rows()
    builder.named = dataset.read("divergences")
    sessions = frame("sessions.parquet").drop("session_id")
    builder.sessions = [{k: v for k, v in row.items() if v is not None} for row in sessions.to_dicts()]
    builder.session_ids = {s["key"]: i for i, s in enumerate(builder.sessions)}
    dedupe = frame("dedupe.parquet")
    for row, digest, rank in dedupe.rows():
        builder.copies.add(row, digest, tuple(orjson.loads(rank)))
    return builder
