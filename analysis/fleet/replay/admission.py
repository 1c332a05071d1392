"""A request on its replica: it waits, is admitted, is computed, and finishes."""

from __future__ import annotations

import numpy as np

from analysis.fleet.replay.books import (
    AFTER_FINISH,
    AT_ARRIVAL,
    AT_FINISH,
    INSTANT,
    MODEL,
    Arrivals,
    Books,
    Outcome,
    Rules,
)
from analysis.fleet.replay.clock import add_running, move_session
from analysis.fleet.replay.event_heap import ARRIVED, COMPUTED, FINISHED, push
from analysis.fleet.replay.pins import lock, unlock
from analysis.fleet.replay.replica_cache import EVER_HELD, HELD, IN_USE, Caches, add_junk, evict, matches, touch
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import norc_inner


@norc_inner()
def insert(i: int, r: int, c: Caches, a: Arrivals, d: Books) -> None:
    """Put the prompt of request `i` into the caches of replica `r` and of the shared replica."""
    shared = len(c.capacity) - 1
    node = a.what[i].leaf
    blocks = c.end_blocks[node]
    touch(c, r, node, blocks)
    touch(c, shared, node, blocks)
    make_room(r, c, d)
    evict(c, shared, c.capacity[shared])


@norc_inner()
def make_room(r: int, c: Caches, d: Books) -> None:
    """Evict until the cache fits into the part of the replica's capacity that running requests do not use."""
    if c.capacity[r] >= 0:
        evict(c, r, max(c.capacity[r] - d.replicas[r].private_blocks, 0))


@norc_inner()
def admit(
    i: int, r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome, fresh: bool
) -> None:
    """Start request `i` on replica `r`. `fresh`: the look-up made at its arrival is still valid."""
    now = d.clock[0].now_s
    node = a.what[i].leaf
    shared = len(c.capacity) - 1
    out.times[i].admitted_s = now
    hit = 0
    blocks = 0
    # record its hits here, in the shared cache, and on the best replica; then touch or insert it
    if node >= 0:
        blocks = c.end_blocks[node]
        if not fresh:
            matches(c, node, d.found)
        hit = d.found[HELD, r]
        out.blocks[i].hit = hit
        out.blocks[i].unbounded_hit = d.found[EVER_HELD, r]
        out.blocks[i].shared_hit = d.found[HELD, shared]
        best = hit
        for k in range(shared):
            if fleet.alive[k]:
                best = max(best, d.found[HELD, k])
        out.blocks[i].best = best
        if rules.choices[0].insert == AT_ARRIVAL or rules.choices[0].service == INSTANT:
            insert(i, r, c, a, d)
        else:
            touch(c, r, node, hit)
            touch(c, shared, node, d.found[HELD, shared])
    if rules.choices[0].service == INSTANT:
        return
    # it runs on the replica: lock the blocks it reads, count the blocks that only it uses
    d.replicas[r].admitted += 1
    d.replicas[r].context_tokens += a.what[i].tokens
    if node >= 0:
        lock(c, r, node)
    tokens = a.what[i].tokens + max(a.what[i].output_tokens, 0)
    d.requests[i].private_blocks = (
        (tokens + fleet.block_tokens[0] - 1) // fleet.block_tokens[0] - blocks if rules.choices[0].pin else 0
    )
    d.replicas[r].private_blocks += d.requests[i].private_blocks
    if rules.choices[0].pin:
        make_room(r, c, d)
    # put it at the head of the replica's list of running requests
    first = d.replicas[r].run_first
    d.requests[i].run_next = first
    d.requests[i].run_previous = -1
    if first >= 0:
        d.requests[first].run_previous = i
    d.replicas[r].run_first = i
    # when its prompt is computed and its answer finished: by the model, or as recorded
    cached = hit * fleet.block_tokens[0]
    new = a.what[i].tokens - cached
    fleet.prefill_tokens[r] += new
    d.requests[i].attempt += 1
    if rules.choices[0].service == MODEL:
        pairs = new * float(cached) + 0.5 * new * float(new)
        seconds = rules.model[0].prefill_s_per_token * new + rules.model[0].prefill_s_per_token_pair * pairs
        fleet.work_s[r] += seconds
        computed = max(now, d.replicas[r].prefill_free_s) + seconds
        d.replicas[r].prefill_free_s = computed
        step = (
            rules.model[0].decode_step_s
            + rules.model[0].decode_s_per_request * d.replicas[r].admitted
            + rules.model[0].decode_s_per_context_token * d.replicas[r].context_tokens
        )
        finished = computed + step * max(a.what[i].output_tokens, 0)
    else:
        finished = now + a.when[i].duration_s
        computed = finished if np.isnan(a.when[i].ttft_s) else min(now + a.when[i].ttft_s, finished)
        fleet.work_s[r] += computed - now
    out.times[i].computed_s = computed
    push(d, computed, COMPUTED, d.requests[i].attempt & 255, i)
    push(d, finished, FINISHED, d.requests[i].attempt & 255, i)
    fleet.busy_blocks[r] = c.pinned[r] + d.replicas[r].waiting_blocks + fleet.running[r]


@norc_inner()
def fits(i: int, r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> bool:
    """Whether replica `r` may admit request `i` now."""
    if rules.choices[0].most_running >= 0 and d.replicas[r].admitted >= rules.choices[0].most_running:
        return False
    if not rules.choices[0].pin or c.capacity[r] < 0:
        return True
    tokens = a.what[i].tokens + max(a.what[i].output_tokens, 0)
    blocks = (tokens + fleet.block_tokens[0] - 1) // fleet.block_tokens[0]
    if d.replicas[r].admitted == 0:
        if blocks > c.capacity[r]:
            out.counts[0].unschedulable += 1
        return True
    return c.pinned[r] + d.replicas[r].private_blocks + blocks - d.found[IN_USE, r] <= c.capacity[r]


@norc_inner()
def serve_waiting(r: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """Admit the requests waiting on replica `r`, in order, while there is room."""
    while d.replicas[r].wait_first >= 0:
        i = d.replicas[r].wait_first
        d.found[:] = 0
        if a.what[i].leaf >= 0:
            matches(c, a.what[i].leaf, d.found)
        if not fits(i, r, c, a, rules, fleet, d, out):
            return
        d.replicas[r].wait_first = d.requests[i].wait_next
        if d.replicas[r].wait_first < 0:
            d.replicas[r].wait_last = -1
        fleet.waiting[r] -= 1
        fleet.prefill_tokens[r] -= a.what[i].tokens
        if a.what[i].leaf >= 0:
            d.replicas[r].waiting_blocks -= c.end_blocks[a.what[i].leaf]
        admit(i, r, c, a, rules, fleet, d, out, True)


@norc_inner()
def release(i: int, a: Arrivals, d: Books, what: int) -> None:
    """Schedule the arrival of the requests that wait for request `i` to arrive or to finish."""
    for k in range(a.dependants_first[i], a.dependants_first[i + 1]):
        j = a.dependants[k]
        if a.what[j].kind == what:
            push(d, d.clock[0].now_s + a.when[j].delay_s, ARRIVED, 0, j)


@norc_inner()
def close(i: int, a: Arrivals, fleet: Fleet, d: Books, out: Outcome) -> None:
    """Request `i` has ended: its session continues, or ends and the next session in the backlog starts."""
    s = a.what[i].session
    out.times[i].finished_s = d.clock[0].now_s
    out.counts[0].done += 1
    d.sessions[s].left -= 1
    if d.sessions[s].left == 0:
        move_session(s, -1, 0, fleet, d)
        d.sums[0].live -= 1
        if d.clock[0].started < len(a.backlog):
            j = a.backlog[int(d.clock[0].started)]
            d.clock[0].started += 1
            push(d, d.clock[0].now_s + a.when[j].delay_s, ARRIVED, 0, j)
    release(i, a, d, AFTER_FINISH)


@norc_inner()
def leave(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """Remove request `i` from its replica."""
    r = out.replica[i]
    before, after = d.requests[i].run_previous, d.requests[i].run_next
    if before >= 0:
        d.requests[before].run_next = after
    else:
        d.replicas[r].run_first = after
    if after >= 0:
        d.requests[after].run_previous = before
    d.replicas[r].admitted -= 1
    d.replicas[r].context_tokens -= a.what[i].tokens
    d.replicas[r].private_blocks -= d.requests[i].private_blocks
    if a.what[i].leaf >= 0:
        unlock(c, r, a.what[i].leaf, d.replicas[r].run_first, d.requests, a.what)
    fleet.busy_blocks[r] = c.pinned[r] + d.replicas[r].waiting_blocks + fleet.running[r]
    add_running(r, -1, rules, fleet, d, out)
    s = a.what[i].session
    fleet.session_running[s] -= 1
    if fleet.session_running[s] == 0:
        d.sums[0].busy -= 1


@norc_inner()
def computed(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """The prompt of request `i` is computed, and its first token exists."""
    r = out.replica[i]
    fleet.prefill_tokens[r] -= a.what[i].tokens - out.blocks[i].hit * fleet.block_tokens[0]
    if rules.choices[0].insert == AT_FINISH and a.what[i].leaf >= 0:
        insert(i, r, c, a, d)


@norc_inner()
def finished(i: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """The answer of request `i` is complete; requests waiting on its replica may be admitted."""
    r = out.replica[i]
    leave(i, c, a, rules, fleet, d, out)
    if rules.choices[0].pin or rules.choices[0].keep_outputs:
        shared = len(c.capacity) - 1
        node = a.what[i].leaf
        blocks = c.end_blocks[node] if node >= 0 else 0
        if rules.choices[0].keep_outputs:
            junk = (a.what[i].tokens + max(a.what[i].output_tokens, 0) - 1) // fleet.block_tokens[0] - blocks
            add_junk(c, r, junk)
            add_junk(c, shared, junk)
        if node >= 0:  # blocks count as used until their last reader ends
            touch(c, r, node, blocks)
            touch(c, shared, node, blocks)
        make_room(r, c, d)
        evict(c, shared, c.capacity[shared])
    close(i, a, fleet, d, out)
    serve_waiting(r, c, a, rules, fleet, d, out)
