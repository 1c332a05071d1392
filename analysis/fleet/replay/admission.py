"""Requests on a replica: they wait, are admitted, computed, finished."""

from __future__ import annotations

import numpy as np

from analysis.fleet.replay.books import (
    ADMITTED_S,
    AFTER_FINISH,
    AT_ARRIVAL,
    AT_FINISH,
    ATTEMPT,
    BEST,
    BUSY,
    COMPUTED_S,
    CONTEXT,
    DELAY,
    DONE,
    DURATION,
    FINISHED_S,
    HIT,
    INSERT,
    INSTANT,
    KEEP_OUTPUTS,
    KIND,
    LEAF,
    LEFT,
    LIVE,
    MODEL,
    MOST_RUNNING,
    NOW,
    OUTPUT,
    PIN,
    PREFILL_FREE,
    PRIVATE,
    PRIVATE_TOTAL,
    RUN_FIRST,
    RUN_NEXT,
    RUN_PREVIOUS,
    SERVED,
    SERVICE,
    SESSION,
    SHARED_HIT,
    STARTED,
    TOKENS,
    TTFT,
    UNBOUNDED_HIT,
    UNSCHEDULABLE,
    WAIT_FIRST,
    WAIT_LAST,
    WAIT_NEXT,
    WAITING_BLOCKS,
    Arrivals,
    Desk,
    Outcome,
    Rules,
)
from analysis.fleet.replay.clock import add_running, move_session
from analysis.fleet.replay.event_heap import ARRIVED, COMPUTED, FINISHED, push
from analysis.fleet.replay.pins import lock, unlock
from analysis.fleet.replay.replica_cache import EVER_HELD, HELD, IN_USE, Caches, add_junk, evict, matches, touch
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import inner


@inner()
def insert(i: int, r: int, c: Caches, a: Arrivals, d: Desk) -> None:
    """The prompt of request `i` comes into replica `r` and into the shared cache."""
    shared = len(c.capacity) - 1
    node = a.what[i, LEAF]
    blocks = c.end_blocks[node]
    touch(c, r, node, blocks)
    touch(c, shared, node, blocks)
    make_room(r, c, d)
    evict(c, shared, c.capacity[shared])


@inner()
def make_room(r: int, c: Caches, d: Desk) -> None:
    """Evict down to what running requests leave of the replica's capacity."""
    if c.capacity[r] >= 0:
        evict(c, r, max(c.capacity[r] - d.replicas[r, PRIVATE_TOTAL], 0))


@inner()
def admit(
    i: int, r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome, fresh: bool
) -> None:
    """Request `i` begins on replica `r`. `fresh`: the look-up of its arrival still holds."""
    now = d.clock[NOW]
    node = a.what[i, LEAF]
    shared = len(c.capacity) - 1
    out.times[i, ADMITTED_S] = now
    hit = 0
    blocks = 0
    if node >= 0:
        blocks = c.end_blocks[node]
        if not fresh:
            matches(c, node, d.found)
        hit = d.found[HELD, r]
        out.blocks[i, HIT] = hit
        out.blocks[i, UNBOUNDED_HIT] = d.found[EVER_HELD, r]
        out.blocks[i, SHARED_HIT] = d.found[HELD, shared]
        best = hit
        for k in range(shared):
            if fleet.alive[k]:
                best = max(best, d.found[HELD, k])
        out.blocks[i, BEST] = best
        if rules.choices[INSERT] == AT_ARRIVAL or rules.choices[SERVICE] == INSTANT:
            insert(i, r, c, a, d)
        else:
            touch(c, r, node, hit)
            touch(c, shared, node, d.found[HELD, shared])
    if rules.choices[SERVICE] == INSTANT:
        return
    d.replicas[r, SERVED] += 1
    d.replicas[r, CONTEXT] += a.what[i, TOKENS]
    if node >= 0:
        lock(c, r, node)
    tokens = a.what[i, TOKENS] + max(a.what[i, OUTPUT], 0)
    d.requests[i, PRIVATE] = (
        (tokens + fleet.block_tokens[0] - 1) // fleet.block_tokens[0] - blocks if rules.choices[PIN] else 0
    )
    d.replicas[r, PRIVATE_TOTAL] += d.requests[i, PRIVATE]
    if rules.choices[PIN]:
        make_room(r, c, d)
    first = d.replicas[r, RUN_FIRST]
    d.requests[i, RUN_NEXT] = first
    d.requests[i, RUN_PREVIOUS] = -1
    if first >= 0:
        d.requests[first, RUN_PREVIOUS] = i
    d.replicas[r, RUN_FIRST] = i
    cached = hit * fleet.block_tokens[0]
    new = a.what[i, TOKENS] - cached
    fleet.prefill_tokens[r] += new
    d.requests[i, ATTEMPT] += 1
    if rules.choices[SERVICE] == MODEL:
        pairs = new * float(cached) + 0.5 * new * float(new)
        seconds = rules.model[0] * new + rules.model[1] * pairs
        fleet.work_s[r] += seconds
        computed = max(now, d.replica_s[r, PREFILL_FREE]) + seconds
        d.replica_s[r, PREFILL_FREE] = computed
        step = rules.model[2] + rules.model[3] * d.replicas[r, SERVED] + rules.model[4] * d.replicas[r, CONTEXT]
        finished = computed + step * max(a.what[i, OUTPUT], 0)
    else:
        finished = now + a.when[i, DURATION]
        computed = finished if np.isnan(a.when[i, TTFT]) else min(now + a.when[i, TTFT], finished)
        fleet.work_s[r] += computed - now
    out.times[i, COMPUTED_S] = computed
    push(d, computed, COMPUTED, d.requests[i, ATTEMPT] & 255, i)
    push(d, finished, FINISHED, d.requests[i, ATTEMPT] & 255, i)
    fleet.busy_blocks[r] = c.pinned[r] + d.replicas[r, WAITING_BLOCKS] + fleet.running[r]


@inner()
def fits(i: int, r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> bool:
    """Whether replica `r` may admit request `i` now."""
    if rules.choices[MOST_RUNNING] >= 0 and d.replicas[r, SERVED] >= rules.choices[MOST_RUNNING]:
        return False
    if not rules.choices[PIN] or c.capacity[r] < 0:
        return True
    tokens = a.what[i, TOKENS] + max(a.what[i, OUTPUT], 0)
    blocks = (tokens + fleet.block_tokens[0] - 1) // fleet.block_tokens[0]
    if d.replicas[r, SERVED] == 0:
        if blocks > c.capacity[r]:
            out.counts[UNSCHEDULABLE] += 1
        return True
    return c.pinned[r] + d.replicas[r, PRIVATE_TOTAL] + blocks - d.found[IN_USE, r] <= c.capacity[r]


@inner()
def serve_waiting(r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Admit what waits on replica `r`, in order, as far as there is room."""
    while d.replicas[r, WAIT_FIRST] >= 0:
        i = d.replicas[r, WAIT_FIRST]
        d.found[:] = 0
        if a.what[i, LEAF] >= 0:
            matches(c, a.what[i, LEAF], d.found)
        if not fits(i, r, c, a, rules, fleet, d, out):
            return
        d.replicas[r, WAIT_FIRST] = d.requests[i, WAIT_NEXT]
        if d.replicas[r, WAIT_FIRST] < 0:
            d.replicas[r, WAIT_LAST] = -1
        fleet.waiting[r] -= 1
        fleet.prefill_tokens[r] -= a.what[i, TOKENS]
        if a.what[i, LEAF] >= 0:
            d.replicas[r, WAITING_BLOCKS] -= c.end_blocks[a.what[i, LEAF]]
        admit(i, r, c, a, rules, fleet, d, out, True)


@inner()
def release(i: int, a: Arrivals, d: Desk, what: int) -> None:
    """Let the requests arrive that wait for request `i` to arrive or to finish."""
    for k in range(a.dependants_first[i], a.dependants_first[i + 1]):
        j = a.dependants[k]
        if a.what[j, KIND] == what:
            push(d, d.clock[NOW] + a.when[j, DELAY], ARRIVED, 0, j)


@inner()
def close(i: int, a: Arrivals, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Request `i` is over: its session goes on, or leaves and makes place for the next."""
    s = a.what[i, SESSION]
    out.times[i, FINISHED_S] = d.clock[NOW]
    out.counts[DONE] += 1
    d.sessions[s, LEFT] -= 1
    if d.sessions[s, LEFT] == 0:
        move_session(s, -1, 0, fleet, d)
        d.sums[LIVE] -= 1
        if d.clock[STARTED] < len(a.backlog):
            j = a.backlog[int(d.clock[STARTED])]
            d.clock[STARTED] += 1
            push(d, d.clock[NOW] + a.when[j, DELAY], ARRIVED, 0, j)
    release(i, a, d, AFTER_FINISH)


@inner()
def leave(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Request `i` no longer occupies its replica."""
    r = out.replica[i]
    before, after = d.requests[i, RUN_PREVIOUS], d.requests[i, RUN_NEXT]
    if before >= 0:
        d.requests[before, RUN_NEXT] = after
    else:
        d.replicas[r, RUN_FIRST] = after
    if after >= 0:
        d.requests[after, RUN_PREVIOUS] = before
    d.replicas[r, SERVED] -= 1
    d.replicas[r, CONTEXT] -= a.what[i, TOKENS]
    d.replicas[r, PRIVATE_TOTAL] -= d.requests[i, PRIVATE]
    if a.what[i, LEAF] >= 0:
        unlock(c, r, a.what[i, LEAF], d.replicas[r, RUN_FIRST], d.requests, RUN_NEXT, a.what, LEAF)
    fleet.busy_blocks[r] = c.pinned[r] + d.replicas[r, WAITING_BLOCKS] + fleet.running[r]
    add_running(r, -1, rules, fleet, d, out)
    s = a.what[i, SESSION]
    fleet.session_running[s] -= 1
    if fleet.session_running[s] == 0:
        d.sums[BUSY] -= 1


@inner()
def computed(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """The prompt of request `i` is computed: its first token is there."""
    r = out.replica[i]
    fleet.prefill_tokens[r] -= a.what[i, TOKENS] - out.blocks[i, HIT] * fleet.block_tokens[0]
    if rules.choices[INSERT] == AT_FINISH and a.what[i, LEAF] >= 0:
        insert(i, r, c, a, d)


@inner()
def finished(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Request `i` has its answer; what waits on its replica may come in."""
    r = out.replica[i]
    leave(i, c, a, rules, fleet, d, out)
    if rules.choices[PIN] or rules.choices[KEEP_OUTPUTS]:
        shared = len(c.capacity) - 1
        node = a.what[i, LEAF]
        blocks = c.end_blocks[node] if node >= 0 else 0
        if rules.choices[KEEP_OUTPUTS]:
            junk = (a.what[i, TOKENS] + max(a.what[i, OUTPUT], 0) - 1) // fleet.block_tokens[0] - blocks
            add_junk(c, r, junk)
            add_junk(c, shared, junk)
        if node >= 0:  # a block is as recent as its last reader's end
            touch(c, r, node, blocks)
            touch(c, shared, node, blocks)
        make_room(r, c, d)
        evict(c, shared, c.capacity[shared])
    close(i, a, fleet, d, out)
    serve_waiting(r, c, a, rules, fleet, d, out)
