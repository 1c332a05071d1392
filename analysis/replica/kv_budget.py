"""Whether a model fits on one replica, and how many tokens and sessions its KV cache holds: every step in bytes, as a
range."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import NamedTuple

from analysis.replica.models.catalog import Gpu
from analysis.replica.models.config import Model
from analysis.replica.models.kv_layout import (
    ONE_GPU,
    Sharding,
    TokenBytes,
    check_layout,
    check_sharding,
    sequence_bytes_per_gpu,
    token_bytes,
)

DEFAULT_UTILIZATION = 0.92
"""vLLM 0.33's default `gpu_memory_utilization`."""
UTILIZATION_RANGE = (0.85, 0.95)
"""The range that operators set; the answer is printed for both ends."""
RUNTIME_RESERVE_BYTES = (2_000_000_000, 3_000_000_000, 4_000_000_000)
"""Low, assumed, high: activations, CUDA graphs and buffers per GPU, which the engine measures and does not compute."""
MIB = 1 << 20
SGLANG_FLOOR_BYTES = 10 << 30


class Step(NamedTuple):
    """One line of the calculation, bytes per GPU; what is taken away is negative. `note` says where it comes from."""

    name: str
    bytes: float
    note: str


@dataclass(frozen=True)
class Replica:
    """One replica to be budgeted.

    Attributes:
        model, gpu: what runs on what.
        shards: GPUs and how they share.
        kv_dtype: a name of kv_layout.KV_DTYPES.
        engine: ideal | vllm | sglang: row layouts and reserves.
        gpu_bytes: memory of one GPU, None for the catalogue's.
        weights_bytes: bytes of the weights of the whole replica with all copies, None to derive them.
        weights_scheme: precision to derive the weights at, None for the checkpoint's.
        utilization: share of the GPU the engine may use (SGLang: mem_fraction_static), None for the engine's default.
        reserve_bytes: bytes per GPU kept from the KV cache beside the weights, None for the engine's own.
        draft_bytes: weights of a draft model over the whole replica.
    """

    model: Model
    gpu: Gpu
    shards: Sharding = ONE_GPU
    kv_dtype: str = "bf16"
    engine: str = "ideal"
    gpu_bytes: float | None = None
    weights_bytes: float | None = None
    weights_scheme: str | None = None
    utilization: float | None = None
    reserve_bytes: float | None = None
    draft_bytes: float = 0.0


@dataclass(frozen=True)
class Budget:
    """The answer. Bytes are per GPU unless the name says otherwise; tokens are per replica.

    `free_bytes_per_gpu` is negative where the weights do not fit; then `replica_tokens` is 0 and `short_bytes_per_gpu`
    says by how much. `low_tokens` and `high_tokens` are the answers at the careful and the bold end of utilisation and
    reserve. `token_bytes` covers the part that grows with the context, see `sessions`.
    """

    replica: Replica
    gpu_bytes: float
    weights_bytes: float
    weights_bytes_per_gpu: float
    utilization: float
    token_bytes: TokenBytes
    steps: tuple[Step, ...]
    free_bytes_per_gpu: float
    replica_tokens: int
    low_tokens: int
    high_tokens: int
    range_utilization: tuple[float, float]

    @property
    def fits(self) -> bool:
        """Whether the weights and the reserve leave anything for a KV cache."""
        return self.free_bytes_per_gpu > 0

    @property
    def short_bytes_per_gpu(self) -> float:
        """Bytes missing on each GPU; 0 where it fits."""
        return max(0.0, -self.free_bytes_per_gpu)

    def sessions(self, tokens: float, shared_tokens: float = 0.0) -> float:
        """Sequences of `tokens` tokens that fit at once, unrounded; `shared_tokens` of each are one common prefix.

        With DP-attention every rank holds its own copy of the shared prefix. Windows and states are counted per
        sequence.
        """
        if not self.fits:
            return 0.0
        r = self.replica
        common = min(tokens, shared_tokens)
        whole = self._sequence_bytes(tokens)
        grown = self._sequence_bytes(common) - self._sequence_bytes(0)
        own = whole - grown if common else whole
        if own <= 0:
            return math.inf
        return max(0.0, (self.free_bytes_per_gpu - (grown if common else 0.0)) / own) * r.shards.dp

    def _sequence_bytes(self, tokens: float) -> float:
        r = self.replica
        return sequence_bytes_per_gpu(r.model.groups, tokens, r.kv_dtype, r.engine, r.model.state_bytes, r.shards)

    def blocks(self, block_tokens: int) -> int:
        """Whole blocks of `block_tokens` tokens in the replica; vLLM keeps block 0 of every rank as its null block."""
        dp = self.replica.shards.dp
        per_rank = self.replica_tokens // dp // block_tokens
        return max(0, per_rank - (1 if self.replica.engine == "vllm" else 0)) * dp


def weights_per_gpu(replica: Replica) -> tuple[float, float]:
    """(weight bytes of the whole replica with all copies, per GPU).

    Matrices are divided over the replica's GPUs; under DP-attention every dp group keeps its own attention weights.
    Given bytes are taken as the whole and divided evenly.
    """
    tp, dp = replica.shards.tp, replica.shards.dp
    if replica.weights_bytes is not None:
        total = replica.weights_bytes + replica.draft_bytes
        return total, total / tp
    model = replica.model
    one_copy = model.weight_bytes(replica.weights_scheme)
    _, rest = model.weight_bytes_split(replica.weights_scheme)
    other = model.parameters.other
    attention = (rest - model.parameters.embedding * 2) * (model.parameters.attention / other) if other else 0.0
    total = one_copy + attention * (dp - 1) + replica.draft_bytes
    return total, total / tp


def sglang_reserve_bytes(gpu_bytes: float, shards: Sharding, latent: bool, pp: int = 1) -> float:
    """The memory that SGLang reserves beside weights and KV pool, bytes per GPU (`arg_groups/memory_hook.py`, 0.5.23).

    512 MiB + 1.5 MiB a token of the prefill chunk + 1 GiB per 8 GPUs + 2 MiB a sequence of the largest CUDA graph, with
    extras for MLA prefill graphs and DP-attention; at least 10 GiB on GPUs above 60 GiB. Chunk and graph sizes are its
    defaults by GPU size.
    """
    gib = gpu_bytes / (1 << 30)
    chunk = 16384 if gib >= 160 else 8192 if gib >= 60 else 4096 if gib >= 35 else 2048
    batch = 512 if gib >= 160 or (gib >= 60 and shards.tp >= 4) else 256 if gib >= 60 else 160 if gib >= 35 else 80
    mib = 512 + 1.5 * max(chunk, 2048) + 1024 * shards.tp * pp / 8 + 2 * batch + (1536 if latent else 0)
    if shards.dp > 1:
        mib += 3 * batch * shards.dp
    reserved = mib * MIB
    return max(reserved, SGLANG_FLOOR_BYTES) if gib > 60 else reserved


def kv_budget(replica: Replica) -> Budget:
    """Tokens and bytes one replica has for its KV cache.

    ideal and vllm: utilisation x memory - weights - reserve (vLLM profiles activations and graphs: a named assumption
    here); sglang: mem_fraction_static x memory - weights, where the fraction follows `sglang_reserve_bytes`.

    Raises:
        ValueError: impossible parallelism, an unknown dtype or engine, a negative or absurd number; the message says
        which.
    """
    r = replica
    check_layout(r.kv_dtype, r.engine)
    check_sharding(r.model.groups, r.model.attention_heads, r.shards)
    gpu_bytes = r.gpu.memory_bytes if r.gpu_bytes is None else r.gpu_bytes
    _check_amounts(r, gpu_bytes)
    weights, weights_gpu = weights_per_gpu(r)
    latent = any(g.kind in ("mla", "compressed") for g in r.model.groups)
    per = token_bytes(r.model.groups, r.kv_dtype, r.engine, r.model.state_bytes, r.shards)

    utilization, note = _utilization(r, gpu_bytes, latent)
    low_reserve, reserve, high_reserve = _reserves(r)
    steps = [
        Step("GPU memory", gpu_bytes, r.gpu.source if r.gpu_bytes is None else "given"),
        Step(f"kept free at utilisation {utilization:.4g}", -gpu_bytes * (1 - utilization), note),
        Step(f"weights / {r.shards.tp} GPUs", -weights_gpu, _weights_note(r)),
        Step("reserve", -reserve, _reserve_note(r)),
    ]
    free = gpu_bytes * utilization - weights_gpu - reserve
    steps.append(Step("free for the KV cache", free, "sum of the above"))
    low_u, high_u = min(UTILIZATION_RANGE[0], utilization), max(UTILIZATION_RANGE[1], utilization)

    def tokens(share: float, held: float) -> int:
        left = gpu_bytes * share - weights_gpu - held
        if left <= 0:
            return 0
        if per.per_token_per_gpu <= 0:
            raise ValueError(f"{r.model.name} keeps nothing per token: no token count limits it, use sessions instead")
        return math.floor(left / per.per_token_per_gpu) * r.shards.dp

    return Budget(
        replica=r,
        gpu_bytes=gpu_bytes,
        weights_bytes=weights,
        weights_bytes_per_gpu=weights_gpu,
        utilization=utilization,
        token_bytes=per,
        steps=tuple(steps),
        free_bytes_per_gpu=free,
        replica_tokens=tokens(utilization, reserve),
        low_tokens=tokens(low_u, high_reserve),
        high_tokens=tokens(high_u, low_reserve),
        range_utilization=(low_u, high_u),
    )


def budget_ends(budget: Budget) -> tuple[Budget, Budget]:
    """The careful and the bold end of a budget's range (utilisation and reserve), as budgets of their own."""
    low, _, high = _reserves(budget.replica)
    careful, bold = budget.range_utilization
    return (
        kv_budget(dataclasses.replace(budget.replica, utilization=careful, reserve_bytes=high)),
        kv_budget(dataclasses.replace(budget.replica, utilization=bold, reserve_bytes=low)),
    )


def _check_amounts(r: Replica, gpu_bytes: float) -> None:
    named = {
        "GPU memory": gpu_bytes,
        "weights": r.weights_bytes,
        "reserve": r.reserve_bytes,
        "draft weights": r.draft_bytes,
    }
    for name, value in named.items():
        if value is not None and (not math.isfinite(value) or value < 0):
            raise ValueError(f"negative memory: {name} is {value:,.0f} bytes; give bytes of at least 0")
    if gpu_bytes == 0:
        raise ValueError("GPU memory is 0 bytes; it must be above 0")
    if r.utilization is not None and not 0 < r.utilization <= 1:
        raise ValueError(f"utilisation {r.utilization} must be above 0 and at most 1 (a share, not percent)")


def _utilization(r: Replica, gpu_bytes: float, latent: bool) -> tuple[float, str]:
    if r.utilization is not None:
        return r.utilization, "given"
    if r.engine == "sglang":
        reserved = sglang_reserve_bytes(gpu_bytes, r.shards, latent)
        if reserved >= gpu_bytes:
            raise ValueError(f"SGLang's reserve of {reserved:,.0f} bytes is more than the GPU's {gpu_bytes:,.0f}")
        return (gpu_bytes - reserved) / gpu_bytes, f"mem_fraction_static: SGLang reserves {reserved:,.0f} bytes"
    return DEFAULT_UTILIZATION, "vLLM's default gpu_memory_utilization"


def _reserves(r: Replica) -> tuple[float, float, float]:
    if r.reserve_bytes is not None:
        return r.reserve_bytes, r.reserve_bytes, r.reserve_bytes
    if r.engine == "sglang":
        return 0.0, 0.0, 0.0
    return RUNTIME_RESERVE_BYTES[0], RUNTIME_RESERVE_BYTES[1], RUNTIME_RESERVE_BYTES[2]


def _reserve_note(r: Replica) -> str:
    if r.reserve_bytes is not None:
        return "given"
    if r.engine == "sglang":
        return "inside mem_fraction_static"
    return "assumed 3e9 (2e9 to 4e9): peak activations, CUDA graphs, communication; vLLM measures them at start"


def _weights_note(r: Replica) -> str:
    if r.weights_bytes is not None:
        return "given for the whole replica"
    scheme = r.weights_scheme or r.model.weights
    copies = f", attention weights on each of {r.shards.dp} dp groups" if r.shards.dp > 1 else ""
    return f"derived: {r.model.parameters.total:.4g} parameters at {scheme}{copies}; draft layers not included"
