"""Engine definitions against recorded block managers (tests/samples/engines) and against plain re-statements."""

from __future__ import annotations

import importlib.util
import itertools
import json
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.peers.engines import sglang, vllm
from analysis.peers.engines.paths import BlockPaths, block_paths
from tests.places import SAMPLES, SHARED
from tests.references.engine_trace import TokenTree, trace_arrays

ENGINES = SAMPLES / "engines"
RECORDED = SHARED / "engines"
EXPECTED = json.loads((ENGINES / "expected.json").read_text())


def arrays(name: str) -> dict[str, np.ndarray]:
    with np.load(ENGINES / f"{name}.npz") as data:
        return {k: v.astype(np.int64) for k, v in data.items()}


def paths_of(a: dict[str, np.ndarray], block: int, replies: bool = True) -> BlockPaths:
    order = np.arange(len(a["leaf"]))
    reply = a["reply_leaf"] if replies else None
    return block_paths(a["parent"], a["start"], a["end"], a["leaf"], order, a["output_tokens"], block, reply)


@pytest.fixture(scope="module")
def agents() -> dict[str, np.ndarray]:
    return arrays("agents")


@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("method", ["auto", "replay"])
def test_vllm_equals_the_recorded_manager(agents: dict[str, np.ndarray], block: int, method: str) -> None:
    rows = [r for r in EXPECTED["vllm"] if r["block_size"] == block]
    found = vllm.replay(paths_of(agents, block), [r["usable_blocks"] + 1 for r in rows], method=method)
    for result, row in zip(found, rows, strict=True):
        assert result.hit_tokens == row["hit_tokens"]
        assert result.unschedulable == row["unschedulable"]
        assert result.unschedulable_tokens == row["unschedulable_tokens"]
        assert result.decode_oom == row["decode_oom"]


def test_vllm_says_which_method_it_chose(agents: dict[str, np.ndarray]) -> None:
    small, large = vllm.replay(paths_of(agents, 64), [257, 4097])
    assert (small.method, small.reason) == ("replay", "the largest request needs 386 blocks")
    assert large.method == "one_pass"
    (finer,) = vllm.replay(paths_of(agents, 16), [16385])
    assert (finer.method, finer.reason) == ("replay", "2 requests compute a block that was computed before")


def test_vllm_duplicate_stress() -> None:
    expected = EXPECTED["vllm_duplicate_stress_b16"]
    paths = paths_of(arrays("resends"), 16)
    sizes = [int(k) + 1 for k in expected["hits_by_usable_blocks"]]
    exact = vllm.replay(paths, sizes)
    assert {r.method for r in exact} == {"replay"}
    assert [r.hit_tokens for r in exact] == list(expected["hits_by_usable_blocks"].values())
    one_pass = vllm.replay(paths, sizes, method="one_pass")
    assert [r.hit_tokens for r in one_pass] == list(expected["mattson_e_prev"].values())


def test_older_free_queue_order(agents: dict[str, np.ndarray]) -> None:
    """Recorded manager with everything appended, published as model minus real."""
    paths = paths_of(agents, 64)
    found = vllm.replay(paths, [387, 1025, 4097, 16385], version="0.20")
    real = [21_839_616, 36_737_216, 66_701_632, 79_042_432]
    assert [r.hit_tokens - n for r, n in zip(found, real, strict=True)] == [-64_768, -166_144, -386_944, -91_968]
    exact = vllm.replay(paths, [387, 1025, 4097, 16385], version="0.20", method="replay")
    assert [r.hit_tokens for r in exact] == [r.hit_tokens for r in found]


def test_unknown_replies_are_nobody_elses(agents: dict[str, np.ndarray]) -> None:
    """Without output ids every generated block is junk; Dynamo's mocker has no null block."""
    expected = EXPECTED["dynamo_mocker_sequential_b64"]["hits"]
    paths = paths_of(agents, 64, replies=False)
    found = vllm.replay(paths, [int(k) for k in expected], null_block=False)
    assert [r.hit_tokens for r in found] == list(expected.values())
    assert paths.unknown_replies == int((agents["output_tokens"] > 1).sum())


@pytest.mark.parametrize("page", [1, 16, 64])
def test_sglang_equals_the_recorded_cache(agents: dict[str, np.ndarray], page: int) -> None:
    rows = [r for r in EXPECTED["sglang"] if r["page_size"] == page]
    found = sglang.replay(paths_of(agents, page), [r["capacity_tokens"] for r in rows])
    deviations = [abs(r.hit_tokens - row["hit_tokens"]) for r, row in zip(found, rows, strict=True)]
    assert max(deviations) == 0
    assert {(r.unschedulable, r.decode_oom) for r in found} == {(0, 0)}


def test_samples_are_the_recorded_trace(agents: dict[str, np.ndarray]) -> None:
    spec = importlib.util.spec_from_file_location("gen_trace", RECORDED / "gen_trace.py")
    assert spec is not None
    assert spec.loader is not None
    gen = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gen)

    def token(name: str, j: int) -> int:
        return gen.seg_tokens(name, j + 1)[j]

    requests = [(prompt, answer) for _, _, _, prompt, answer in gen.build()][:500]
    built = trace_arrays(requests, token)
    for block in (16, 64):
        first = {k: (v[:500] if k in ("leaf", "reply_leaf", "output_tokens") else v) for k, v in agents.items()}
        sizes = [400, 2000, 10_000]
        assert [r.hit_tokens for r in vllm.replay(paths_of(first, block), sizes)] == [
            r.hit_tokens for r in vllm.replay(paths_of(built, block), sizes)
        ]


def test_three_requests_by_hand() -> None:
    """Blocks of 2: prompt abcd answers x; abcd again recomputes its second block; abcdxy hits what is cached."""
    tree = TokenTree(lambda name, j: ord(name[j]))
    leaves = [tree.insert(0, [(s, len(s))]) for s in ("abcd", "abcd", "abcdxy")]
    replies = [tree.insert(leaf, [(s, len(s))]) for leaf, s in zip(leaves, ("x", "q", "z"), strict=True)]
    a = tree.arrays() | {
        "leaf": np.array(leaves),
        "reply_leaf": np.array(replies),
        "output_tokens": np.array([1, 1, 1]),
    }
    (result,) = vllm.replay(paths_of(a, 2), [100])
    assert result.hit_blocks.tolist() == [0, 1, 2]
    (result,) = sglang.replay(paths_of(a, 1), [100])
    assert result.hit_blocks.tolist() == [0, 3, 4]
    (small,) = vllm.replay(paths_of(a, 2), [3])
    assert (small.unschedulable, small.unschedulable_tokens) == (1, 6)


def test_bad_choices_are_named(agents: dict[str, np.ndarray]) -> None:
    paths = paths_of(agents, 64)
    with pytest.raises(ValueError, match=r"unknown vLLM version '0.19'; known: 0.23, 0.20"):
        vllm.replay(paths, [100], version="0.19")
    with pytest.raises(ValueError, match="at least one usable block"):
        vllm.replay(paths, [1])
    with pytest.raises(ValueError, match="less than one page of 64 tokens"):
        sglang.replay(paths, [63])


def test_a_reply_elsewhere_is_unknown() -> None:
    parent, start, end = np.array([-1, 0, 0]), np.array([0, 0, 0]), np.array([0, 4, 4])
    one, order = np.array([1]), np.array([0])
    assert block_paths(parent, start, end, one, order, np.array([3]), 2, np.array([2])).unknown_replies == 1
    assert block_paths(parent, start, end, one, order, np.array([-1]), 2).unknown_outputs == 1


# Re-statements without arrays, for small random traces.

requests = st.lists(
    st.tuples(st.text("ab", min_size=1, max_size=12), st.integers(1, 6), st.booleans()), min_size=1, max_size=25
)


def small_trace(rows: list[tuple[str, int, bool]]) -> tuple[dict[str, np.ndarray], list[tuple[str, str]]]:
    """Prompts over two letters; every second answer is letters too (it may be sent again), the others are unique."""
    unique = itertools.count(1000)
    tree = TokenTree(lambda name, j: ord(name[j]))
    leaves, replies, outputs, texts = [], [], [], []
    for prompt, n, known in rows:
        answer = "abba"[: min(n, 4)].ljust(n, "b") if known else "".join(chr(next(unique)) for _ in range(n))
        leaves.append(tree.insert(0, [(prompt, len(prompt))]))
        replies.append(tree.insert(leaves[-1], [(answer, n)]) if known else -1)
        outputs.append(n)
        texts.append((prompt, answer))
    a = {"leaf": np.array(leaves), "reply_leaf": np.array(replies), "output_tokens": np.array(outputs)}
    return tree.arrays() | a, texts


def plain_vllm(texts: list[tuple[str, str]], block: int, usable: int, legacy: bool) -> tuple[list[int], int, int]:
    queue: OrderedDict[int, None] = OrderedDict((slot, None) for slot in range(usable))
    held: dict[int, str] = {}
    copies: dict[str, list[int]] = {}
    hits, unschedulable, oom = [], 0, 0

    def take() -> int:
        slot, _ = queue.popitem(last=False)
        if slot in held:
            copies[held[slot]].remove(slot)
            del held[slot]
        return slot

    def name(slot: int, key: str) -> None:
        held[slot] = key
        copies.setdefault(key, []).append(slot)

    for prompt, answer in texts:
        p, total = len(prompt), len(prompt) + len(answer) - 1
        text = prompt + answer
        if -(-p // block) > usable:
            hits.append(0)
            unschedulable += 1
            continue
        mine: list[int] = []
        for i in range((p - 1) // block):
            found = copies.get(text[: (i + 1) * block])
            if not found:
                break
            mine.append(found[0])
        hit = len(mine)
        hits.append(hit)
        for slot in mine:
            del queue[slot]
        mine += [take() for _ in range(-(-p // block) - hit)]
        for i in range(hit, p // block):
            name(mine[i], text[: (i + 1) * block])
        if -(-total // block) > usable:
            oom += 1
        else:
            mine += [take() for _ in range(-(-total // block) - len(mine))]
            for i in range(p // block, total // block):
                name(mine[i], text[: (i + 1) * block])
        for slot in reversed(mine):
            queue[slot] = None
            if slot not in held and not legacy:
                queue.move_to_end(slot, last=False)
    return hits, unschedulable, oom


class Node:
    """A node of SGLang's tree."""

    clock = itertools.count()

    def __init__(self, key: str, parent: Node | None) -> None:
        self.key, self.parent, self.time = key, parent, next(Node.clock)
        self.children: dict[str, Node] = {}


def plain_sglang(texts: list[tuple[str, str]], page: int, capacity: int) -> tuple[list[int], int, int]:
    root = Node("", None)
    hits, unschedulable, oom = [], 0, 0

    def floor(n: int) -> int:
        return n // page * page

    def match(key: str) -> tuple[int, Node]:
        now, node, done = next(Node.clock), root, 0
        while done < len(key) and (child := node.children.get(key[done : done + page])) is not None:
            child.time = now
            same = 0
            while same < len(child.key) and child.key[same : same + page] == key[done + same : done + same + page]:
                same += page
            done += same
            if same < len(child.key):
                upper = Node(child.key[:same], node)
                node.children[upper.key[:page]] = upper
                child.key, child.parent = child.key[same:], upper
                upper.children[child.key[:page]] = child
                return done, upper
            node = child
        return done, node

    def insert(key: str) -> tuple[int, Node]:
        done, node = match(key)
        if done < len(key):
            child = Node(key[done:], node)
            node.children[child.key[:page]] = child
            node = child
        return len(key) - done, node

    def leaves(node: Node) -> list[Node]:
        below = [leaf for child in node.children.values() for leaf in leaves(child)]
        return below if node.children else [node]

    def evict(short: int, locked: Node) -> int:
        gained = 0
        while gained < short:
            options = [n for n in leaves(root) if n is not root and n is not locked]
            if not options:
                break
            oldest = min(options, key=lambda n: n.time)
            gained += len(oldest.key)
            assert oldest.parent is not None
            del oldest.parent.children[oldest.key[:page]]
        return gained

    available = capacity
    for prompt, answer in texts:
        p, total = len(prompt), len(prompt) + len(answer) - 1
        text = prompt + answer
        hit, node = match(text[: floor(p - 1)])
        demand = p - hit + (page if page > 1 else 0)
        if available < demand:
            available += evict(demand - available, node)
        need = -(-p // page) * page - hit
        if available < need:
            hits.append(0)
            unschedulable += 1
            continue
        hits.append(hit // page)
        added, _ = insert(text[: floor(p)])
        available -= added
        _, node = match(text[: floor(p)])
        slack = -(-p // page) * page - floor(p)
        growth = (-(-total // page) - -(-p // page)) * page
        if available - slack < growth:
            available += evict(growth - (available - slack), node)
        if available - slack < growth:
            oom += 1
            continue
        added, _ = insert(text[: floor(total)])
        available -= added
    return hits, unschedulable, oom


@settings(max_examples=100, deadline=None)
@given(requests, st.integers(1, 3), st.integers(1, 14), st.booleans())
def test_vllm_equals_a_plain_manager(rows: list[tuple[str, int, bool]], block: int, usable: int, legacy: bool) -> None:
    a, texts = small_trace(rows)
    (found,) = vllm.replay(paths_of(a, block), [usable + 1], version="0.20" if legacy else "0.23")
    hits, unschedulable, oom = plain_vllm(texts, block, usable, legacy)
    assert (found.hit_blocks.tolist(), found.unschedulable, found.decode_oom) == (hits, unschedulable, oom)


@settings(max_examples=100, deadline=None)
@given(requests, st.integers(1, 3), st.integers(3, 40))
def test_sglang_equals_a_plain_tree(rows: list[tuple[str, int, bool]], page: int, capacity: int) -> None:
    a, texts = small_trace(rows)
    (found,) = sglang.replay(paths_of(a, page), [capacity])
    hits, unschedulable, oom = plain_sglang(texts, page, capacity // page * page)
    assert (found.hit_blocks.tolist(), found.unschedulable, found.decode_oom) == (hits, unschedulable, oom)


@settings(max_examples=50, deadline=None)
@given(requests, st.integers(1, 3))
def test_hits_never_exceed_an_unbounded_cache(rows: list[tuple[str, int, bool]], block: int) -> None:
    a, _ = small_trace(rows)
    paths = paths_of(a, block)
    ample = int(paths.distinct_blocks + paths.slots.sum()) + 2
    unbounded = vllm.replay(paths, [ample])[0].hit_blocks
    assert (vllm.replay(paths, [8])[0].hit_blocks <= unbounded).all()
    roomy = sglang.replay(paths, [(ample + 2) * block])[0].hit_blocks
    assert roomy.tolist() == unbounded.tolist()
