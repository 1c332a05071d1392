"""The capacity curve of a dataset as the block manager of vLLM or SGLang would produce it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from analysis.store.question import ENGINES, BadQuestion, Question, engine_of

if TYPE_CHECKING:
    from analysis.peers.engines.outcome import Replay
    from analysis.peers.engines.paths import BlockPaths
    from analysis.store.warehouse import Warehouse

NEWEST_VLLM = "0.23"
"""The free-queue order of vLLM from 0.23 on (analysis.peers.engines.vllm_distances.VERSIONS)."""

CURVE_SCHEMA = {
    "group": pl.String,
    "capacity_blocks": pl.Int64,
    "capacity_tokens": pl.Int64,
    "hit_tokens": pl.Int64,
    "prefix_tokens": pl.Int64,
    "hit_rate": pl.Float64,
    "unschedulable_requests": pl.Int64,
    "decode_oom_requests": pl.Int64,
    "method": pl.String,
    "method_reason": pl.String,
}


def engine_paths(warehouse: Warehouse, question: Question) -> BlockPaths:
    """The dataset's requests in arrival order at the question's block size, replies included where their text is known.

    Raises:
        BadQuestion: a block size that does not fit the dataset; NeedsArrivals where the order is not known.
    """
    from analysis.peers.engines.paths import block_paths

    prepared = warehouse.prepare(question)
    if not prepared.order_known:
        warehouse.need_times(prepared, "the set of blocks that an engine keeps")
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    r = loaded.requests
    output = r["output_tokens"].fill_null(r["output_tokens_estimate"]).fill_null(-1).to_numpy()
    reply = r["output_prefix_id"].fill_null(-1).to_numpy().astype(np.int64)
    tree = loaded.tree
    return block_paths(
        tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, output, prepared.block_size, reply
    )


def engine_curve(
    warehouse: Warehouse,
    question: Question,
    engine: str,
    capacities_blocks: list[int],
    axis: str = "all",
    version: str | None = None,
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Hits per capacity and group if the block manager of `engine` had served the requests.

    The whole trace is replayed; window and filters choose which requests are counted. A capacity is what requests can
    use: it excludes vLLM's null block.

    Args:
        warehouse, question: the dataset and the question.
        engine: vllm | sglang.
        capacities_blocks: blocks (SGLang: pages) of the question's block size.
        axis: an axis of the design, or "all".
        version: vLLM's free-queue order (analysis.peers.engines.vllm_distances.VERSIONS), None for the newest.

    Returns:
        A frame of CURVE_SCHEMA, and the details to print with it: engine, version, method and reason per capacity,
        number of unknown replies.

    Raises:
        BadQuestion: unknown engine or axis, an impossible capacity or block size.
    """
    if engine not in ENGINES:
        raise BadQuestion(f"unknown engine {engine!r}. Engines: {', '.join(ENGINES)}")
    paths = engine_paths(warehouse, question)
    try:
        outcomes = outcomes_of(paths, engine, capacities_blocks, version)
    except ValueError as error:
        raise BadQuestion(str(error)) from None
    groups = warehouse.grouped(question, axis)
    whole = axis == "all" and question.window == "all" and not question.where
    frames = []
    for capacity, outcome in zip(capacities_blocks, outcomes, strict=True):
        per_request = pl.DataFrame(
            {
                "row": paths.row,
                "hit": outcome.hit_blocks * paths.block_tokens,
                "unscheduled": (~outcome.scheduled).astype(np.int64),
            }
        )
        frames.append(
            groups.join(per_request, on="row", how="left", maintain_order="left")
            .group_by("group", maintain_order=True)
            .agg(
                hit_tokens=pl.col("hit").fill_null(0).sum(),
                prefix_tokens=pl.col("prefix_tokens").sum(),
                unschedulable_requests=pl.col("unscheduled").fill_null(0).sum(),
            )
            .with_columns(
                capacity_blocks=pl.lit(capacity, pl.Int64),
                capacity_tokens=pl.lit(capacity * paths.block_tokens, pl.Int64),
                hit_rate=pl.when(pl.col("prefix_tokens") > 0).then(pl.col("hit_tokens") / pl.col("prefix_tokens")),
                decode_oom_requests=pl.lit(outcome.decode_oom if whole else None, pl.Int64),
                method=pl.lit(outcome.method),
                method_reason=pl.lit(outcome.reason),
            )
            .select(pl.col(name).cast(dtype) for name, dtype in CURVE_SCHEMA.items())
        )
    frame = pl.concat(frames).sort("group", "capacity_blocks") if frames else pl.DataFrame(schema=CURVE_SCHEMA)
    said = [
        {"capacity_blocks": c, "method": o.method, "reason": o.reason}
        for c, o in zip(capacities_blocks, outcomes, strict=True)
    ]
    about = {
        "engine": engine,
        "version": (version or NEWEST_VLLM) if engine == "vllm" else None,
        "methods": said,
        "replies_unknown": paths.unknown_replies,
        "outputs_unknown": paths.unknown_outputs,
    }
    return frame, about


def outcomes_of(paths: BlockPaths, engine: str, capacities: list[int], version: str | None) -> list[Replay]:
    """What the engine's block manager does at each capacity (blocks; SGLang: pages).

    Raises:
        ValueError: an impossible capacity or block size.
    """
    if engine == "vllm":
        from analysis.peers.engines import vllm

        return vllm.replay(paths, [c + 1 for c in capacities], version or NEWEST_VLLM)
    from analysis.peers.engines import sglang

    return sglang.replay(paths, [c * paths.block_tokens for c in capacities])


def ample_blocks(paths: BlockPaths) -> int:
    """A capacity in blocks at which no engine ever evicts: it holds every block of every request."""
    return int(paths.distinct_blocks + paths.slots.sum()) + 2


def engine_grid(paths: BlockPaths) -> list[int]:
    """Log-spaced capacities in blocks, two per octave: from about the largest request to where vLLM's curve is flat.

    The grid starts at a quarter of the largest request, because at smaller capacities most requests cannot run. Each
    point of SGLang's curve is a replay of the whole trace.
    """
    from analysis.kernel.sorted_runs import capacity_grid
    from analysis.peers.engines.vllm_distances import stack_distances

    runs = stack_distances(paths)
    flat = int((runs.distance_blocks + runs.blocks).max(initial=0))
    largest = int(paths.slots.max(initial=1))
    grid = capacity_grid(max(flat, largest), 2)
    return [int(c) for c in grid if c >= max(1, largest // 4)]


def engine_points(
    warehouse: Warehouse, question: Question, axis: str, capacity_blocks: list[int] | None
) -> pl.DataFrame:
    """The curve of the engine that the question's definition names; without capacities, at those of `engine_grid`.

    Raises:
        BadQuestion: see `engine_curve`.
    """
    named = engine_of(question.definition)
    if named is None:
        raise BadQuestion(f"{question.definition} is no engine. Engines: {', '.join(ENGINES)}", "definition", ENGINES)
    capacities = engine_grid(engine_paths(warehouse, question)) if capacity_blocks is None else capacity_blocks
    return engine_curve(warehouse, question, named[0], capacities, axis, named[1])[0]


def engine_ceiling(
    warehouse: Warehouse, question: Question, axes: tuple[str, ...] = ()
) -> dict[str, dict[str, dict[str, Any]]]:
    """Axis (including "all") -> group -> ceiling and ceiling_hit_tokens, for a cache in which the engine never
    evicts."""
    ample = ample_blocks(engine_paths(warehouse, question))
    return {
        axis: {
            row["group"]: {"ceiling": row["hit_rate"], "ceiling_hit_tokens": row["hit_tokens"]}
            for row in engine_points(warehouse, question, axis, [ample]).to_dicts()
        }
        for axis in ("all", *axes)
    }


def replies_unknown(warehouse: Warehouse) -> dict[str, int]:
    """Number of requests whose reply has unknown content, and unknown length: an engine's curve cannot count its
    reuse."""
    r = warehouse.loaded().requests
    known = r.filter(pl.col("prefix_id").is_not_null())
    length = pl.coalesce("output_tokens", "output_tokens_estimate")
    return {
        "replies_unknown": known.filter(pl.col("output_prefix_id").is_null() & (length > 1)).height,
        "outputs_unknown": known.filter(length.is_null()).height,
    }
