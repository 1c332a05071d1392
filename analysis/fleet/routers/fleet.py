"""The definition of a routing policy, and the state of the fleet that it may read.

A policy is a compiled function `choose(session, tokens, now, fleet, memory) -> replica`: the dense code of the
request's session, its prompt tokens, the time in seconds, the fleet as it stands and the policy's own memory. It must
return a replica that is alive. Output length and duration are not available, because a router does not know them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from analysis.kernel.numba_norc import norc_inner


class Fleet(NamedTuple):
    """R replicas and s sessions as a router sees them when a request arrives.

    Attributes:
        block_tokens: int64[1], block size B.
        alive: int64[R], 1 for replicas that take requests.
        running: int64[R], requests in flight, waiting ones included.
        waiting: int64[R], of these, not yet admitted.
        prefill_tokens: int64[R], prompt tokens of requests in flight still to be computed.
        busy_blocks: int64[R], KV blocks that requests in flight use, shared ones once.
        resident, capacity: int64[R], blocks held, and at most (-1: unbounded).
        sessions: int64[R], live sessions whose last request went there.
        session_blocks: int64[R], full blocks of the latest prompts of those sessions.
        work_s: float64[R], seconds of prefill sent there (0 where service takes no time), never decayed.
        held: int64[R], full blocks of this prompt that the replica holds.
        routed: int64[R], full blocks of this prompt that were ever sent there: a router's own tree without eviction.
        in_use: int64[R], full blocks of this prompt that running requests keep there.
        last: int64[s], replica of the session's latest request; -1 for a new session, or where that replica is gone.
        session_running: int64[s], the session's requests in flight.
    """

    block_tokens: NDArray[np.int64]
    alive: NDArray[np.int64]
    running: NDArray[np.int64]
    waiting: NDArray[np.int64]
    prefill_tokens: NDArray[np.int64]
    busy_blocks: NDArray[np.int64]
    resident: NDArray[np.int64]
    capacity: NDArray[np.int64]
    sessions: NDArray[np.int64]
    session_blocks: NDArray[np.int64]
    work_s: NDArray[np.float64]
    held: NDArray[np.int64]
    routed: NDArray[np.int64]
    in_use: NDArray[np.int64]
    last: NDArray[np.int64]
    session_running: NDArray[np.int64]


class Memory(NamedTuple):
    """The memory of a policy. `params` are in the order of their declaration; `rng` is the state of its random numbers.

    `session_key` and `replica_key` are 64-bit hashes of the names, for policies that hash. `ints` and `floats` begin
    as the policy's `prepare` returns them.
    """

    params: NDArray[np.float64]
    ints: NDArray[np.int64]
    floats: NDArray[np.float64]
    session_key: NDArray[np.uint64]
    replica_key: NDArray[np.uint64]
    rng: NDArray[np.uint64]


_INTS = np.zeros(1, np.int64)
FLEET_TYPE = numba.typeof(Fleet._make([*[_INTS] * 10, np.zeros(1), *[_INTS] * 5]))
MEMORY_TYPE = numba.typeof(
    Memory(
        np.zeros(1),
        np.zeros(1, np.int64),
        np.zeros(1),
        np.zeros(1, np.uint64),
        np.zeros(1, np.uint64),
        np.zeros(1, np.uint64),
    )
)
SIGNATURE = types.int64(types.int64, types.int64, types.float64, FLEET_TYPE, MEMORY_TYPE)


class Setup(NamedTuple):
    """The input of `prepare`: sizes, names and the parameters by name."""

    replicas: int
    sessions: int
    replica_names: tuple[str, ...]
    session_names: Sequence[str]
    params: Mapping[str, float]


def _no_memory(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    return np.zeros(1, np.int64), np.zeros(1)


def float_each(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For `prepare`: a float per replica."""
    return np.zeros(1, np.int64), np.zeros(setup.replicas)


def int_each(setup: Setup) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """For `prepare`: an integer per replica."""
    return np.zeros(setup.replicas, np.int64), np.zeros(1)


class Policy(NamedTuple):
    """A routing policy; its rule in words is in `analysis.fleet.routers.POLICIES`.

    Attributes:
        choose: the compiled function.
        params: parameter -> default; every one can be set.
        prepare: Setup -> the ints and floats of `Memory`; by default one zero each.
        hashes: reads `session_key` and `replica_key`.
        needs_load: meaningless where service takes no time.
        seeded: draws random numbers, so that seeds differ.
    """

    choose: Any
    params: Mapping[str, float] = MappingProxyType({})
    prepare: Callable[[Setup], tuple[NDArray[np.int64], NDArray[np.float64]]] = _no_memory
    hashes: bool = False
    needs_load: bool = False
    seeded: bool = False


@norc_inner()
def mix(x: Any) -> Any:
    """A 64-bit finaliser (splitmix64; Steele, Lea, Flood 2014): uint64 -> uint64."""
    x = np.uint64(x) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@norc_inner()
def draw(rng: Any, n: int) -> int:
    """A uniform integer below `n`."""
    rng[0] = rng[0] + np.uint64(0x9E3779B97F4A7C15)
    return int((mix(rng[0]) >> np.uint64(11)) % np.uint64(n))


@norc_inner()
def draw_alive(rng: Any, alive: Any) -> int:
    """A uniform random replica among those alive."""
    skip = draw(rng, alive.sum())
    for r in range(len(alive)):
        if alive[r]:
            if skip == 0:
                return r
            skip -= 1
    return -1


@norc_inner()
def next_alive(alive: Any, after: int) -> int:
    """The first replica alive after replica `after`, round the fleet."""
    n = len(alive)
    for step in range(1, n + 1):
        r = (after + step) % n
        if alive[r]:
            return r
    return -1


@norc_inner()
def least(load: Any, alive: Any, after: int) -> int:
    """The replica alive with the least load; ties go round the fleet, starting after replica `after`."""
    best = -1
    n = len(alive)
    for step in range(1, n + 1):
        r = (after + step) % n
        if alive[r] and (best < 0 or load[r] < load[best]):
            best = r
    return best


@norc_inner()
def deepest(match: Any, load: Any, alive: Any) -> int:
    """The replica alive with the deepest match; ties go to the least load, then to the lowest index."""
    best = -1
    for r in range(len(alive)):
        if alive[r] and (best < 0 or match[r] > match[best] or (match[r] == match[best] and load[r] < load[best])):
            best = r
    return best


@norc_inner()
def drawn_among(values: Any, value: Any, alive: Any, rng: Any) -> int:
    """A uniform random replica among those alive that have this value."""
    equals = 0
    chosen = -1
    for r in range(len(alive)):
        if alive[r] and values[r] == value:
            equals += 1
            if draw(rng, equals) == 0:
                chosen = r
    return chosen
