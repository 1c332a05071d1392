"""The bytes of one token and one sequence in a KV cache, by kind of attention, and how GPUs share them.

Formulas: GQA stores K and V for every KV head; MLA one latent (rank + rope) that all heads share; an indexer one key
per layer; a window at most its width; linear attention a constant state per sequence; compressed attention one row per
`stride` tokens. Sharding as in vLLM's `ModelConfig.get_num_kv_heads`: heads are divided over tensor parallel ranks
until each rank has one, single-latent caches are copied on every rank.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("gqa", "mla", "index", "compressed", "state")

KV_DTYPES: dict[str, float] = {
    "bf16": 2.0,
    "fp16": 2.0,
    "auto": 2.0,
    "fp8": 1.0,
    "fp8_e4m3": 1.0,
    "fp8_e5m2": 1.0,
    "fp8_ds_mla": 1.0,
    "int8": 1.0,
    "nvfp4": 0.5 + 1 / 16,
    "fp4": 0.5,
}
"""Bytes per element. nvfp4 counts its scale, one fp8 byte per 16 elements. fp8_ds_mla is vLLM's row layout for MLA."""

ENGINES = ("ideal", "vllm", "sglang")

INDEX_FP8_ROW_EXTRA_BYTES = 4
"""An fp8 indexer key of 128 elements carries one fp32 scale: 132 bytes (DeepSeek V3.2 in vLLM and SGLang)."""


@dataclass(frozen=True)
class CacheGroup:
    """A group of layers with the same cache layout.

    Attributes:
        kind: one of KINDS.
        layers: how many layers.
        heads: KV heads that tensor parallelism can divide; 1 for a latent that every rank copies.
        width: elements per row and head, K and V together (MLA: rank + rope). For `state`: elements of the recurrent
            state per sequence and head.
        stride: tokens per row (compressed attention), else 1.
        window: rows kept at most, None without a limit.
        rope: elements of a row that stay in bf16 in fp8 row layouts (MLA, compressed).
        conv: elements of the convolution state per sequence, all heads (`state` only, always 2 bytes each).
        dtype_bytes: fixed bytes per element where the engine never quantises this group, else None.
    """

    kind: str
    layers: int
    heads: int
    width: int
    stride: int = 1
    window: int | None = None
    rope: int = 0
    conv: int = 0
    dtype_bytes: float | None = None

    @property
    def constant(self) -> bool:
        """Whether a long sequence occupies a constant number of bytes in this group."""
        return self.kind == "state" or self.window is not None

    def local_heads(self, tp: int) -> int:
        """Heads on each of `tp` ranks: divided until every rank has one, then copied (state: rounded up)."""
        if self.kind == "state":
            return -(-self.heads // tp)
        return max(1, self.heads // tp)

    def rows(self, tokens: int) -> int:
        """Rows a sequence of `tokens` tokens keeps."""
        if self.kind == "state":
            return 1
        rows = tokens // self.stride
        return rows if self.window is None else min(rows, self.window)


def row_bytes(group: CacheGroup, dtype: str, engine: str, state_bytes: float, sparse: bool) -> float:
    """Bytes of one row of one head of one layer (of one sequence's state, for `state`).

    Args:
        group: the cache group.
        dtype: a name in KV_DTYPES.
        engine: ideal | vllm | sglang.
        state_bytes: bytes per element of a recurrent state (4 or 2).
        sparse: whether the model selects tokens with an indexer: SGLang uses the 656-byte row only there.

    Row layouts: vLLM `v1/attention/backends/mla/flashmla_sparse.py` (656 = 512 fp8 + 4 fp32 scales + 64 bf16 rope;
    584 = 448 fp8 + 64 bf16 rope + 8 scale bytes), SGLang `calculate_mla_kv_cache_dim`.
    """
    if group.kind == "state":
        return group.conv * 2 / group.heads + group.width * state_bytes
    if group.dtype_bytes is not None:
        return group.width * group.dtype_bytes
    size = KV_DTYPES[dtype]
    eight_bit = size == 1.0 and dtype != "int8"
    if group.kind == "index":
        return group.width + INDEX_FP8_ROW_EXTRA_BYTES if eight_bit else group.width * size
    if group.kind == "mla" and _scaled_rows(dtype, engine, sparse):
        rank = group.width - group.rope
        return rank + rank / 128 * 4 + group.rope * 2
    if group.kind == "compressed" and engine != "ideal" and dtype in ("fp8", "fp8_ds_mla"):
        return (group.width - group.rope) + group.rope * 2 + 8
    return group.width * size


def _scaled_rows(dtype: str, engine: str, sparse: bool) -> bool:
    if dtype == "fp8_ds_mla":
        return True
    return dtype == "fp8" and (engine == "vllm" or (engine == "sglang" and sparse))


@dataclass(frozen=True)
class Sharding:
    """How a replica's GPUs share one model.

    `tp` GPUs hold the weights. `dp` of them groups run attention on different requests (DP-attention), so attention is
    divided over tp / dp ranks. `dcp` ranks share the tokens of one sequence (decode context parallel).
    """

    tp: int = 1
    dp: int = 1
    dcp: int = 1

    @property
    def attention_tp(self) -> int:
        """Ranks that divide the attention heads of one request."""
        return self.tp // self.dp


ONE_GPU = Sharding()


@dataclass(frozen=True)
class TokenBytes:
    """Bytes of a cache, whole model (one copy) and on the GPU that holds a token."""

    per_token: float
    per_token_per_gpu: float
    per_sequence: float
    per_sequence_per_gpu: float


def token_bytes(
    groups: tuple[CacheGroup, ...],
    dtype: str,
    engine: str = "ideal",
    state_bytes: float = 4.0,
    shards: Sharding | None = None,
) -> TokenBytes:
    """Bytes per token and per sequence of `groups`; the per-sequence part is what does not grow with the context.

    Context parallelism divides the tokens, not the constant state. Raises ValueError for an unknown dtype or engine.
    """
    check_layout(dtype, engine)
    shards = shards or ONE_GPU
    sparse = any(g.kind == "index" for g in groups)
    per_token = per_gpu = per_sequence = sequence_gpu = 0.0
    for g in groups:
        row = row_bytes(g, dtype, engine, state_bytes, sparse) * g.layers
        local = g.local_heads(shards.attention_tp)
        if g.constant:
            rows = 1 if g.kind == "state" else g.window or 0
            per_sequence += row * g.heads * rows
            sequence_gpu += row * local * rows
        else:
            per_token += row * g.heads / g.stride
            per_gpu += row * local / g.stride / shards.dcp
    return TokenBytes(per_token, per_gpu, per_sequence, sequence_gpu)


def sequence_bytes_per_gpu(
    groups: tuple[CacheGroup, ...], tokens: float, dtype: str, engine: str, state_bytes: float, shards: Sharding
) -> float:
    """Bytes on one GPU for a sequence of `tokens` tokens: windows fill up, states are constant; rows unrounded."""
    sparse = any(g.kind == "index" for g in groups)
    total = 0.0
    for g in groups:
        row = row_bytes(g, dtype, engine, state_bytes, sparse) * g.layers * g.local_heads(shards.attention_tp)
        if g.kind == "state":
            total += row
        elif g.window is not None:
            total += row * min(tokens / g.stride, g.window)
        else:
            total += row * tokens / g.stride / shards.dcp
    return total


def check_layout(dtype: str, engine: str) -> None:
    """Raise ValueError naming the choices if `dtype` or `engine` is unknown."""
    if dtype not in KV_DTYPES:
        raise ValueError(f"unknown KV dtype {dtype!r}; known: {', '.join(KV_DTYPES)}")
    if engine not in ENGINES:
        raise ValueError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}")


def check_sharding(groups: tuple[CacheGroup, ...], attention_heads: int, shards: Sharding) -> None:
    """Raise ValueError where an engine would refuse the parallelism, with the reason and the choices.

    Rules: vLLM `ModelConfig.verify_with_parallel_config` (heads divisible by TP; with MLA any dcp dividing TP, with
    GQA dcp up to TP / KV heads) and SGLang's DP-attention (dp divides tp).
    """
    tp, dp, dcp = shards.tp, shards.dp, shards.dcp
    for name, value in (("tp", tp), ("dp", dp), ("dcp", dcp)):
        if value < 1:
            raise ValueError(f"impossible parallelism: {name} {value} must be at least 1")
    if tp % dp:
        raise ValueError(
            f"impossible DP-attention: dp {dp} must divide tp {tp} (dp groups share the replica's {tp} GPUs)"
        )
    ranks = shards.attention_tp
    if attention_heads % ranks:
        choices = [n for n in range(1, attention_heads + 1) if attention_heads % n == 0 and n <= 64]
        raise ValueError(
            f"impossible TP: {attention_heads} attention heads cannot be divided over {ranks} ranks; "
            f"possible: {', '.join(map(str, choices))}"
        )
    for g in groups:
        if g.kind == "gqa" and g.heads % ranks and ranks % g.heads:
            raise ValueError(
                f"impossible TP: {g.heads} KV heads cannot be divided over or copied to {ranks} ranks; "
                f"one of the two must be a multiple of the other"
            )
    if ranks % dcp:
        raise ValueError(f"impossible context parallelism: dcp {dcp} must divide the {ranks} attention ranks")
    widest = max((g.heads for g in groups if g.kind == "gqa"), default=1)
    if dcp > 1 and widest > 1 and dcp > ranks // widest:
        raise ValueError(
            f"impossible context parallelism: with {widest} KV heads dcp is at most tp / KV heads = {ranks // widest}"
        )
