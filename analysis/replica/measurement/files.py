"""Reads what a benchmark or a server wrote: AIPerf, `vllm bench serve`, SGLang's bench_serving, Prometheus scrapes."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.replica.measurement import prometheus
from analysis.replica.measurement.measured import Band, Measured, NotMeasured

MOST_BYTES = 256 << 20
KNOWN = (
    "known are AIPerf's profile_export_aiperf.json or .csv, the JSON of `vllm bench serve`, the JSON lines of SGLang's "
    "bench_serving, and Prometheus scrapes of vLLM or SGLang"
)
_UNITS_S = {"ms": 1e-3, "s": 1.0, "sec": 1.0, "seconds": 1.0, "us": 1e-6, "ns": 1e-9}
SINCE_START = (
    "The counters of a scrape count from the start of the server. To compare one run, give a scrape from before it "
    "first."
)


def read_measured(paths: Sequence[str | Path]) -> Measured:
    """Read one file, or two scrapes of one server, the earlier one first.

    Raises:
        NotMeasured: a file cannot be read, or holds no measurement that is known.
    """
    found = [_read(Path(path)) for path in paths]
    if len(found) == 1:
        return prometheus.counted(found[0], [SINCE_START]) if isinstance(found[0], list) else found[0]
    before, after = found
    if not isinstance(before, list) or not isinstance(after, list):
        raise NotMeasured(
            "two files are compared only if both are Prometheus scrapes: one before the run, one after it"
        )
    return prometheus.counted(prometheus.since(before, after))


def _read(path: Path) -> Measured | list[prometheus.Sample]:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise NotMeasured(f"{path.name} is larger than {MOST_BYTES >> 20} MiB: give the summary of the run")
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise NotMeasured(f"{path} cannot be read: {error}") from None
    document = _document(text)
    if document is not None:
        samples = prometheus.fetched_samples(document)
        read = _aiperf(document) or _benchmark(document) if samples is None else samples
    elif samples := prometheus.text_samples(text):
        read = samples
    else:
        read = _aiperf(_table(text))
    if read is None:
        raise NotMeasured(f"{path.name} holds no measurement that is known; {KNOWN}")
    return read


def _document(text: str) -> Any:
    """The JSON object of a text, or the last one of its lines; None if it is no JSON."""
    for part in (text, text.strip().rpartition("\n")[2]):
        try:
            document = json.loads(part)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return document
    return None


def _table(text: str) -> dict[str, Any]:
    """A CSV of metrics (name in the first column) in the form of AIPerf's JSON."""
    metrics: dict[str, Any] = {}
    header: list[str] = []
    for cells in csv.reader(text.splitlines()):
        if not cells or not cells[0].strip():
            continue
        if cells[0].strip().lower() == "metric":
            header = [cell.strip().lower() for cell in cells]
            continue
        name, unit = re.fullmatch(r"(.*?)(?:\s*\(([^()]*)\))?", cells[0].strip()).groups()  # type: ignore[union-attr]
        values = dict(zip([name if name != "value" else "avg" for name in header], cells, strict=False))
        figures = {key: number for key, cell in values.items() if (number := _number(cell)) is not None}
        metrics[re.sub(r"\W+", "_", name.lower())] = {"unit": unit, **figures}
    return metrics


def _number(value: Any) -> float | None:
    try:
        number = float(str(value).replace(",", ""))
    except ValueError:
        return None
    return number if number >= 0 and number != float("inf") else None


def _aiperf(document: dict[str, Any]) -> Measured | None:
    """AIPerf's summary: metric -> unit, avg, p50, …"""
    metrics = document["records"] if isinstance(document.get("records"), dict) else document
    ttft = metrics.get("time_to_first_token", metrics.get("ttft"))
    if not isinstance(ttft, dict) and not isinstance(metrics.get("request_count"), dict):
        return None

    def average(name: str) -> float | None:
        metric = metrics.get(name)
        return _number(metric.get("avg")) if isinstance(metric, dict) else None

    requests = average("request_count")
    lookups, hits = average("total_usage_prompt_tokens"), average("total_usage_prompt_cache_read_tokens")
    percent = average("overall_usage_prompt_cache_read_pct")
    rate = hits / lookups if hits is not None and lookups else None if percent is None else percent / 100
    seconds: dict[str, Band] = {}
    if isinstance(ttft, dict):
        scale = _UNITS_S.get(str(ttft.get("unit") or "ms"), 1e-3)
        for name, key in (("mean", "avg"), ("p50", "p50"), ("p90", "p90"), ("p99", "p99")):
            if (value := _number(ttft.get(key))) is not None:
                seconds[name] = (value * scale, value * scale)
    whole = {name: average(f"total_{tag}") for name, tag in (("input", "isl"), ("output", "osl"))}
    for name, tag in (("input", "input_sequence_length"), ("output", "output_sequence_length")):
        mean = average(tag)
        if whole[name] is None and mean is not None and requests is not None:
            whole[name] = mean * requests
    notes = (
        () if rate is not None else ("The server did not report cached tokens to AIPerf (--use-server-token-count).",)
    )
    return Measured("AIPerf", requests, lookups or whole["input"], whole["output"], rate, seconds, (), notes)


def _benchmark(document: dict[str, Any]) -> Measured | None:
    """The result of `vllm bench serve` or SGLang's bench_serving."""
    if "mean_ttft_ms" not in document and "total_input_tokens" not in document:
        return None
    seconds: dict[str, Band] = {}
    for name, key in (("mean", "mean"), ("p50", "median"), ("p90", "p90"), ("p99", "p99")):
        if (value := _number(document.get(f"{key}_ttft_ms"))) is not None:
            seconds[name] = (value / 1000, value / 1000)
    rate = next((document[k] for k in ("prefix_cache_hit_rate", "cache_hit_rate") if k in document), None)
    backend = document.get("backend")
    return Measured(
        f"the benchmark of {backend}" if isinstance(backend, str) else "a serving benchmark",
        _number(document.get("completed")),
        _number(document.get("total_input_tokens")),
        _number(document.get("total_output_tokens")),
        _number(rate) if rate is not None and (_number(rate) or 0) <= 1 else None,
        seconds,
        (),
        () if rate is not None else ("The file says no hit rate: give a Prometheus scrape of the server for that.",),
    )
