"""Every figure of the shared ORACLES.tsv that a dataset can tell comes out exactly, and none of its traps does."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from tests.places import SHARED
from traces.dataset.layout import Dataset
from traces.digests import KeyedDigest
from traces.formats.claude_code.lines import Line, LineParser
from traces.intake.ingest import ingest
from traces.intake.reading import LazyTokenizer, Options, context_of

TRACES = SHARED / "traces"
FILE = TRACES / "ORACLES.tsv"


class Row(NamedTuple):
    """A row of the file; `at` is the record that `path#at` names, 0-based."""

    path: str
    metric: str
    value: str
    kind: str
    how: str
    at: int | None


def _rows() -> list[Row]:
    if not FILE.is_file():
        return []
    with FILE.open(encoding="utf-8") as handle:
        found = []
        for row in csv.DictReader(handle, delimiter="\t"):
            path, _, at = row["path"].partition("#")
            found.append(Row(path, row["metric"], row["value"], row["kind"], row["how"] or "", int(at) if at else None))
    return found


ROWS = _rows()

IN_PART = {
    "timestamps_out_of_order/dangling_parentUuid/duplicate_uuid": "the first two are properties of the lines, which no "
    "receipt tells; the third is checked: lines that came before are duplicates",
}
"""Metrics of which a part is not checked, and why."""


class Read(NamedTuple):
    """What came out of one input."""

    receipt: dict[str, Any]
    requests: pl.DataFrame
    sessions: pl.DataFrame
    prefixes: pl.DataFrame
    folder: Path

    @property
    def known(self) -> pl.DataFrame:
        """The requests with usage."""
        return self.requests.filter(pl.col("input_tokens").is_not_null())

    def total(self, name: str) -> int:
        """Sum over the requests with usage."""
        return int(self.known[name].sum() or 0)

    @property
    def uncached(self) -> int:
        """Input tokens that were neither read from nor written to a cache, as Anthropic's `input_tokens`."""
        return self.total("input_tokens") - self.total("cache_read_tokens") - self.total("cache_write_tokens")

    @property
    def four(self) -> list[int]:
        """Uncached input, cache writes, cache reads, output."""
        return [self.uncached, *map(self.total, ("cache_write_tokens", "cache_read_tokens", "output_tokens"))]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Read]:
    """Reads a file or folder of the shared traces, once."""

    @cache
    def once(path: str) -> Read:
        out = tmp_path_factory.mktemp("oracle") / "dataset"
        receipt = ingest([str(TRACES / path)], out)
        dataset = Dataset(out)
        requests, sessions, prefixes = map(dataset.read, ("requests", "sessions", "prefixes"))
        return Read(receipt, requests, sessions, prefixes, out)

    return once


def _hit(one: Read) -> float:
    return round(one.total("cache_read_tokens") / max(1, one.total("input_tokens")), 4)


def _chain_pairs(one: Read) -> str:
    """Consecutive calls of the main conversations where the second read what the first left in the cache."""
    main = one.sessions.filter(pl.col("role") == "main")["session_id"].implode()
    calls = one.known.filter(pl.col("session_id").is_in(main)).sort("record_ordinal").fill_null(0).rows(named=True)
    pairs = [(a["cache_read_tokens"] + a["cache_write_tokens"], b["cache_read_tokens"]) for a, b in pairwise(calls)]
    return f"{sum(left == found for left, found in pairs)}/{len(pairs)}"


def _usage(one: Read, row: Row) -> None:
    """One call of a file of pairs, from the provider's own field names."""
    usage = json.loads(row.value)
    # The last request of a record ended the answer; passes that its usage leaves out (a compaction) come before it.
    call = one.requests.filter(pl.col("record_ordinal") == (row.at or 0) + 1).tail(1)
    if not usage:  # the call that makes a cache: no model call
        assert call.is_empty()
        return
    read = written = None
    if "inputTokens" in usage:
        read, written = usage["cacheReadInputTokens"], usage["cacheWriteInputTokens"]
        total = usage["inputTokens"] + read + written
    elif "promptTokenCount" in usage:
        read, total = usage["cachedContentTokenCount"], usage["promptTokenCount"]
    elif "prompt_tokens" in usage or "input_tokens_details" in usage:
        total = usage.get("prompt_tokens", usage.get("input_tokens"))
        details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
        read, written = details["cached_tokens"], details.get("cache_write_tokens")
    else:
        read, written = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
        total = usage["input_tokens"] + read + written
    got = call.select("input_tokens", "cache_read_tokens", "cache_write_tokens").row(0)
    assert got[:2] == (total, read)
    assert written is None or got[2] == written


def _mooncake(one: Read, row: Row) -> None:
    numbers = re.match(r"(\d+) req, avg in (\d+), avg out (\d+).*; (0\.\d+) block / (0\.\d+) token hit", row.value)
    assert numbers is not None
    requests = one.requests
    assert requests.height == int(numbers[1])
    means = [round(one.total(name) / requests.height) for name in ("input_tokens", "output_tokens")]
    assert means == [int(numbers[2]), int(numbers[3])]
    nodes = one.prefixes.sort("prefix_id")
    parent, end = nodes["parent_id"].to_list(), nodes["end_token"].to_list()
    seen, hit_tokens, hit_blocks, blocks = {0}, 0, 0, 0
    for node, tokens in requests.sort("arrival_s", "record_ordinal").select("prefix_id", "input_tokens").iter_rows():
        path = []
        while node not in seen:
            path.append(node)
            node = parent[node]
        seen.update(path)
        hit_tokens += end[node]
        hit_blocks += -(-end[node] // 512)  # the partial last block has an id too
        blocks += -(-tokens // 512)
    assert round(hit_blocks / blocks, 4) == float(numbers[4])
    assert round(hit_tokens / one.total("input_tokens"), 4) == float(numbers[5])


def _share(read: Callable[[str], Read]) -> None:
    """The file of 14 traces: rates of consecutive prompts, and of any earlier prompt in the trace, sub-agents too."""
    with (TRACES / "kv_cache_tester_oracle_share.tsv").open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle, delimiter="\t"))
    assert len(rows) == 14
    for row in rows:
        one = read(row["trace"].replace("traces/", "kv_cache_tester/"))
        figures = report(open_dataset(one.folder), Question(block_size=64), ())
        got = figures["overlap"]["previous_request_overlap_rate"], figures["hit_rate"]["ceiling_block_weighted"]
        assert got == pytest.approx(
            [float(row["hit_consecutive_prefix"]), float(row["hit_seen_set_incl_sub"])], rel=1e-12
        )
        roles = one.requests.join(one.sessions, on="session_id")["role"].to_list()
        assert [len(roles), roles.count("main"), len(set(one.sessions["session_id"])) - 1] == [
            int(row["requests_incl_subagents"]), int(row["main_requests"]), int(row["subagents"])
        ]  # fmt: skip
        inputs = one.requests.filter(pl.Series(roles) == "main").sort("turn")["input_tokens"]
        assert [inputs[0], inputs[-1]] == [int(row["first_in"]), int(row["last_in"])]


def _repeated_usage(one: Read, row: Row) -> None:
    """Lines of answers that repeat the usage of a call that a line before them told."""
    context = context_of(Options(), LazyTokenizer("bytes"), KeyedDigest())
    parser, calls = LineParser(context), []
    for ordinal, text in enumerate((TRACES / row.path).read_bytes().splitlines(), 1):
        try:
            line = parser.parse(ordinal, text)
        except ValueError:
            continue
        if isinstance(line, Line) and line.kind == "assistant" and json.loads(text)["message"].get("usage"):
            calls.append(line.call or line.uuid)
    assert len(calls) - len(set(calls)) == int(row.value)
    if "agent-sessions/small" not in row.path:  # its uuids are cut out, so that lines are copies of unlike others
        assert one.known.height == len(set(calls))


def _check(read: Callable[[str], Read], row: Row) -> None:
    """Compare one row.

    Raises:
        KeyError: Nobody knows the metric.
    """
    metric, value = row.metric, row.value
    if metric.startswith("per-trace hit rates"):
        _share(read)
        return
    one = read(row.path)
    names: tuple[str, ...]
    numbers = [int(n) for n in re.findall(r"\d+", value)] if re.fullmatch(r"[\d/]+", value) else []
    if metric == "usage":
        _usage(one, row)
    elif metric == "dup_usage_lines":
        _repeated_usage(one, row)
    elif metric == "usage_msgs":
        assert one.known.height == int(value)
    elif metric.startswith("raw_sum_input"):
        assert one.four == numbers  # nothing was logged twice: no trap
    elif metric in ("input", "cache_creation", "cache_read", "output"):
        assert one.four[("input", "cache_creation", "cache_read", "output").index(metric)] == int(value)
    elif metric == "hit":
        assert _hit(one) == float(value)
    elif metric.startswith("main_chain_pairs"):
        assert _chain_pairs(one) == value
    elif metric.startswith("assistant_msgs/"):
        assert [one.requests.height, *one.four] == numbers
    elif metric.startswith("token_count rows/"):
        rows, _, again, _ = numbers  # rows with figures, rows without
        assert one.known.height == rows - again
    elif metric.startswith("final total_token_usage"):
        names = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")
        assert [one.total(name) for name in names] == numbers
    elif metric.startswith("sum(last)"):
        assert [one.total("input_tokens"), one.total("cache_read_tokens")] == numbers
    elif metric.startswith("sum tokens input/cached"):
        told, cached, output, thoughts, total = numbers
        assert one.total("input_tokens") == told
        assert one.total("cache_read_tokens") == cached
        assert one.total("output_tokens") == output + thoughts == total - told
        assert one.total("reasoning_tokens") == thoughts
    elif metric.startswith("input+output tokens of parent and child"):
        assert one.total("input_tokens") + one.total("output_tokens") == int(value)
    elif metric == "prompt/cached/completion":
        names = ("input_tokens", "cache_read_tokens", "output_tokens")
        assert [one.total(name) for name in names] == numbers
    elif metric.startswith("read+creation per captured"):
        calls = one.known.filter(pl.col("model").str.contains("sonnet"), pl.col("cache_read_tokens").is_not_null())
        chain = [
            f"{r['cache_read_tokens']}+{r['cache_write_tokens']}" for r in calls.sort("record_ordinal").rows(named=True)
        ]
        assert chain == value.split()
    elif metric.startswith("timestamps_out_of_order"):
        # In a hand-made file some of the repeated lines are of kinds that are passed over anyway.
        repeated = one.receipt["records"]["duplicate"]
        assert repeated == numbers[2] if row.kind == "structure" else repeated <= numbers[2]
    elif metric.startswith("published lengths"):
        _mooncake(one, row)
    else:
        raise KeyError(metric)


TRAPS = [row for row in ROWS if row.kind in ("trap", "published BUT DOUBLE-COUNTED")]
CHECKED = [row for row in ROWS if row not in TRAPS]


@pytest.mark.parametrize("row", CHECKED, ids=lambda row: f"{row.path[-60:]}-{row.metric[:24]}")
def test_a_row_comes_out(read: Callable[[str], Read], row: Row) -> None:
    _check(read, row)


def test_every_row_is_checked() -> None:
    assert len(ROWS) == len(CHECKED) + len(TRAPS)
    assert {row.metric for row in ROWS} >= IN_PART.keys()
    assert len(TRAPS) == 10


@pytest.mark.parametrize("row", [r for r in ROWS if r.kind == "trap"], ids=lambda row: row.path[-60:])
def test_a_trap_does_not_come_out(read: Callable[[str], Read], row: Row) -> None:
    one = read(row.path)
    if row.metric.startswith("raw_sum"):
        assert "/".join(map(str, one.four)) != row.value
        assert one.four[1:3] != [int(n) for n in row.value.split("/")[1:3]]
    else:
        totals = {int(n) for n in re.findall(r"\d{6,}", row.value)}  # with every copy, and with repeated totals
        assert len(totals) == 2
        assert one.total("input_tokens") + one.total("output_tokens") not in totals


def test_a_published_total_that_counts_twice_does_not_come_out(read: Callable[[str], Read]) -> None:
    (row,) = [r for r in ROWS if r.kind == "published BUT DOUBLE-COUNTED"]
    one = read("claude_code/sniffly")
    true = re.search(r"true deduped is ([\d/]+)", row.how)
    assert true is not None
    told, output, written, cached = (int(n) for n in true[1].split("/"))
    assert one.four == [told, written, cached, output]
    assert one.four != [int(n) for n in re.findall(r"\d+", row.value)[:4]]
