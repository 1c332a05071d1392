"""The attention layers of a config.json: what each layer caches, its attention work, and its number of parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from analysis.replica.models.config_keys import ConfigError, Keys
from analysis.replica.models.kv_layout import CacheGroup


class AttentionWork(NamedTuple):
    """Work of attending: FLOPs per (query, key) pair, over `layers` alike layers.

    `flops_per_pair` counts QK and PV for all heads of one layer. `limit`: keys a query sees at most. `stride`: tokens
    per key. `flops_per_token` is work that does not depend on the context (linear attention).
    """

    layers: int
    flops_per_pair: float
    limit: int | None = None
    stride: int = 1
    flops_per_token: float = 0.0


class AttentionShape(NamedTuple):
    """All attention layers of a model: caches, work, parameters, and notes that a reader of the figures needs."""

    groups: list[CacheGroup]
    work: list[AttentionWork]
    parameters: float
    notes: list[str]


UNKNOWN_SHAPES = {
    "attn_layer_period": "Jamba's Mamba layers",
    "attn_layer_indices": "Bamba's Mamba layers",
    "mamba_d_state": "Mamba layers",
    "d_model": "models that are no decoder-only transformers",
}


def attention_shape(keys: Keys, layers: int, heads: int) -> AttentionShape:
    """Read a model's attention layers. Raises ConfigError for a missing key or an unsupported kind of layer."""
    text = keys.config
    if not all(text.get("attn_type_list") or [1]):
        raise ConfigError(f"{keys.name}: attn_type_list says lightning attention, which is not known here")
    for key, what in UNKNOWN_SHAPES.items():
        if key in text:
            raise ConfigError(f"{keys.name}: {key} says {what}, which is not known here")
    if keys.per_layer("compress_ratios", layers) is not None:
        return _compressed(keys, layers, heads)
    if text.get("block_configs"):
        return _blocks(keys, heads)
    hybrid = keys.hybrid_layers()
    if hybrid is not None:
        shape = _gqa(keys, hybrid["attention"], heads)
        return _with_linear(keys, hybrid["mamba"], shape, _mamba_shape(keys))
    linear = _linear_layers(keys, layers)
    shape = _mla(keys, layers - linear, heads) if text.get("kv_lora_rank") else _gqa(keys, layers - linear, heads)
    return _with_linear(keys, linear, shape, _linear_shape(keys)) if linear else shape


def _linear_layers(keys: Keys, layers: int) -> int:
    config = keys.config
    kda = config.get("linear_attn_config")
    if isinstance(kda, Mapping):
        found = kda.get("kda_layers")
        if found is None:
            raise ConfigError(f"{keys.name}: linear_attn_config needs kda_layers, which is missing")
        return found if isinstance(found, int) else len(found)
    types = keys.per_layer("layer_types", layers)
    if types is not None:
        return Counter(types)["linear_attention"]
    interval = keys.get("full_attention_interval", default=0)
    if interval and config.get("linear_num_value_heads") is not None:
        return layers - layers // interval
    return 0


def _gqa(keys: Keys, layers: int, heads: int) -> AttentionShape:
    config = keys.config
    hidden = keys.get("hidden_size", "n_embd")
    kv = keys.get("num_key_value_heads", default=heads)
    if not kv:
        raise ConfigError(f"{keys.name}: num_key_value_heads must be at least 1")
    dim = keys.get("head_dim", default=0) or hidden // heads
    value = keys.get("v_head_dim", default=dim)
    windowed, shared_full, shared_windowed = _windowed_layers(keys, layers)
    window = keys.get("sliding_window", "attention_chunk_size") if windowed else None
    swa_kv = keys.get("swa_num_key_value_heads", default=kv)
    swa_width = keys.get("swa_head_dim", default=dim) + keys.get("swa_v_head_dim", default=value)
    full_kv = keys.get("num_global_key_value_heads", default=kv)
    full_dim = keys.get("global_head_dim", default=dim)
    full_width = full_dim + (full_dim if config.get("global_head_dim") else value)
    full = layers - windowed
    groups = [
        CacheGroup("gqa", full - shared_full, full_kv, full_width),
        CacheGroup("gqa", windowed - shared_windowed, swa_kv, swa_width, window=window),
    ]
    work = [
        AttentionWork(full, 2.0 * heads * full_width),
        AttentionWork(windowed, 2.0 * heads * swa_width, limit=window),
    ]
    gate = 2 if config.get("attn_output_gate") else 1
    parameters = float(full * hidden * (heads * (full_dim * gate + full_width - full_dim) + full_kv * full_width))
    parameters += windowed * hidden * (heads * (dim * gate + value) + swa_kv * swa_width)
    sparse = config.get("sparse_attention_config")
    if isinstance(sparse, Mapping):
        inner = Keys(sparse, f"{keys.name}: sparse_attention_config")
        indexed = sum(inner.per_layer("sparse_attention_freq", layers) or [1] * layers)
        index_dim = inner.get("sparse_index_dim")
        # MiniMax M3: the index keys stay in 16 bits whatever the KV precision.
        groups.append(CacheGroup("index", indexed, 1, index_dim, dtype_bytes=2.0))
        seen = inner.get("sparse_topk_blocks") * inner.get("sparse_block_size")
        work = [
            AttentionWork(full - indexed, 2.0 * heads * full_width),
            AttentionWork(indexed, 2.0 * heads * full_width, limit=seen),
            AttentionWork(indexed, 2.0 * inner.get("sparse_num_index_heads") * index_dim),
        ]
        parameters += indexed * hidden * index_dim * (inner.get("sparse_num_index_heads") + 1)
    return AttentionShape(groups, work, parameters, [])


def _windowed_layers(keys: Keys, layers: int) -> tuple[int, int, int]:
    """(layers with a window, full layers and windowed layers that read another layer's cache and keep none)."""
    config = keys.config
    windows = ("sliding_attention", "chunked_attention")
    types = keys.per_layer("layer_types", layers)
    if types is not None:
        types = [t for t in types if t != "linear_attention"]
        count = keys.get("num_kv_shared_layers", default=0)
        shared = Counter(t in windows for t in types[len(types) - count :])
        return sum(t in windows for t in types), shared[False], shared[True]
    pattern = keys.per_layer("hybrid_layer_pattern", layers)
    if pattern is not None:
        return sum(pattern), 0, 0
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        return layers, 0, 0
    if config.get("attention_chunk_size"):
        # Llama 4: every fourth layer attends to everything, the others within a chunk.
        return layers - layers // keys.get("no_rope_layer_interval", default=4), 0, 0
    return 0, 0, 0


def _blocks(keys: Keys, heads: int) -> AttentionShape:
    """DeciLM: each block has its own number of KV heads, or no attention at all."""
    hidden = keys.get("hidden_size")
    dim = keys.get("head_dim", default=0) or hidden // heads
    kinds: Counter[tuple[int, int | None]] = Counter()
    for block in keys.config["block_configs"]:
        attention = block.get("attention") if isinstance(block, Mapping) else None
        if not isinstance(attention, Mapping):
            raise ConfigError(f"{keys.name}: a block of block_configs has no attention entry")
        if attention.get("no_op") or attention.get("replace_with_linear"):
            continue
        per_group = attention.get("n_heads_in_group")
        if not per_group:
            raise ConfigError(f"{keys.name}: block_configs needs n_heads_in_group, which is missing")
        kinds[heads // per_group, attention.get("window_length")] += 1
    groups = [CacheGroup("gqa", n, kv, 2 * dim, window=window) for (kv, window), n in kinds.items()]
    work = [AttentionWork(n, 4.0 * heads * dim, limit=window) for (_, window), n in kinds.items()]
    parameters = sum(n * hidden * dim * 2.0 * (heads + kv) for (kv, _), n in kinds.items())
    return AttentionShape(groups, work, parameters, [])


def _mla(keys: Keys, layers: int, heads: int) -> AttentionShape:
    hidden = keys.get("hidden_size")
    rank, rope, nope = keys.get("kv_lora_rank"), keys.get("qk_rope_head_dim"), keys.get("qk_nope_head_dim")
    value = keys.get("v_head_dim")
    query_rank = keys.get("q_lora_rank", default=0)
    queries = query_rank * (hidden + heads * (nope + rope)) if query_rank else hidden * heads * (nope + rope)
    parameters = float(
        layers * (queries + hidden * (rank + rope) + rank * heads * (nope + value) + heads * value * hidden)
    )
    groups = [CacheGroup("mla", layers, 1, rank + rope, rope=rope)]
    # Prefill runs in multi-head form: keys of nope + rope and values of v_head_dim for every head.
    pair = 2.0 * heads * (nope + rope + value)
    work = [AttentionWork(layers, pair)]
    notes: list[str] = []
    if keys.config.get("index_head_dim"):
        dim, index_heads, top = keys.get("index_head_dim"), keys.get("index_n_heads"), keys.get("index_topk")
        indexed = _indexed_layers(keys, layers)
        groups.append(CacheGroup("index", indexed, 1, dim))
        work = [AttentionWork(layers, pair, limit=top), AttentionWork(indexed, 2.0 * index_heads * dim)]
        parameters += indexed * (hidden * dim + (query_rank or hidden) * index_heads * dim + hidden * index_heads)
        notes.append(
            "vLLM and SGLang keep indexer keys in 132-byte fp8 rows even under BF16 KV; BF16 here counts them as BF16"
        )
    return AttentionShape(groups, work, parameters, notes)


def _indexed_layers(keys: Keys, layers: int) -> int:
    types = keys.per_layer("indexer_types", layers)
    if types is not None:
        return Counter(types)["full"]
    every = keys.get("index_topk_freq", default=1)
    if every <= 1:
        return layers
    skipped = keys.get("index_skip_topk_offset", default=0)
    return skipped + (layers - skipped) // every


def _compressed(keys: Keys, layers: int, heads: int) -> AttentionShape:
    """DeepSeek V4: every layer a window of latents, most also one compressed latent per `ratio` tokens."""
    hidden, dim, window = keys.get("hidden_size"), keys.get("head_dim"), keys.get("sliding_window")
    rope = keys.get("qk_rope_head_dim")
    ratios = Counter(keys.per_layer("compress_ratios", layers) or [])
    pair = 4.0 * heads * dim
    groups = [CacheGroup("compressed", layers, 1, dim, window=window, rope=rope)]
    work = [AttentionWork(layers, pair, limit=window)]
    query_rank = keys.get("q_lora_rank")
    out_rank = keys.get("o_lora_rank", default=0)
    out = (
        heads * dim * out_rank + keys.get("o_groups", default=1) * out_rank * hidden
        if out_rank
        else heads * dim * hidden
    )
    parameters = float(layers * (query_rank * (hidden + heads * dim) + hidden * dim + out))
    for ratio, count in sorted(ratios.items()):
        if ratio <= 0:
            continue
        groups.append(CacheGroup("compressed", count, 1, dim, stride=ratio, rope=rope))
        parameters += count * 2 * hidden * dim
        if ratio == 4 and keys.config.get("index_head_dim"):
            index_dim, index_heads = keys.get("index_head_dim"), keys.get("index_n_heads")
            groups.append(CacheGroup("index", count, 1, index_dim, stride=ratio))
            work.append(AttentionWork(count, pair, limit=keys.get("index_topk"), stride=ratio))
            work.append(AttentionWork(count, 2.0 * index_heads * index_dim, stride=ratio))
            parameters += count * (2 * hidden * index_dim + query_rank * index_heads * index_dim)
        else:
            work.append(AttentionWork(count, pair, stride=ratio))
    return AttentionShape(groups, work, parameters, [])


class _Linear(NamedTuple):
    """One layer of linear attention or Mamba: its state is heads x key_dim x value_dim."""

    value_heads: int
    key_dim: int
    value_dim: int
    conv_channels: int
    kernel: int
    projected: int  # columns of the input projections and rows of the output projection


def _linear_shape(keys: Keys) -> _Linear:
    kda = keys.config.get("linear_attn_config")
    if isinstance(kda, Mapping):
        inner = Keys(kda, f"{keys.name}: linear_attn_config")
        heads, dim = inner.get("num_heads"), inner.get("head_dim")
        return _Linear(heads, dim, dim, 3 * heads * dim, inner.get("short_conv_kernel_size"), 5 * heads * dim)
    key_heads, key_dim = keys.get("linear_num_key_heads"), keys.get("linear_key_head_dim")
    value_heads, value_dim = keys.get("linear_num_value_heads"), keys.get("linear_value_head_dim")
    values = value_heads * value_dim
    channels = 2 * key_heads * key_dim + values
    return _Linear(value_heads, key_dim, value_dim, channels, keys.get("linear_conv_kernel_dim"), channels + 2 * values)


def _mamba_shape(keys: Keys) -> _Linear:
    """Mamba-2 as in Nemotron-H: the state of a head is head_dim x state_size."""
    heads, dim, state = keys.get("mamba_num_heads"), keys.get("mamba_head_dim"), keys.get("ssm_state_size")
    inner = heads * dim
    channels = inner + 2 * keys.get("n_groups") * state
    return _Linear(heads, dim, state, channels, keys.get("conv_kernel"), channels + 2 * inner + heads)


def _with_linear(keys: Keys, layers: int, shape: AttentionShape, s: _Linear) -> AttentionShape:
    conv = (s.kernel - 1) * s.conv_channels
    state = CacheGroup("state", layers, s.value_heads, s.key_dim * s.value_dim, conv=conv)
    # Per token and head: decay and correct the state, write to it, read from it: three products of key_dim x value_dim.
    work = AttentionWork(layers, 0.0, flops_per_token=6.0 * s.value_heads * s.key_dim * s.value_dim)
    parameters = shape.parameters + float(layers * keys.get("hidden_size") * s.projected)
    return AttentionShape([*shape.groups, state], [*shape.work, work], parameters, shape.notes)
