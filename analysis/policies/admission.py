"""Which sessions run when N users each send one session after another: all N, a number that fits, or what fits now.

A user sends the next session when the last one ends. Sessions start in the order of their inputs. What happens inside
a session keeps its recorded distances; a session that waits, or is paused, is later by that time from there on.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.policies.turns import Turns

RULES = {
    "none": "every session starts when its user sends it",
    "cap": "at most as many sessions run as fit with their median live tokens; the others wait in the order they came",
    "footprint": "a session starts if its first prompt fits beside the live tokens of all that run; when these grow "
    "above the capacity, the sessions that are idle for longest are paused, and continue, before new ones start, when "
    "their next prompt fits. One session always runs",
}
"""The rules, in words. `footprint` follows ThunderAgent (arXiv 2602.13692), without its decay of idle sessions."""


class Schedule(NamedTuple):
    """When everything happens.

    Attributes:
        arrival_s: float64[r], arrival of each turn (in the order of `Turns`).
        wait_s: float64[f], how long each family waited, before its start and while it was paused.
        end_s: when the last reply ends.
    """

    arrival_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    end_s: float


def median_live_tokens(turns: Turns) -> float:
    """Live tokens of a running session, the median over its time (over its requests where it takes none)."""
    ends = np.append(turns.inside_s[1:], 0.0)
    last = turns.first[1:] - 1
    ends[last] = turns.took_s
    spent = np.maximum(ends - turns.inside_s, 0.0)
    if not spent.sum():
        spent = np.ones_like(spent)
    order = np.argsort(turns.live_tokens)
    share = np.cumsum(spent[order]) / spent.sum()
    return float(turns.live_tokens[order][np.searchsorted(share, 0.5)])


def fitting(turns: Turns, capacity_tokens: int) -> int:
    """How many sessions fit with their median live tokens; at least one runs."""
    return max(1, int(capacity_tokens // max(1.0, median_live_tokens(turns))))


def lanes(turns: Turns, users: int, running: int) -> Schedule:
    """N users, of whose sessions at most `running` run at once; the others wait in the order they were sent."""
    families = turns.families
    sent = [0.0] * min(users, families)  # when the sessions that wait were sent, in order
    free = [0.0] * min(users, running, families)
    start, wait, end = np.zeros(families), np.zeros(families), 0.0
    for f in range(families):
        at = heapq.heappop(free)
        asked = heapq.heappop(sent)
        start[f] = max(at, asked)
        wait[f] = start[f] - asked
        ends = start[f] + turns.took_s[f]
        heapq.heappush(free, ends)
        heapq.heappush(sent, ends)
        end = max(end, ends)
    family = np.repeat(np.arange(families), np.diff(turns.first))
    return Schedule(start[family] + turns.inside_s, wait, end)


class _Footprint:
    """N users under the rule `footprint`, event by event."""

    def __init__(self, turns: Turns, users: int, capacity_tokens: int) -> None:
        self.turns, self.capacity = turns, capacity_tokens
        self.arrival = np.zeros(len(turns.row))
        self.wait = np.zeros(turns.families)
        self.next = turns.first[:-1].copy()  # each family's next turn
        self.idle_from = np.zeros(turns.families)
        self.held: dict[int, int] = {}  # live tokens of the sessions that run
        self.total = 0
        self.paused: set[int] = set()
        self.sent: deque[tuple[int, float]] = deque()  # sessions that wait for their start, and since when
        self.resuming: deque[tuple[int, float]] = deque()
        self.unsent = iter(range(turns.families))
        self.events: list[tuple[float, int, int]] = []  # time, order of equal times, family
        self.count = 0
        self.end = 0.0
        for _ in range(users):
            self._send(0.0)

    def run(self) -> Schedule:
        self._admit(0.0)
        while self.events:
            at, _, family = heapq.heappop(self.events)
            if self.next[family] == self.turns.first[family + 1]:  # its last reply has ended
                self.total -= self.held.pop(family, 0)
                self.paused.discard(family)
                self.end = max(self.end, at)
                self._send(at)
            elif family in self.paused:
                self.resuming.append((family, at))
            else:
                self._begin(family, at)
            self._admit(at)
        return Schedule(self.arrival, self.wait, self.end)

    def _send(self, at: float) -> None:
        family = next(self.unsent, None)
        if family is not None:
            self.sent.append((family, at))

    def _admit(self, at: float) -> None:
        """Continue what is paused, then start what waits, as long as the next one fits."""
        for waiting in (self.resuming, self.sent):
            while waiting:
                family, since = waiting[0]
                needed = int(self.turns.live_tokens[self.next[family]])
                if self.held and self.total + needed > self.capacity:
                    return
                waiting.popleft()
                self.paused.discard(family)
                self.wait[family] += at - since
                self._begin(family, at)

    def _begin(self, family: int, at: float) -> None:
        """A turn begins: its session's live tokens change, idle sessions make room, its next turn is known."""
        turns, turn = self.turns, int(self.next[family])
        self.arrival[turn] = at
        self.total += int(turns.live_tokens[turn]) - self.held.get(family, 0)
        self.held[family] = int(turns.live_tokens[turn])
        self.idle_from[family] = max(self.idle_from[family], at + turns.duration_s[turn])
        if self.total > self.capacity:
            for idle in sorted((f for f in self.held if f != family), key=self.idle_from.__getitem__):
                if self.idle_from[idle] > at or self.total <= self.capacity:
                    break
                self.total -= self.held.pop(idle)
                self.paused.add(idle)
        self.next[family] = turn + 1
        following = turns.took_s[family] if turn + 1 == turns.first[family + 1] else turns.inside_s[turn + 1]
        self.count += 1
        heapq.heappush(self.events, (at + following - turns.inside_s[turn], self.count, family))


def schedule(turns: Turns, rule: str, users: int, capacity_tokens: int) -> Schedule:
    """When N users' turns arrive under a rule of `RULES`."""
    if rule == "footprint":
        return _Footprint(turns, users, capacity_tokens).run()
    return lanes(turns, users, users if rule == "none" else fitting(turns, capacity_tokens))
