"""Speed and memory of the replay: 1 M requests over 50 replicas under every policy. Run by hand.

python -m tests.benchmarks.routing [REQUESTS [POLICY ...]]
"""

import resource
import sys
import time

import numpy as np

from analysis.fleet.routers import POLICIES
from analysis.fleet.routing import Cell, Trace, replay


def sessions_trace(requests: int, turns: int = 40, growth: int = 2000) -> Trace:
    """Sessions of `turns` turns that grow by about `growth` tokens over four shared heads, forty thousand at a time."""
    rng = np.random.default_rng(0)
    sessions = requests // turns
    heads = 4
    nodes = 1 + heads + sessions * turns
    parent = np.full(nodes, -1, np.int64)
    parent[1 : 1 + heads] = 0
    grown = rng.integers(growth // 4, growth * 2, (sessions, turns))
    head = rng.integers(heads, size=sessions)
    end = np.zeros(nodes, np.int64)
    end[1 : 1 + heads] = (11_000, 14_500, 17_200, 20_300)
    first = 1 + heads + np.arange(sessions) * turns
    ids = first[:, None] + np.arange(turns)
    parent[ids[:, 0]] = 1 + head
    parent[ids[:, 1:]] = ids[:, :-1]
    end[ids] = end[1 + head][:, None] + np.cumsum(grown, axis=1)
    start = np.where(parent >= 0, end[np.maximum(parent, 0)], 0)
    begin = np.sort(rng.uniform(0, sessions * 2.0, sessions))
    arrival = begin[:, None] + np.cumsum(rng.exponential(12.0, (sessions, turns)), axis=1)
    session = np.repeat(np.arange(sessions), turns)
    when = arrival.ravel()
    took = rng.exponential(6.0, sessions * turns)
    return Trace(
        parent,
        start,
        end,
        ids.ravel(),
        np.argsort(when, kind="stable"),
        when,
        session,
        duration_s=took,
        ttft_s=took / 4,
    )


def main() -> None:
    """Print CPU seconds, requests per second and peak memory per policy and service."""
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    trace = sessions_trace(requests)
    small = sessions_trace(2000)
    for service in ("instant", "recorded"):
        for name in sys.argv[2:] or POLICIES:
            cell = Cell(name, 50, 1_500_000, service=service)
            try:
                replay(small, cell)  # compile
            except ValueError:
                continue
            began = time.process_time()
            replay(trace, cell)
            took = time.process_time() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{service:<9}{name:<26}{took:6.2f} s  {len(trace.leaf) / took:10,.0f} requests/s  {peak:.2f} GiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
