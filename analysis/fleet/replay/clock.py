"""Time in a replay. Load figures are integrals over time, updated exactly whenever the load changes."""

from __future__ import annotations

from analysis.fleet.replay.books import SAMPLES, Books, Outcome, Rules
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import norc_inner


@norc_inner()
def advance(when: float, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """Move the clock to `when`: add to the integrals and take the samples that are due."""
    now = d.clock[0].now_s
    if when <= now:
        return
    seconds = min(when, rules.window_s[1]) - max(now, rules.window_s[0])
    if seconds > 0:
        n = fleet.alive.sum()
        out.integrals[0].seconds += seconds
        out.integrals[0].running_mean += seconds * d.sums[0].running / n
        out.integrals[0].sessions_mean += seconds * d.sums[0].sessions / n
        if n > 1:
            out.integrals[0].running_variance += (
                seconds * (d.sums[0].running_squares - d.sums[0].running * d.sums[0].running / n) / (n - 1)
            )
            out.integrals[0].sessions_variance += (
                seconds * (d.sums[0].session_squares - d.sums[0].sessions * d.sums[0].sessions / n) / (n - 1)
            )
        out.integrals[0].sessions_live += seconds * d.sums[0].live
        out.integrals[0].sessions_busy += seconds * d.sums[0].busy
    while d.clock[0].next_sample_s < when:
        taken = out.counts[0].samples_taken
        if taken == SAMPLES:  # full: keep every other sample and take half as many from now on
            for k in range(SAMPLES // 2):
                out.sample_s[k] = out.sample_s[2 * k]
                for r in range(len(fleet.alive)):
                    out.samples[k, r] = out.samples[2 * k, r]
            taken = SAMPLES // 2
            d.clock[0].sample_gap_s *= 2
            d.clock[0].next_sample_s = out.sample_s[taken - 1] + d.clock[0].sample_gap_s
            out.counts[0].samples_taken = taken
            continue
        out.sample_s[taken] = d.clock[0].next_sample_s
        for r in range(len(fleet.alive)):
            out.samples[taken, r] = fleet.running[r] if fleet.alive[r] else -1
        out.counts[0].samples_taken += 1
        d.clock[0].next_sample_s += d.clock[0].sample_gap_s
    d.clock[0].now_s = when


@norc_inner()
def spend_load(r: int, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """Add the time that replica `r` spent with its present load."""
    if fleet.alive[r]:
        seconds = min(d.clock[0].now_s, rules.window_s[1]) - max(d.replicas[r].changed_s, rules.window_s[0])
        if seconds > 0:
            out.load_seconds[min(fleet.running[r], len(out.load_seconds) - 1)] += seconds
    d.replicas[r].changed_s = d.clock[0].now_s


@norc_inner()
def add_running(r: int, change: int, rules: Rules, fleet: Fleet, d: Books, out: Outcome) -> None:
    """One request more (or less) in flight on replica `r`."""
    spend_load(r, rules, fleet, d, out)
    before = fleet.running[r]
    after = before + change
    fleet.running[r] = after
    if fleet.alive[r]:
        d.sums[0].running += change
        d.sums[0].running_squares += after * after - before * before
    out.counts[0].max_running = max(out.counts[0].max_running, after)


@norc_inner()
def move_session(s: int, r: int, blocks: int, fleet: Fleet, d: Books) -> None:
    """Count live session `s` at replica `r` (-1: nowhere) with `blocks` of context."""
    for step in range(2):
        where = d.sessions[s].place if step == 0 else r
        sign = -1 if step == 0 else 1
        if where < 0:
            continue
        fleet.session_blocks[where] += sign * (d.sessions[s].place_blocks if step == 0 else blocks)
        before = fleet.sessions[where]
        after = before + sign
        fleet.sessions[where] = after
        if fleet.alive[where]:
            d.sums[0].sessions += sign
            d.sums[0].session_squares += after * after - before * before
    d.sessions[s].place = r
    d.sessions[s].place_blocks = blocks


@norc_inner()
def recount(fleet: Fleet, d: Books) -> None:
    """Sums over the replicas alive, after the fleet changed."""
    d.sums[0].running = 0
    d.sums[0].running_squares = 0
    d.sums[0].sessions = 0
    d.sums[0].session_squares = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            d.sums[0].running += fleet.running[r]
            d.sums[0].running_squares += fleet.running[r] * fleet.running[r]
            d.sums[0].sessions += fleet.sessions[r]
            d.sums[0].session_squares += fleet.sessions[r] * fleet.sessions[r]
