"""Time in a replay: load figures are integrals over it, exact whenever anything changes."""

from __future__ import annotations

from analysis.fleet.replay.books import (
    BUSY,
    CHANGED,
    LIVE,
    MAX_RUNNING,
    NEXT_SAMPLE,
    NOW,
    PLACE,
    PLACE_BLOCKS,
    RUNNING,
    RUNNING_MEAN,
    RUNNING_SQUARES,
    RUNNING_VARIANCE,
    SAMPLE_GAP,
    SAMPLES,
    SAMPLES_TAKEN,
    SECONDS,
    SESSION_SQUARES,
    SESSIONS,
    SESSIONS_BUSY,
    SESSIONS_LIVE,
    SESSIONS_MEAN,
    SESSIONS_VARIANCE,
    Desk,
    Outcome,
    Rules,
)
from analysis.fleet.routers.fleet import Fleet
from analysis.kernel.numba_norc import inner


@inner()
def advance(when: float, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Move the clock to `when`, adding to the integrals and taking the samples that fall due."""
    now = d.clock[NOW]
    if when <= now:
        return
    seconds = min(when, rules.window_s[1]) - max(now, rules.window_s[0])
    if seconds > 0:
        n = fleet.alive.sum()
        out.integrals[SECONDS] += seconds
        out.integrals[RUNNING_MEAN] += seconds * d.sums[RUNNING] / n
        out.integrals[SESSIONS_MEAN] += seconds * d.sums[SESSIONS] / n
        if n > 1:
            out.integrals[RUNNING_VARIANCE] += (
                seconds * (d.sums[RUNNING_SQUARES] - d.sums[RUNNING] * d.sums[RUNNING] / n) / (n - 1)
            )
            out.integrals[SESSIONS_VARIANCE] += (
                seconds * (d.sums[SESSION_SQUARES] - d.sums[SESSIONS] * d.sums[SESSIONS] / n) / (n - 1)
            )
        out.integrals[SESSIONS_LIVE] += seconds * d.sums[LIVE]
        out.integrals[SESSIONS_BUSY] += seconds * d.sums[BUSY]
    while d.clock[NEXT_SAMPLE] < when:
        taken = out.counts[SAMPLES_TAKEN]
        if taken == SAMPLES:  # full: keep every other sample and take half as many from now on
            for k in range(SAMPLES // 2):
                out.sample_s[k] = out.sample_s[2 * k]
                for r in range(len(fleet.alive)):
                    out.samples[k, r] = out.samples[2 * k, r]
            taken = SAMPLES // 2
            d.clock[SAMPLE_GAP] *= 2
            d.clock[NEXT_SAMPLE] = out.sample_s[taken - 1] + d.clock[SAMPLE_GAP]
            out.counts[SAMPLES_TAKEN] = taken
            continue
        out.sample_s[taken] = d.clock[NEXT_SAMPLE]
        for r in range(len(fleet.alive)):
            out.samples[taken, r] = fleet.running[r] if fleet.alive[r] else -1
        out.counts[SAMPLES_TAKEN] += 1
        d.clock[NEXT_SAMPLE] += d.clock[SAMPLE_GAP]
    d.clock[NOW] = when


@inner()
def spend_load(r: int, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """Book the time that replica `r` spent with its present load."""
    if fleet.alive[r]:
        seconds = min(d.clock[NOW], rules.window_s[1]) - max(d.replica_s[r, CHANGED], rules.window_s[0])
        if seconds > 0:
            out.load_seconds[min(fleet.running[r], len(out.load_seconds) - 1)] += seconds
    d.replica_s[r, CHANGED] = d.clock[NOW]


@inner()
def add_running(r: int, change: int, rules: Rules, fleet: Fleet, d: Desk, out: Outcome) -> None:
    """One request more (or less) in flight on replica `r`."""
    spend_load(r, rules, fleet, d, out)
    before = fleet.running[r]
    after = before + change
    fleet.running[r] = after
    if fleet.alive[r]:
        d.sums[RUNNING] += change
        d.sums[RUNNING_SQUARES] += after * after - before * before
    out.counts[MAX_RUNNING] = max(out.counts[MAX_RUNNING], after)


@inner()
def move_session(s: int, r: int, blocks: int, fleet: Fleet, d: Desk) -> None:
    """Count live session `s` at replica `r` (-1: nowhere) with `blocks` of context."""
    for step in range(2):
        where = d.sessions[s, PLACE] if step == 0 else r
        sign = -1 if step == 0 else 1
        if where < 0:
            continue
        fleet.session_blocks[where] += sign * (d.sessions[s, PLACE_BLOCKS] if step == 0 else blocks)
        before = fleet.sessions[where]
        after = before + sign
        fleet.sessions[where] = after
        if fleet.alive[where]:
            d.sums[SESSIONS] += sign
            d.sums[SESSION_SQUARES] += after * after - before * before
    d.sessions[s, PLACE] = r
    d.sessions[s, PLACE_BLOCKS] = blocks


@inner()
def recount(fleet: Fleet, d: Desk) -> None:
    """Sums over the replicas alive, after the fleet changed."""
    d.sums[:4] = 0
    for r in range(len(fleet.alive)):
        if fleet.alive[r]:
            d.sums[RUNNING] += fleet.running[r]
            d.sums[RUNNING_SQUARES] += fleet.running[r] * fleet.running[r]
            d.sums[SESSIONS] += fleet.sessions[r]
            d.sums[SESSION_SQUARES] += fleet.sessions[r] * fleet.sessions[r]
