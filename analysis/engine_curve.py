"""The capacity curve as an engine would draw it: `--definition vllm | sglang` over a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from analysis.question import BadQuestion, Question

if TYPE_CHECKING:
    from analysis.engines.outcome import Replay
    from analysis.engines.paths import BlockPaths
    from analysis.warehouse import Warehouse

ENGINES = ("vllm", "sglang")

CURVE_SCHEMA = {
    "group": pl.String,
    "capacity_blocks": pl.Int64,
    "capacity_tokens": pl.Int64,
    "hit_tokens": pl.Int64,
    "prefix_tokens": pl.Int64,
    "hit_rate": pl.Float64,
    "unschedulable_requests": pl.Int64,
    "decode_oom_requests": pl.Int64,
}


def engine_paths(warehouse: Warehouse, question: Question) -> BlockPaths:
    """The dataset's requests in arrival order at the question's block size, replies included where their text is known.

    Raises:
        BadQuestion: a block size that does not fit the dataset; NeedsArrivals where the order is not known.
    """
    from analysis.engines.paths import block_paths

    prepared = warehouse.prepare(question)
    if not prepared.order_known:
        warehouse.need_times(prepared, "what an engine keeps")
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
    version: str = "0.23",
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Hits per capacity and group, as the block manager of `engine` would serve them.

    The whole trace is replayed; window and filters choose which requests count. A capacity is what requests can use:
    vLLM's null block is not in it.

    Args:
        warehouse, question: the dataset and the choices of the question.
        engine: vllm | sglang.
        capacities_blocks: blocks (SGLang: pages) of the question's block size.
        axis: an axis of the design, or "all".
        version: vLLM's free-queue order (analysis.engines.vllm.VERSIONS).

    Returns:
        A frame of CURVE_SCHEMA, and what to print with it (engine, version, method and reason per capacity, replies
        unknown).

    Raises:
        BadQuestion: unknown engine or axis, an impossible capacity or block size.
    """
    if engine not in ENGINES:
        raise BadQuestion(f"unknown engine {engine!r}. Engines: {', '.join(ENGINES)}")
    paths = engine_paths(warehouse, question)
    try:
        outcomes = _outcomes(paths, engine, capacities_blocks, version)
    except ValueError as error:
        raise BadQuestion(str(error)) from None
    groups = warehouse.grouped(question, axis)
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
                decode_oom_requests=pl.lit(outcome.decode_oom if axis == "all" else None, pl.Int64),
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
        "version": version if engine == "vllm" else None,
        "methods": said,
        "replies_unknown": paths.unknown_replies,
        "outputs_unknown": paths.unknown_outputs,
    }
    return frame, about


def _outcomes(paths: BlockPaths, engine: str, capacities: list[int], version: str) -> list[Replay]:
    if engine == "vllm":
        from analysis.engines import vllm

        return vllm.replay(paths, [c + 1 for c in capacities], version)
    from analysis.engines import sglang

    return sglang.replay(paths, [c * paths.block_tokens for c in capacities])
