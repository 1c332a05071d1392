"""Prefill, decode and speculation against published figures; closed loops and calibration by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.replica.answers import interactivity_json
from analysis.replica.calibration import calibrate, calibrate_trace
from analysis.replica.interactivity import (
    Assumptions,
    Service,
    closed_loop,
    concurrency_curve,
    decode_step_seconds,
    prefill_seconds,
    speculation_speedup,
    step_bytes,
)
from analysis.replica.models.catalog import load_gpu, load_model, model_names
from analysis.replica.models.kv_layout import Sharding
from analysis.replica.prefill import latent_expansion_flops, prefill_work
from analysis.replica.speculation import Speculation, accept_length, acceptance_rate, drafter_gain, mixed_accept_length

KIMI = load_model("kimi-k2.6")
LLAMA = load_model("llama-3.1-70b")
SERVICE = Service(KIMI, load_gpu("b200"), Sharding(4), "fp8")


def test_mooncake_prefix_caching() -> None:
    """LLaMA3-70B, 128k, 95 % cached: prefill time -92 % measured, -92.4 % by the formula."""
    assert 1 - prefill_work(LLAMA, 128 * 1024, 0.95).remaining == pytest.approx(0.924, abs=5e-4)


@pytest.mark.parametrize(("hit_rate", "speedup"), [(0.90, 6.3), (0.95, 12.3), (0.98, 30), (0.99, 60)])
def test_kimi_at_100k(hit_rate: float, speedup: float) -> None:
    found = 1 / prefill_work(KIMI, 100_000, hit_rate).remaining
    assert found == pytest.approx(speedup, rel=0.011)
    assert found < 1 / (1 - hit_rate)


def test_attention_share() -> None:
    for name, share in (("kimi-k2.6", 0.66), ("qwen3-coder-480b", 0.69), ("llama-3.1-70b", 0.48)):
        work = prefill_work(load_model(name), 100_000)
        assert work.attention_flops / work.cold_flops == pytest.approx(share, abs=0.01)


def test_cold_prefill_seconds() -> None:
    """18.8 PF on 4 B200 at 35 % of the FP8 peak: 2.99 s; 0.24 s with 95 % cached."""
    work = prefill_work(KIMI, 100_000)
    assert work.flops == pytest.approx(18.8e15, rel=0.002)
    service = Service(KIMI, load_gpu("b200"), Sharding(4), "fp8", assumptions=Assumptions().replace(mfu=(0.35, 0.35)))
    assert prefill_seconds(service, work.flops)[0] == pytest.approx(2.99, abs=0.01)
    assert prefill_seconds(service, prefill_work(KIMI, 100_000, 0.95).flops)[1] == pytest.approx(0.24, abs=0.005)


def test_latent_expansion() -> None:
    """About 1.02 GF per cached token and chunk: little at h = 0.95, a third at h = 0.99."""
    assert latent_expansion_flops(KIMI, 1) == pytest.approx(1.02e9, rel=0.01)
    assert latent_expansion_flops(LLAMA, 1000) == 0
    left = prefill_work(KIMI, 100_000, 0.99).flops
    assert latent_expansion_flops(KIMI, 99_000) / left == pytest.approx(0.3, abs=0.05)


def test_selected_attention_caps_the_work() -> None:
    """DeepSeek V3.2 attends to 2,048 keys: beyond them only the indexer's scan grows."""
    v3, v32 = load_model("deepseek-v3"), load_model("deepseek-v3.2")
    assert prefill_work(v32, 100_000).attention_flops < prefill_work(v3, 100_000).attention_flops / 4


def test_reload_beats_recompute() -> None:
    out = interactivity_json(SERVICE, 100_000, 500, 1, 0.95)
    assert out["reload_s"] == pytest.approx(0.067, abs=0.001)
    assert out["recompute_s"] / out["reload_s"] == pytest.approx(41, abs=1)
    assert interactivity_json(SERVICE, 100_000, 500, 1)["reload_s"] is None


def test_kv_read_of_five_users() -> None:
    """5 x 100k x 35 KB = 17.6e9 bytes a step on every GPU, 2.9 ms at 80 % of B200's bandwidth."""
    kv = step_bytes(SERVICE, 5, 100_000).kv
    assert kv == pytest.approx(17.57e9, rel=0.001)
    assert kv / (0.8 * 7.7e12) == pytest.approx(2.9e-3, rel=0.02)


def test_grouped_heads_are_read_in_shards() -> None:
    service = Service(load_model("qwen3-coder-480b"), load_gpu("b200"), Sharding(8), "bf16")
    assert step_bytes(service, 1, 1000).kv == 31_744_000


def test_drafter_gain_is_the_ratio() -> None:
    assert drafter_gain(5.0, 5.84) == pytest.approx(1.168)
    assert drafter_gain(5.0, 5.84, step_ratio=0.9733) == pytest.approx(1.20, abs=0.001)
    assert acceptance_rate(5.0, 7) == pytest.approx(0.860, abs=0.001)
    assert acceptance_rate(5.84, 7) == pytest.approx(0.908, abs=0.001)
    assert acceptance_rate(5.0, 15) == pytest.approx(0.806, abs=0.001)
    assert acceptance_rate(5.84, 15) == pytest.approx(0.839, abs=0.001)
    assert accept_length(1.0, 7) == 8


@pytest.mark.parametrize(("batch", "speedup"), [(1, 1.9), (4, 1.9), (6, 2.1), (10, 2.5), (20, 3.4)])
def test_verification_cost_in_a_mixture_of_experts(batch: int, speedup: float) -> None:
    """Kimi, TP4 B200, 100k, 8 tokens verified, accept length 5.84."""
    found = speculation_speedup(SERVICE, batch, 100_000, Speculation(5.84, verify_tokens=8))
    assert round(found, 1) == speedup


def test_dense_models_verify_for_free_while_memory_bound() -> None:
    service = Service(LLAMA, load_gpu("h100"), Sharding(4))
    assert speculation_speedup(service, 1, 1000, Speculation(3.0, verify_tokens=4)) == pytest.approx(3.0)
    assert speculation_speedup(service, 1, 1000, Speculation(3.0, 0.5, 4)) == pytest.approx(2.0)


def test_accept_length_over_content_is_harmonic() -> None:
    assert mixed_accept_length({"code": (0.5, 6.0), "prose": (0.5, 3.0)}) == pytest.approx(4.0)


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.integers(0, 20))
def test_acceptance_and_length_are_inverse(rate: float, drafted: int) -> None:
    length = accept_length(rate, drafted)
    assert 1 <= length <= drafted + 1
    if drafted:
        assert accept_length(acceptance_rate(length, drafted), drafted) == pytest.approx(length, abs=1e-6)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(model_names()), st.integers(1, 400_000), st.floats(0, 1), st.floats(0, 1))
def test_prefill_left_falls_with_the_hit_rate(name: str, context: int, a: float, b: float) -> None:
    low, high = sorted((a, b))
    model = load_model(name)
    more, less = prefill_work(model, context, low), prefill_work(model, context, high)
    assert less.flops <= more.flops * (1 + 1e-9)
    # Attention on what is cached remains: at least as much as the new share of tokens.
    assert more.remaining >= (1 - low) * (1 - 1e-9)
    assert prefill_work(model, context, 0.0).remaining == pytest.approx(1.0)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(model_names()), st.integers(1, 64), st.integers(1, 200_000))
def test_steps_grow_with_batch_context_and_verification(name: str, batch: int, context: int) -> None:
    service = Service(load_model(name), load_gpu("b200"), Sharding(8), "fp8")
    fast, slow = decode_step_seconds(service, batch, context)
    assert 0 < fast <= slow
    assert decode_step_seconds(service, batch + 1, context)[0] >= fast
    assert decode_step_seconds(service, batch, context + 1000)[1] >= slow
    assert decode_step_seconds(service, batch, context, 4)[0] >= fast


def test_users_slow_down_while_the_gpu_gains() -> None:
    points = concurrency_curve(SERVICE, 50_000, [1, 2, 4, 8, 16])
    users = [p.tokens_per_s_per_user[1] for p in points]
    gpus = [p.tokens_per_s_per_gpu[1] for p in points]
    assert users == sorted(users, reverse=True)
    assert gpus == sorted(gpus)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.floats(0, 300), st.floats(0, 0.99))
def test_closed_loop_obeys_little(sessions: int, think: float, hit_rate: float) -> None:
    loop = closed_loop(SERVICE, sessions, think, 60_000, 400, hit_rate, Speculation(4.0))
    assert loop.requests_per_s * (loop.response_s + think) == pytest.approx(sessions, rel=1e-6)
    assert loop.running == pytest.approx(loop.requests_per_s * loop.response_s, rel=1e-4, abs=1e-9)
    assert 0 < loop.prefill_share <= 1


def test_closed_loop_serves_more_with_hits() -> None:
    cold = closed_loop(SERVICE, 30, 20.0, 100_000, 500)
    warm = closed_loop(SERVICE, 30, 20.0, 100_000, 500, 0.95)
    assert warm.requests_per_s > 2 * cold.requests_per_s


def test_two_measured_points() -> None:
    found = calibrate((1e15, 3e15), (0.6, 1.6))
    assert (found.rate, found.fixed_s) == (2e15, pytest.approx(0.1))
    assert found.seconds(5e15) == pytest.approx(2.6)
    assert found.share_of(8e15) == 0.25
    with pytest.raises(ValueError, match=r"same work"):
        calibrate((1e15, 1e15), (0.6, 1.6))
    with pytest.raises(ValueError, match=r"more work took no longer"):
        calibrate((1e15, 3e15), (1.6, 0.6))
    with pytest.raises(ValueError, match=r"fixed time of -0.2"):
        calibrate((1e15, 2e15), (0.2, 0.6))


def test_calibration_from_a_trace() -> None:
    rng = np.random.default_rng(1)
    work = rng.uniform(1e13, 1e16, 400)
    seconds = (0.05 + work / 6e15) * rng.uniform(0.95, 1.05, 400)
    seconds[::20] += 30  # a queue
    seconds[1] = np.nan
    found = calibrate_trace(work, seconds)
    assert found.rate == pytest.approx(6e15, rel=0.05)
    assert found.fixed_s == pytest.approx(0.05, abs=0.02)
    assert found.points == 399
    with pytest.raises(ValueError, match=r"needs 20 requests with known work and time, found 2"):
        calibrate_trace(work[:3], seconds[:3] * 0 + 1)


def test_assumptions_are_named() -> None:
    out = interactivity_json(SERVICE, 100_000, 500, 5, 0.95, Speculation(5.84), 20, 30.0)
    assert out["assumptions"]["mfu"] == [0.2, 0.5]
    assert "1.168x" in out["assumptions"]["accept_length_note"]
    assert out["assumptions"]["weights"] == "nvfp4"
    for key in ("ttft_s", "decode_step_s", "tokens_per_s_per_user", "tokens_per_s_per_gpu"):
        low, high = out[key]
        assert 0 < low <= high
    assert out["closed_loop"]["running"] < 20


def test_bad_input_is_named() -> None:
    with pytest.raises(ValueError, match=r"hit rate 95 must be between 0 and 1"):
        prefill_work(KIMI, 1000, 95)
    with pytest.raises(ValueError, match=r"accept length 0.5 must be at least 1"):
        Speculation(0.5)
    with pytest.raises(ValueError, match=r"accept length 5.84 exceeds the 4 tokens"):
        Speculation(5.84, verify_tokens=4)
    with pytest.raises(ValueError, match=r"mfu must be LOW,HIGH"):
        Assumptions().replace(mfu=(0.5, 0.2))
    with pytest.raises(ValueError, match=r"needs the think time"):
        interactivity_json(SERVICE, 1000, 10, 1, sessions=4)
    with pytest.raises(ValueError, match=r"impossible TP"):
        Service(KIMI, load_gpu("b200"), Sharding(3))
