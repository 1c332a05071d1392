"""The event loop of a replay: which replica gets each request, what its cache holds at that time, and how loaded it is.

One pass over arrivals, admissions, computed prompts and finished answers. In parallel with the replicas' caches, one
shared cache of their total size is touched at the same moments. The difference of the hits is what routing loses, per
request.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import typeof, types

from analysis.fleet.replay.admission import admit, close, computed, finished, fits, release
from analysis.fleet.replay.books import (
    ABSOLUTE,
    AFTER_ARRIVAL,
    INSTANT,
    Arrivals,
    Books,
    Outcome,
    Rules,
    new_books,
    new_outcome,
)
from analysis.fleet.replay.changes import change_fleet
from analysis.fleet.replay.clock import add_running, advance, move_session, spend_load
from analysis.fleet.replay.event_heap import ARRIVED, COMPUTED, pop
from analysis.fleet.replay.replica_cache import (
    EVER_HELD,
    HELD,
    IN_USE,
    SENT,
    Caches,
    duplicate_blocks,
    mark_routed,
    matches,
)
from analysis.fleet.routers.fleet import SIGNATURE, Fleet, Memory
from analysis.kernel.numba_norc import norc_inner, numba_norc


@norc_inner()
def place(
    i: int,
    choose: Any,
    memory: Memory,
    c: Caches,
    a: Arrivals,
    rules: Rules,
    fleet: Fleet,
    d: Books,
    out: Outcome,
    changes: int,
) -> int:
    """Route request `i`, and admit it or let it wait. Returns the replica; -2 if the policy's choice is not alive."""
    s = a.what[i].session
    node = a.what[i].leaf
    replicas = len(fleet.alive)
    blocks = 0
    # look up how much of the prompt every replica holds
    if node >= 0:
        matches(c, node, d.found)
        blocks = c.end_blocks[node]
    else:
        d.found[:] = 0
    # the session's last replica; below -1: that replica has left since
    before = fleet.last[s]
    if before < -1:
        fleet.last[s] = -1
    # the policy chooses
    r = choose(s, a.what[i].tokens, d.clock[0].now_s, fleet, memory)
    if r < 0 or r >= replicas or fleet.alive[r] == 0:
        return -2
    if before < -1:
        before = -2 - before
    # count the move, and what the last change of the fleet makes it recompute
    if before >= 0 and before != r:
        out.counts[0].moves += 1
    if d.sessions[s].settled < changes:
        if before >= 0 and before != r:
            e = changes - 1
            out.events[e].moved_sessions += 1
            if node >= 0:
                deepest = d.found[HELD, r]
                for k in range(d.found.shape[1]):
                    deepest = max(deepest, d.found[EVER_HELD, k])
                out.events[e].recomputed_blocks += deepest - d.found[HELD, r]
        d.sessions[s].settled = changes
    # refuse it where the replica's queue is full
    if (
        rules.choices[0].most_waiting >= 0
        and fleet.waiting[r] >= rules.choices[0].most_waiting
        and not fits(i, r, c, a, rules, fleet, d, out)
    ):
        out.counts[0].refused += 1
        out.replica[i] = -1
        close(i, a, fleet, d, out)
        return r
    # count the session at the new replica
    fleet.last[s] = r
    out.replica[i] = r
    move_session(s, r, blocks, fleet, d)
    if node >= 0:
        mark_routed(c, r, node)
    # if service takes no time, the request ends at once
    if rules.choices[0].service == INSTANT:
        admit(i, r, c, a, rules, fleet, d, out, True)
        out.times[i].computed_s = d.clock[0].now_s
        close(i, a, fleet, d, out)
        return r
    # count it as in flight, on the replica and in its session
    add_running(r, 1, rules, fleet, d, out)
    fleet.session_running[s] += 1
    if fleet.session_running[s] == 1:
        d.sums[0].busy += 1
    out.counts[0].max_session_running = max(out.counts[0].max_session_running, fleet.session_running[s])
    # admit it if nothing waits before it and it fits
    if d.replicas[r].wait_first < 0 and fits(i, r, c, a, rules, fleet, d, out):
        admit(i, r, c, a, rules, fleet, d, out, True)
        return r
    # else it waits at the end of the replica's queue
    out.counts[0].queued += 1
    out.times[i].admitted_s = np.nan
    d.requests[i].wait_next = -1
    if d.replicas[r].wait_last >= 0:
        d.requests[d.replicas[r].wait_last].wait_next = i
    else:
        d.replicas[r].wait_first = i
    d.replicas[r].wait_last = i
    fleet.waiting[r] += 1
    fleet.prefill_tokens[r] += a.what[i].tokens
    d.replicas[r].waiting_blocks += blocks
    fleet.busy_blocks[r] = c.pinned[r] + d.replicas[r].waiting_blocks + fleet.running[r]
    return r


def _run(
    choose: Any, memory: Memory, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome, again: Any
) -> int:
    """Replay everything. Returns -1, or the request for which the policy chose a replica that is not alive."""
    n = len(a.what)
    upcoming = 0
    changes = 0
    while True:
        # skip requests that arrive after others, or have arrived already
        while upcoming < n and (a.what[upcoming].kind != ABSOLUTE or not np.isnan(out.times[upcoming].arrived_s)):
            upcoming += 1
        # the earliest of: a pending event (0), a change of the fleet (1), a recorded arrival (2);
        # at one time: computed, finished, changes of the fleet, arrivals
        source = -1
        when = np.inf
        if d.sums[0].pending > 0:
            source, when = 0, d.heap_s[0]
        late = source == 0 and d.heap_key[0] >> 48 == ARRIVED
        if changes < len(rules.changes) and (source >= 0 or upcoming < n):
            change = rules.changes[changes].at_s
            if change < when or (late and change == when):
                source, when = 1, change
        if upcoming < n:
            first = a.when[upcoming].arrival_s
            if first < when or (first == when and source == 0 and late and upcoming < d.heap_key[0] & ((1 << 40) - 1)):
                source, when = 2, first
        if source < 0:
            break
        # move the clock there
        advance(when, rules, fleet, d, out)
        i = -1
        # a change of the fleet: route again the requests that its replicas can no longer serve
        if source == 1:
            homeless = change_fleet(changes, c, a, rules, fleet, d, out, again)
            changes += 1
            for k in range(homeless):
                if place(again[k], choose, memory, c, a, rules, fleet, d, out, changes) == -2:
                    return again[k]
            continue
        # an arrival, or a pending event: a computed prompt, a finished answer, an arrival after another request
        if source == 2:
            i = upcoming
            upcoming += 1
        else:
            key = pop(d)
            what = key >> 48
            i = key & ((1 << 40) - 1)
            if what != ARRIVED:
                if (key >> 40) & 255 == d.requests[i].attempt & 255:
                    if what == COMPUTED:
                        computed(i, c, a, rules, fleet, d, out)
                    else:
                        finished(i, c, a, rules, fleet, d, out)
                continue
            if not np.isnan(out.times[i].arrived_s):
                continue
        # the request arrives; its session is live from its first one on
        out.times[i].arrived_s = d.clock[0].now_s
        s = a.what[i].session
        if d.sessions[s].place == -2:
            d.sessions[s].place = -1
            d.sums[0].live += 1
            d.sessions[s].settled = changes
        if place(i, choose, memory, c, a, rules, fleet, d, out, changes) == -2:
            return i
        release(i, a, d, AFTER_ARRIVAL)
    # complete the figures
    for r in range(len(fleet.alive)):
        spend_load(r, rules, fleet, d, out)
    out.integrals[0].end_s = d.clock[0].now_s
    out.counts[0].duplicate_blocks = duplicate_blocks(c, len(fleet.alive))
    return -1


@functools.cache
def _compiled(*kinds: Any) -> Any:
    """`_run` for these argument types, with the policy as a function pointer: one machine code for all policies.

    It runs without Python's lock, so that replays run side by side on threads and a server answers meanwhile.
    """
    return numba_norc(types.int64(types.FunctionType(SIGNATURE), *kinds), nogil=True, no_cfunc_wrapper=True)(_run)


def run(
    choose: Any, memory: Memory, caches: Caches, arrivals: Arrivals, rules: Rules, fleet: Fleet, begin_s: float
) -> Outcome:
    """Replay `arrivals` over `fleet`; `begin_s` is the time of the first. Modifies `caches` and `fleet`.

    Raises:
        RuntimeError: the policy chose a replica that is not alive.
    """
    replicas = len(fleet.alive)
    out = new_outcome(len(arrivals.what), replicas, len(rules.changes))
    books = new_books(arrivals, replicas, len(fleet.last), begin_s)
    fleet = fleet._replace(
        held=books.found[HELD, :replicas], routed=books.found[SENT, :replicas], in_use=books.found[IN_USE, :replicas]
    )
    again = np.empty(len(arrivals.what) if len(rules.changes) else 0, np.int64)
    rest = (memory, caches, arrivals, rules, fleet, books, out, again)
    failed = _compiled(*(typeof(value) for value in rest))(choose, *rest)
    if failed >= 0:
        raise RuntimeError(f"the policy chose a replica that is not alive for request {failed} (in arrival order)")
    taken = int(out.counts["samples_taken"][0])
    return out._replace(sample_s=out.sample_s[:taken], samples=out.samples[:taken])
