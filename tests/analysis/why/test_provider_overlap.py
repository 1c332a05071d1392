"""Where a log holds prompts and what the provider's cache gave for them, what prompts share says the same.

Of a provider that caches by itself the tokens read are the full blocks, of its own size, of the prefix that the
prompt shares with an earlier one, exactly. Of one that caches up to marks they are no more than that prefix and within
one block of 64 tokens of it, unless the mark was further up: then they are exactly what an earlier call left there.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.traces.formats.gateways.reading import read, shared
from traces.dataset.layout import Dataset

BLOCK = 64


class Call(NamedTuple):
    """A call whose prompt and reported cache figures are known. `shared`: with any earlier such call of its model."""

    model: str
    tokens: int
    shared: int
    read: int
    written: int | None


def _calls(tmp_path: Path, *path: str) -> list[Call]:
    _, table = read(tmp_path, shared(*path))
    nodes = Dataset(tmp_path / "dataset").read("prefixes").sort("prefix_id")
    parent, end = nodes["parent_id"].to_list(), nodes["end_token"].to_list()
    seen: dict[str, set[int]] = {}
    found = []
    for row in table.iter_rows(named=True):
        at, before, on_path = row["prefix_id"], seen.setdefault(row["model"], {0}), []
        if at is None:
            continue
        while at not in before:
            on_path.append(at)
            at = parent[at]
        if row["cache_read_tokens"] is not None:
            before.update(on_path)
            counts = row["cache_read_tokens"], row["cache_write_tokens"]
            found.append(Call(row["model"], row["input_tokens"], end[at], *counts))
    return found


@pytest.mark.parametrize(
    ("path", "block", "warm"),
    [
        ("other_agents/kimi/assistant_tools.jsonl", 256, 22),
        ("other_agents/kimi/subagent_agent-0.jsonl", 256, 2),
        ("mistral_chat/test_mistral_history_uses_prompt_cache.pairs.jsonl", 32, 1),
    ],
)
def test_of_a_cache_by_blocks_the_full_shared_ones_were_read(path: str, block: int, warm: int, tmp_path: Path) -> None:
    calls = [call for call in _calls(tmp_path, *path.split("/")) if call.shared]
    assert len(calls) == warm
    assert [call.read for call in calls] == [call.shared // block * block for call in calls]


def test_of_a_prompt_in_the_tokenizers_lengths_the_providers_count_of_the_one_before_it_was_read(
    tmp_path: Path,
) -> None:
    """An Inspect log tokenises its prompts, so the length of what is shared is that of the prompt that it extends."""
    calls = _calls(tmp_path, "inspect_eval", "2025-05-12T20-27-36-04-00_browser.json")
    assert len(calls) == 5
    for before, after in pairwise(calls):
        assert after.read == before.tokens // 128 * 128
        assert after.shared >= after.read


MARKED = [
    ("agentsight_ssl/claude_code_gen_readme.messages_only.json", 9),
    ("anthropic_messages/test_anthropic_cache_real_api.pairs.jsonl", 1),
    ("anthropic_messages/test_inline_system_prompt_cache_prefix_is_reused.pairs.jsonl", 1),
    ("anthropic_messages/openllmetry_anthropic_prompt_caching.yaml", 1),
    ("bedrock_converse/test_bedrock_single_tool_choice_preserves_cache[anthropic].pairs.jsonl", 3),
    ("gemini_api/test_google_model_cached_content.pairs.jsonl", 1),
    ("openai_chat/test_openai_chat_prompt_cache_e2e.pairs.jsonl", 1),
    ("openai_responses/test_openai_responses_prompt_cache_e2e.pairs.jsonl", 1),
]
"""Logs and their warm calls. Left out: the log with tools of the provider's own, whose usage adds up two rounds."""


@pytest.mark.parametrize(("path", "warm"), MARKED)
def test_of_a_cache_up_to_marks_no_more_was_read_than_is_shared(path: str, warm: int, tmp_path: Path) -> None:
    calls = _calls(tmp_path, *path.split("/"))
    before: set[int] = set()
    checked = 0
    for call in calls:
        if call.read and call.shared:
            checked += 1
            assert call.read <= call.shared
            assert call.shared // BLOCK - call.read // BLOCK <= 1 or call.read in before
        before.add(call.read + (call.written or 0))
    assert checked == warm


def test_openhands_logs_have_no_cached_tokens_to_hold_their_overlap_against(tmp_path: Path) -> None:
    """Caching was off in all six: no cache marks were sent, and nothing was written or read. What prompts share is
    then what a cache would have given: each extends the one before it as a whole.
    """
    folder = shared("openhands_llm_logs")
    texts = [path.read_text("utf-8") for path in sorted(folder.iterdir())]
    assert not any("cache_control" in text for text in texts)
    assert {json.loads(text)["response"]["usage"]["cache_creation_input_tokens"] for text in texts} == {0}
    calls = _calls(tmp_path, "openhands_llm_logs")
    assert [(call.read, call.written) for call in calls] == [(0, 0)] * 6
    _, table = read(tmp_path, folder)
    assert [call.shared for call in calls] == [0, *table["prefix_tokens"].to_list()[:-1]]
