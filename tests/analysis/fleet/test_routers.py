"""Policies against what real routers did, and against the load that theory and a published simulation give them."""

import importlib.util
import json
from functools import cache
from typing import Any

import numpy as np
import pytest

from analysis.fleet.grid import Objective, frontier, grid, meets, paired, run_cells
from analysis.fleet.load_figures import cell_figures
from analysis.fleet.placement import vmr_band
from analysis.fleet.routers import POLICIES, policy
from analysis.fleet.routing import Cell, Event, ServiceModel, Trace, replay
from analysis.store.executors import executor_for
from tests.analysis.fleet.test_routing import trace_of
from tests.references.closed_loop import closed_loop_trace
from tests.references.engine_trace import trace_arrays
from tests.references.naive import SHARED

ENGINES = SHARED / "engines"


@cache
def engine_requests() -> tuple[Any, Any]:
    """The recorded engine trace and its module."""
    spec = importlib.util.spec_from_file_location("engine_gen_trace", ENGINES / "gen_trace.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.build(), module


@cache
def engine_trace() -> Trace:
    requests, module = engine_requests()

    def token(name: str, j: int) -> int:
        mixed = (module.seg_base(name) + (j + 1) * 0x9E3779B97F4A7C15) & (2**64 - 1)
        return int(mixed * 0xBF58476D1CE4E5B9 >> 13 & 0x1FFFF)

    arrays = trace_arrays([(r[3], r[4]) for r in requests], token)
    arrival = np.array([r[0] for r in requests])
    names = sorted({r[1] for r in requests})
    code = {name: k for k, name in enumerate(names)}
    return Trace(
        arrays["parent"], arrays["start"], arrays["end"], arrays["leaf"], np.argsort(arrival, kind="stable"), arrival,
        np.array([code[r[1]] for r in requests]), names, output_tokens=arrays["output_tokens"],
    )  # fmt: skip


def test_every_policy_says_what_it_is() -> None:
    for name, rule in POLICIES.items():
        assert rule
        assert policy(name).choose is not None
    with pytest.raises(ValueError, match="there are random"):
        policy("nearest")


def test_ring_hash_picks_vllm_routers_workers() -> None:
    requests, _ = engine_requests()
    recorded = json.loads((ENGINES / "vllm_router_consistent_hash.json").read_text())
    names = sorted({r[1].split("/")[0] for r in requests[:1500]})
    rows = [[0]] * 1500
    trace = trace_of(rows, [names.index(r[1].split("/")[0]) for r in requests[:1500]], session_names=names)
    cell = Cell("ring_hash", 4, block_tokens=1, replica_names=tuple(recorded["workers"]))
    assert replay(trace, cell).outcome.replica.tolist() == recorded["worker_index"]


@pytest.mark.parametrize(("workers", "blocks", "low", "high"), [(4, 1024, 0.642, 0.652), (8, 1024, 0.7222, 0.7222),
                                                              (8, 4096, 0.8244, 0.8244), (8, 16384, 0.8459, 0.8459),
                                                              (2, 4096, 0.8468, 0.8468)])  # fmt: skip
def test_dynamo_kv_hits_what_the_real_selector_hits(workers: int, blocks: int, low: float, high: float) -> None:
    """The recorded run: 200 ms a prompt, 12 ms a token; prompts stop their worker's decoding: answers stretch."""
    trace = engine_trace()
    rate = len(trace.leaf) / np.ptp(trace.arrival_s)
    prefill_share = rate / workers * 0.2
    rows = len(trace.leaf)
    assert trace.output_tokens is not None
    trace = trace._replace(
        ttft_s=np.full(rows, 0.24), duration_s=0.24 + 0.012 * trace.output_tokens / (1 - prefill_share)
    )
    served = {"service": "recorded", "insert": "finish", "keep_outputs": True}
    rates = [
        cell_figures(trace, Cell("dynamo_kv", workers, blocks * 64, seed=seed, **served))["hit_rate"]  # type: ignore[arg-type]
        for seed in (1, 2, 3)
    ]
    scatter = 0.005  # half of what seven real runs at one point spread over, on either side
    assert low - scatter <= float(np.mean(rates)) <= high + scatter


def test_dynamos_round_robin_within_half_a_point() -> None:
    trace = engine_trace()
    rows = len(trace.leaf)
    assert trace.output_tokens is not None
    trace = trace._replace(ttft_s=np.full(rows, 0.2), duration_s=0.2 + 0.012 * trace.output_tokens)
    recorded = json.loads((ENGINES / "expected.json").read_text())["dynamo_replay"]
    for row in recorded:
        # Below that, requests queue for KV and the engine's own scheduler decides.
        if (
            row["mode"] == "round_robin"
            and row["block_size"] == 64
            and row["workers"] >= 4
            and row["blocks_per_worker"] > 1024
        ):
            cell = Cell(
                "round_robin", row["workers"], row["blocks_per_worker"] * 64, service="recorded", insert="finish",
                keep_outputs=True,
            )  # fmt: skip
            assert cell_figures(trace, cell)["hit_rate"] == pytest.approx(row["hit_rate"], abs=0.005)


def test_sglang_cache_aware_sticks_above_its_threshold_and_spreads_cold_prompts() -> None:
    cold = [[k] * 100 for k in range(4)]
    warm = [[0] * 31 + [9] * 69, [0] * 29 + [8] * 71]
    trace = trace_of([*cold, *warm], range(6), range(6), duration_s=np.full(6, 100.0))
    chosen = replay(trace, Cell("sglang_cache_aware", 4, block_tokens=1, service="recorded")).outcome.replica
    assert sorted(chosen[:4].tolist()) == [0, 1, 2, 3]
    assert chosen[4] == chosen[0]  # 31 % matched: sticks to the busiest
    assert chosen[5] != chosen[0]  # 29 %: goes to one with less load


def test_llm_d_cannot_tell_sessions_apart_behind_a_shared_head() -> None:
    head = [0] * 5000
    trace = trace_of([head + [1] * 500, head + [2] * 500, head + [1] * 500], range(3))
    approximate = Cell("llm_d", 2, block_tokens=50, params={"precise": 0.0}, seed=3)
    assert replay(trace, approximate).outcome.blocks["hit"][1] in (0, 100)
    precise = replay(trace, approximate._replace(params={})).outcome
    assert precise.blocks["hit"].tolist() == [0, 100, 110]


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("random", {}, 1.0),
        ("session_hash", {}, 1.0),
        ("session_affinity", {}, 0.50),
        ("power_of_two", {}, 0.31),
        ("least_requests", {}, 0.0),
        ("bounded_load", {"c": 1.25}, 0.49),
        ("bounded_load", {"c": 1.5}, 0.67),
        ("bounded_load", {"c": 2.0}, 0.89),
    ],
)
def test_dispersion_of_250_sessions_on_50_replicas(name: str, params: dict[str, float], expected: float) -> None:
    rows = 10_000
    took = np.random.default_rng(1).exponential(10, rows)
    arrays = (np.array([-1, 0]), np.array([0, 0]), np.array([0, 64]), np.ones(rows, np.int64), np.arange(rows))
    trace = Trace(*arrays, np.arange(rows) * 1e-3, np.arange(rows), duration_s=took)
    cell = Cell(
        name, 50, service="recorded", loop="closed", population=250, params=params, window_s=(50.0, 350.0), seed=1
    )
    row = cell_figures(trace, cell)
    assert row["duty_cycle"] == pytest.approx(1.0)
    assert row["mean_running_requests"] == pytest.approx(5.0, abs=1e-6)
    band = vmr_band(50)
    assert band is not None
    looks = 15  # 300 s over the 10 s in which a session is replaced, halved
    width = (band[1] - band[0]) / 2 / np.sqrt(looks)
    assert row["vmr_running_requests"] == pytest.approx(expected, abs=float(width))


@pytest.mark.parametrize("duty", [0.3, 0.7, 0.9])
def test_tower_balances_requests_and_keeps_the_hits(duty: float) -> None:
    loop = closed_loop_trace(seed=11, replicas=20, duty=duty, rounds=3.0)

    def run(name: str) -> dict[str, Any]:
        return cell_figures(
            loop.trace,
            Cell(
                name,
                20,
                1_000_000,
                service="recorded",
                loop="closed",
                population=loop.population,
                window_s=loop.window_s,
            ),
        )

    tower, hashed = run("tower"), run("session_hash")
    assert hashed["vmr_running_requests"] > 1
    assert tower["one_cache_hit_rate"] - tower["hit_rate"] <= 0.02
    assert tower["vmr_running_requests"] < (0.5 if duty >= 0.7 else 1 - duty)
    sticky = run("sticky_least_loaded")
    assert tower["vmr_running_requests"] < sticky["vmr_running_requests"]


def test_rendezvous_moves_one_session_in_n_plus_one_to_a_new_replica() -> None:
    rows = 4000
    trace = trace_of([[k % 7] for k in range(rows)], [k % 2000 for k in range(rows)])
    row = cell_figures(trace, Cell("session_hash", 4, block_tokens=1, events=(Event("scale", 1999.5, 5),)))
    event = row["events"][0]
    assert (event["replicas_before"], event["replicas_after"], event["live_sessions"]) == (4, 5, 2000)
    assert event["least_share"] == pytest.approx(0.2)
    assert event["moved_share"] == pytest.approx(0.2, abs=0.03)
    assert row["requests_per_replica"][4] == event["moved_sessions"] == row["session_moves"]


def test_a_lost_replica_loses_its_cache_and_its_sessions_move() -> None:
    prompts = [[1] * 4, [2] * 4, [1] * 4, [2] * 4]
    row = cell_figures(
        trace_of(prompts, [0, 1, 0, 1]), Cell("session_affinity", 2, block_tokens=1, events=(Event("lose", 1.5),))
    )
    assert row["requests_per_replica"] == [1, 3]
    assert row["hit_tokens"] == 4
    assert row["events"][0]["moved_sessions"] == 1
    assert row["events"][0]["recomputed_tokens"] == 4


def test_a_hot_session_arrives_at_once() -> None:
    trace = trace_of([[1]] * 5, [0] * 5, [0, 10, 20, 30, 40], duration_s=np.full(5, 2.0))
    row = cell_figures(
        trace, Cell("session_affinity", 2, block_tokens=1, service="recorded", events=(Event("hot", 5.0),))
    )
    assert row["max_in_flight_per_session"] == 4


def test_figures_by_hand() -> None:
    trace = trace_of([[1] * 2, [1] * 4, [1] * 4], [0, 1, 1], [0, 0, 4], duration_s=np.array([2.0, 4.0, 4.0]))
    row = cell_figures(trace, Cell("round_robin", 2, block_tokens=1, service="recorded"))
    assert row["requests_per_replica"] == [2, 1]
    assert (row["prefix_tokens"], row["hit_tokens"], row["cold_prefill_tokens"]) == (10, 2, 4)
    assert row["one_cache_hit_rate"] == pytest.approx(0.6)
    assert row["loss_placement"] == pytest.approx(0.4)
    assert row["loss_capacity"] == 0
    assert row["max_over_mean_load"] == pytest.approx(1.2)
    # 0-2 s: 1 and 1 requests; 2-4 s: 0 and 1; 4-8 s: 1 and 0. Means 1, 0.5, 0.5; variances 0, 0.5, 0.5.
    assert row["vmr_running_requests"] == pytest.approx((6 * 0.5) / (2 + 6 * 0.5))
    assert row["duty_cycle"] == pytest.approx(1.0)
    assert row["p99_running_requests"] == 1
    assert row["session_moves"] == 1
    assert row["duplicate_resident_tokens"] == 4
    instant = cell_figures(trace, Cell("round_robin", 2, block_tokens=1))
    assert instant["vmr_running_requests"] is None
    assert instant["p99_running_requests"] is None


def test_time_to_first_token_counts_the_prompts_before_it() -> None:
    trace = trace_of([[1] * 10, [2] * 10], [0, 1], [0, 0])
    model = ServiceModel(1.0, low=0.5, high=2.0)
    row = cell_figures(trace, Cell("round_robin", 1, block_tokens=1, service="model", model=model))
    assert row["ttft_s_p50"] == pytest.approx([7.5, 30.0])  # 10 and 20 s at the middle of the band


def test_unknown_durations_are_estimated_and_counted() -> None:
    trace = trace_of(
        [[1], [2], [3]],
        range(3),
        [0, 0, 0],
        duration_s=np.array([2.0, 4.0, np.nan]),
        output_tokens=np.array([10, 20, 40]),
    )
    result = replay(trace, Cell("round_robin", 3, block_tokens=1, service="recorded"))
    assert result.outcome.times["finished_s"].tolist() == pytest.approx([2, 4, 8])
    assert (
        cell_figures(trace, Cell("round_robin", 3, block_tokens=1, service="recorded"))["estimated_duration_requests"]
        == 1
    )


def test_grids_pairs_and_the_frontier() -> None:
    rng = np.random.default_rng(0)
    prompts = [[int(rng.integers(3))] * int(rng.integers(1, 9)) for _ in range(60)]
    trace = trace_of(prompts, rng.integers(6, size=60), duration_s=rng.exponential(3, 60))
    cells = grid(Cell("random", 1, block_tokens=1, service="recorded"), ["random", "round_robin"], [2, 3], [None, 8], 3)
    rows = run_cells(trace, cells)
    assert [(r["policy"], r["replicas"], r["capacity_tokens"], r["seed"]) for r in rows[:4]] == [
        ("random", 2, None, 0), ("random", 2, None, 1), ("random", 2, None, 2), ("random", 2, 8, 0)
    ]  # fmt: skip
    pairs = paired(rows)
    assert len(pairs) == 4
    assert pairs[0]["hit_rate_difference"][0] <= pairs[0]["hit_rate_difference"][1]
    for replicas, capacity in ((2, None), (3, 8)):
        few = [r for r in frontier(rows) if (r["replicas"], r["capacity_tokens"]) == (replicas, capacity)]
        assert len(few) == 2
        assert not all(r["dominated"] for r in few)
    assert meets(rows[0], Objective(p99_running_requests=1000)) is True
    assert meets(rows[0], Objective(p99_running_requests=0)) is False
    assert meets(rows[0], Objective(ttft_s_p99=1.0)) is None


def test_cells_on_ray_give_the_same() -> None:
    pytest.importorskip("ray", reason="the extra `cluster` is not installed")
    rng = np.random.default_rng(0)
    trace = trace_of([[k % 3] * (1 + k % 8) for k in range(60)], np.arange(60) % 6, duration_s=rng.exponential(3, 60))
    cells = grid(Cell("random", 1, block_tokens=1, service="recorded"), ["random", "tower"], [2], [None, 8], 2)
    with executor_for("ray", 2) as workers:
        assert run_cells(trace, cells, workers) == run_cells(trace, cells)
