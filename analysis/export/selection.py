"""Selects the requests of an export, in arrival order, and reports what the selection changed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl

from analysis.export.block_ids import BlockIds, shared_with_previous
from analysis.export.rows import ExportSelection, Row
from analysis.kernel.families import family_codes
from analysis.kernel.reuse import reuse
from analysis.store.question import BadQuestion, Question, parse_window
from analysis.store.warehouse import Warehouse
from traces.dataset.bundle import without_names
from traces.dataset.layout import Tree

EXPORTED_TOKENS = 1 << 24
"""Most input or output tokens of an exported request. Replayers make a text of this length: 16 million tokens are
sixteen times the longest context on sale."""


class Scaling(NamedTuple):
    """How the exported trace differs from the dataset.

    Attributes:
        arrivals: arrival model; recorded keeps the times.
        rate: factor by which families (top-level sessions with their sub-agents) start more often; times inside a
            family stay the same.
        sessions: number of families to keep, drawn with `seed`.
        context_cap: leave out requests whose prompt has more tokens.
        window: keep requests that arrive in it ("from:T,to:T" or "last:F"), before the rate changes.
        where: keep requests of these (axis, value) pairs; values of one axis are alternatives, as in a question.
    """

    arrivals: str = "recorded"
    rate: float = 1.0
    sessions: int | None = None
    context_cap: int | None = None
    window: str = "all"
    seed: int = 0
    where: tuple[tuple[str, str], ...] = ()

    def chooses(self) -> bool:
        """Whether it leaves requests out or changes when sessions start, apart from the arrival model."""
        return self._replace(arrivals="recorded", seed=0) != Scaling()


def export_selection(
    warehouse: Warehouse, block_size: int | None = None, scaling: Scaling | None = None
) -> ExportSelection:
    """Choose and scale the requests of a dataset for an export.

    Raises:
        BadQuestion: a block size, window or arrival model that does not fit the dataset, or no request is left.
    """
    scaling = scaling or Scaling()
    if scaling.rate <= 0:
        raise BadQuestion("the rate must be above 0: 2 makes sessions start twice as often", "rate", [2])
    question = Question(block_size, scaling.arrivals, where=scaling.where)
    prepared = warehouse.prepare(question)
    loaded, arrived = warehouse.loaded(), warehouse.arrived(scaling.arrivals)
    family = family_codes(loaded)
    alone = family < 0
    family = np.where(alone, family.max(initial=-1) + np.cumsum(alone), family)
    source = without_names("requests", loaded.requests)
    known = pl.Series(loaded.leaf >= 0)
    frame = source.select(
        "request_id", "session_id", "parent_session_id", "spawn_request_id", "duration_s", "ttft_s", "model",
        "output_tokens", "trigger", "stop_reason", "head_tokens", "cache_read_tokens", "input_tokens", "prefix_tokens",
        calls_tools=pl.col("tool_classes").list.len() > 0,
    ).with_columns(
        row=pl.int_range(source.height, dtype=pl.Int64),
        family=pl.Series(family, dtype=pl.Int64),
        leaf=pl.Series(loaded.leaf),
        arrival_s=pl.Series(arrived.arrival_s, nan_to_null=True),
        tokens=pl.when(known).then("prefix_tokens").otherwise("input_tokens"),
    )[arrived.order]  # fmt: skip
    notes: list[str] = []
    before = _Figures.of(loaded, prepared.block_size, frame)
    if scaling.where:
        rows = warehouse.sql("SELECT row FROM selected", question)["row"]
        frame = frame.filter(pl.col("row").is_in(rows.to_list()))
        named = ", ".join(f"{axis}={value}" for axis, value in scaling.where)
        notes.append(f"{frame.height:,} requests are of {named}; what the others shared with them is not written")
    frame = _chosen(frame, scaling, notes)
    if frame.is_empty():
        raise BadQuestion("nothing is left to export: every request was left out (" + "; ".join(notes) + ")")
    frame = _faster(frame, scaling.rate)
    frame = _linked(frame, loaded.tree)
    after = _Figures.of(loaded, prepared.block_size, frame.select("row", "leaf", "tokens"))
    if scaling.where or scaling.sessions is not None or scaling.context_cap is not None or scaling.window != "all":
        notes.append(before.change(after))
    if prepared.unanchored:
        notes.append(
            "times are only known inside a session and no arrival model is named, so sessions start together in what "
            "is written: name one (for example staggered:600)"
        )
    recorded = source.select(recorded="input_tokens").with_row_index("row").cast({"row": pl.Int64})
    differs = frame.filter(pl.col("leaf") >= 0).join(recorded, on="row").filter(pl.col("recorded") != pl.col("tokens"))
    if differs.height:
        notes.append(
            f"{differs.height:,} requests are written with the length of their known prompt, which is not the recorded "
            "input length"
        )
    unknown = frame.filter(pl.col("leaf") < 0).height
    if unknown:
        notes.append(f"{unknown:,} requests have no known prompt: they are written without block ids")
    return ExportSelection(
        frame.select(Row._fields), BlockIds(loaded.tree, prepared.block_size), prepared.block_size, loaded.tree,
        loaded.paths, not prepared.unanchored, notes, int(warehouse.dataset.key[:15] or "0", 16),
    )  # fmt: skip


def _chosen(frame: pl.DataFrame, scaling: Scaling, notes: list[str]) -> pl.DataFrame:
    """The requests that remain after scaling, in the same order; `notes` says which were left out."""
    claimed = pl.max_horizontal(pl.col("tokens").fill_null(0), pl.col("output_tokens").fill_null(0))
    fits = frame.filter(claimed <= EXPORTED_TOKENS)
    if fits.height < frame.height:
        notes.append(
            f"{frame.height - fits.height:,} requests claim more than {EXPORTED_TOKENS:,} input or output tokens and "
            "are left out: replayers make a text of that length"
        )
        frame = fits
    nameless = frame["tokens"].null_count()
    if nameless:
        notes.append(f"{nameless:,} requests have no known input length and are left out")
        frame = frame.filter(pl.col("tokens").is_not_null())
    window = parse_window(scaling.window)
    if window.last is not None:
        frame = frame.tail(round(frame.height * window.last))
    if window.from_s is not None:
        frame = frame.filter(pl.col("arrival_s") >= window.from_s)
    if window.to_s is not None:
        frame = frame.filter(pl.col("arrival_s") < window.to_s)
    if scaling.sessions is not None:
        families = frame["family"].unique().sort()
        if scaling.sessions < 1:
            raise BadQuestion("at least one session is needed", "sessions", [1])
        if scaling.sessions < families.len():
            drawn = np.random.default_rng(scaling.seed).choice(families.len(), scaling.sessions, replace=False)
            notes.append(f"{scaling.sessions:,} of {families.len():,} top-level sessions drawn (seed {scaling.seed})")
            frame = frame.filter(pl.col("family").is_in(families.gather(np.sort(drawn)).to_list()))
        else:
            notes.append(f"there are only {families.len():,} top-level sessions: all are exported")
    if scaling.context_cap is not None:
        over = frame.filter(pl.col("tokens") > scaling.context_cap)
        if over.height:
            notes.append(
                f"{over.height:,} requests above {scaling.context_cap:,} tokens left out ({over['tokens'].sum():,} "
                f"input tokens, in {over['family'].n_unique():,} top-level sessions)"
            )
        frame = frame.filter(pl.col("tokens") <= scaling.context_cap)
    return frame


def _faster(frame: pl.DataFrame, rate: float) -> pl.DataFrame:
    """Families start `rate` times as often, the first at 0; times inside a family stay the same."""
    zero = frame["arrival_s"].min()
    first = pl.col("arrival_s").min().over("family")
    moved = pl.col("arrival_s") - zero if rate == 1 else (first - zero) / rate + (pl.col("arrival_s") - first)
    frame = frame.with_columns(arrival_s=moved.round(6))
    return frame if rate == 1 else frame.sort("arrival_s", nulls_last=True, maintain_order=True)


def _linked(frame: pl.DataFrame, tree: Tree) -> pl.DataFrame:
    """Dense codes, turns and links between the remaining requests."""
    frame = frame.with_columns(number=pl.int_range(frame.height, dtype=pl.Int64))
    sessions = frame["session_id"].drop_nulls().unique(maintain_order=True)
    codes = pl.DataFrame({"session_id": sessions, "session": np.arange(sessions.len())})
    parents = codes.rename({"session_id": "parent_session_id", "session": "parent"})
    spawns = frame.select(spawn_request_id="request_id", spawned_by="number")
    families = frame["family"].unique(maintain_order=True)
    dense = pl.DataFrame({"family": families, "dense": np.arange(families.len())})
    frame = (
        frame.join(codes, on="session_id", how="left", maintain_order="left")
        .join(parents, on="parent_session_id", how="left", maintain_order="left")
        .join(spawns, on="spawn_request_id", how="left", maintain_order="left")
        .join(dense, on="family", how="left", maintain_order="left")
        .with_columns(family=pl.col("dense"))
    )
    lone = pl.col("session").is_null()
    frame = frame.with_columns(
        turn=pl.when(lone).then(0).otherwise(pl.int_range(pl.len()).over("session")),
        previous=pl.when(~lone).then(pl.col("number").shift(1).over("session")),
    )
    leaf = frame["leaf"].to_numpy()
    previous = frame["previous"].fill_null(-1).to_numpy()
    shared = shared_with_previous(tree.parent, tree.start, tree.end, leaf, previous)
    return frame.with_columns(
        shared=pl.Series(shared),
        output=pl.col("output_tokens"), cached=pl.col("cache_read_tokens"), stop=pl.col("stop_reason"),
        head=pl.col("head_tokens"), trigger=pl.col("trigger").fill_null("unknown"),
    )  # fmt: skip


class _Figures(NamedTuple):
    """Figures of a trace, before and after scaling."""

    requests: int
    tokens: int
    ceiling: float | None

    @classmethod
    def of(cls, loaded: Any, block: int, frame: pl.DataFrame) -> _Figures:
        leaf = frame["leaf"].to_numpy()
        order, tree = np.arange(leaf.size), loaded.tree
        runs = reuse(
            tree.parent, tree.start, tree.end, leaf, order, order.astype(np.float64), block, None, loaded.paths
        )
        known = int(tree.end[leaf[leaf >= 0]].sum())
        ceiling = int(runs.hit_blocks.sum()) * block / known if known else None
        return cls(frame.height, int(frame["tokens"].sum()), ceiling)

    def change(self, after: _Figures) -> str:
        """One sentence that compares them."""

        def rate(value: float | None) -> str:
            return "unknown" if value is None else f"{100 * value:.2f} %"

        return (
            f"{after.requests:,} of {self.requests:,} requests and {after.tokens:,} of {self.tokens:,} input tokens "
            f"are exported; the ceiling goes from {rate(self.ceiling)} to {rate(after.ceiling)}"
        )
