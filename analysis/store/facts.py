"""Per-request facts of a dataset at a block size under an arrival model. Every query reads them.

The functions take arrays and return frames; `analysis.store.warehouse` stores the frames and queries them with DuckDB.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from analysis.kernel.heavy_paths import HeavyPaths, heavy_paths
from analysis.kernel.reuse import Reuse, reuse
from analysis.kernel.transitions import KINDS, TYPES, trajectory_types, transitions
from analysis.store import arrivals as arrival_models
from traces.dataset.layout import Dataset, Tree
from traces.records import ROLES

# the lower edge of each bucket, and its name
TURN_EDGES = (
    (0, "0"),
    (1, "1"),
    (2, "2–3"),
    (4, "4–7"),
    (8, "8–15"),
    (16, "16–31"),
    (32, "32–63"),
    (64, "64–127"),
    (128, "128+"),
)
GAP_EDGES = (
    (0.0, "≤ 1 s"),
    (1.0, "1–5 s"),
    (5.0, "5–30 s"),
    (30.0, "30–60 s"),
    (60.0, "1–5 min"),
    (300.0, "5–60 min"),
    (3600.0, "> 1 h"),
)
LENGTH_EDGES = (
    (0, "< 1k"),
    (1_000, "1k–4k"),
    (4_000, "4k–16k"),
    (16_000, "16k–32k"),
    (32_000, "32k–64k"),
    (64_000, "64k–128k"),
    (128_000, "128k–256k"),
    (256_000, "256k+"),
)


class Loaded(NamedTuple):
    """A dataset's requests and tree as arrays, in request row order."""

    requests: pl.DataFrame  # with the session's and source's columns beside each request
    tree: Tree
    paths: HeavyPaths
    leaf: NDArray[np.int64]
    session: NDArray[np.int64]  # dense session codes; -1 unknown
    sessions: int
    heads: NDArray[np.int64]  # by session code: length of the head if the source gives it, else -1
    native: NDArray[np.int64]  # native block of each request's source; 1 for text and unknown


def load(dataset: Dataset) -> Loaded:
    """Read the columns and arrays that the kernels need."""
    order = {i["label"]: i["order"] for i in dataset.manifest["inputs"]}
    sessions = dataset.read("sessions").drop("input_label", "source_id", "started_at")
    sources = dataset.read("sources").select(
        "source_id", source="format", native="native_block_tokens", basis="time_basis"
    )
    requests = (
        dataset.read("requests")
        .join(sessions, on="session_id", how="left", maintain_order="left")
        .join(sources, on="source_id", how="left", maintain_order="left")
        .with_columns(input_rank=pl.col("input_label").replace_strict(order, default=0, return_dtype=pl.Int64))
        .sort("request_id")
    )
    named = requests["session_id"].drop_nulls().unique().sort()
    codes = {s: i for i, s in enumerate(named.to_list())}
    session = requests["session_id"].replace_strict(codes, default=None, return_dtype=pl.Int64).fill_null(-1).to_numpy()
    heads = np.full(named.len(), -1, np.int64)
    known = requests.filter(pl.col("head_tokens").is_not_null() & pl.col("session_id").is_not_null())
    heads[[codes[s] for s in known["session_id"].to_list()]] = known["head_tokens"].to_numpy()
    tree = dataset.tree()
    return Loaded(
        requests=requests,
        tree=tree,
        paths=heavy_paths(tree.parent, tree.start),
        leaf=requests["prefix_id"].fill_null(-1).to_numpy().astype(np.int64),
        session=session,
        sessions=named.len(),
        heads=heads,
        native=requests["native"].fill_null(1).to_numpy().astype(np.int64),
    )


class Arrived(NamedTuple):
    """Arrivals under a model: seconds by request row (NaN unknown), rows in order, and whether times mean nothing
    across sessions (relative times and no model)."""

    arrival_s: NDArray[np.float64]
    order: NDArray[np.int64]
    unanchored: bool


def arrival_inputs(loaded: Loaded) -> tuple[arrival_models.Sessions, arrival_models.Requests]:
    """What arrival models need to know of the dataset's sessions and requests."""
    r = loaded.requests
    count = r.height
    ordinal = r["record_ordinal"].to_numpy()
    rank = r["input_rank"].to_numpy()
    unknown = loaded.session < 0
    # each is a session of its own
    session = np.where(unknown, loaded.sessions + np.cumsum(unknown) - 1, loaded.session)
    families = loaded.sessions + int(unknown.sum())
    first_row = np.full(families, count, np.int64)
    np.minimum.at(first_row, session, np.arange(count))
    first_ordinal = np.full(families, np.iinfo(np.int64).max)
    np.minimum.at(first_ordinal, session, ordinal)
    codes = dict(zip(r["session_id"].to_list(), session.tolist(), strict=True))
    parents = r["parent_session_id"].to_list()
    parent = np.array([codes.get(parents[row], -1) if parents[row] is not None else -1 for row in first_row], np.int64)
    relative = (r["basis"] == "relative").fill_null(False).to_numpy()
    sessions = arrival_models.Sessions(parent, rank[first_row], first_ordinal, relative[first_row])
    requests = arrival_models.Requests(
        r["arrival_s"].fill_null(np.nan).to_numpy(), session, r["duration_s"].fill_null(np.nan).to_numpy(),
        ordinal, rank,
    )  # fmt: skip
    return sessions, requests


def arrive(loaded: Loaded, model: arrival_models.Arrivals) -> Arrived:
    """Apply an arrival model to the dataset's requests."""
    sessions, requests = arrival_inputs(loaded)
    arrival, order = arrival_models.apply(model, sessions, requests)
    unanchored = model.kind == "recorded" and arrival_models.needs_model(sessions)
    known = arrival[~np.isnan(arrival)]
    return Arrived(arrival - (known.min() if known.size else 0.0), order, unanchored)


def classify(loaded: Loaded, arrived: Arrived) -> pl.DataFrame:
    """Transition and overlap with the previous request, by request row; independent of block size and arrival model."""
    r = loaded.requests
    step = np.where(loaded.native == 1, 1, loaded.native)
    found = transitions(
        loaded.tree.parent, loaded.tree.start, loaded.tree.end, loaded.paths, loaded.leaf, arrived.order,
        loaded.session, step, arrived.arrival_s, r["duration_s"].fill_null(np.nan).to_numpy(),
        r["compaction"].fill_null(False).to_numpy(), loaded.heads,
    )  # fmt: skip
    types = trajectory_types(loaded.session, found.code, loaded.sessions)
    of_request = np.full(r.height, -1, np.int64)
    in_session = loaded.session >= 0
    of_request[in_session] = types[loaded.session[in_session]]
    names = pl.Series(list(KINDS), dtype=pl.String)
    kinds = pl.Series(list(TYPES), dtype=pl.String)
    known = pl.Series(found.code >= 0)
    return pl.DataFrame(
        {
            "transition": names.gather(np.maximum(found.code, 0)).set(~known, None),
            "trajectory_type": kinds.gather(np.maximum(of_request, 0)).set(pl.Series(of_request < 0), None),
            "previous_row": found.previous_row,
            "shared_previous_tokens": found.shared_previous_tokens,
            "deepest_row": found.deepest_row,
            "deepest_shared_tokens": found.deepest_shared_tokens,
        }
    )


def head_ends(tree: Tree) -> NDArray[np.int64]:
    """Per node: tokens of the unobserved head that its path starts with (0 where it starts otherwise)."""
    from analysis.store.heads import head_end_of_nodes

    return head_end_of_nodes(tree.parent, tree.start, tree.end, tree.role, ROLES.index("unobserved"))


def facts(loaded: Loaded, arrived: Arrived, kinds: pl.DataFrame, block: int) -> tuple[pl.DataFrame, Reuse]:
    """One row per request with every column that questions group by or sum, and the reuse runs."""
    runs = reuse(
        loaded.tree.parent, loaded.tree.start, loaded.tree.end, loaded.leaf, arrived.order, arrived.arrival_s, block,
        loaded.session, loaded.paths,
    )  # fmt: skip
    assert runs.same_session_hit_blocks is not None
    r = loaded.requests
    count = r.height
    rank = np.empty(count, np.int64)
    rank[arrived.order] = np.arange(count)
    known = pl.Series(loaded.leaf >= 0)
    previous = kinds["previous_row"].to_numpy().astype(np.int64)
    has = previous >= 0
    at = np.maximum(previous, 0)
    duration = r["duration_s"].fill_null(np.nan).to_numpy()
    arrival = arrived.arrival_s
    end = np.where(np.isnan(duration), arrival, arrival + duration)
    gap = np.where(has, arrival - end[at], np.nan)
    prefix = r["prefix_tokens"].fill_null(0).to_numpy()
    output = r["output_tokens"].fill_null(-1).to_numpy()
    head = head_ends(loaded.tree)[np.maximum(loaded.leaf, 0)]
    nan = pl.Series(gap, nan_to_null=True)
    frame = r.select(
        "request_id", "session_id", "parent_session_id", "input_label", "turn", "started_at", "ttft_s", "duration_s",
        "model", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "output_complete",
        "output_tokens_estimate", "reasoning_tokens", "prefix_id", "prefix_tokens", "prompt_completeness", "trigger",
        "work", "stop_reason", "status", "agent", "agent_version", "session_source", "role", "source",
    ).with_columns(
        row=pl.int_range(count, dtype=pl.Int64),
        rank=pl.Series(rank),
        arrival_s=pl.Series(arrival, nan_to_null=True),
        end_s=pl.Series(np.where(np.isnan(duration), np.nan, arrival + duration), nan_to_null=True),
        transition=kinds["transition"],
        trajectory_type=kinds["trajectory_type"],
        gap_s=nan,
        full_blocks=pl.Series(runs.full_blocks).set(~known, None),
        hit_tokens=pl.Series(runs.hit_blocks * block).set(~known, None),
        same_session_hit_tokens=pl.Series(runs.same_session_hit_blocks * block).set(~known, None),
        shared_previous_tokens=kinds["shared_previous_tokens"].set(~pl.Series(has), 0),
        previous_prefix_tokens=pl.Series(prefix[at]).set(~pl.Series(has), None),
        previous_output_tokens=pl.Series(output[at]).set(~pl.Series(has & (output[at] >= 0)), None),
        head_tokens_unobserved=pl.Series(head).set(~known, None),
        turn_group=_buckets(r["turn"].cast(pl.Float64), TURN_EDGES),
        gap_group=_buckets(nan, GAP_EDGES, below=True),
        length_group=_buckets(r["prefix_tokens"].fill_null(r["input_tokens"]).cast(pl.Float64), LENGTH_EDGES),
    )  # fmt: skip
    return frame, runs


def _buckets(values: pl.Series, edges: tuple[tuple[float, str], ...], below: bool = False) -> pl.Series:
    """The name of each value's bucket. With `below`, a value on an edge belongs to the lower bucket."""
    starts = np.array([e for e, _ in edges], np.float64)
    numbers = values.to_numpy()
    place = np.searchsorted(starts, np.nan_to_num(numbers, nan=0.0), side="left" if below else "right") - 1
    names = pl.Series([name for _, name in edges], dtype=pl.String)
    return names.gather(np.maximum(place, 0)).set(values.is_null() | values.is_nan(), None)


def runs_frame(runs: Reuse) -> pl.DataFrame:
    """The reuse table: request and last_request are rows of the facts."""
    gap = np.round(runs.gap_s * 1e6) / 1e6
    return pl.DataFrame(
        {
            "request": runs.request,
            "start_block": runs.start_block,
            "blocks": runs.blocks,
            "distance_blocks": runs.distance_blocks,
            "last_request": runs.last_request,
            "gap_s": pl.Series(gap, nan_to_null=True),
        }
    )
