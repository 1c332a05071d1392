"""Cache tiers of one replica: hits per tier, bytes moved, reloading against recomputing, the value of a second tier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.sorted_runs import capacity_curve, hit_blocks_at
from analysis.replica.models.kv_layout import Sharding

Blocks = NDArray[np.int64]


def tier_hits(distance_blocks: Blocks, blocks: Blocks, capacities_blocks: Sequence[int]) -> list[int]:
    """Blocks hit in each of several exclusive tiers of one LRU order: L1 below C1, L2 from C1 to C1 + C2, and so on.

    Args:
        distance_blocks: stack distance of the first block of each run of the reuse table.
        blocks: length of each run.
        capacities_blocks: size of each tier.
    """
    for capacity in capacities_blocks:
        if capacity < 0:
            raise ValueError(f"tier capacity {capacity} blocks must not be negative")
    ends = np.cumsum(np.array(capacities_blocks, np.int64))
    hits = hit_blocks_at(capacity_curve(distance_blocks, blocks), ends)[0]
    return [int(own) for own in np.diff(hits, prepend=0)]


class TierCost(NamedTuple):
    """The cost and the saving of a tier's hits, summed over the trace. `saves`: whether reloading is faster."""

    hit_tokens: int
    moved_bytes: float
    reload_s: float
    recompute_s: float

    @property
    def saves(self) -> bool:
        """Whether reading the blocks back takes less time than computing them."""
        return self.reload_s < self.recompute_s


def tier_cost(
    hit_tokens: int, bytes_per_token_per_gpu: float, link_bytes_per_s: float, prefill_tokens_per_s: float, gpus: int = 1
) -> TierCost:
    """Bytes a lower tier moves up for its hits, and seconds to reload or to recompute them.

    Every GPU reloads its own share over its own link; `moved_bytes` is over all `gpus`. `prefill_tokens_per_s` is the
    replica's rate at these contexts.
    """
    if link_bytes_per_s <= 0 or prefill_tokens_per_s <= 0:
        raise ValueError("link bandwidth and prefill rate must be above 0")
    per_gpu = hit_tokens * bytes_per_token_per_gpu
    return TierCost(hit_tokens, per_gpu * gpus, per_gpu / link_bytes_per_s, hit_tokens / prefill_tokens_per_s)


class HostTier(NamedTuple):
    """A host memory tier: bytes it takes on the host, and the distinct tokens it holds for the replica."""

    host_bytes: float
    tokens: int


def host_tier(
    device_bytes_per_gpu: float,
    bytes_per_token_per_gpu: float,
    shards: Sharding,
    ratio: float = 2.0,
    one_copy: bool = False,
) -> HostTier:
    """SGLang's HiCache: host pool = ratio x device pool on every rank (default 2.0; 1.2 in buffer-only mode).

    Every tensor parallel rank keeps the host copy of its own device pool: with MLA these are copies of the same tokens.
    `one_copy` is a host tier that stores one of them.
    """
    if ratio < 0 or device_bytes_per_gpu < 0 or bytes_per_token_per_gpu <= 0:
        raise ValueError("ratio and device bytes must be at least 0, bytes per token above 0")
    tokens = int(ratio * device_bytes_per_gpu // bytes_per_token_per_gpu) * shards.dp
    ranks = shards.dp * shards.dcp if one_copy else shards.tp
    return HostTier(ratio * device_bytes_per_gpu * ranks, tokens)


class Overload(NamedTuple):
    """Hit blocks at `factor` times the usual load, with L1 alone and with L2 added."""

    factor: float
    l1_blocks: int
    with_l2_blocks: int


def overload(
    distance_blocks: Blocks,
    blocks: Blocks,
    l1_blocks: int,
    l2_blocks: int,
    factors: Sequence[float] = (1.0, 1.5, 2.0, 3.0),
) -> list[Overload]:
    """The value of a second tier when load rises for a while.

    With `factor` times as many sessions interleaved on the replica, other sessions' blocks between two uses grow by
    the factor, which acts like a cache that much smaller. An approximation: a session's own blocks do not grow.
    """
    curve = capacity_curve(distance_blocks, blocks)
    out = []
    for factor in factors:
        if factor <= 0:
            raise ValueError("load factors must be above 0")
        sizes = np.array([int(l1_blocks / factor), int((l1_blocks + l2_blocks) / factor)])
        small, both = hit_blocks_at(curve, sizes)[0]
        out.append(Overload(factor, int(small), int(both)))
    return out
