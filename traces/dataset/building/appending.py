"""The files in private/ with which the next ingest can continue a dataset, and the builder made from them."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import orjson
import polars as pl
from numpy.typing import NDArray

from traces.dataset.building.builder import Builder
from traces.dataset.building.request_rows import Input
from traces.dataset.layout import Dataset
from traces.dataset.paths import NotADataset
from traces.dataset.writing import check_private
from traces.digests import KeyedDigest
from traces.records import ROLES
from traces.tree.insertion import Content
from traces.tree.nodes import COLUMNS, VIRTUAL
from traces.tree.prefixes import PrefixTree

EXCERPTS = "excerpts.parquet"
"""The changed lines of divergences; only where an ingest was asked to keep them."""
_EXCERPTS = {"request_id": pl.Int64, "previous_request_id": pl.Int64, "before": pl.String, "after": pl.String}
_SESSION_FIELDS = {
    "key": pl.UInt64,
    "own": pl.UInt64,  # digest of the key without what it is unique in
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


def private_files(builder: Builder, copies: pl.DataFrame, rows: pl.DataFrame, replaced: int) -> dict[str, Any]:
    """File name -> content of what private/ keeps for the next ingest.

    Args:
        builder: the builder.
        copies: requests that are copies of others.
        rows: requests that count.
        replaced: how many requests were left out so far since their input has a successor.
    """
    tree = builder.tree
    columns = tree.columns()
    native = rows.select("request_id", "session_id", "arrival_us", "wall", "content").join(
        _native_sessions(builder), on="session_id", how="left", maintain_order="left"
    )
    times = native.select("request_id", "arrival_us", "wall", "content", named_session="native")
    named_rows, digests = builder.copies.columns()
    texts: dict[int, str] = {}  # by identity: equal ranks in a row are one object
    for rank in builder.copies.ranks:
        if id(rank) not in texts:
            texts[id(rank)] = _rank_text(rank)
    ranks = pl.Series([texts[id(rank)] for rank in builder.copies.ranks], dtype=pl.String)
    dedupe = pl.DataFrame(
        {"request_id": named_rows, "digest": digests, "rank": ranks},
        schema={"request_id": pl.Int64, "digest": pl.UInt64, "rank": pl.String},
    )
    excerpts = [(*pair, *texts) for pair, texts in builder.excerpts.items()]
    kept = pl.concat([rows.select("request_id"), copies.select("request_id")])
    return {
        "key": builder.digest.key,
        "units.bin": tree.pool(),
        "nodes.parquet": pl.DataFrame({n: columns[n] for n in ("per_unit", "offset", "value", "space", "role")}),
        "times.parquet": times,
        "copies.parquet": copies,
        "sessions.parquet": session_state(builder, rows),
        "dedupe.parquet": dedupe.join(kept, on="request_id", how="semi", maintain_order="left"),
        **({EXCERPTS: pl.DataFrame(excerpts, schema=_EXCERPTS, orient="row")} if excerpts else {}),
        "state.json": {
            "inputs": [list(i) for i in builder.inputs],
            "spaces": builder.spaces,
            "origins": builder.requests.origins,
            "rows": builder.rows,
            "replaced": replaced,
            "passed_over": sorted(builder.passed_over),
        },
    }


def _native_sessions(builder: Builder) -> pl.DataFrame:
    ids = np.arange(len(builder.sessions), dtype=np.int64)
    return pl.DataFrame({"session_id": ids, "native": np.ones(ids.size, dtype=bool)})


def _rank_text(rank: tuple[Any, ...]) -> str:
    return orjson.dumps(list(rank)).decode()


def session_state(builder: Builder, rows: pl.DataFrame) -> pl.DataFrame:
    """Every session by id, with the request that spawned it if it is one of `rows`."""
    columns = {name: [s.get(name) for s in builder.sessions] for name in _SESSION_FIELDS}
    spawned = {i: s.get("spawn_row") for i, s in enumerate(builder.sessions) if "spawn_key" in s}
    counted = set(rows.filter(pl.col("request_id").is_in(list(spawned.values())))["request_id"]) if spawned else set()
    open_keys = {i: builder.sessions[i]["spawn_key"] for i, row in spawned.items() if row not in counted}
    named = builder.named_rows(set(open_keys.values())) if open_keys else {}
    for i, key in open_keys.items():
        columns["spawn_row"][i] = named.get(key, columns["spawn_row"][i])
    frame = pl.DataFrame(columns, schema=_SESSION_FIELDS)
    return frame.with_row_index("session_id").with_columns(pl.col("session_id").cast(pl.Int64))


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
    inputs: list[list[Any]]
    spaces: dict[str, int]
    origins: dict[str, int]
    rows: int
    replaced: int = 0
    passed_over: list[str] = []


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
    builder.tree = PrefixTree.restore({name: columns[name] for name in COLUMNS}, pool)
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
    builder.content = Content.of(size)
    builder.content.call[both["request_id"].to_numpy()] = both["content"].to_numpy()
    builder.replaced, builder.passed_over = state.replaced, set(state.passed_over)
    builder.requests.frames = [both.drop("prefix_id", "prefix_tokens", "output_prefix_id", "content")]
    builder.inputs = [Input.restored(i) for i in state.inputs]
    builder.spaces, builder.requests.origins = state.spaces, state.origins
    builder.sources = [tuple(row[1:-1]) for row in dataset.read("sources").rows()]
    builder.requests.rejects = dataset.read("rejects").rows()
    builder.named = dataset.read("divergences")
    sessions = frame("sessions.parquet").drop("session_id")
    builder.sessions = [{k: v for k, v in row.items() if v is not None} for row in sessions.to_dicts()]
    builder.session_ids = {s["key"]: i for i, s in enumerate(builder.sessions)}
    if dataset.private_file(EXCERPTS).exists():
        builder.excerpts = {(r, q): (was, now) for r, q, was, now in frame(EXCERPTS).rows()}
    dedupe = frame("dedupe.parquet")
    for row, digest, rank in dedupe.rows():
        builder.copies.add(row, digest, tuple(orjson.loads(rank)))
    return builder
