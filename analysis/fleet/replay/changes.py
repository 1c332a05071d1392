"""Replicas that join, leave or fail, and sessions that turn hot, in the middle of a replay."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.fleet.replay.admission import leave
from analysis.fleet.replay.books import (
    ADMITTED_S,
    ARRIVED_S,
    ATTEMPT,
    BUSY,
    COMPUTED_S,
    EVENT_AFTER,
    EVENT_BEFORE,
    EVENT_LIVE,
    HIT,
    HOT,
    LEAF,
    LIVE,
    LOSE,
    NOW,
    PREFILL_FREE,
    RUN_FIRST,
    RUN_NEXT,
    SESSION,
    TOKENS,
    WAIT_FIRST,
    WAIT_LAST,
    WAIT_NEXT,
    WAITING_BLOCKS,
    Arrivals,
    Desk,
    Outcome,
    Rules,
)
from analysis.fleet.replay.clock import add_running, recount, spend_load
from analysis.fleet.replay.event_heap import ARRIVED, push
from analysis.fleet.replay.pins import lock
from analysis.fleet.replay.replica_cache import Caches, clear
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import inner


@inner()
def change_fleet(e: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Desk, out: Outcome, again: Any) -> int:
    """Fleet event `e`. Returns how many requests (listed in `again`) must be routed anew."""
    out.events[e, EVENT_LIVE] = d.sums[LIVE]
    out.events[e, EVENT_BEFORE] = fleet.alive.sum()
    homeless = 0
    if rules.events[e, 0] == HOT:
        s = rules.events[e, 1]
        for k in range(a.session_first[s], a.session_first[s + 1]):
            i = a.of_session[k]
            if np.isnan(out.times[i, ARRIVED_S]):
                push(d, d.clock[NOW], ARRIVED, 0, i)
    else:
        lost = -1
        if rules.events[e, 0] == LOSE:
            for r in range(len(fleet.alive)):
                if fleet.alive[r] and (lost < 0 or fleet.running[r] > fleet.running[lost]):
                    lost = r
        for r in range(len(fleet.alive)):
            stays = fleet.alive[r] if rules.events[e, 0] == LOSE else int(r < rules.events[e, 1])
            if r == lost:
                stays = 0
            if stays == fleet.alive[r]:
                continue
            spend_load(r, rules, fleet, d, out)
            if stays:
                clear(c, r)
                i = d.replicas[r, RUN_FIRST]
                while i >= 0:  # answers it still gives from before it left
                    if a.what[i, LEAF] >= 0:
                        lock(c, r, a.what[i, LEAF])
                    i = d.requests[i, RUN_NEXT]
                fleet.alive[r] = 1
                continue
            fleet.alive[r] = 0
            i = d.replicas[r, WAIT_FIRST]
            while i >= 0:
                again[homeless] = i
                homeless += 1
                i = d.requests[i, WAIT_NEXT]
            if r == lost:
                i = d.replicas[r, RUN_FIRST]
                while i >= 0:
                    again[homeless] = i
                    homeless += 1
                    i = d.requests[i, RUN_NEXT]
        for k in range(homeless):
            i = again[k]
            r = out.replica[i]
            if fleet.alive[r] == 0 and np.isnan(out.times[i, ADMITTED_S]):
                add_running(r, -1, rules, fleet, d, out)
                fleet.session_running[a.what[i, SESSION]] -= 1
                if fleet.session_running[a.what[i, SESSION]] == 0:
                    d.sums[BUSY] -= 1
                fleet.prefill_tokens[r] -= a.what[i, TOKENS]
            else:
                if out.times[i, COMPUTED_S] > d.clock[NOW]:
                    fleet.prefill_tokens[r] -= a.what[i, TOKENS] - out.blocks[i, HIT] * fleet.block_tokens[0]
                d.requests[i, ATTEMPT] += 1
                leave(i, c, a, rules, fleet, d, out)
        for r in range(len(fleet.alive)):
            if fleet.alive[r] == 0:
                d.replicas[r, WAIT_FIRST] = -1
                d.replicas[r, WAIT_LAST] = -1
                d.replicas[r, WAITING_BLOCKS] = 0
                fleet.waiting[r] = 0
        if lost >= 0:
            clear(c, lost)
            d.replica_s[lost, PREFILL_FREE] = d.clock[NOW]
        for s in range(len(fleet.last)):
            if fleet.last[s] >= 0 and fleet.alive[fleet.last[s]] == 0:
                fleet.last[s] = -2 - fleet.last[s]
        recount(fleet, d)
    out.events[e, EVENT_AFTER] = fleet.alive.sum()
    return homeless
