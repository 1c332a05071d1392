"""A Hugging Face `config.json` read as what serving needs: cache groups, parameters, attention work per token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from analysis.kv_layout import CacheGroup

WEIGHT_BITS: dict[str, tuple[float, float]] = {
    "bf16": (16.0, 16.0),
    "fp8": (8.0, 8.0),
    "int4": (4.5, 16.0),
    "nvfp4": (4.5, 8.0),
    "mxfp4": (4.25, 16.0),
    "mxfp4_fp8": (4.25, 8.0),
}
"""Bits of a routed expert weight and of the other matrices. int4: groups of 32 with a 16-bit scale; nvfp4: groups of
16 with an 8-bit scale; mxfp4: groups of 32 with an 8-bit scale. The embeddings and the output head stay at 16 bits."""


class ConfigError(ValueError):
    """A config.json that lacks what the arithmetic needs, or contradicts itself."""


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


@dataclass(frozen=True)
class Parameters:
    """Parameter counts. `other` is everything but routed experts and the embeddings; `embedding` is both of these.

    `head` is the output embedding (the only one a step reads in full), `active` what one token multiplies with.
    """

    routed: float
    attention: float
    other: float
    embedding: float
    head: float
    active: float

    @property
    def total(self) -> float:
        """All parameters of the language model, without draft layers and vision towers."""
        return self.routed + self.other + self.embedding


@dataclass(frozen=True)
class Model:
    """A language model as serving sees it. Sizes are elements and parameters; bytes come with a precision."""

    name: str
    groups: tuple[CacheGroup, ...]
    attention: tuple[AttentionWork, ...]
    parameters: Parameters
    layers: int
    attention_heads: int
    experts: int
    experts_per_token: int
    kinds: tuple[str, ...]
    state_bytes: float
    weights: str
    source: str
    max_context_tokens: int | None
    draft_layers: int
    latent_rank: int = 0
    notes: tuple[str, ...] = ()

    def weight_bytes(self, scheme: str | None = None) -> float:
        """Bytes of one copy of the weights at `scheme` (WEIGHT_BITS; None: the published checkpoint's)."""
        routed, rest = self.weight_bytes_split(scheme)
        return routed + rest

    def weight_bytes_split(self, scheme: str | None = None) -> tuple[float, float]:
        """(bytes of the routed experts, bytes of the rest) of one copy of the weights."""
        name = scheme or self.weights
        if name not in WEIGHT_BITS:
            raise ValueError(f"unknown weight precision {name!r}; known: {', '.join(WEIGHT_BITS)}")
        routed_bits, other_bits = WEIGHT_BITS[name]
        p = self.parameters
        return p.routed * routed_bits / 8, p.other * other_bits / 8 + p.embedding * 2


class _Keys:
    """Looks keys up under their several names and says which one is missing."""

    def __init__(self, config: Mapping[str, Any], name: str) -> None:
        self.config, self.name = config, name

    def get(self, *names: str, default: int | None = None) -> int:
        for key in names:
            value = self.config.get(key)
            if isinstance(value, (list, tuple)):
                value = value[0] if value else None
            if value is not None:
                if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0 or int(value) != value:
                    raise ConfigError(f"{self.name}: {key} must be a whole number of at least 0, found {value!r}")
                return int(value)
        if default is None:
            raise ConfigError(
                f"{self.name}: needs {' or '.join(names)}, which is missing; give the model's full config.json"
            )
        return default

    def per_layer(self, name: str, layers: int) -> list[Any] | None:
        counts = self.config.get(name + "_counts")
        if counts is not None:
            return [value for value, n in counts for _ in range(n)]
        values = self.config.get(name)
        if values is None:
            return None
        if not isinstance(values, list) or len(values) < layers:
            raise ConfigError(f"{self.name}: {name} must list all {layers} layers")
        return list(values[:layers])


def model_from_config(
    config: Mapping[str, Any], name: str = "config.json", weights: str | None = None, source: str = "given by the user"
) -> Model:
    """Read a config.json (multimodal ones: their `text_config`).

    Args:
        config: the parsed JSON object.
        name: what errors call it.
        weights: precision of the checkpoint; None reads `quantization_config`.
        source: where the config came from.

    Raises:
        ConfigError: a needed key is missing or impossible; the message names it.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"{name}: a config.json is a JSON object, found {type(config).__name__}")
    inner = config.get("text_config") or config.get("language_config") or config.get("llm_config")
    text = inner if isinstance(inner, Mapping) else config
    keys = _Keys(text, name)
    layers = keys.get("num_hidden_layers", "n_layer", "num_layers")
    heads = keys.get("num_attention_heads", "n_head")
    if layers < 1 or heads < 1:
        raise ConfigError(f"{name}: num_hidden_layers and num_attention_heads must be at least 1")
    shape = _attention(keys, layers, heads)
    quantization = text.get("quantization_config") or config.get("quantization_config")
    experts = keys.get("n_routed_experts", "num_experts", "num_local_experts", default=0)
    top = (
        keys.get("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts") if experts else 0
    )
    return Model(
        name=name,
        groups=tuple(g for g in shape.groups if g.layers),
        attention=tuple(a for a in shape.work if a.layers),
        parameters=_parameters(keys, layers, experts, top, shape.parameters),
        layers=layers,
        attention_heads=heads,
        experts=experts,
        experts_per_token=top,
        kinds=tuple(dict.fromkeys(g.kind if g.window is None else "window" for g in shape.groups if g.layers)),
        state_bytes=2.0 if text.get("mamba_ssm_dtype") in ("bfloat16", "float16") else 4.0,
        weights=weights or _checkpoint_precision(quantization, text),
        source=source,
        max_context_tokens=keys.get("max_position_embeddings", default=0) or None,
        draft_layers=keys.get("num_nextn_predict_layers", default=0),
        latent_rank=keys.get("kv_lora_rank", default=0),
        notes=tuple(shape.notes),
    )


def _checkpoint_precision(quantization: Any, text: Mapping[str, Any]) -> str:
    if not isinstance(quantization, Mapping):
        return "bf16"
    said = str(quantization).lower()
    if text.get("expert_dtype") == "fp4":
        return "mxfp4_fp8"
    if "mxfp4" in said:
        return "mxfp4"
    if "nvfp4" in said or ("'num_bits': 4" in said and "'float'" in said):
        return "nvfp4"
    if "'num_bits': 4" in said or "'bits': 4" in said:
        return "int4"
    return "fp8" if "fp8" in said or "float8" in said or "'num_bits': 8" in said else "bf16"


class _Shape(NamedTuple):
    groups: list[CacheGroup]
    work: list[AttentionWork]
    parameters: float
    notes: list[str]


def _attention(keys: _Keys, layers: int, heads: int) -> _Shape:
    text = keys.config
    if keys.per_layer("compress_ratios", layers) is not None:
        return _compressed(keys, layers, heads)
    linear = _linear_layers(keys, layers)
    full_layers = layers - linear
    if text.get("kv_lora_rank"):
        shape = _mla(keys, full_layers, heads)
    else:
        shape = _gqa(keys, full_layers, heads)
    if linear:
        _add_linear(keys, linear, shape)
        extra = _linear_parameters(keys, linear)
        shape = shape._replace(parameters=shape.parameters + extra)
    return shape


def _linear_layers(keys: _Keys, layers: int) -> int:
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
    if config.get("hybrid_override_pattern") or config.get("mamba_num_heads"):
        raise ConfigError(
            f"{keys.name}: Mamba layers are not known here; only gated delta, KDA and attention layers are"
        )
    return 0


def _gqa(keys: _Keys, layers: int, heads: int) -> _Shape:
    config = keys.config
    hidden = keys.get("hidden_size", "n_embd")
    kv = keys.get("num_key_value_heads", default=heads)
    if not kv:
        raise ConfigError(f"{keys.name}: num_key_value_heads must be at least 1")
    dim = keys.get("head_dim", default=0) or hidden // heads
    value = keys.get("v_head_dim", default=dim)
    types = keys.per_layer("layer_types", keys.get("num_hidden_layers", "n_layer", "num_layers"))
    pattern = keys.per_layer("hybrid_layer_pattern", layers)
    windowed = 0
    if types is not None:
        windowed = sum(t in ("sliding_attention", "chunked_attention") for t in types)
    elif pattern is not None:
        windowed = sum(pattern)
    elif config.get("sliding_window") and config.get("use_sliding_window", True):
        windowed = layers
    window = keys.get("sliding_window", "attention_chunk_size") if windowed else None
    swa_kv = keys.get("swa_num_key_value_heads", default=kv)
    swa_width = keys.get("swa_head_dim", default=dim) + keys.get("swa_v_head_dim", default=value)
    full_kv = keys.get("num_global_key_value_heads", default=kv)
    full_dim = keys.get("global_head_dim", default=dim)
    full_width = full_dim + (full_dim if config.get("global_head_dim") else value)
    full = layers - windowed
    groups = [
        CacheGroup("gqa", full, full_kv, full_width),
        CacheGroup("gqa", windowed, swa_kv, swa_width, window=window),
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
        inner = _Keys(sparse, f"{keys.name}: sparse_attention_config")
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
    return _Shape(groups, work, parameters, [])


def _mla(keys: _Keys, layers: int, heads: int) -> _Shape:
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
    return _Shape(groups, work, parameters, notes)


def _indexed_layers(keys: _Keys, layers: int) -> int:
    types = keys.per_layer("indexer_types", layers)
    if types is not None:
        return Counter(types)["full"]
    every = keys.get("index_topk_freq", default=1)
    if every <= 1:
        return layers
    skipped = keys.get("index_skip_topk_offset", default=0)
    return skipped + (layers - skipped) // every


def _compressed(keys: _Keys, layers: int, heads: int) -> _Shape:
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
    return _Shape(groups, work, parameters, [])


class _Linear(NamedTuple):
    value_heads: int
    key_dim: int
    value_dim: int
    conv_channels: int
    kernel: int


def _linear_shape(keys: _Keys) -> _Linear:
    kda = keys.config.get("linear_attn_config")
    if isinstance(kda, Mapping):
        inner = _Keys(kda, f"{keys.name}: linear_attn_config")
        heads, dim = inner.get("num_heads"), inner.get("head_dim")
        return _Linear(heads, dim, dim, 3 * heads * dim, inner.get("short_conv_kernel_size"))
    key_heads, key_dim = keys.get("linear_num_key_heads"), keys.get("linear_key_head_dim")
    value_heads, value_dim = keys.get("linear_num_value_heads"), keys.get("linear_value_head_dim")
    channels = 2 * key_heads * key_dim + value_heads * value_dim
    return _Linear(value_heads, key_dim, value_dim, channels, keys.get("linear_conv_kernel_dim"))


def _add_linear(keys: _Keys, layers: int, shape: _Shape) -> None:
    s = _linear_shape(keys)
    conv = (s.kernel - 1) * s.conv_channels
    shape.groups.append(CacheGroup("state", layers, s.value_heads, s.key_dim * s.value_dim, conv=conv))
    # Per token and head: decay and correct the state, write to it, read from it: three products of key_dim x value_dim.
    shape.work.append(AttentionWork(layers, 0.0, flops_per_token=6.0 * s.value_heads * s.key_dim * s.value_dim))


def _linear_parameters(keys: _Keys, layers: int) -> float:
    s = _linear_shape(keys)
    gate = s.value_heads * s.value_dim
    return float(layers * keys.get("hidden_size") * (s.conv_channels + 2 * gate))


def _parameters(keys: _Keys, layers: int, experts: int, top: int, attention: float) -> Parameters:
    """Counts as the matrices imply them; norms and biases are left out (below 0.01 %).

    The active count is what one token multiplies with: the chosen experts and the output head, not the input embedding.
    """
    config = keys.config
    hidden, vocab = keys.get("hidden_size", "n_embd"), keys.get("vocab_size")
    tied = bool(config.get("tie_word_embeddings"))
    head = float(vocab * hidden)
    embedding = head if tied else 2 * head
    dense_size = keys.get(
        "dense_intermediate_size", "intermediate_size", "n_inner", default=4 * hidden if not experts else 0
    )
    if not experts:
        mlp = float(layers * 3 * hidden * dense_size)
        return Parameters(0.0, attention, attention + mlp, embedding, head, attention + mlp + head)
    size = keys.get("moe_intermediate_size", "intermediate_size")
    dense_layers = _dense_layers(keys, layers)
    inner = keys.get("routed_expert_hidden_size", default=hidden)
    moe_layers = layers - dense_layers
    expert = 3.0 * inner * size
    shared_size = keys.get("shared_expert_intermediate_size", "shared_intermediate_size", default=0)
    shared = 3.0 * hidden * (shared_size or size * keys.get("n_shared_experts", "num_shared_experts", default=0))
    down_up = 2.0 * hidden * inner if inner != hidden else 0.0
    always = moe_layers * (shared + hidden * experts + down_up) + dense_layers * 3.0 * hidden * dense_size
    other = attention + always
    active = moe_layers * top * expert + other + head
    return Parameters(moe_layers * experts * expert, attention, other, embedding, head, active)


def _dense_layers(keys: _Keys, layers: int) -> int:
    every = keys.config.get("moe_layer_freq")
    if isinstance(every, list):
        return layers - sum(1 for flag in every[:layers] if flag)
    return min(layers, keys.get("first_k_dense_replace", default=0)) + len(keys.config.get("mlp_only_layers") or [])
