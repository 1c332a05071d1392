"""Costs by hand, against what agents and gateways logged of their own, and laws between the figures."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.money.cost import cost
from analysis.money.gpu_seconds import gpu_seconds
from analysis.money.prices import list_prices, load_prices, plain_name
from analysis.replica.interactivity import Service
from analysis.replica.models.catalog import load_gpu, load_model
from analysis.replica.prefill import prefill_work
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse, open_dataset
from tests.places import SHARED
from traces.intake.ingest import Options, ingest

TEXT = "".join(f"{i:07d}\n" for i in range(4000))
OWN = """
[[price]]
models = ["toy"]
input = 1.0
read = 0.1
write = 1.25
write_1h = 2.0
output = 10.0
above_tokens = 5000
above = { input = 2.0, read = 0.2, write = 2.5, write_1h = 4.0, output = 20.0 }

[[price]]
models = ["toy"]
since = 2027-01-01
input = 100.0
output = 1000.0
"""


def made(folder: Path, calls: list[dict[str, Any]]) -> Warehouse:
    folder.mkdir(exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    ingest([str(folder / "rows.jsonl")], folder / "ds", Options(tokenizer="bytes"))
    return open_dataset(folder / "ds")


def call(at: float, tokens: int, read: int, write: int, model: str = "toy", session: str = "s") -> dict[str, Any]:
    usage = {
        "input_tokens": tokens - read - write, "cache_read_input_tokens": read, "cache_creation_input_tokens": write,
        "output_tokens": 100,
    }  # fmt: skip
    return {"ts": 1_790_000_000 + at, "session_id": session, "prompt": TEXT[:tokens], "usage": usage, "model": model}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text(OWN)
    return path


def test_by_hand(tmp_path: Path, own: Path) -> None:
    """Two calls: 4,000 tokens written, then 6,000 of which 2,000 are read and 1,000 are plain input."""
    warehouse = made(tmp_path / "d", [call(0, 4000, 0, 4000), call(600, 6000, 2000, 3000)])
    row = cost(warehouse, Question(block_size=1), load_prices(own))["rows"][0]
    first = 4000 * 1.25 + 100 * 10
    second = 1000 * 2 + 2000 * 0.2 + 3000 * 2.5 + 100 * 20  # above 5,000 tokens every rate is twice as high
    assert row["as_sent_usd"] == pytest.approx((first + second) / 1e6)
    assert row["input_usd"] == pytest.approx(1000 * 2 / 1e6)
    assert row["cache_write_usd"] == pytest.approx((4000 * 1.25 + 3000 * 2.5) / 1e6)
    assert row["no_cache_usd"] == pytest.approx((4000 + 1000 + 6000 * 2 + 2000) / 1e6)
    assert row["ceiling_usd"] == pytest.approx((first + 4000 * 0.2 + 2000 * 2.5 + 2000) / 1e6)
    # nothing is left after 5 minutes; everything within an hour, when writing costs more
    assert row["ttl_5m_usd"] == pytest.approx((first + 6000 * 2.5 + 2000) / 1e6)
    assert row["ttl_1h_usd"] == pytest.approx((4000 * 2 + 1000 + 4000 * 0.2 + 2000 * 4 + 2000) / 1e6)
    # 2,000 tokens were not read; on average a token that is not read cost (1000 * 2 + 3000 * 2.5) / 4000
    assert row["lost"] == [
        {
            "cause": "ttl_5m",
            "tokens": 2000,
            "usd": pytest.approx(2000 * (9500 / 4000 - 0.2) / 1e6),
            "usd_per_week": None,
        }
    ]
    assert row["achievable_usd"] == pytest.approx(row["compared_usd"] - row["lost"][0]["usd"])


def test_per_week_needs_a_day(tmp_path: Path, own: Path) -> None:
    warehouse = made(tmp_path / "d", [call(0, 4000, 0, 4000), call(2 * 86_400, 4000, 0, 4000)])
    row = cost(warehouse, Question(), load_prices(own))["rows"][0]
    assert row["as_sent_usd_per_week"] == pytest.approx(row["as_sent_usd"] * 3.5)


def test_a_price_holds_from_its_day(own: Path) -> None:
    prices = load_prices(own)
    early, late, newest = (prices.of("toy", day) for day in (date(2026, 12, 31), date(2027, 1, 1), None))
    assert early is not None
    assert late is not None
    assert (early.rates.input, late.rates.input, late) == (1.0, 100.0, newest)
    assert (late.rates.read, late.rates.write) == (100.0, 100.0)
    assert prices.of("toys") is None
    assert prices.of(None) is None


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4.5"),
        ("claude-3-5-haiku-20241022", "claude-3.5-haiku"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("claude-sonnet-4-5[1m]", "claude-sonnet-4.5"),
        ("litellm_proxy/anthropic/claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("openai/gpt-5.2-2025-12-11", "gpt-5.2"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("gpt-5.1-codex-max", "gpt-5.1-codex-max"),
    ],
)
def test_plain_names(name: str, plain: str) -> None:
    assert plain_name(name) == plain
    assert load_prices().of(name) is not None


def test_list_prices_are_dated_and_sourced() -> None:
    for price in list_prices():
        assert price.source.startswith("https://")
        assert price.checked[:4].isdigit()
        assert price.rates.read <= price.rates.input <= price.rates.write <= price.rates.write_1h < price.rates.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[price]]\nmodels = ['a']\ninput = -1.0\noutput = 2.0", "price 1: input and output"),
        ("[[price]]\nmodels = ['a']\ninput = 1.0", "price 1: input and output"),
        ("[[price]]\nmodels = 'a'\ninput = 1.0\noutput = 2.0", "price 1: models is a list of names"),
        ("[[price]]\nmodels = ['a']\ninput = 1.0\noutput = 2.0\nreed = 3.0", "price 1: unknown reed"),
        ("[[price]]\nmodels = ['a']\ninput = 1.0\noutput = 2.0\nabove_tokens = 3", "price 1: since is a date"),
        ("x = 1", "holds no"),
        ("{", "not a table of prices in TOML"),
    ],
)
def test_bad_tables_say_where(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text)
    with pytest.raises(BadQuestion, match=says):
        load_prices(path)


def test_what_has_no_price_is_counted(tmp_path: Path, own: Path) -> None:
    warehouse = made(tmp_path / "d", [call(0, 400, 0, 0), call(9, 400, 0, 0, "other")])
    figures = cost(warehouse, Question(), load_prices(own), ("all", "model"))
    assert figures["unpriced"] == {"other": 1}
    assert [(row["group"], row["priced_requests"]) for row in figures["rows"]] == [("all", 1), ("toy", 1)]
    as_toy = cost(warehouse, Question(), load_prices(own), as_model="toy")
    assert as_toy["unpriced"] == {}
    assert as_toy["prices"][0]["since"] == "2027-01-01"  # the newest price, whatever the day
    with pytest.raises(BadQuestion, match="no price is known"):
        cost(warehouse, Question(), load_prices(), as_model="toy")


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 8000), st.integers(0, 8000), st.integers(0, 8000), st.sampled_from("ab")),
                min_size=1, max_size=6))  # fmt: skip
def test_figures_add_up(tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[int, int, int, str]]) -> None:
    folder = tmp_path_factory.mktemp("law")
    (folder / "prices.toml").write_text(OWN)
    rows = [
        call(400 * at, size, min(read, size), min(write, size - min(read, size)), session=name)
        for at, (size, read, write, name) in enumerate(calls)
    ]
    figures = cost(made(folder / "d", rows), Question(), load_prices(folder / "prices.toml"), ("all", "session"))
    whole, *parts = figures["rows"]
    spent = ("input_usd", "cache_write_usd", "cache_read_usd", "output_usd")
    assert sum(whole[name] for name in spent) == pytest.approx(whole["as_sent_usd"])
    assert sum(part["as_sent_usd"] for part in parts) == pytest.approx(whole["as_sent_usd"])
    lost = sum(row["usd"] for row in whole["lost"])
    assert whole["compared_usd"] - whole["achievable_usd"] == pytest.approx(lost)
    assert whole["ceiling_usd"] <= whole["ttl_5m_usd"] + 1e-12


def test_as_the_agent_counted(tmp_path: Path) -> None:
    """pi writes what each call cost, by kind of token: ours are the same to the last digit."""
    source = SHARED / "traces" / "pi_session" / "large-session.jsonl"
    theirs = dict.fromkeys(("input", "cacheWrite", "cacheRead", "output", "total"), 0.0)
    for line in source.read_text("utf-8").splitlines():
        message = json.loads(line).get("message", {})
        for name in theirs:
            theirs[name] += message.get("usage", {}).get("cost", {}).get(name, 0) if isinstance(message, dict) else 0
    ingest([str(source)], tmp_path / "ds")
    row = cost(open_dataset(tmp_path / "ds"), Question(), load_prices())["rows"][0]
    ours = [row[name] for name in ("input_usd", "cache_write_usd", "cache_read_usd", "output_usd", "as_sent_usd")]
    assert ours == pytest.approx(list(theirs.values()))
    assert theirs["total"] > 30


def test_as_the_gateway_counted(tmp_path: Path) -> None:
    """LiteLLM's `response_cost` of a call without cached tokens."""
    source = SHARED / "traces" / "litellm" / "standard_logging_payload.json"
    ingest([str(source)], tmp_path / "ds")
    row = cost(open_dataset(tmp_path / "ds"), Question(), load_prices())["rows"][0]
    assert row["no_cache_usd"] == pytest.approx(json.loads(source.read_text())["response_cost"])


def test_gpu_seconds_are_those_of_each_prefill(tmp_path: Path) -> None:
    """Two prompts, the second with 4,000 of 6,000 tokens hit: the sum of what `prefill_work` says of each."""
    warehouse = made(tmp_path / "d", [call(0, 4000, 0, 0), call(600, 6000, 3000, 0)])
    service = Service(load_model("deepseek-v3.2"), load_gpu("h200"))
    found = gpu_seconds(warehouse, Question(block_size=1), service, 3.6)
    peak, (low, high) = service.peak_flops, service.assumptions.mfu

    def seconds(*rates: float) -> list[float]:
        flops = sum(prefill_work(service.model, n, h).flops for n, h in zip((4000, 6000), rates, strict=True))
        return [pytest.approx(flops / peak / high), pytest.approx(flops / peak / low)]

    assert found["no_cache"] == seconds(0, 0)
    assert found["ceiling"] == seconds(0, 4 / 6)
    assert found["reported"] == seconds(0, 0.5)
    assert found["reported_ceiling"] == found["ceiling"]
    assert found["ceiling_usd"] == pytest.approx([s / 1000 for s in found["ceiling"]])
