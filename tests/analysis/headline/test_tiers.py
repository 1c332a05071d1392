"""Tiers of a cache: each block once, or copies below; real traces with the figures that replays of both gave."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.headline.curves import TIER_MODES, curve
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import Warehouse, open_dataset
from tests.places import SHARED
from traces.intake.ingest import ingest


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """The first 6,000 requests of the Mooncake conversation, blocks of 512."""
    folder = tmp_path_factory.mktemp("tiers")
    ingest([str(SHARED / "traces" / "mooncake" / "conversation_trace.head6000.jsonl")], folder / "ds")
    return open_dataset(folder / "ds")


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 20_000), min_size=1, max_size=4), st.sampled_from(list(TIER_MODES)))
def test_tiers_reach_as_far_as_their_sum_or_the_largest(conversation: Warehouse, sizes: list[int], mode: str) -> None:
    tiers = curve(conversation, Question(), tiers_blocks=sizes, tier_mode=mode)
    reach = sum(sizes) if mode == "exclusive" else max(sizes)
    together = curve(conversation, Question(), capacity_blocks=[reach])["hit_tokens"][0] if reach else 0
    assert tiers["hit_tokens"].sum() == together
    first = curve(conversation, Question(), capacity_blocks=[sizes[0]])["hit_tokens"][0] if sizes[0] else 0
    assert tiers["hit_tokens"][0] == first


def test_copies_of_a_write_through_tier(conversation: Warehouse) -> None:
    """A replay of SGLang's write-through with 6,000 + 12,000 blocks gives 23.5 %; the sum of both says more."""
    rates = {
        mode: curve(conversation, Question(), tiers_blocks=[6000, 12_000], tier_mode=mode)["hit_rate"].sum()
        for mode in TIER_MODES
    }
    assert rates["inclusive"] == pytest.approx(0.235, abs=0.0005)
    assert rates["exclusive"] > 0.28


def test_an_unknown_mode_names_those_there_are(conversation: Warehouse) -> None:
    with pytest.raises(BadQuestion, match="exclusive, inclusive"):
        curve(conversation, Question(), tiers_blocks=[1], tier_mode="both")
