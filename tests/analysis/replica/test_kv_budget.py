"""KV budgets: the published case, the table of models, laws of dimensions and sharding, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from analysis.replica.answers import budget_json, capacity_mark, dataset_section
from analysis.replica.kv_budget import Budget, Replica, kv_budget, sglang_reserve_bytes
from analysis.replica.models.catalog import load_gpu, load_model, model_names
from analysis.replica.models.kv_layout import KV_DTYPES, Sharding, token_bytes
from analysis.replica.tiers import host_tier, overload, tier_cost, tier_hits


def published(tp: int, dtype: str = "bf16", dp: int = 1, dcp: int = 1) -> Budget:
    """180e9-byte GPUs, 595e9 bytes of weights, nothing reserved."""
    return kv_budget(
        Replica(
            load_model("kimi-k2.6"),
            load_gpu("b200"),
            Sharding(tp, dp, dcp),
            dtype,
            gpu_bytes=180e9,
            weights_bytes=595e9,
            utilization=1.0,
            reserve_bytes=0,
        )
    )


@pytest.mark.parametrize(("tp", "short"), [(1, 415e9), (2, 117.5e9)])
def test_published_case_does_not_fit(tp: int, short: float) -> None:
    budget = published(tp)
    assert not budget.fits
    assert budget.short_bytes_per_gpu == short
    assert budget.free_bytes_per_gpu == -short
    assert (budget.replica_tokens, budget.sessions(1000)) == (0, 0.0)


@pytest.mark.parametrize(
    ("tp", "dtype", "free", "tokens"),
    [
        (4, "bf16", 31.25e9, 444_700),
        (4, "fp8", 31.25e9, 889_401),
        (8, "bf16", 105.625e9, 1_503_088),
        (8, "fp8", 105.625e9, 3_006_176),
    ],
)
def test_published_case_fits(tp: int, dtype: str, free: float, tokens: int) -> None:
    budget = published(tp, dtype)
    assert budget.free_bytes_per_gpu == free
    assert budget.replica_tokens == tokens
    assert budget.short_bytes_per_gpu == 0


def test_published_row_is_inconsistent() -> None:
    """It scales TP8 by the pool of the whole replica (6.76x) though MLA is copied on each GPU (3.38x)."""
    four, eight = published(4), published(8)
    assert eight.replica_tokens / four.replica_tokens == pytest.approx(3.38, abs=0.001)
    assert eight.replica_tokens != 3_006_176
    assert eight.free_bytes_per_gpu * 8 / (four.free_bytes_per_gpu * 4) == pytest.approx(6.76)


def test_sessions_of_the_published_case() -> None:
    assert published(4).sessions(100_500) == pytest.approx(4.42, abs=0.01)
    assert published(4, "fp8").sessions(100_500) == pytest.approx(8.85, abs=0.01)
    assert published(8).sessions(100_500) == pytest.approx(14.96, abs=0.01)


def test_dp_attention_and_context_parallel_hold_each_token_once() -> None:
    assert published(4, dp=4).replica_tokens == pytest.approx(1.78e6, rel=0.002)
    assert published(8, dcp=8).replica_tokens == pytest.approx(12.02e6, rel=0.001)


def test_memory_in_one_unit() -> None:
    """The GPU's real bytes with the default utilisation give 0.400 M tokens, near the published 0.45 M by accident."""
    model, gpu = load_model("kimi-k2.6"), load_gpu("b200")
    assert gpu.memory_bytes == 183_359 * 2**20
    budget = kv_budget(Replica(model, gpu, Sharding(4), weights_bytes=595e9, reserve_bytes=0))
    assert budget.replica_tokens == pytest.approx(0.400e6, rel=0.005)
    whole = kv_budget(Replica(model, gpu, Sharding(4), weights_bytes=595e9, reserve_bytes=0, utilization=1))
    assert whole.replica_tokens == pytest.approx(0.619e6, rel=0.001)
    ten = kv_budget(Replica(model, gpu, Sharding(4), weights_bytes=595e9, reserve_bytes=10 << 30, utilization=1))
    assert ten.replica_tokens == pytest.approx(0.466e6, rel=0.001)


# name, BF16, FP8, the engine's FP8 layout, MB a sequence in BF16, MB a sequence in the engine's layout
TABLE = [
    ("kimi-k2", 70_272, 35_136, 40_016, 0, 0),
    ("kimi-k2.5", 70_272, 35_136, 40_016, 0, 0),
    ("kimi-k2.6", 70_272, 35_136, 40_016, 0, 0),
    ("kimi-k2.7-code", 70_272, 35_136, 40_016, 0, 0),
    ("deepseek-v3", 70_272, 35_136, 40_016, 0, 0),
    ("deepseek-v3.2", 85_888, 43_188, 48_068, 0, 0),
    ("deepseek-v4-pro", 9_848, None, 5_511.4375, 7.995, 4.56),
    ("deepseek-v4-flash", 6_880, None, 3_850.25, 5.636, 3.21),
    ("glm-4.5", 376_832, 188_416, 188_416, 0, 0),
    ("glm-4.6", 376_832, 188_416, 188_416, 0, 0),
    ("glm-4.5-air", 188_416, 94_208, 94_208, 0, 0),
    ("glm-5", 109_824, 55_224, 61_464, 0, 0),
    ("glm-5.1", 109_824, 55_224, 61_464, 0, 0),
    ("glm-5.2", 95_232, 47_700, 53_940, 0, 0),
    ("glm-5.3", 95_232, 47_700, 53_940, 0, 0),
    ("qwen3-coder-480b", 253_952, 126_976, 126_976, 0, 0),
    ("qwen3-235b", 192_512, 96_256, 96_256, 0, 0),
    ("qwen3-next-80b", 24_576, 12_288, 12_288, 73.7 * 1.048576, 77.27),
    ("qwen3.5-397b", 30_720, 15_360, 15_360, 183.2 * 1.048576, 192.06),
    ("kimi-k3", 27_648, 13_824, 15_744, 428.6 * 1.048576, 449.4),
    ("minimax-m2", 253_952, 126_976, 126_976, 0, 0),
    ("minimax-m3", 137_472, 76_032, 76_032, 0, 0),
    ("gpt-oss-120b", 36_864, 18_432, 18_432, 4.72, 2.36),
    ("llama-3.1-70b", 327_680, 163_840, 163_840, 0, 0),
    ("llama-3.1-405b", 516_096, 258_048, 258_048, 0, 0),
]


@pytest.mark.parametrize(("name", "bf16", "fp8", "engine", "mb", "engine_mb"), TABLE)
def test_bytes_per_token(name: str, bf16: float, fp8: float | None, engine: float, mb: float, engine_mb: float) -> None:
    model = load_model(name)
    plain = token_bytes(model.groups, "bf16", state_bytes=model.state_bytes)
    assert plain.per_token == bf16
    assert plain.per_sequence / 1e6 == pytest.approx(mb, rel=2e-3)
    if fp8 is not None:
        assert token_bytes(model.groups, "fp8").per_token == fp8
    rows = token_bytes(model.groups, "fp8", "vllm", model.state_bytes)
    assert rows.per_token == engine
    assert rows.per_sequence / 1e6 == pytest.approx(engine_mb, rel=2e-3)


def test_bf16_state_of_linear_attention() -> None:
    model = load_model("qwen3-next-80b")
    assert token_bytes(model.groups, "bf16", state_bytes=2).per_sequence / 2**20 == pytest.approx(37.7, abs=0.05)
    kimi = load_model("kimi-k3")
    both = token_bytes(kimi.groups, "bf16")
    assert both.per_sequence / both.per_token == pytest.approx(16_000, rel=0.02)


# model, TP -> bytes per token on each GPU, BF16
PER_GPU = [
    ("kimi-k2.6", 8, 70_272),
    ("deepseek-v3.2", 8, 85_888),
    ("qwen3-coder-480b", 8, 31_744),
    ("qwen3-coder-480b", 16, 31_744),
    ("glm-4.6", 8, 47_104),
    ("minimax-m2", 8, 31_744),
    ("llama-3.1-70b", 8, 40_960),
    ("llama-3.1-405b", 8, 64_512),
    ("qwen3-235b", 4, 48_128),
    ("qwen3-235b", 8, 48_128),
    ("qwen3-next-80b", 8, 12_288),
    ("kimi-k3", 8, 27_648),
    ("minimax-m3", 8, (137_472 - 14_592) / 4 + 14_592),
    ("gpt-oss-120b", 8, 4_608),
    ("deepseek-v4-pro", 8, 9_848),
]


@pytest.mark.parametrize(("name", "tp", "expected"), PER_GPU)
def test_bytes_per_token_on_each_gpu(name: str, tp: int, expected: float) -> None:
    assert token_bytes(load_model(name).groups, "bf16", shards=Sharding(tp)).per_token_per_gpu == expected


def test_state_is_divided_over_tp() -> None:
    one = token_bytes(load_model("kimi-k3").groups, "bf16").per_sequence_per_gpu
    assert token_bytes(load_model("kimi-k3").groups, "bf16", shards=Sharding(8)).per_sequence_per_gpu == one / 8


def test_sglang_rows() -> None:
    """Plain rows for dense MLA, 656-byte rows where an indexer selects tokens."""
    assert token_bytes(load_model("kimi-k2.6").groups, "fp8", "sglang").per_token == 35_136
    assert token_bytes(load_model("deepseek-v3.2").groups, "fp8", "sglang").per_token == 48_068
    assert token_bytes(load_model("kimi-k2.6").groups, "fp8_e4m3", "vllm").per_token == 35_136
    assert token_bytes(load_model("kimi-k2.6").groups, "fp8_ds_mla").per_token == 40_016


def test_windows_are_not_linear_in_the_context() -> None:
    model = load_model("gpt-oss-120b")
    budget = kv_budget(Replica(model, load_gpu("h200"), Sharding(1), "bf16"))
    free = budget.free_bytes_per_gpu
    assert free / budget.sessions(64) == pytest.approx(64 * 73_728)
    assert free / budget.sessions(10_000) == pytest.approx(10_000 * 36_864 + 128 * 36_864)


def test_shared_prefix_counts_once() -> None:
    budget = published(4)
    alone, shared = budget.sessions(100_000), budget.sessions(100_000, 20_000)
    assert shared == pytest.approx((budget.replica_tokens - 20_000) / 80_000, rel=1e-5)
    assert shared > alone


def test_sglang_reserve() -> None:
    """TP8 on an 80 GiB GPU, 8,192-token chunks, graphs of 512: 512 + 12,288 + 1,024 + 1,024 MiB."""
    assert sglang_reserve_bytes(80 << 30, Sharding(8), latent=False) == 14_848 * 2**20
    assert sglang_reserve_bytes(80 << 30, Sharding(8), latent=True) == (14_848 + 1_536) * 2**20
    assert sglang_reserve_bytes(80 << 30, Sharding(8, dp=8), latent=False) == (14_848 + 12_288) * 2**20
    assert sglang_reserve_bytes(24 << 30, Sharding(1), latent=False) < 10 << 30
    budget = kv_budget(Replica(load_model("llama-3.1-70b"), load_gpu("h100"), Sharding(8), engine="sglang"))
    assert budget.utilization == pytest.approx(1 - 14_848 / 81_920)


def test_steps_add_up_and_the_range_holds_the_answer() -> None:
    for engine in ("ideal", "vllm", "sglang"):
        budget = kv_budget(Replica(load_model("minimax-m2"), load_gpu("h200"), Sharding(4), "fp8", engine))
        assert sum(s.bytes for s in budget.steps[:-1]) == pytest.approx(budget.free_bytes_per_gpu)
        assert budget.steps[-1].bytes == budget.free_bytes_per_gpu
        assert budget.low_tokens <= budget.replica_tokens <= budget.high_tokens


def test_json_has_the_contract_keys() -> None:
    out = budget_json(published(4))
    keys = "bytes_per_token bytes_per_token_per_gpu bytes_per_sequence gpu_bytes weights_bytes"
    assert set(keys.split()) | {"free_bytes_per_gpu", "replica_tokens"} | {
        "fits",
        "short_bytes_per_gpu",
        "range",
        "steps",
        "sessions_at",
    } <= set(out)
    assert out["range"] == {"low_tokens": 60_479, "high_tokens": 444_700}
    assert out["bytes_per_token"] == 70_272


def test_capacity_mark() -> None:
    mark = capacity_mark(published(4, "fp8"), 16)
    assert mark["label"] == "4×B200 TP4, fp8 KV"
    assert mark["gib"] == 125e9 / 2**30
    assert (mark["tokens"], mark["blocks"]) == (889_401, 55_587)


def test_dataset_section() -> None:
    section = dataset_section(
        published(4),
        {"p50": 50_000.0, "p90": 100_000.0, "p99": None, "max": 150_000.0},
        in_flight_output=500,
        curve=lambda tokens: 0.9 if tokens == 444_700 else 0.0,
        capacity_for_rate=lambda rate: round(rate * 100),
        ceiling=0.97,
        reuse_horizon_sessions=40,
    )
    assert section["sessions_at_p90"] == pytest.approx(4.42, abs=0.01)
    assert section["sessions_at_p99"] is None
    assert section["hit_rate_at_capacity"] == 0.9
    assert section["capacity_tokens_losing_points"] == {"1": 96, "5": 92, "10": 87}
    assert section["idle_sessions_tokens"] == 2_000_000


def test_tiers_by_hand() -> None:
    """Two runs: blocks at distances 0..3 and 5..6."""
    distance, blocks = np.array([0, 5]), np.array([4, 2])
    assert tier_hits(distance, blocks, [2, 4, 10]) == [2, 3, 1]
    assert tier_hits(distance, blocks, [0]) == [0]
    assert [(o.l1_blocks, o.with_l2_blocks) for o in overload(distance, blocks, 4, 4, [1, 2])] == [(4, 6), (2, 4)]
    cost = tier_cost(95_000, 35_136, 50e9, 33_000, gpus=4)
    assert cost.reload_s == pytest.approx(0.0668, abs=1e-4)
    assert cost.moved_bytes == 95_000 * 35_136 * 4
    assert cost.saves


def test_host_tier_copies_every_rank() -> None:
    tier = host_tier(31.25e9, 70_272, Sharding(4), ratio=2.0)
    assert tier.host_bytes == 2 * 31.25e9 * 4
    assert tier.tokens == 889_401
    assert host_tier(31.25e9, 70_272, Sharding(4), one_copy=True).host_bytes == 2 * 31.25e9


sizes = st.sampled_from([1, 2, 4, 8, 16])
names = st.sampled_from(model_names())
dtypes = st.sampled_from(sorted(KV_DTYPES))
engines = st.sampled_from(["ideal", "vllm", "sglang"])


def divides(name: str, shards: Sharding) -> bool:
    return load_model(name).attention_heads % shards.attention_tp == 0


@settings(max_examples=100, deadline=None)
@given(names, dtypes, engines, sizes)
def test_tp_never_raises_bytes_per_gpu(name: str, dtype: str, engine: str, tp: int) -> None:
    groups = load_model(name).groups
    before = token_bytes(groups, dtype, engine, shards=Sharding(tp))
    after = token_bytes(groups, dtype, engine, shards=Sharding(tp * 2))
    assert after.per_token_per_gpu <= before.per_token_per_gpu
    assert after.per_sequence_per_gpu <= before.per_sequence_per_gpu
    assert before.per_token / tp <= before.per_token_per_gpu <= before.per_token


@settings(max_examples=100, deadline=None)
@given(names, dtypes, engines, sizes, st.floats(0.3, 1), st.floats(0, 40e9))
def test_tokens_are_free_bytes_over_bytes_per_token(
    name: str, dtype: str, engine: str, tp: int, utilization: float, reserve: float
) -> None:
    assume(divides(name, Sharding(tp)))
    replica = Replica(
        load_model(name), load_gpu("b300"), Sharding(tp), dtype, engine, utilization=utilization, reserve_bytes=reserve
    )
    budget = kv_budget(replica)
    per = budget.token_bytes.per_token_per_gpu
    if budget.fits:
        assert (
            budget.replica_tokens * per <= budget.free_bytes_per_gpu < (budget.replica_tokens + 1) * per * (1 + 1e-12)
        )
    else:
        assert budget.replica_tokens == 0
        assert budget.short_bytes_per_gpu >= 0
    assert budget.low_tokens <= budget.replica_tokens <= budget.high_tokens


@settings(max_examples=100, deadline=None)
@given(names, sizes, st.floats(0, 100e9), st.floats(1, 2))
def test_more_memory_never_holds_less(name: str, tp: int, reserve: float, factor: float) -> None:
    assume(divides(name, Sharding(tp)))
    gpu = load_gpu("h200")

    def tokens(memory: float, dtype: str, held: float) -> int:
        return kv_budget(
            Replica(load_model(name), gpu, Sharding(tp), dtype, gpu_bytes=memory, reserve_bytes=held)
        ).replica_tokens

    base = tokens(200e9, "bf16", reserve)
    assert tokens(200e9 * factor, "bf16", reserve) >= base
    assert tokens(200e9, "fp8", reserve) >= base
    assert tokens(200e9, "bf16", reserve * factor) <= base


@settings(max_examples=50, deadline=None)
@given(names, st.integers(1, 500_000), st.integers(1, 500_000), st.integers(0, 10_000))
def test_sessions_fall_with_their_length(name: str, a: int, b: int, shared: int) -> None:
    budget = kv_budget(Replica(load_model(name), load_gpu("gb300"), Sharding(8)))
    short, long = sorted((a, b))
    assert budget.sessions(short, shared) >= budget.sessions(long, shared) - 1e-9
    assert math.isfinite(budget.sessions(long))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"shards": Sharding(3)},
            "impossible TP: 64 attention heads cannot be divided over 3 ranks; possible: 1, 2, 4, 8",
        ),
        ({"shards": Sharding(0)}, "tp 0 must be at least 1"),
        ({"shards": Sharding(4, dp=3)}, "dp 3 must divide tp 4"),
        ({"shards": Sharding(4, dcp=3)}, "dcp 3 must divide the 4 attention ranks"),
        ({"gpu_bytes": -1.0}, "negative memory: GPU memory is -1 bytes"),
        ({"weights_bytes": -5.0}, "negative memory: weights is -5 bytes"),
        ({"reserve_bytes": -5.0}, "negative memory: reserve is -5 bytes"),
        ({"utilization": 92.0}, "utilisation 92.0 must be above 0 and at most 1"),
        ({"kv_dtype": "fp7"}, "unknown KV dtype 'fp7'; known: bf16"),
        ({"engine": "trt"}, "unknown engine 'trt'; known: ideal, vllm, sglang"),
        ({"weights_scheme": "int3"}, "unknown weight precision 'int3'; known: bf16"),
    ],
)
def test_errors_say_what_and_what_else(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kv_budget(Replica(load_model("kimi-k2.6"), load_gpu("b200"), **change))  # type: ignore[arg-type]


def test_gqa_limits() -> None:
    model, gpu = load_model("minimax-m2"), load_gpu("b200")
    with pytest.raises(ValueError, match=r"8 KV heads cannot be divided over or copied to 6 ranks"):
        kv_budget(Replica(model, gpu, Sharding(6)))
    with pytest.raises(ValueError, match=r"with 8 KV heads dcp is at most tp / KV heads = 1"):
        kv_budget(Replica(model, gpu, Sharding(8, dcp=2)))
    assert kv_budget(Replica(model, gpu, Sharding(16, dcp=2))).token_bytes.per_token_per_gpu == 15_872
