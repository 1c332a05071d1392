"""What is planted is found again: in generated sessions of every form, in public conversations, and in block ids."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.planted.hashes import HASH_KINDS, plant_hashes, real_lengths
from tests.planted.planter import plant
from tests.planted.score import KINDS, Planted, found_labels, score
from tests.planted.sessions import public
from tests.planted.slots import FORMS, Slot
from tests.planted.words import sentence

LETTERS = dict(zip(KINDS, "cndtriIwsExf", strict=True)) | {None: "."}
"""A letter for each kind, for verdicts of many rows in a line."""


def labelled(made: Planted, folder: Path, tokenizer: str, hashes: bool = False) -> list[str | None]:
    labels, lost = found_labels(made.rows, folder, tokenizer, by_transition=hashes)
    assert lost == made.lost
    return labels


Pool = tuple[list[str | None], list[str | None]]
"""What was planted in the scored rows of several datasets, and what was found."""


def add(pool: Pool, made: Planted, folder: Path, tokenizer: str, hashes: bool = False) -> None:
    folder.mkdir()
    for known, more in zip(pool, made.scored(labelled(made, folder, tokenizer, hashes)), strict=True):
        known.extend(more)


def check(pool: Pool, least: float = 0.99) -> None:
    for kind, found in score(*pool).items():
        assert min(found.precision, found.recall) >= least, (kind, found)


WRITTEN = [
    ("messages", "openai", "o200k_base"), ("messages", "anthropic", "bytes"), ("messages", "text", "o200k_base"),
    ("messages", "responses", "bytes"), ("headed", "openai", "o200k_base"), ("chatml", "openai", "bytes"),
    ("headed", "text", "bytes"), ("chatml", "text", "o200k_base"),
]  # fmt: skip
"""Ways to write a prompt: how, whose messages, and the tokenizer."""

SEEDS = (1, 2, 3)
"""The first seeds, whatever they give; the sets of all of them are scored together."""


def test_mixed_causes_in_every_form_of_prompt(tmp_path: Path) -> None:
    pool: Pool = ([], [])
    for seed in SEEDS:
        for number, (written, style, tokenizer) in enumerate(WRITTEN):
            made = plant(seed, tokenizer, dict.fromkeys(KINDS, 0.05), hard=False, style=style, written=written)
            add(pool, made, tmp_path / f"{seed}-{number}", tokenizer)
    counts = {kind: found.planted for kind, found in score(*pool).items()}
    assert set(counts) == set(KINDS)
    assert min(counts.values()) > 20
    check(pool)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_alone(tmp_path: Path, kind: str) -> None:
    pool: Pool = ([], [])
    for seed in SEEDS:
        add(
            pool,
            plant(seed, "bytes", {kind: 0.25}, hard=False, style="openai", least=80),
            tmp_path / str(seed),
            "bytes",
        )
    assert kind in pool[0]
    assert pool[1] == pool[0]


def test_sessions_that_only_grow_have_no_divergences(tmp_path: Path) -> None:
    made = plant(5, "o200k_base", {}, least=80)
    assert set(labelled(made, tmp_path, "o200k_base")) == {None}
    assert not any(made.lost)


def test_mixed_causes_in_real_conversations(tmp_path: Path) -> None:
    conversations = public()
    if not conversations:
        pytest.skip("the public transcripts are not beside the checkout")
    pool: Pool = ([], [])
    for seed in range(1, 9):
        made = plant(seed, "o200k_base", dict.fromkeys(KINDS, 0.05), hard=False, into=conversations)
        add(pool, made, tmp_path / str(seed), "o200k_base")
    check(pool)


def test_mixed_causes_in_real_sessions_of_block_ids(tmp_path: Path) -> None:
    lengths = real_lengths(40)
    if not lengths:
        pytest.skip("the published sessions are not beside the checkout")
    pool: Pool = ([], [])
    for seed in SEEDS:
        add(
            pool,
            plant_hashes(seed, lengths, dict.fromkeys(HASH_KINDS, 0.05)),
            tmp_path / str(seed),
            "bytes",
            hashes=True,
        )
    check(pool)


VERDICTS = (Path(__file__).parent / "verdicts.txt").read_text().splitlines()
"""Every verdict of `test_whatever_harnesses_change`, a line per seed: what is named otherwise later is seen."""


def test_whatever_harnesses_change(tmp_path: Path) -> None:
    # the hard causes: anything anywhere in a prompt, at rates from rare to constant
    planted = []
    for seed in range(1, 9):
        tokenizer = ("bytes", "o200k_base")[seed % 2]
        made = plant(seed, tokenizer)
        (folder := tmp_path / str(seed)).mkdir()
        labels = labelled(made, folder, tokenizer)
        assert "".join(LETTERS[label] for label in labels) == VERDICTS[seed - 1]
        truth, labels = made.scored(labels)
        assert all(x is None for t, x in zip(truth, labels, strict=True) if t is None)
        planted += [(t, x) for t, x in zip(truth, labels, strict=True) if t is not None]
    assert len(planted) > 150
    assert sum(t == x for t, x in planted) >= 0.97 * len(planted)


def test_every_wording_of_what_is_written_anew(tmp_path: Path) -> None:
    # One line is all that changes, several times, somewhere in a prompt of many lines.
    wordings = [(kind, form) for kind, forms in FORMS.items() for form in range(len(forms))]
    r = random.Random(8)
    rows, truth = [], []
    for number, (kind, form) in enumerate(wordings):
        lines = [sentence(r) for _ in range(30)]
        where, seen, slot = r.randint(0, 29), set[str](), Slot(r, kind, form)
        for turn in range(6):
            while slot.text() in seen:  # what was there before would be hit again
                slot.step(r)
            seen.add(slot.text())
            text = "\n".join([*lines[:where], slot.text(), *lines[where:], *(f"turn {i}" for i in range(turn))])
            rows.append({"ts": 1000 * number + turn, "session_id": f"s{number}", "prompt": f"{number}\n{text}\n"})
            truth.append(kind if turn else None)
    labels, _ = found_labels(rows, tmp_path, "o200k_base")
    wrong = [(wordings[i // 6], rows[i]["prompt"], labels[i]) for i in range(len(rows)) if labels[i] != truth[i]]
    assert wrong == []


def test_a_score_counts_what_was_planted_and_what_was_found() -> None:
    assert score(["a", "a", None, "b"], ["a", None, "a", "b"]) == {"a": (2, 0.5, 0.5), "b": (1, 1.0, 1.0)}
