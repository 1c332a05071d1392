"""Counters and histograms of vLLM and SGLang, scraped in Prometheus' text format or fetched from its HTTP interface."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from analysis.replica.measurement.measured import Band, Measured, NotMeasured, Replica

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
REPLICA_LABELS = ("instance", "pod", "engine", "engine_index", "worker", "dp_rank", "model_name")
"""Labels that tell engines apart; those that are the same everywhere are left out of a replica's name."""


class Sample(NamedTuple):
    """One value of a scrape."""

    name: str
    labels: dict[str, str]
    value: float


class Counters(NamedTuple):
    """The names of an engine's counters; the first that a scrape has is used."""

    written_by: str
    queried: tuple[str, ...]
    hits: tuple[str, ...]
    prompt: str
    output: str
    requests: str
    ttft: str


ENGINES = (
    Counters(
        "vLLM", ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"), "vllm:prompt_tokens", "vllm:generation_tokens",
        "vllm:request_success", "vllm:time_to_first_token_seconds",
    ),
    Counters(
        "SGLang", ("sglang:prompt_tokens",), ("sglang:cached_tokens",), "sglang:prompt_tokens",
        "sglang:generation_tokens", "sglang:num_requests", "sglang:time_to_first_token_seconds",
    ),
)  # fmt: skip
PERCENTILES = (50, 90, 99)


def text_samples(text: str) -> list[Sample]:
    """The samples of a scrape; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        match = None if line.startswith("#") else _LINE.match(line.strip())
        if match is not None:
            found.append(_sample(match[1], dict(_LABEL.findall(match[2] or "")), match[3]))
    return [sample for sample in found if sample is not None]


def fetched_samples(document: Any) -> list[Sample] | None:
    """The samples of an answer of Prometheus' HTTP interface; None if it is none."""
    data = document.get("data") if isinstance(document, dict) else None
    results = data.get("result") if isinstance(data, dict) else None
    if not isinstance(results, list):
        return None
    found = []
    for result in results:
        labels = result.get("metric") if isinstance(result, dict) else None
        value = result.get("value") or (result.get("values") or [None])[-1] if isinstance(result, dict) else None
        if isinstance(labels, dict) and isinstance(value, list) and len(value) == 2:
            labels = {str(k): str(v) for k, v in labels.items()}
            found.append(_sample(labels.pop("__name__", ""), labels, str(value[1])))
    return [sample for sample in found if sample is not None]


def _sample(name: str, labels: dict[str, str], text: str) -> Sample | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return Sample(name, labels, value) if math.isfinite(value) and value >= 0 else None


def since(before: list[Sample], after: list[Sample]) -> list[Sample]:
    """What was counted between two scrapes.

    Raises:
        NotMeasured: a counter went down: the server was started anew in between, or the scrapes are in the wrong order.
    """
    earlier = {(s.name, tuple(sorted(s.labels.items()))): s.value for s in before}
    counted = []
    for name, labels, value in after:
        start = earlier.get((name, tuple(sorted(labels.items()))), 0.0)
        if value < start and not name.endswith("_created"):
            if name.endswith(("_total", "_sum", "_count", "_bucket")):
                raise NotMeasured(
                    f"{name} went down from {start:g} to {value:g}: the server was started anew between the scrapes, "
                    "or the earlier one was not given first"
                )
            start = 0.0  # a gauge
        counted.append(Sample(name, labels, value - start))
    return counted


def counted(samples: list[Sample], notes: Iterable[str] = ()) -> Measured:
    """What an engine counted.

    Raises:
        NotMeasured: there are no counters of an engine that is known.
    """
    by_name: dict[str, list[Sample]] = {}
    for sample in samples:
        by_name.setdefault(sample.name.removesuffix("_total"), []).append(sample)
    for engine in ENGINES:
        queried = next((by_name[name] for name in engine.queried if name in by_name), [])
        hits = next((by_name[name] for name in engine.hits if name in by_name), [])
        if not queried and engine.prompt not in by_name:
            continue
        total, found = _sum(queried), _sum(hits)
        return Measured(
            engine.written_by,
            _sum(by_name.get(engine.requests, [])),
            _sum(by_name.get(engine.prompt, [])),
            _sum(by_name.get(engine.output, [])),
            found / total if found is not None and total else None,
            _ttft(by_name, engine.ttft),
            _replicas(queried, hits, by_name.get(engine.requests, [])),
            tuple(notes),
        )
    raise NotMeasured("no counters of vLLM or SGLang (vllm:prefix_cache_queries_total, sglang:prompt_tokens_total, …)")


def _sum(samples: list[Sample]) -> float | None:
    return sum(s.value for s in samples) if samples else None


def _replicas(queried: list[Sample], hits: list[Sample], requests: list[Sample]) -> tuple[Replica, ...]:
    told = [label for label in REPLICA_LABELS if len({s.labels.get(label) for s in queried}) > 1]
    if not told:
        return ()

    def by_replica(samples: list[Sample]) -> dict[str, float]:
        sums: dict[str, float] = {}
        for s in samples:
            name = " ".join(s.labels.get(label, "?") for label in told)
            sums[name] = sums.get(name, 0.0) + s.value
        return sums

    looked_up, found, served = by_replica(queried), by_replica(hits), by_replica(requests)
    return tuple(Replica(name, looked_up[name], found.get(name), served.get(name)) for name in sorted(looked_up))


def _ttft(by_name: dict[str, list[Sample]], name: str) -> dict[str, Band]:
    """Mean and percentiles of a histogram, these as the bounds of the bucket that they fall into."""
    total, count = _sum(by_name.get(f"{name}_sum", [])), _sum(by_name.get(f"{name}_count", []))
    found: dict[str, Band] = {} if not count or total is None else {"mean": (total / count, total / count)}
    buckets: dict[float, float] = {}
    for s in by_name.get(f"{name}_bucket", []):
        edge = float(s.labels.get("le", "nan").replace("+Inf", "inf"))
        buckets[edge] = buckets.get(edge, 0.0) + s.value
    edges = sorted(edge for edge in buckets if not math.isnan(edge))
    if count and edges:
        for percent in PERCENTILES:
            at = next((i for i, edge in enumerate(edges) if buckets[edge] >= count * percent / 100), len(edges) - 1)
            found[f"p{percent}"] = (edges[at - 1] if at else 0.0, edges[at])
    return found
