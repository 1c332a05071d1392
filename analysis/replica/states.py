"""Hit rates of models with recurrent state (Mamba, GDN, KDA): a prefix can be resumed only where its state was kept."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.kernel.reuse import reuse
from analysis.replica.models.config import Model
from analysis.replica.models.kv_layout import Sharding, row_bytes
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse
from traces.tree.compiled import njit

KERNEL_TOKENS = 16
"""vLLM's attention blocks are multiples of this."""
CHUNK_TOKENS = 8192
"""Tokens of a prefill step: vLLM's max_num_batched_tokens on a large GPU."""

MEANING = (
    "An unbounded cache of prompts. vLLM makes an attention block as large as a layer's state, and under `align` (its "
    "default with prefix caching) keeps states at the ends of prefill steps, rounded down to a block, and at a "
    "prompt's last full block; `all` keeps one at every such block. attention_only is the ceiling at the question's "
    "block size: what a model without states could hit. States that are kept while a reply is generated are not counted"
)

ATTENTION_ONLY = (
    "{model} keeps recurrent states and resumes only where one was kept: these hit rates are those of its attention "
    "alone, an upper bound. `tracetower kv-budget --model {model} --dataset DATASET` says what it can have"
)
"""What must be said wherever such a model's hit rates are those of any other model."""


def has_states(model: Model) -> bool:
    """Whether layers of the model carry a state that cannot be cut off like a KV cache."""
    return any(group.kind == "state" for group in model.groups)


def block_tokens(model: Model, shards: Sharding, kv_dtype: str) -> int | None:
    """Tokens of a block in vLLM: as many as make a layer's attention page as large as a layer's state.

    None for a model without states, or without layers of ordinary attention. 544 for Qwen3-Next with bf16 states, 1056
    with fp32, as vLLM logs it ("Setting attention block size to …").
    """
    state = next((group for group in model.groups if group.kind == "state"), None)
    attention = next((group for group in model.groups if group.kind in ("gqa", "mla") and group.window is None), None)
    if state is None or attention is None:
        return None
    page, token = (
        row_bytes(group, kv_dtype, "vllm", model.state_bytes, False) * group.local_heads(shards.attention_tp)
        for group in (state, attention)
    )
    return KERNEL_TOKENS * math.ceil(page / token / KERNEL_TOKENS)


@njit
def _aligned_hits(parent: Any, start: Any, end: Any, leaf: Any, block: int, step: int) -> Any:
    """Hit tokens of each request, in arrival order, if states are kept at the ends of prefill steps."""
    kept = np.full(len(parent), -1, np.int64)  # the last position in each node at which a state is kept
    path = np.empty(len(parent), np.int32)
    hits = np.zeros(len(leaf), np.int64)
    for t in range(len(leaf)):
        if leaf[t] < 0:
            continue
        # from the end of the prompt up: the first state on the way is the one to resume from
        node, count, hit = leaf[t], 0, 0
        while node > 0:
            if hit == 0 and kept[node] > 0:
                hit = kept[node]
            path[count] = node
            count += 1
            node = parent[node]
        hits[t] = hit
        # new states: after each whole step, and at the last full block
        last = end[leaf[t]] // block * block
        place = hit + step
        for i in range(count - 1, -1, -1):
            node = path[i]
            while place < last and place <= end[node]:
                if place > start[node]:
                    kept[node] = max(kept[node], place)
                place += step
            if start[node] < last <= end[node]:
                kept[node] = max(kept[node], last)
    return hits


def aligned_hits(
    parent: NDArray[Any], start: NDArray[Any], end: NDArray[Any], leaf: NDArray[Any], block: int, chunk: int
) -> NDArray[np.int64]:
    """Hit tokens of each request under vLLM's `align`, in an unbounded cache.

    Args:
        leaf: int[r], nodes of the prompts in arrival order; -1 unknown.
        block: tokens of a block.
        chunk: tokens of a prefill step; below a block, nothing could be scheduled.

    Raises:
        ValueError: a step that is shorter than a block.
    """
    if chunk < block:
        raise ValueError(f"a prefill step of {chunk:,} tokens holds no block of {block:,}")
    step = chunk // block * block
    return np.asarray(_aligned_hits(parent, start, end, leaf, block, step))


def state_hit_rates(
    warehouse: Warehouse, question: Question, model: Model, shards: Sharding, kv_dtype: str, chunk: int = CHUNK_TOKENS
) -> dict[str, Any] | None:
    """Hit rates that a model with states can have; None for other models.

    Returns:
        block_tokens, chunk_tokens, align, all, attention_only (rates over the selected requests' prompt tokens, null
        where their order is not known), meaning.
    """
    block = block_tokens(model, shards, kv_dtype)
    if block is None:
        return None
    prepared = warehouse.prepare(question)
    found: dict[str, Any] = {"block_tokens": block, "chunk_tokens": chunk, "align": None, "all": None,
                             "attention_only": None, "meaning": MEANING}  # fmt: skip
    rows = warehouse.grouped(question, "all")["row"].to_numpy()
    if not prepared.order_known or not len(rows):
        return found
    loaded, arrived = warehouse.loaded(), warehouse.arrived(question.arrivals)
    tree = loaded.tree
    hits = np.zeros(len(loaded.leaf), np.int64)
    hits[arrived.order] = aligned_hits(tree.parent, tree.start, tree.end, loaded.leaf[arrived.order], block, chunk)
    shared = reuse(
        tree.parent, tree.start, tree.end, loaded.leaf, arrived.order, arrived.arrival_s, 1, None, loaded.paths
    ).hit_blocks
    total = int(np.asarray(tree.end)[loaded.leaf[rows]].sum())
    for name, tokens in (("align", hits), ("all", shared // block * block),
                         ("attention_only", shared // prepared.block_size * prepared.block_size)):  # fmt: skip
        found[name] = int(tokens[rows].sum()) / total if total else None
    return found
