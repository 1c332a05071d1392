"""Models with recurrent state: block sizes as vLLM logs them, and resuming only where a state was kept."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.replica.models.catalog import load_model
from analysis.replica.models.kv_layout import Sharding
from analysis.replica.states import aligned_hits, block_tokens, has_states, state_hit_rates
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from traces.intake.ingest import ingest


@pytest.mark.parametrize(
    ("model", "tp", "kv_dtype", "tokens"),
    [
        ("qwen3-next-80b", 1, "bf16", 1056), ("qwen3-next-80b", 2, "bf16", 1056), ("qwen3-next-80b", 4, "bf16", 528),
        ("qwen3-next-80b", 1, "fp8", 2096), ("llama-3.1-8b", 1, "bf16", None),
    ],
)  # fmt: skip
def test_blocks_are_those_that_vllm_logs(model: str, tp: int, kv_dtype: str, tokens: int | None) -> None:
    """528, 1056 and 2096 are what "Setting attention block size to …" says for such models with fp32 states."""
    assert block_tokens(load_model(model), Sharding(tp, 1, 1), kv_dtype) == tokens
    assert has_states(load_model(model)) is (tokens is not None)


def naive(prompts: list[tuple[int, ...]], block: int, chunk: int) -> list[int]:
    """Each prompt resumes from the longest prefix of which a state is kept; states are kept by their whole prefix."""
    kept: set[tuple[int, ...]] = set()
    hits = []
    for prompt in prompts:
        hit = max((n for n in range(1, len(prompt) + 1) if prompt[:n] in kept), default=0)
        hits.append(hit)
        at, last = hit, len(prompt) // block * block
        while at < last:  # a step computes whole blocks, and ends at the last full block
            at = min(at + chunk // block * block, last)
            kept.add(prompt[:at])
    return hits


PROMPTS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30), st.integers(0, 12)), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(PROMPTS, st.integers(1, 5), st.integers(0, 9))
def test_hits_are_those_of_states_kept_by_their_prefix(made: list[tuple[int, int, int]], block: int, more: int) -> None:
    """Prompts that copy the beginning of an earlier one and go on with tokens of their own."""
    prompts: list[tuple[int, ...]] = []
    for number, (source, shared, own) in enumerate(made):
        head = prompts[source % len(prompts)][:shared] if prompts else ()
        prompts.append((*head, *range(100 * number + 100, 100 * number + 100 + own)))
    parent, start, end, leaf = _tree(prompts)
    ours = aligned_hits(parent, start, end, leaf, block, block + more)
    assert ours.tolist() == naive(prompts, block, block + more)


def _tree(prompts: list[tuple[int, ...]]) -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
    """One node a token; node 0 is the root."""
    nodes: dict[tuple[int, ...], int] = {(): 0}
    for prompt in prompts:
        for n in range(1, len(prompt) + 1):
            nodes.setdefault(prompt[:n], len(nodes))
    parent = np.array([nodes[prefix[:-1]] if prefix else 0 for prefix in nodes])
    end = np.array([len(prefix) for prefix in nodes])
    return parent, np.maximum(end - 1, 0), end, np.array([nodes[prompt] for prompt in prompts], np.int32)


def test_a_step_below_a_block_is_refused() -> None:
    parent, start, end, leaf = _tree([(1, 2)])
    with pytest.raises(ValueError, match="holds no block"):
        aligned_hits(parent, start, end, leaf, 4, 3)


def test_rates_by_hand(tmp_path: Path) -> None:
    """5,000 tokens, then the same and 1,000 more, in blocks of 1056: the second resumes at 4224, not at 5,000."""
    rows = [
        {"timestamp": 1_790_000_000 + at, "session_id": "s", "block_size": 1, "input_length": n, "output_length": 1,
         "hash_ids": list(range(n))}
        for at, n in ((0, 5000), (9, 6000))
    ]  # fmt: skip
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(tmp_path / "r.jsonl")], tmp_path / "ds")
    model = load_model("qwen3-next-80b")
    found = state_hit_rates(open_dataset(tmp_path / "ds"), Question(), model, Sharding(1, 1, 1), "bf16")
    assert found is not None
    assert (found["block_tokens"], found["align"], found["all"]) == (1056, 4224 / 11_000, 4224 / 11_000)
    assert found["attention_only"] == 4992 / 11_000  # blocks of 64
    assert state_hit_rates(open_dataset(tmp_path / "ds"), Question(), load_model("llama-3.1-8b"), Sharding(1, 1, 1),
                           "bf16") is None  # fmt: skip
