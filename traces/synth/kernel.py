"""The loop that grows synthetic sessions: prompts into the prefix tree, lengths and times turn by turn."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.synth.sharing import RING, shared_with
from traces.synth.tree import prompt
from traces.synth.whole_sessions import grow_listed
from traces.tree.compiled import njit

BACK = 64
"""The number of its own earlier prompts that a session may return to."""


class Grids(NamedTuple):
    """Strata as arrays; s strata, p levels of quantile functions, b bands of turns, l bands of lengths, k events.

    levels: float64[p]. turn_edges: int64[b]. length_edges: int64[l]. output, reasoning: float64[s, p]. growth:
    float64[s, b, p]. gap: float64[s, 3, 3, p] by trigger and third of prompt lengths. gap_edges: float64[s, 2].
    wait_from, wait_count: int64[s], into wait_at: int64[w + 1], which are sessions' first rows in waits: float64[m,
    2] (gap, trigger); strata without any draw from gap. listed_from, listed_count, listed_at, listed: the same for
    sessions that are listed whole, float64[m, 9] (see traces.synth.whole_sessions). listed_share: int64[w], the
    place of each in shares, -1 for none. duration: float64[s, 4, p]. duration_edges: float64[s, 3]. trigger,
    first_trigger: float64[s, 3], cumulative. persistence: float64[s, 4] of growth, output, gap, duration. known:
    float64[s, 5]: shares with prompt, output, duration, reasoning, times. event: float64[s, l, k], cumulative
    share. event_from, event_count: int64[s, k] into examples: float64[e, 3] (size, kept, turns back). share_from,
    share_count: int64[s] into shares: float64[f, 10] (prompt, whose, shared, sessions back, seconds since that was
    touched or -1, whether its session was over, tokens that others touched since, how many earlier sessions start
    with it, its number, that of the first session that starts with it or -1). longest: int64[s]. native: tokens of
    a native block, 1 for text.
    """

    levels: NDArray[np.float64]
    turn_edges: NDArray[np.int64]
    length_edges: NDArray[np.int64]
    output: NDArray[np.float64]
    reasoning: NDArray[np.float64]
    growth: NDArray[np.float64]
    gap: NDArray[np.float64]
    gap_edges: NDArray[np.float64]
    wait_from: NDArray[np.int64]
    wait_count: NDArray[np.int64]
    wait_at: NDArray[np.int64]
    waits: NDArray[np.float64]
    listed_from: NDArray[np.int64]
    listed_count: NDArray[np.int64]
    listed_share: NDArray[np.int64]
    listed_at: NDArray[np.int64]
    listed: NDArray[np.float64]
    duration: NDArray[np.float64]
    duration_edges: NDArray[np.float64]
    trigger: NDArray[np.float64]
    first_trigger: NDArray[np.float64]
    persistence: NDArray[np.float64]
    known: NDArray[np.float64]
    event: NDArray[np.float64]
    event_from: NDArray[np.int64]
    event_count: NDArray[np.int64]
    examples: NDArray[np.float64]
    share_from: NDArray[np.int64]
    share_count: NDArray[np.int64]
    shares: NDArray[np.float64]
    longest: NDArray[np.int64]
    native: int


class Made(NamedTuple):
    """Requests of a batch; unknown times are NaN, unknown counts and leaves -1, agents -1 where they are drawn."""

    arrival_s: NDArray[np.float64]
    duration_s: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    reasoning_tokens: NDArray[np.int64]
    leaf: NDArray[np.int64]
    trigger: NDArray[np.int8]
    agents: NDArray[np.int64]


@njit(cache=True)
def _at(levels: Any, values: Any, u: Any) -> Any:
    """The quantile function `values` at probability `u`."""
    place = min(max(np.searchsorted(levels, u) - 1, 0), levels.size - 2)
    low, high = levels[place], levels[place + 1]
    return values[place] + (values[place + 1] - values[place]) * (u - low) / (high - low)


@njit(cache=True)
def _draw(levels: Any, values: Any, alike: Any, session_score: Any) -> Any:
    """A value whose normal score has the correlation `alike` with the others of its session."""
    score = math.sqrt(alike) * session_score + math.sqrt(1 - alike) * np.random.standard_normal()
    return _at(levels, values, 0.5 * math.erfc(-score / math.sqrt(2.0)))


def normal_quantile(u: NDArray[np.float64]) -> NDArray[np.float64]:
    """Normal scores of probabilities in [0, 1)."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(min(max(p, 1e-12), 1 - 1e-12)) for p in u.tolist()])


@njit(cache=True)
def _pick(cumulative: Any, u: Any) -> Any:
    """The first place whose cumulative share is above `u`; the size if there is none."""
    for k in range(cumulative.size):
        if u < cumulative[k]:
            return k
    return cumulative.size


@njit(cache=True)
def grow(
    grids: Any,
    tree: Any,
    stratum: Any,
    level: Any,
    start_s: Any,
    parent_leaf: Any,
    first_row: Any,
    first_draw: Any,
    scores: Any,
    seed: Any,
    out: Any,
) -> None:
    """Grow the sessions of a batch one after the other and write their requests into `out`.

    Args:
        grids: the strata.
        tree: with room for 4 nodes per request.
        stratum: int64[n], of each session.
        level: int64[n], 0 top-level, 1 sub-agent.
        start_s: float64[n], first arrival.
        parent_leaf: int64[n], node of the spawning request's prompt, -1 none.
        first_row: int64[n + 1], where each session's requests begin.
        first_draw: float64[n] in [0, 1), which of its stratum's first prompts a session starts with.
        scores: float64[n, 4], normal scores of each session: growth, output, gap, duration.
        seed: of this batch.
        out: receives the requests.
    """
    np.random.seed(seed)
    back = np.zeros(BACK, np.int64)
    for i in range(stratum.size):
        s = stratum[i]
        p = grids.persistence[s]
        like = scores[i]
        has_prompt = np.random.random() < grids.known[s, 0]
        own, label, asked = np.int64(-1), np.int64(-1), np.int64(0)
        now, previous, begun, group = start_s[i], 0, np.int64(0), np.int64(-1)
        waits = np.int64(-1)
        if level[i] == 0 and grids.wait_count[s] > 0:
            waits = grids.wait_at[grids.wait_from[s] + np.int64(first_draw[i] * grids.wait_count[s])]
        listed = grids.listed_count[s] > 0
        if listed:
            one, above = grids.listed_from[s] + np.int64(first_draw[i] * grids.listed_count[s]), np.int64(0)
            if grids.listed_share[one] >= 0:
                share = grids.shares[grids.listed_share[one]]
                label, asked = np.int64(share[9]), np.int64(share[2])
                above, begun, group, own = shared_with(tree, share, parent_leaf[i], level[i], start_s[i])
            turns = grids.listed[grids.listed_at[one] : grids.listed_at[one + 1]]
            has_prompt = grow_listed(tree, turns, start_s[i], first_row[i], above, begun, grids.native, out)
        timed = grids.known[s, 4] >= 1 or np.random.random() < grids.known[s, 4]
        for row in range(first_row[i], first_row[i] if listed else first_row[i + 1]):
            turn = row - first_row[i]
            count = turn  # prompts of the session so far
            base, keep = 0, 0
            if turn == 0:
                trigger = _pick(grids.first_trigger[s], np.random.random())
                tokens = 1
                if grids.share_count[s] > 0:
                    share = grids.shares[grids.share_from[s] + np.int64(first_draw[i] * grids.share_count[s])]
                    base, keep, group, own = shared_with(tree, share, parent_leaf[i], level[i], start_s[i])
                    tokens, begun, label = max(1, int(share[0])), keep, np.int64(share[9])
                    asked = np.int64(share[2])
            else:
                trigger = _pick(grids.trigger[s], np.random.random())
                band = np.searchsorted(grids.length_edges, previous, side="right") - 1
                kind = _pick(grids.event[s, band], np.random.random())
                if kind < grids.event.shape[2]:
                    example = grids.examples[grids.event_from[s, kind] + np.random.randint(grids.event_count[s, kind])]
                    tokens = max(1, round(previous * example[0]))
                    keep = tokens
                    if example[1] < 1:
                        keep = np.int64(tokens * example[1] / grids.native + 0.5) * grids.native
                    base = back[(count - min(int(example[2]), count, BACK)) % BACK]
                else:
                    step = np.searchsorted(grids.turn_edges, turn, side="right") - 1
                    grown = _draw(grids.levels, grids.growth[s, step], p[0], like[0])
                    room = grids.longest[s] - previous
                    if grown > room:  # no prompt gets longer than the longest one: the remaining room shrinks gradually
                        grown = room * np.random.random()
                    tokens = previous + max(1, round(grown))
                    base, keep = back[(count - 1) % BACK], previous
            tokens = min(tokens, grids.longest[s])
            if has_prompt:
                leaf = prompt(tree, base, min(keep, tree.end[base]), tokens, grids.native)
                back[count % BACK] = leaf
                out.leaf[row] = leaf
            else:
                out.leaf[row] = -1
            output = -1
            if np.random.random() < grids.known[s, 1]:
                output = max(0, round(_draw(grids.levels, grids.output[s], p[1], like[1])))
            out.output_tokens[row] = output
            out.reasoning_tokens[row] = -1
            if output >= 0 and np.random.random() < grids.known[s, 3]:
                share_of = _at(grids.levels, grids.reasoning[s], np.random.random())
                out.reasoning_tokens[row] = min(output, max(0, round(output * share_of)))
            if turn > 0:
                if waits < 0:
                    third = np.searchsorted(grids.gap_edges[s], tokens, side="right")
                    now += _draw(grids.levels, grids.gap[s, min(trigger, 2), third], p[2], like[2])
                else:
                    now += grids.waits[waits + turn - 1, 0]
                    trigger = np.int64(grids.waits[waits + turn - 1, 1])
            out.arrival_s[row] = now if timed else np.nan
            out.duration_s[row] = np.nan
            if np.random.random() < grids.known[s, 2]:
                quarter = np.searchsorted(grids.duration_edges[s], max(output, 0), side="right")
                lasted = max(0.0, _draw(grids.levels, grids.duration[s, quarter], p[3], like[3]))
                out.duration_s[row] = lasted
                now += lasted
            out.input_tokens[row] = tokens
            out.trigger[row] = min(trigger, 2)
            out.agents[row] = -1
            previous = tokens
        if has_prompt and first_row[i + 1] > first_row[i]:
            put = tree.rings[level[i]] % RING
            tree.ring_first[level[i], put] = out.leaf[first_row[i]]
            tree.ring_last[level[i], put] = out.leaf[first_row[i + 1] - 1]
            tree.ring_shared[level[i], put] = 0
            tree.ring_keep[level[i], put], tree.ring_group[level[i], put] = begun, group
            tree.ring_own[level[i], put], tree.ring_label[level[i], put] = own, label
            if own >= 0 and own == label and begun == 0:
                tree.ring_keep[level[i], put] = -asked  # it replaces the first session that starts this way
            last_s = out.arrival_s[first_row[i + 1] - 1]
            tree.ring_first_s[level[i], put] = start_s[i]
            tree.ring_last_s[level[i], put] = start_s[i] if np.isnan(last_s) else last_s
            tree.rings[level[i]] += 1
