"""A profile's strata as arrays, for the loop that grows sessions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.synth.kernel import Grids
from traces.synth.whole_sessions import COLUMNS

_TRIGGERS = ("unknown", "tool", "user")
_UNBOUNDED = 1 << 40
MOST_AGENTS = 10_000
"""The most sub-agents that one request of a profile can start; a larger number means a damaged profile."""
_SHARE = (1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 0.0, 1.0, -1.0, -1.0)
"""Defaults for what a profile of an earlier version, or with relative times, does not say about a first prompt."""


def pack(generator: dict[str, Any]) -> Grids:
    """Arrays of the generator part of a profile.

    Raises:
        KeyError, TypeError, IndexError, ValueError: a part is missing or has the wrong shape.
    """
    grids = _pack(generator)
    _check(grids)
    return grids


def _check(grids: Grids) -> None:
    """Check the shapes of the arrays, because the growing loop indexes them without bounds checks."""
    s, p = len(grids.longest), len(grids.levels)
    shapes = {
        "output": (s, p), "reasoning": (s, p), "growth": (s, len(grids.turn_edges), p), "gap": (s, 3, 3, p),
        "gap_edges": (s, 2), "duration": (s, 4, p), "duration_edges": (s, 3), "trigger": (s, 3),
        "first_trigger": (s, 3), "persistence": (s, 4), "known": (s, 5),
        "event": (s, len(grids.length_edges), grids.event_from.shape[1]),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(grids, name)
        if array.shape != shape:
            raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
        overlap = name == "gap"  # a request may arrive before the previous one ends, so its gap may be negative
        if not np.isfinite(array).all() or (not overlap and (array < 0).any()):
            raise ValueError(f"{name} holds a number below 0 or none at all")
    if p < 2 or grids.levels[0] != 0 or grids.levels[-1] != 1 or (np.diff(grids.levels) <= 0).any():
        raise ValueError("levels do not ascend from 0 to 1")
    triggers = [grids.waits[:, 1]]
    if grids.listed_count.any():  # else there is one row, of NaN
        listed = grids.listed
        shared, back, agents = listed[:, 1], listed[:, 2], listed[:, 8]
        triggers.append(listed[:, 7])
        possible = (agents <= MOST_AGENTS).all() and not np.isnan(back[~np.isnan(shared)]).any()
        if not possible or (listed < 0).any():
            raise ValueError("a turn of a session that is listed whole has impossible numbers")
    if not np.isin(np.concatenate(triggers), range(len(_TRIGGERS))).all():
        raise ValueError("a trigger has an unknown code")
    if grids.native < 1:
        raise ValueError("a native block holds at least 1 token")


def _pack(generator: dict[str, Any]) -> Grids:
    strata = generator["strata"]
    levels = np.array(generator["levels"], np.float64)
    count = len(strata)
    kinds = max(1, *(len(s["events"]) for s in strata)) if strata else 1
    lengths = len(generator["length_edges"])
    event = np.zeros((count, lengths, kinds))
    event_from, event_count = np.zeros((count, kinds), np.int64), np.ones((count, kinds), np.int64)
    examples: list[list[float]] = [[1.0, 0.0, 1.0]]
    shares: list[list[float]] = []
    waits: list[list[list[float]]] = []
    listed: list[list[list[float | None]]] = []
    listed_share: list[int] = []
    listed_from, listed_count = np.zeros(count, np.int64), np.zeros(count, np.int64)
    wait_from, wait_count = np.zeros(count, np.int64), np.zeros(count, np.int64)
    share_from, share_count = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i, s in enumerate(strata):
        for k, e in enumerate(s["events"]):
            event[i, :, k] = e["share"]
            event_from[i, k], event_count[i, k] = len(examples), len(e["examples"])
            examples += e["examples"]
        share_from[i], share_count[i] = len(shares), len(s["first"])
        shares += [[*example, *_SHARE[len(example) :]] for example in s["first"]]
        wait_from[i], wait_count[i] = len(waits), len(s.get("waits", ()))
        waits += s.get("waits", ())
        here = s.get("sessions") or ()
        listed_from[i], listed_count[i] = len(listed), len(here)
        if any(len(turn) != COLUMNS for session in here for turn in session):
            raise ValueError(f"a turn of a session that is listed whole has not {COLUMNS} numbers")
        listed += here
        opens = [session[0][0] is not None for session in here]
        if here and sum(opens) != len(s["first"]):
            raise ValueError("each session that is listed whole needs a first prompt")
        listed_share += [int(share_from[i]) + sum(opens[:k]) if known else -1 for k, known in enumerate(opens)]
    triggers = np.array([[s["triggers"][t] for t in _TRIGGERS] for s in strata])
    first_triggers = np.array([[s["first_triggers"][t] for t in _TRIGGERS] for s in strata])
    durations = [s["durations"] or {"known": 0.0, "output_edges": [0.0] * 3, "seconds": [None] * 4} for s in strata]
    return Grids(
        levels=levels,
        turn_edges=np.array(generator["band_edges"], np.int64),
        length_edges=np.array(generator["length_edges"], np.int64),
        output=np.array([_row(s["output_tokens"], levels) for s in strata]),
        reasoning=np.array([_row(s["reasoning_share"], levels) for s in strata]),
        growth=np.array([_filled(s["new_tokens"], levels) for s in strata]),
        gap=np.array([_gaps(s["gap_s"], levels) for s in strata]),
        gap_edges=np.array([s["gap_s"]["length_edges"] for s in strata], np.float64),
        wait_from=wait_from,
        wait_count=wait_count,
        wait_at=np.cumsum([0, *(len(w) for w in waits)]),
        listed_from=listed_from,
        listed_count=listed_count,
        listed_share=np.array(listed_share or [-1], np.int64),
        listed_at=np.cumsum([0, *(len(w) for w in listed)]),
        listed=np.array([turn for w in listed for turn in w] or [[None] * COLUMNS], np.float64).reshape(-1, COLUMNS),
        waits=np.array([pair for w in waits for pair in w] or [[0.0, 0.0]], np.float64),
        duration=np.array([_filled(d["seconds"], levels) for d in durations]),
        duration_edges=np.array([d["output_edges"] for d in durations], np.float64),
        trigger=_cumulative(triggers),
        first_trigger=_cumulative(first_triggers),
        persistence=np.array(
            [
                [s["new_tokens_persistence"], s["output_persistence"], s["gap_persistence"], s["duration_persistence"]]
                for s in strata
            ]
        ),
        known=np.array(
            [
                [
                    s["known_prompts"],
                    s["output_known"],
                    d["known"],
                    float(s["reasoning_share"] is not None),
                    s.get("known_times", 1.0),
                ]
                for s, d in zip(strata, durations, strict=True)
            ]
        ),
        event=np.cumsum(event, axis=2),
        event_from=event_from,
        event_count=event_count,
        examples=np.array(examples, np.float64),
        share_from=share_from,
        share_count=share_count,
        shares=_labelled(strata, share_from, np.array(shares or [list(_SHARE)], np.float64)),
        longest=np.array([s["context_max_tokens"] or _UNBOUNDED for s in strata], np.int64),
        native=int(generator["native_block_tokens"]),
    )


def _labelled(
    strata: list[dict[str, Any]], share_from: NDArray[np.int64], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Remove (in place) the label of first prompts whose first session is not among the examples."""
    for level in (0, 1):
        rows = [
            low + np.arange(len(s["first"]))
            for s, low in zip(strata, share_from.tolist(), strict=True)
            if s["level"] == level
        ]
        here = np.concatenate([np.zeros(0, np.int64), *rows])
        shares[here, 9] = np.where(np.isin(shares[here, 9], shares[here, 8]), shares[here, 9], -1.0)
    return shares


def _row(grid: list[float] | None, levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """A quantile function, or zeros if there is none."""
    if grid is None:
        return np.zeros(levels.size)
    row = np.array(grid, np.float64)
    if row.size != levels.size:
        raise ValueError(f"a quantile function has {row.size} points, not {levels.size}")
    return row


def _filled(grids: list[list[float] | None], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Quantile functions; an unknown one is replaced by the nearest known one before it, or after it."""
    known = [i for i, g in enumerate(grids) if g is not None]
    if not known:
        return np.zeros((len(grids), levels.size))
    nearest = [min(known, key=lambda k: (abs(k - i), k)) for i in range(len(grids))]
    return np.array([_row(grids[k], levels) for k in nearest])


def _gaps(gaps: dict[str, Any], levels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Gaps by trigger and third of prompt lengths; a trigger without gaps uses those of another."""
    known = {t: _filled(gaps[t], levels) for t in _TRIGGERS if any(g is not None for g in gaps[t])}
    if not known:
        return np.zeros((len(_TRIGGERS), 3, levels.size))
    other = next(iter(known.values()))
    return np.array([known.get(t, other) for t in _TRIGGERS])


def _cumulative(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative shares of triggers; without any, all unknown."""
    total = shares.sum(axis=1, keepdims=True)
    even = np.where(total > 0, shares / np.maximum(total, 1e-300), np.array([1.0, 0.0, 0.0]))
    return np.asarray(np.cumsum(even, axis=1))
