"""All settings of all pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from app.visit.link.setting import Setting
from app.visit.settings import FILTERS, FIRST_SQL, WINDOWS

AXES = ("all", "trajectory_type", "role", "model", "agent")
WHY_AXES = (
    "all", "trajectory_type", "role", "transition", "transition_detail", "trigger", "work", "model", "agent", "source",
    "session", "day", "turn", "gap", "prompt_length",
)  # fmt: skip
OWN_MODEL = "own"
"""A config.json of the visitor's in place of a model of the catalogue."""
AS_LOGGED = "logged"
"""Price a request as the model that answered it."""
PUBLISHED = "published"
DETECTED = "detected"
KV_DTYPES = ("bf16", "fp8", "fp8_e4m3", "fp8_ds_mla", "int8", "nvfp4", "fp4")
SESSION_ORDERS = ("lost_tokens", "prefix_tokens", "turns", "length_s", "sub_agents", "hit_rate", "start_s")
POOL_SIZES = (None, 250_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000)


def _of(*values: Any) -> Callable[[], Sequence[Any]]:
    return lambda: values


def _models(*more: str) -> Callable[[], Sequence[str]]:
    def names() -> Sequence[str]:
        from analysis.replica.models.catalog import model_names

        return [*model_names(), *more]

    return names


def _gpus() -> Sequence[str]:
    from analysis.replica.models.catalog import gpu_names

    return list(gpu_names())


def _policies() -> Sequence[str]:
    from analysis.fleet.routers import POLICIES

    return list(POLICIES)


def _formats() -> Sequence[str]:
    from traces.intake.registry import READERS

    return [DETECTED, *sorted(READERS)]


def _targets() -> Sequence[str]:
    from analysis.export.planners import TARGETS

    return list(TARGETS)


def _evictions() -> Sequence[str]:
    from analysis.policies.eviction import RULES

    return list(RULES)


def _priced() -> Sequence[str]:
    from analysis.money.prices import named_models

    return [AS_LOGGED, *named_models()]


def _weights() -> Sequence[str]:
    from analysis.replica.models.config import WEIGHT_BITS

    return [PUBLISHED, *WEIGHT_BITS]


def _number(
    name: str, page: str, kind: type, low: float | None, high: float | None, default: Any = None, empty: bool = False
) -> Setting:
    return Setting(name, page, kind, default, low=low, high=high, optional=empty)


_ALL = (
    Setting("dataset", "", str, always=True),
    *(Setting(axis, "", str, [], many=True) for axis in FILTERS),
    Setting("window", "", str, "all", _of(*WINDOWS)),
    Setting("arrivals", "", str, "recorded"),
    _number("block", "", int, 1, None),
    Setting("send", "data", str, "files", _of("files", "folder")),
    Setting("reading", "data", str),
    Setting("read-format", "data", str, DETECTED, _formats),
    _number("read-blocks", "data", int, 1, 1 << 20, None, True),
    Setting("read-unit", "data", str, DETECTED, _of(DETECTED, "s", "ms", "us", "ns")),
    Setting("read-tokenizer", "data", str, "o200k_base", _of("o200k_base", "cl100k_base", "bytes")),
    Setting("read-columns", "data", str, ""),
    Setting("read-one", "data", bool, False),
    Setting("growth-by", "overview", str, "all", _of("all", "trajectory_type")),
    Setting("cache-part", "cache", str, "sizes", _of("sizes", "sessions", "eviction")),
    _number("once-capacity", "cache", int, 1_000, 1_000_000_000, 500_000),
    Setting("once-admission", "cache", str, ["none"], _of("none", "cap", "footprint"), many=True),
    Setting("cache-rules", "cache", str, ["lru", "belady", "session"], _evictions, many=True),
    Setting("by", "cache", str, "all", _of(*AXES)),
    Setting("kv", "cache", str, "none", _models("none")),
    Setting("kv_dtype", "cache", str, "bf16", _of("bf16", "fp8")),
    _number("capacity", "cache", int, 1, None),
    Setting("tier-mode", "cache", str, "exclusive", _of("exclusive", "inclusive")),
    _number("tier1", "cache", int, 1, None),
    _number("tier2", "cache", int, 1, None),
    Setting("why-part", "why", str, "causes", _of("causes", "sessions", "provider", "what-if", "cost")),
    Setting("cost-writes", "why", str, "5m", _of("5m", "1h")),
    Setting("cost-as", "why", str, AS_LOGGED, _priced),
    Setting("why-by", "why", str, "all", _of(*WHY_AXES)),
    Setting("why-capacity", "why", int, None, _of(*POOL_SIZES)),
    Setting("why-ttl", "why", float, None, _of(None, 60.0, 300.0, 3600.0)),
    Setting("why-replicas", "why", int, None, _of(None, 2, 4, 8, 16)),
    Setting("why-policy", "why", str, "session_hash", _policies),
    Setting("why-insert", "why", str, "arrival", _of("arrival", "finish")),
    Setting("why-remedy", "why", str, "all"),
    Setting("why-reported", "why", str, "model", _of("model", "session", "day")),
    _number("session", "sessions", int, 0, None, None, True),
    _number("turn", "sessions", int, 0, None, None, True),
    _number("turns-from", "sessions", int, 0, None),
    _number("turns-to", "sessions", int, 0, None),
    Setting("sessions-sort", "sessions", str, "lost_tokens", _of(*SESSION_ORDERS)),
    Setting("sessions-cause", "sessions", str, "all"),
    Setting("sessions-find", "sessions", str, ""),
    _number("sessions-page", "sessions", int, 1, None, 1),
    _number("node", "sessions", int, 0, None, 0),
    Setting("serve", "hardware", str, "kimi-k2.6", _models(OWN_MODEL)),
    Setting("config-text", "hardware", str, "", linked=False),
    Setting("gpu", "hardware", str, "b200", _gpus),
    Setting("tp", "hardware", int, 4, _of(1, 2, 4, 8, 16, 32)),
    Setting("kv_as", "hardware", str, "bf16", _of(*KV_DTYPES)),
    Setting("engine", "hardware", str, "ideal", _of("ideal", "vllm", "sglang")),
    _number("dp", "hardware", int, 1, 64, 1),
    _number("dcp", "hardware", int, 1, 64, 1),
    Setting("weights_as", "hardware", str, PUBLISHED, _weights),
    _number("utilization", "hardware", float, 0, 1, None, True),
    *(Setting(name, "hardware", str, "") for name in ("gpu_bytes", "weight_bytes", "reserve_bytes")),
    _number("context", "hardware", int, 1, 10_000_000),
    _number("output", "hardware", int, 1, 1_000_000),
    _number("hits", "hardware", float, 0, 100),
    _number("batch", "hardware", int, 1, 4096, 8),
    _number("accept", "hardware", float, 1, 64, 1.0),
    _number("draft-cost", "hardware", float, 0, 10, 0.0),
    _number("verify", "hardware", int, 1, 256, None, True),
    _number("think", "hardware", float, 0, 1e6),
    Setting("mfu", "hardware", float, (0.2, 0.5), low=0.05, high=1, many=True),
    Setting("bandwidth", "hardware", float, (0.6, 0.9), low=0.1, high=1, many=True),
    _number("link", "hardware", float, 1, 2000, 50.0),
    *(_number(f"prefill-{i}", "hardware", float, 0, None, None, True) for i in range(4)),
    *(_number(f"decode-{i}", "hardware", float, 0, None, None, True) for i in range(4)),
    _number("decode-context", "hardware", int, 1, None, None, True),
    Setting("from-trace", "hardware", bool, False),
    Setting("to-kv", "hardware", str),
    Setting("to-tp", "hardware", int),
    Setting("evaluation", "hardware", str, "scores", _of("scores", "logs")),
    Setting("score-task", "hardware", str, ""),
    _number("score-before", "hardware", float, None, None, None, True),
    _number("score-after", "hardware", float, None, None, None, True),
    _number("accept-0", "hardware", float, 1, 64, 5.0),
    _number("accept-1", "hardware", float, 1, 64, 5.84),
    _number("code-share", "hardware", float, 0, 100, 70.0),
    _number("accept-code", "hardware", float, 1, 64, 6.0),
    _number("accept-prose", "hardware", float, 1, 64, 3.0),
    _number("host-ratio", "hardware", float, 0.1, 100, 2.0),
    Setting("fleet-policies", "routing", str, ["round_robin", "session_hash", "sticky_least_loaded", "tower"],
            _policies, many=True),
    Setting("fleet-replicas", "routing", str, "4"),
    Setting("fleet-cache", "routing", str, "unbounded"),
    Setting("fleet-service", "routing", str, None, _of("recorded", "model", "instant")),
    _number("fleet-seeds", "routing", int, 1, 20, 1),
    Setting("fleet-model", "routing", str, "kimi-k2.6", _models()),
    Setting("fleet-gpu", "routing", str, "b200", _gpus),
    Setting("fleet-tp", "routing", int, 4, _of(1, 2, 4, 8, 16)),
    Setting("fleet-kv", "routing", str, "bf16", _of("bf16", "fp8")),
    Setting("fleet-insert", "routing", str, "arrival", _of("arrival", "finish")),
    _number("fleet-running", "routing", int, 1, 100_000, None, True),
    _number("fleet-queue", "routing", int, 0, 100_000, None, True),
    Setting("fleet-params", "routing", str, ""),
    Setting("fleet-events", "routing", str, ""),
    Setting("fleet-shown", "routing", str),
    Setting("fleet-load", "routing", str),
    _number("slo-p99", "routing", float, 0, 1e6, None, True),
    _number("slo-ttft", "routing", float, 0, 1e6, None, True),
    _number("slo-loss", "routing", float, 0, 100, 2.0, True),
    _number("luck-n", "routing", int, 1, 500),
    _number("luck-s", "routing", int, 1, 200),
    _number("luck-low", "routing", int, 0, 1000, 1),
    _number("luck-high", "routing", int, 1, 2000),
    Setting("a", "compare", str),
    Setting("b", "compare", str),
    Setting("sql", "sql", str, FIRST_SQL),
    Setting("to", "export", str, None, _targets),
    _number("export-sessions", "export", int, 1, None, None, True),
    _number("export-cap", "export", int, 1, None, None, True),
    _number("export-rate", "export", float, 0.01, 100, 1.0),
)  # fmt: skip

SETTINGS = {setting.name: setting for setting in _ALL}
