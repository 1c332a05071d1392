"""Replicas that join, leave or fail, and sessions that turn hot, in the middle of a replay."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.fleet.replay.admission import leave
from analysis.fleet.replay.books import HOT, LOSE, Arrivals, Books, Outcome, Rules
from analysis.fleet.replay.clock import add_running, recount, spend_load
from analysis.fleet.replay.event_heap import ARRIVED, push
from analysis.fleet.replay.pins import lock
from analysis.fleet.replay.replica_cache import Caches, clear
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import norc_inner


@norc_inner()
def change_fleet(e: int, c: Caches, a: Arrivals, rules: Rules, fleet: Fleet, d: Books, out: Outcome, again: Any) -> int:
    """Apply fleet event `e`. Returns the number of requests (listed in `again`) that must be routed again."""
    out.events[e].live_sessions = d.sums[0].live
    out.events[e].replicas_before = fleet.alive.sum()
    homeless = 0
    # HOT: all remaining requests of the session arrive now
    if rules.changes[e].kind == HOT:
        s = rules.changes[e].argument
        for k in range(a.session_first[s], a.session_first[s + 1]):
            i = a.of_session[k]
            if np.isnan(out.times[i].arrived_s):
                push(d, d.clock[0].now_s, ARRIVED, 0, i)
    else:
        # LOSE: the busiest replica fails
        lost = -1
        if rules.changes[e].kind == LOSE:
            for r in range(len(fleet.alive)):
                if fleet.alive[r] and (lost < 0 or fleet.running[r] > fleet.running[lost]):
                    lost = r
        # replicas that join start empty; those that leave return their waiting requests, a lost one its running ones
        # too
        for r in range(len(fleet.alive)):
            stays = fleet.alive[r] if rules.changes[e].kind == LOSE else int(r < rules.changes[e].argument)
            if r == lost:
                stays = 0
            if stays == fleet.alive[r]:
                continue
            spend_load(r, rules, fleet, d, out)
            if stays:
                clear(c, r)
                i = d.replicas[r].run_first
                while i >= 0:  # answers it still gives from before it left
                    if a.what[i].leaf >= 0:
                        lock(c, r, a.what[i].leaf)
                    i = d.requests[i].run_next
                fleet.alive[r] = 1
                continue
            fleet.alive[r] = 0
            i = d.replicas[r].wait_first
            while i >= 0:
                again[homeless] = i
                homeless += 1
                i = d.requests[i].wait_next
            if r == lost:
                i = d.replicas[r].run_first
                while i >= 0:
                    again[homeless] = i
                    homeless += 1
                    i = d.requests[i].run_next
        # remove these requests from their replicas
        for k in range(homeless):
            i = again[k]
            r = out.replica[i]
            if fleet.alive[r] == 0 and np.isnan(out.times[i].admitted_s):
                add_running(r, -1, rules, fleet, d, out)
                fleet.session_running[a.what[i].session] -= 1
                if fleet.session_running[a.what[i].session] == 0:
                    d.sums[0].busy -= 1
                fleet.prefill_tokens[r] -= a.what[i].tokens
            else:
                if out.times[i].computed_s > d.clock[0].now_s:
                    fleet.prefill_tokens[r] -= a.what[i].tokens - out.blocks[i].hit * fleet.block_tokens[0]
                d.requests[i].attempt += 1
                leave(i, c, a, rules, fleet, d, out)
        # replicas that are gone have no queue
        for r in range(len(fleet.alive)):
            if fleet.alive[r] == 0:
                d.replicas[r].wait_first = -1
                d.replicas[r].wait_last = -1
                d.replicas[r].waiting_blocks = 0
                fleet.waiting[r] = 0
        if lost >= 0:
            clear(c, lost)
            d.replicas[lost].prefill_free_s = d.clock[0].now_s
        # a session whose replica r has left stores -2 - r
        for s in range(len(fleet.last)):
            if fleet.last[s] >= 0 and fleet.alive[fleet.last[s]] == 0:
                fleet.last[s] = -2 - fleet.last[s]
        recount(fleet, d)
    out.events[e].replicas_after = fleet.alive.sum()
    return homeless
