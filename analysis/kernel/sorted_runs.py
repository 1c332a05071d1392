"""Hits at every capacity and under every TTL, from sorted runs.

A run of k blocks at stack distance d hits max(0, min(k, C − d)) blocks at capacity C, so
hits(C) = Σ_{d < C} (C − d) − Σ_{d + k < C} (C − d − k): the curve bends twice per run. With the bends sorted by
position and summed in advance, one binary search gives the exact hits at any capacity.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class CapacityCurve(NamedTuple):
    """Where the hit curve of each of g groups bends; e rows (bends), sorted by position within a group.

    Attributes:
        position: int64[e], capacity in blocks, each at most once per group.
        slope: int64[e], Σ of signs up to and including the row: blocks gained per block of capacity beyond it.
        moment: int64[e], Σ of sign × position up to and including the row.
        first: int64[g + 1], where each group's rows begin.
    """

    position: NDArray[np.int64]
    slope: NDArray[np.int64]
    moment: NDArray[np.int64]
    first: NDArray[np.int64]


class TtlCurve(NamedTuple):
    """The TTL curve of each of g groups; e rows (bends), sorted by gap within a group.

    Attributes:
        gap_s: float64[e], each at most once per group.
        blocks: int64[e], blocks with at most this gap.
        first: int64[g + 1], where each group's rows begin.
        unknown_blocks: int64[g], blocks of runs whose gap is unknown; no row includes them.
    """

    gap_s: NDArray[np.float64]
    blocks: NDArray[np.int64]
    first: NDArray[np.int64]
    unknown_blocks: NDArray[np.int64]


def capacity_curve(
    distance_blocks: NDArray[Any], blocks: NDArray[Any], group: NDArray[Any] | None = None, groups: int = 1
) -> CapacityCurve:
    """The capacity curve of each group, for `hit_blocks_at`.

    Args:
        distance_blocks: int[u], stack distance of each run's first block.
        blocks: int[u], length of each run.
        group: int[u], group code in 0..groups − 1; None: all runs are one group.
        groups: number of groups.

    Raises:
        ValueError: a group code is out of range.
    """
    distance = np.asarray(distance_blocks, dtype=np.int64)
    end = distance + np.asarray(blocks, dtype=np.int64)
    span = int(end.max()) + 1 if len(end) else 1
    code = _codes(group, len(distance), groups)
    if groups * span >= 2**62:
        raise ValueError(f"{groups} groups of distances up to {span} blocks do not fit 64 bits; use fewer groups")
    # group, position and sign in one integer: a single sort of plain int64 is several times faster than a lexsort.
    key = np.concatenate([distance, end])
    if code is not None:
        key += np.concatenate([code, code]) * span
    key *= 2
    key[len(distance) :] += 1
    key.sort()
    place = key >> 1
    sign = 1 - 2 * (key & 1)
    last = np.flatnonzero(np.append(place[1:] != place[:-1], True)) if len(place) else np.empty(0, np.int64)
    slope = np.cumsum(sign)[last]
    position = place % span
    moment = np.cumsum(sign * position)[last]
    first = np.searchsorted(place[last], np.arange(groups + 1, dtype=np.int64) * span)
    # The running sums restart at every group; a group's bends cancel out in slope (+1 and −1 per run), not in moment.
    before = np.concatenate([[0], moment])[first[:-1]]
    moment -= np.repeat(before, np.diff(first))
    return CapacityCurve(position[last], slope, moment, first.astype(np.int64))


def hit_blocks_at(curve: CapacityCurve, capacity_blocks: NDArray[Any]) -> NDArray[np.int64]:
    """Hit blocks of each group at each capacity, exact: int64[g, c]."""
    capacity = np.asarray(capacity_blocks, dtype=np.int64)
    # Beyond its last bend the curve is flat, and a huge "unbounded" capacity must not overflow.
    capacity = np.minimum(capacity, int(curve.position.max()) + 1 if len(curve.position) else 0)
    hits = np.zeros((len(curve.first) - 1, len(capacity)), np.int64)
    for g in range(len(hits)):
        rows = slice(curve.first[g], curve.first[g + 1])
        hits[g] = look_up(curve.position[rows], curve.slope[rows], curve.moment[rows], capacity)
    return hits


def look_up(
    position: NDArray[Any], slope: NDArray[Any], moment: NDArray[Any], capacity_blocks: NDArray[Any]
) -> NDArray[np.int64]:
    """Hit blocks at each capacity on consecutive rows of one group's curve: int64[c].

    The rows must hold the last bend below every capacity that has one.
    """
    if not len(position):
        return np.zeros(len(capacity_blocks), np.int64)
    below = np.searchsorted(position, capacity_blocks, side="left")  # bends strictly below the capacity
    last = np.maximum(below - 1, 0)
    hits: NDArray[np.int64] = np.where(below > 0, capacity_blocks * slope[last] - moment[last], 0)
    return hits


def ttl_curve(
    gap_s: NDArray[Any], blocks: NDArray[Any], group: NDArray[Any] | None = None, groups: int = 1
) -> TtlCurve:
    """Sort the runs of each group by gap for `hit_blocks_within`.

    Args:
        gap_s: float[u], seconds since the run's last touch; NaN unknown.
        blocks: int[u], length of each run.
        group: int[u], group code in 0..groups − 1; None: all runs are one group.
        groups: number of groups.
    """
    gap = np.asarray(gap_s, dtype=np.float64)
    length = np.asarray(blocks, dtype=np.int64)
    code = _codes(group, len(gap), groups)
    known = ~np.isnan(gap)
    unknown = np.zeros(groups, np.int64)
    if not known.all():
        if code is None:
            unknown[0] = length[~known].sum()
        else:
            np.add.at(unknown, code[~known], length[~known])
        gap, length = gap[known], length[known]
        code = code[known] if code is not None else None
    by = np.argsort(gap)
    if code is not None:  # a stable sort of small codes is a radix sort, several times faster than a lexsort
        by = by[np.argsort(code[by].astype(np.min_scalar_type(groups)), kind="stable")]
    gap, total = gap[by], np.cumsum(length[by])
    code = code[by] if code is not None else np.zeros(len(gap), np.int8)
    last = np.append((gap[1:] != gap[:-1]) | (code[1:] != code[:-1]), True)[: len(gap)]
    gap, total = gap[last], total[last]
    first = np.searchsorted(code[last], np.arange(groups + 1)).astype(np.int64)
    total -= np.repeat(np.concatenate([[0], total])[first[:-1]], np.diff(first))
    return TtlCurve(gap, total, first, unknown)


def hit_blocks_within(curve: TtlCurve, ttl_s: NDArray[Any]) -> NDArray[np.int64]:
    """Hit blocks of each group under each TTL (gap <= TTL), exact: int64[g, t]. Unknown gaps never count as hits."""
    ttl = np.asarray(ttl_s, dtype=np.float64)
    hits = np.zeros((len(curve.first) - 1, len(ttl)), np.int64)
    for g in range(len(hits)):
        rows = slice(curve.first[g], curve.first[g + 1])
        within = np.searchsorted(curve.gap_s[rows], ttl, side="right")  # rows of at most this gap
        hits[g] = np.concatenate([[0], curve.blocks[rows]])[within]
    return hits


def hits_cross(
    distance_blocks: NDArray[Any],
    blocks: NDArray[Any],
    gap_s: NDArray[Any],
    capacity_blocks: NDArray[Any],
    ttl_s: NDArray[Any],
    group: NDArray[Any] | None = None,
    groups: int = 1,
) -> NDArray[np.int64]:
    """Hit blocks of each group at each capacity and TTL together, exact: int64[g, c, t].

    A block hits if its stack distance is below the capacity and its last touch is at most a TTL ago. Expired blocks
    keep their place in the LRU order, so each run can be tested for the two conditions separately.
    """
    ttl = np.asarray(ttl_s, dtype=np.float64)
    ascending = np.argsort(ttl)
    bucket = np.searchsorted(ttl[ascending], np.asarray(gap_s, dtype=np.float64), side="left")  # NaN sorts last
    in_reach = bucket < len(ttl)
    code = _codes(group, len(bucket), groups)
    joint = bucket if code is None else code * len(ttl) + bucket
    curve = capacity_curve(
        np.asarray(distance_blocks)[in_reach], np.asarray(blocks)[in_reach], joint[in_reach], groups * len(ttl)
    )
    hits = hit_blocks_at(curve, capacity_blocks).reshape(groups, len(ttl), -1).cumsum(axis=1)
    out = np.empty_like(hits)
    out[:, ascending] = hits
    return out.swapaxes(1, 2)


def capacity_grid(max_needed: int, per_octave: int = 4) -> NDArray[np.int64]:
    """Log-spaced capacities, int64[c] ascending, from 1 block to `max_needed`, where the curve is flat."""
    if max_needed < 1:
        return np.array([1], np.int64)
    steps = int(np.ceil(np.log2(max_needed) * per_octave)) + 1
    grid = np.round(2.0 ** (np.arange(steps) / per_octave)).astype(np.int64)
    return np.unique(np.append(grid[grid < max_needed], max_needed))


def needed_blocks(curve: CapacityCurve) -> int:
    """The smallest capacity, in blocks, that hits all that an unbounded cache hits; 0 where nothing is re-used."""
    return int(curve.position.max()) if len(curve.position) else 0


def _codes(group: NDArray[Any] | None, rows: int, groups: int) -> NDArray[np.int64] | None:
    if group is None:
        if groups != 1:
            raise ValueError(f"{groups} groups need a group code for each run")
        return None
    code = np.asarray(group, dtype=np.int64)
    if len(code) != rows:
        raise ValueError(f"{rows} runs but {len(code)} group codes; each run needs one")
    if len(code) and (code.min() < 0 or code.max() >= groups):
        raise ValueError(f"group codes run from {code.min()} to {code.max()}, outside 0..{groups - 1}")
    return code
