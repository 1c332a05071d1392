"""Writers of traces and profiles, one per planner or load generator; `TARGETS` lists them.

In: an `analysis.export.rows.ExportSelection` for a trace, or a profile, and a path. Out: the complete file or none, and
`Written`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple


class Target(NamedTuple):
    """One export target.

    Attributes:
        module: module of this package.
        function: its writer.
        takes: trace | profile, what is exported.
        line: a one-line description, printed in the list of targets.
        folder: whether a folder is written, else a file.
        block: the block size that the format demands; None takes any.
    """

    module: str
    function: str
    takes: str
    line: str
    folder: bool = False
    block: int | None = None


class Written(NamedTuple):
    """The result of a writer: number of records, notes on what was lost or changed, and commands that use the files."""

    records: int
    notes: list[str]
    commands: list[str]


TARGETS: dict[str, Target] = {
    "weka": Target(
        "traces.weka",
        "write",
        "trace",
        "Weka session JSON, a file per top-level session: AIPerf, AISimulate, Dynamo, inference-perf, GuideLLM",
        True,
        64,
    ),
    "mooncake": Target(
        "traces.mooncake",
        "write",
        "trace",
        "Mooncake JSONL, whole prompts: kvcache-simulator, Dynamo and AISimulate `mooncake`, aiperf analyze-trace",
    ),
    "mooncake-delta": Target(
        "traces.mooncake",
        "write_delta",
        "trace",
        "Mooncake JSONL, what each turn adds: AIPerf mooncake_trace, AISimulate `mooncake-delta`",
    ),
    "agentic-mooncake": Target(
        "traces.agentic_mooncake",
        "write",
        "trace",
        "agentic Mooncake v2 with dependencies between requests: AISimulate, Dynamo",
    ),
    "bailian": Target(
        "traces.bailian", "write", "trace", "Bailian (Qwen) JSONL with parent links: AIPerf, tair-kvcache"
    ),
    "dynamo": Target(
        "traces.dynamo", "write", "trace", "Dynamo request trace (v1): AISimulate `dynamo`, warm-up of Dynamo's planner"
    ),
    "dag-jsonl": Target(
        "conversations.aiperf", "write_dag", "trace", "AIPerf dag_jsonl with placeholder text and sub-agent spawns"
    ),
    "vllm-multi-turn": Target(
        "conversations.vllm",
        "write_conversations",
        "trace",
        "conversations with placeholder text: vLLM benchmark_serving_multi_turn",
    ),
    "vllm-custom": Target(
        "conversations.vllm", "write_custom", "trace", "prompts of placeholder text: vllm bench serve custom"
    ),
    "sglang-agentic": Target(
        "conversations.sglang",
        "write_agentic",
        "trace",
        "conversations with placeholder text: sglang.bench_serving agentic-trace",
    ),
    "sglang-mooncake": Target(
        "conversations.sglang", "write_mooncake", "trace", "block ids and times: sglang.bench_serving"
    ),
    "vidur": Target("traces.vidur", "write", "trace", "arrival, prefill and decode tokens as CSV: Vidur trace_replay"),
    "burstgpt": Target(
        "traces.burstgpt", "write", "trace", "BurstGPT CSV: AIPerf burst_gpt_trace, vllm bench serve burstgpt"
    ),
    "aiperf-agentic-code": Target(
        "profiles.agentic_code", "write_agentic_code", "profile", "configuration of aiperf synthesize agentic-code"
    ),
    "aisimulate": Target(
        "profiles.aisimulate", "write", "profile", "AISimulate YAML: synthetic sessions at the profile's rate"
    ),
    "aiconfigurator": Target(
        "profiles.aiconfigurator", "write", "profile", "aiconfigurator command lines, one per ISL/OSL/prefix bucket"
    ),
    "dynamo-profiler": Target(
        "traces.dynamo",
        "write_profiler",
        "profile",
        "DynamoGraphDeploymentRequest with workload and SLA: Dynamo's profiler",
    ),
    "dynamo-planner": Target(
        "traces.dynamo", "write_warm_up", "trace", "arrivals, input and output lengths: load_predictor_warmup_trace"
    ),
    "vllm-generate": Target(
        "conversations.vllm",
        "write_generation",
        "profile",
        "generate_conversations JSON: vLLM benchmark_serving_multi_turn",
    ),
    "sglang-gsp": Target(
        "conversations.sglang", "write_gsp", "profile", "flags of sglang.bench_serving generated-shared-prefix"
    ),
    "guidellm": Target(
        "profiles.guidellm", "write", "profile", "GuideLLM benchmark YAML with synthetic multi-turn data"
    ),
    "inference-perf": Target(
        "profiles.inference_perf", "write", "profile", "inference-perf YAML with conversation_replay data"
    ),
    "genai-bench": Target("profiles.genai_bench", "write", "profile", "genai-bench traffic scenarios, one per bucket"),
    "llm-d-benchmark": Target(
        "profiles.inference_perf", "write_llm_d", "profile", "llm-d-benchmark workload profile (inference-perf harness)"
    ),
}


def target(name: str) -> Target:
    """The target called `name`.

    Raises:
        ValueError: the message lists the targets.
    """
    if name not in TARGETS:
        raise ValueError(f"unknown target {name!r}. Targets: {', '.join(TARGETS)}")
    return TARGETS[name]


def writer(name: str) -> Callable[..., Written]:
    """The function that writes the target called `name`."""
    found = target(name)
    module = importlib.import_module(f"analysis.export.planners.{found.module}")
    function: Any = getattr(module, found.function)
    return function
