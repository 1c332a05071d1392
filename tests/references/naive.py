"""Slow and obvious references for the kernels, and small trees to run them on."""

from __future__ import annotations

import gzip
import json
import math
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from analysis.store import arrivals
from tests.places import SHARED


class Tree(NamedTuple):
    parent: Any
    start: Any
    end: Any
    leaf: Any  # node of each prompt; -1 where the prompt is None


def build_tree(
    prompts: Sequence[Sequence[Hashable] | None],
    cuts: Sequence[Sequence[int]] = (),
    ids: Any = None,
    unit_tokens: int = 1,
) -> Tree:
    """Radix tree of the prompts; nodes end at branches, at prompts' ends and after `cuts[i]` units of prompt i.

    `ids` permutes the node ids (a random generator): parents may then have larger ids than children.
    """
    children: list[dict[Hashable, int]] = [{}]
    parents, depths, keep, leaves = [-1], [0], {0}, []
    for number, prompt in enumerate(prompts):
        if prompt is None:
            leaves.append(-1)
            continue
        node = 0
        wanted = set(cuts[number]) if number < len(cuts) else set()
        for unit in prompt:
            below = children[node].get(unit)
            if below is None:
                below = len(parents)
                children[node][unit] = below
                children.append({})
                parents.append(node)
                depths.append(depths[node] + 1)
            node = below
            if depths[node] in wanted:
                keep.add(node)
        keep.add(node)
        leaves.append(node)
    keep |= {node for node, below in enumerate(children) if len(below) > 1}
    kept = sorted(keep)
    names = [0, *(1 + ids.permutation(len(kept) - 1))] if ids is not None else range(len(kept))
    name = dict(zip(kept, (int(i) for i in names), strict=True))
    parent, start, end = (np.zeros(len(kept), np.int64) for _ in range(3))
    parent[0] = -1
    for node in kept[1:]:
        up = parents[node]
        while up not in keep:
            up = parents[up]
        parent[name[node]] = name[up]
        start[name[node]], end[name[node]] = depths[up] * unit_tokens, depths[node] * unit_tokens
    return Tree(parent, start, end, np.array([name.get(node, -1) for node in leaves], np.int64))


def blocks_of(prompt: Sequence[Hashable] | None, block: int) -> list[tuple[Hashable, ...]]:
    """A block is its whole prefix."""
    return [tuple(prompt[: block * (i + 1)]) for i in range(len(prompt) // block)] if prompt is not None else []


def lru_hits(
    prompts: Sequence[Sequence[Hashable] | None], order: Sequence[int], block: int, capacity: int
) -> list[int]:
    """Hit blocks per request: look all up, touch last to first, evict the least recent down to `capacity`."""
    held: OrderedDict[Any, None] = OrderedDict()
    hits = [0] * len(prompts)
    for row in order:
        blocks = blocks_of(prompts[row], block)
        hits[row] = sum(b in held for b in blocks)
        for b in reversed(blocks):
            held.pop(b, None)
            held[b] = None
        while len(held) > capacity:
            held.popitem(last=False)
    return hits


def ttl_hits(
    prompts: Sequence[Sequence[Hashable] | None], order: Sequence[int], block: int, arrival: Any, ttl: float
) -> list[int]:
    touched: dict[Any, float] = {}
    hits = [0] * len(prompts)
    for row in order:
        for b in blocks_of(prompts[row], block):
            hits[row] += b in touched and arrival[row] - touched[b] <= ttl
            touched[b] = arrival[row]
    return hits


def lcp(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class Call(NamedTuple):
    """A request of one session; `arrival` and `duration` may be NaN."""

    prompt: Sequence[Hashable] | None
    arrival: float = math.nan
    duration: float = math.nan
    compaction: bool = False


def transition(earlier: Sequence[Call], call: Call, block: int = 1, head: int = -1) -> str | None:
    """The definition, read aloud. `earlier` is in arrival order; lengths and shares are in tokens."""
    if not earlier:
        return "first"
    known = [o for o in earlier if o.prompt is not None]
    if call.prompt is None or not known:
        return None
    shares = [lcp(o.prompt, call.prompt) for o in known]
    tol = block if block > 1 else 16
    n, m = len(call.prompt), len(known[-1].prompt)
    n_bar, bars = n // block * block, [len(o.prompt) // block * block for o in known]
    last, deepest = shares[-1], max(shares)
    p = max(i for i, share in enumerate(shares) if share == deepest)
    if n == len(known[p].prompt) and deepest >= n_bar - tol:
        return "retry"
    if n > m and last >= bars[-1] - tol:
        return "append"
    sources = [i for i, share in enumerate(shares[:-1]) if share > 0 and share >= min(n_bar, bars[i]) - tol]
    if last >= n_bar - tol:
        sources.append(len(known) - 1)
    if sources:
        running = [i for i, o in enumerate(known) if o.arrival <= call.arrival < o.arrival + o.duration]
        forked = any(
            s == o or lcp(known[s].prompt, known[o].prompt) >= max(1, bars[o] - tol) for s in running for o in sources
        )
        return "fork" if forked else "rewind"
    if last >= bars[-1] - max(tol, 0.02 * bars[-1]):
        return "tail"
    if deepest == 0:
        return "unrelated"
    if call.compaction or n < m:
        return "compaction"
    return "system_change" if last < head else "edit"


class Trace(NamedTuple):
    """The requests of the published Weka sessions as the kernels take them."""

    tree: Tree
    session: Any
    arrival_s: Any
    duration_s: Any
    input_tokens: Any
    output_tokens: Any
    ordinal: Any
    input_rank: Any
    session_parent: Any
    session_input_rank: Any
    session_first_ordinal: Any
    session_head_tokens: Any


@cache
def weka_trace() -> Trace | None:
    """traces/kv_cache_tester_100, or None where it is absent."""
    files = sorted((SHARED / "traces" / "kv_cache_tester_100").glob("*.json.gz"))
    if not files:
        return None
    below: dict[tuple[int, int], int] = {}
    parent, start, end = [-1], [0], [0]
    requests: list[tuple[Any, ...]] = []
    sessions: list[tuple[int, int, int, int]] = []  # parent, input rank, first ordinal, head tokens
    for rank, file in enumerate(files):
        text = json.loads(gzip.decompress(file.read_bytes()))
        size = text["block_size"]
        roots: dict[int, int] = {}

        def add(
            entry: dict[str, Any],
            when: float,
            session: int,
            ordinal: int,
            size: int = size,
            roots: Any = roots,
            rank: int = rank,
        ) -> None:
            node = 0
            for i, block in enumerate(entry["hash_ids"]):
                table, key = (roots, block) if i == 0 else (below, (node, block))
                known = table.get(key)
                if known is None:
                    known = table[key] = len(parent)
                    parent.append(node)
                    start.append(i * size)
                    end.append((i + 1) * size)
                node = known
            rest = entry["in"] - len(entry["hash_ids"]) * size
            if rest:
                parent.append(node)
                start.append(end[node])
                end.append(entry["in"])
                node = len(parent) - 1
            requests.append(
                (node, session, when, entry.get("api_time", math.nan), entry["in"], entry["out"], ordinal, rank)
            )

        main = len(sessions)
        sessions.append((-1, rank, 0, text["tool_tokens"] + text["system_tokens"]))
        ordinal = 0
        for entry in text["requests"]:
            if entry["type"] != "subagent":
                add(entry, entry["t"], main, ordinal)
                ordinal += 1
                continue
            head = entry.get("tool_tokens"), entry.get("system_tokens")
            sessions.append((main, rank, ordinal, -1 if None in head else sum(head)))
            took = entry.get("duration_ms")
            relative = all(inner["t"] < entry["t"] for inner in entry["requests"])
            begin = entry["t"] - (took / 1000 if took is not None else 0)
            for inner in entry["requests"]:
                add(inner, begin + inner["t"] if relative else inner["t"], len(sessions) - 1, ordinal)
                ordinal += 1
    r, s = np.array(requests, dtype=np.float64).T, np.array(sessions, dtype=np.int64).T
    tree = Tree(np.array(parent), np.array(start), np.array(end), r[0].astype(np.int64))
    return Trace(tree, r[1].astype(np.int64), r[2], r[3], r[4], r[5], r[6].astype(np.int64), r[7].astype(np.int64), *s)


def weka_arrivals(trace: Trace) -> tuple[arrivals.Sessions, arrivals.Requests]:
    """The trace's times, which count from the start of each file's session."""
    relative = np.ones(len(trace.session_parent), np.bool_)
    return (
        arrivals.Sessions(trace.session_parent, trace.session_input_rank, trace.session_first_ordinal, relative),
        arrivals.Requests(trace.arrival_s, trace.session, trace.duration_s, trace.ordinal, trace.input_rank),
    )
