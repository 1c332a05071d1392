from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.places import SHARED
from traces.source.limits import MOST_TOKENS
from traces.usage.evidence import Meanings
from traces.usage.rules import Usage, count, normalise

ANTHROPIC = {
    "input_tokens": 3,
    "cache_read_input_tokens": 1111,
    "cache_creation_input_tokens": 20,
    "output_tokens": 406,
}

SHAPES: list[tuple[dict[str, Any], str | None, tuple[int | None, ...]]] = [
    (ANTHROPIC, None, (1134, 1111, 20, 406, None)),
    ({**ANTHROPIC, "input_tokens": 1134}, "goose", (1134, 1111, 20, 406, None)),
    (
        {
            "input_tokens": 2,
            "cache_read_input_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 12},
            "output_tokens": 4,
            "output_tokens_details": {"thinking_tokens": 1},
        },
        None,
        (49, 5, 42, 4, 1),
    ),
    (
        {
            "input_tokens": 229,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "output_tokens": 81,
            "iterations": [
                {
                    "input_tokens": 100,
                    "cache_read_input_tokens": 0,
                    "cache_creation_input_tokens": 55096,
                    "output_tokens": 131,
                },
                {
                    "input_tokens": 229,
                    "cache_read_input_tokens": 0,
                    "cache_creation_input_tokens": 0,
                    "output_tokens": 81,
                },
            ],
        },
        "anthropic",
        (55425, 0, 55096, 212, None),
    ),
    (
        {
            "input_tokens": 7,
            "cache_read_input_tokens": None,
            "cache_creation_input_tokens": None,
            "output_tokens": None,
        },
        None,
        (7, None, None, None, None),
    ),
    ({"input_tokens": 20, "output_tokens": 25}, "anthropic", (20, None, None, 25, None)),
    (
        {
            "prompt_tokens": 3439,
            "completion_tokens": 104,
            "prompt_tokens_details": {"audio_tokens": None, "cached_tokens": 0},
            "cache_creation_input_tokens": 3435,
            "cache_read_input_tokens": 0,
        },
        "anthropic",
        (3439, 0, 3435, 104, None),
    ),
    (
        {
            "prompt_tokens": 4020,
            "completion_tokens": 4,
            "total_tokens": 4024,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 4012},
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "openai",
        (4020, 0, 4012, 4, 0),
    ),
    (
        {"prompt_tokens": 800, "completion_tokens": 40, "total_tokens": 840, "prompt_tokens_details": None},
        "vllm",
        (800, None, None, 40, None),
    ),
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 22,
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        "xai",
        (10, None, None, 12, 7),
    ),
    (
        {
            "input_tokens": 4020,
            "input_tokens_details": {"cached_tokens": 128, "cache_write_tokens": 4012},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        None,
        (4020, 128, 4012, 5, 2),
    ),
    (
        {
            "input_tokens": 16341,
            "cached_input_tokens": 3584,
            "cache_write_input_tokens": 0,
            "output_tokens": 81,
            "reasoning_output_tokens": 63,
            "total_tokens": 16422,
        },
        None,
        (16341, 3584, 0, 81, 63),
    ),
    (
        {
            "promptTokenCount": 3520,
            "cachedContentTokenCount": 3512,
            "candidatesTokenCount": 2,
            "thoughtsTokenCount": 42,
            "toolUsePromptTokenCount": 30,
        },
        None,
        (3550, 3512, None, 44, 42),
    ),
    (
        {"input": 13629, "output": 52, "cached": 6979, "thoughts": 86, "tool": 0, "total": 13767},
        None,
        (13629, 6979, None, 138, 86),
    ),
    (
        {
            "inputTokens": 433,
            "cacheReadInputTokens": 2752,
            "cacheReadInputTokenCount": 2752,
            "cacheWriteInputTokens": 0,
            "outputTokens": 16,
            "totalTokens": 3201,
        },
        None,
        (3185, 2752, 0, 16, None),
    ),
    (
        {"inputTokens": 900, "cachedInputTokens": 600, "outputTokens": 10, "reasoningTokens": 4},
        None,
        (900, 600, None, 10, 4),
    ),
    ({"tokensIn": 9, "cacheReads": 90, "cacheWrites": 1, "tokensOut": 2}, "anthropic", (100, 90, 1, 2, None)),
    ({"tokensIn": 99, "cacheReads": 90, "cacheWrites": 1, "tokensOut": 2}, "openai", (99, 90, 1, 2, None)),
    (
        {"input": 2, "output": 50, "cacheRead": 0, "cacheWrite": 42061, "totalTokens": 42113, "cost": {"total": 0}},
        None,
        (42063, 0, 42061, 50, None),
    ),
    (
        {"inputOther": 9431, "output": 42, "inputCacheRead": 14848, "inputCacheCreation": 0},
        None,
        (24279, 14848, 0, 42, None),
    ),
    (
        {"input": 5, "output": 10, "reasoning": 20, "cache": {"read": 100, "write": 7}},
        None,
        (112, 100, 7, 30, 20),
    ),
    (  # before output was given without reasoning: the total has it once
        {"input": 5, "output": 30, "reasoning": 20, "cache": {"read": 100, "write": 7}, "total": 142},
        None,
        (112, 100, 7, 30, 20),
    ),
    (
        {"input": 5, "output": 10, "reasoning": 20, "cache": {"read": 100, "write": 7}, "total": 142},
        None,
        (112, 100, 7, 30, 20),
    ),
    (
        {
            "gen_ai.usage.input_tokens": "100",
            "gen_ai.usage.cache_read.input_tokens": "80",
            "gen_ai.usage.output_tokens": 3,
        },
        None,
        (100, 80, None, 3, None),
    ),
    (
        {"gen_ai.usage.input_tokens": 4, "gen_ai.usage.cache_read_input_tokens": 80, "gen_ai.usage.output_tokens": 3},
        "anthropic",
        (84, 80, None, 3, None),
    ),
    (
        {"llm.token_count.prompt": 10, "llm.token_count.completion": 2, "llm.token_count.prompt_details.cache_read": 8},
        None,
        (10, 8, None, 2, None),
    ),
    (
        {
            "input_tokens": 43,
            "output_tokens": 2497,
            "total_tokens": 2540,
            "input_token_details": {"cache_read": 0},
            "output_token_details": {"reasoning": 1408},
        },
        None,
        (43, 0, None, 2497, 1408),
    ),
    (
        {
            "input_tokens": 1028,
            "output_tokens": 483,
            "total_tokens": 9240,
            "input_tokens_cache_read": 3739,
            "input_tokens_cache_write": 3990,
        },
        None,
        (8757, 3739, 3990, 483, None),
    ),
    (
        {
            "input_tokens": 15235,
            "output_tokens": 281,
            "total_tokens": 15516,
            "input_tokens_cache_read": 9088,
            "reasoning_tokens": 0,
        },
        None,
        (15235, 9088, None, 281, 0),
    ),
    (
        {"input": 60, "output": 15, "total": 75, "input_cache_read": 40, "output_reasoning": 5},
        None,
        (60, 40, None, 15, 5),
    ),
    (
        {"input": 20, "output": 10, "total": 75, "input_cache_read": 40, "output_reasoning": 5},
        None,
        (60, 40, None, 15, 5),
    ),
    (
        {"input": 20, "output": 15, "total": 75, "cache_read_input_tokens": 40},
        "anthropic",
        (60, 40, None, 15, None),
    ),
    ({"input": 1988, "total": 1988}, None, (1988, None, None, None, None)),
    ({"input_length": 7, "output_length": 3}, None, (7, None, None, 3, None)),
    ({"ContextTokens": "374", "GeneratedTokens": "44"}, None, (374, None, None, 44, None)),
    ({"input_tokens": 10, "output_tokens": 2, "cached_tokens": 8}, None, (10, 8, None, 2, None)),
]


@pytest.mark.parametrize(("usage", "provider", "expected"), SHAPES)
def test_shapes(usage: dict[str, Any], provider: str | None, expected: tuple[int | None, ...]) -> None:
    assert normalise(usage, provider) == Usage(*expected)


@pytest.mark.parametrize("usage", [None, {}, {"cost": 1.0}, {"service_tier": "standard"}])
def test_nothing_known_is_unknown(usage: dict[str, Any] | None) -> None:
    assert normalise(usage) == Usage()


def test_a_source_can_say_that_its_input_excludes_cached_tokens() -> None:
    usage = {"gen_ai.usage.input_tokens": 90, "gen_ai.usage.cache_read_input_tokens": 80}
    assert normalise(usage, "anthropic").input_tokens == 90
    assert normalise(usage, "anthropic", disjoint=True).input_tokens == 170


def test_cached_above_input_shows_that_the_input_leaves_it_out() -> None:
    usage = normalise({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens": 1})
    assert (usage.input_tokens, usage.cache_read_tokens) == (50, 40)


def test_totals_of_a_source_whose_input_leaves_cached_tokens_out_do_not_say_otherwise() -> None:
    # One object proves that the input leaves cached tokens out; its total adds input and output, so all totals may.
    logged = [(5000, 5500), (6000, 5600)]
    objects = [{"input_tokens": i, "cached_tokens": c, "output_tokens": 1, "total_tokens": i + 1} for i, c in logged]
    first = Meanings()
    for usage in objects:
        normalise(usage, meanings=first)
    decided = Meanings(first.decisions())
    assert first.changed_by(first.decisions())
    assert [normalise(usage, meanings=decided).input_tokens for usage in objects] == [10_500, 11_600]
    assert [(one.meaning, one.records) for one in decided.evidence()] == [("input excludes cached tokens", 2)]


@pytest.mark.parametrize("bad", [-1, "-1", float("nan"), float("inf"), 1.5, True, "many", [1], 1 << 60, "9" * 400])
def test_no_count_is_an_error_that_names_the_field(bad: object) -> None:
    with pytest.raises(ValueError, match="input_tokens"):
        normalise({"input_tokens": bad, "output_tokens": 1})


@settings(deadline=None, max_examples=50)
@given(st.integers(min_value=0, max_value=MOST_TOKENS))
def test_numbers_as_texts_and_floats(tokens: int) -> None:
    assert count(str(tokens), "x") == count(float(tokens), "x") == count(tokens, "x") == tokens


@settings(deadline=None, max_examples=50)
@given(*[st.integers(min_value=0, max_value=10**6)] * 4)
def test_anthropic_parts_add_up(fresh: int, read: int, written: int, output: int) -> None:
    usage = normalise(
        {
            "input_tokens": fresh,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": output,
        }
    )
    assert usage == Usage(fresh + read + written, read, written, output)


@settings(deadline=None, max_examples=50)
@given(*[st.integers(min_value=0, max_value=10**6)] * 4, st.booleans())
def test_the_quick_way_for_anthropic_is_the_general_way(a: int, b: int, c: int, d: int, split: bool) -> None:
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    usage: dict[str, Any] = dict(zip(names, (a, b, c, d), strict=True)) | {"service_tier": "standard"}
    if split:
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": c, "ephemeral_1h_input_tokens": 0}
    quick, general = Meanings(), Meanings()
    assert quick.read_anthropic(usage, "anthropic", "m") == general.read(usage, "anthropic", "m")
    assert quick.evidence() == general.evidence()


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(*[st.one_of(st.integers(-1, 10**6), st.none(), st.just("12"))] * 2), max_size=6))
def test_the_quick_way_for_lengths_alone_is_the_general_way(rows: list[tuple[Any, Any]]) -> None:
    """The first object of two figures is read the general way, those after it the quick one."""
    meanings = Meanings()
    for given_, made in [(5, 1), *rows]:
        usage = {"prompt_tokens": given_, "completion_tokens": made}
        try:
            general = Meanings().read(usage, "openai", "m")
        except ValueError as error:
            with pytest.raises(ValueError, match=re.escape(str(error))):
                meanings.read(usage, "openai", "m")
        else:
            assert meanings.read(usage, "openai", "m") == general


def _case(name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    case = SHARED / "cases" / name
    rows = [json.loads(line) for line in (case / "input.jsonl").read_text().splitlines()]
    return rows, json.loads((case / "expected.json").read_text())


def test_case_10_anthropic_total_input() -> None:
    rows, expected = _case("10-anthropic-total-input")
    usages = [normalise(row["usage"], row["provider"]) for row in rows]
    assert sum(usage.input_tokens or 0 for usage in usages) == expected["input_tokens"]
    assert sum(usage.cache_read_tokens or 0 for usage in usages) == expected["cached_input_tokens"]


@pytest.mark.parametrize("named", [True, False])
def test_case_12_mixed_providers(named: bool) -> None:
    rows, expected = _case("12-mixed-providers-over-100")
    usages = [normalise(row["usage"], row["provider"] if named else None) for row in rows]
    known = [usage for usage in usages if usage.cache_read_tokens is not None]
    assert [usage.input_tokens for usage in usages] == [1000, 1200, 1000, 2000, 800]
    assert sum(usage.output_tokens or 0 for usage in usages) == expected["output_tokens"]
    assert len(known) == expected["cache_known_requests"]
    assert sum(usage.input_tokens or 0 for usage in known) == expected["cache_known_input_tokens"]
    assert sum(usage.cache_read_tokens or 0 for usage in known) == expected["cached_input_tokens"]
