"""What a second planter plants is found again, whatever its wording and however the prompt is written."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from tests.planted import planted_texts
from tests.planted.planted import KINDS
from tests.planted.planted_mixes import mix
from tests.planted.planted_prompts import DIALECTS, lost_tokens, turns_of
from tests.planted.planted_score import found_labels, score
from tests.references import naive

SFT = naive.SHARED / "traces" / "openai_messages_sft" / "swesmith_ft_xml.head2.jsonl"


@pytest.mark.parametrize(("dialect", "tokenizer"), [*zip(DIALECTS, ("bytes", "o200k_base") * 2, strict=True)])
def test_mixed_causes_in_every_way_to_write_a_prompt(tmp_path: Path, dialect: str, tokenizer: str) -> None:
    made = mix(71, 12, dict.fromkeys(KINDS, 0.08), dialect)
    labels, lost = found_labels(made.rows, tmp_path, tokenizer)
    for kind, found in score(made.truth, labels).items():
        assert min(found.precision, found.recall) >= 0.99, (kind, found)
    assert lost == lost_tokens(made.rows, tokenizer)


def test_mixed_causes_in_real_conversations(tmp_path: Path) -> None:
    real = [turns_of(json.loads(line)["messages"]) for line in SFT.read_text().splitlines()]
    made = mix(72, 4, dict.fromkeys(KINDS, 0.08), "chat", real)
    labels, lost = found_labels(made.rows, tmp_path, "o200k_base")
    for kind, found in score(made.truth, labels).items():
        assert min(found.precision, found.recall) >= 0.99, (kind, found)
    assert lost == lost_tokens(made.rows, "o200k_base")


FORMS = [
    *(("clock", place) for place in range(len(planted_texts.CLOCKS))),
    *(("nonce", place) for place in range(len(planted_texts.NONCES))),
    *(("working_directory", place) for place in range(len(planted_texts.PLACES))),
]


def test_every_wording_of_what_changes_in_a_system_prompt(tmp_path: Path) -> None:
    # One line is all that changes, several times, somewhere in a prompt of many lines.
    tables = {"clock": planted_texts.CLOCKS, "nonce": planted_texts.NONCES, "working_directory": planted_texts.PLACES}
    rng = random.Random(8)
    rows, truth = [], []
    for number, (kind, place) in enumerate(FORMS):
        lines = [planted_texts.sentence(rng) for _ in range(30)]
        where, seen, told = rng.randint(0, 29), {""}, ""
        for turn in range(6):
            while told in seen:  # what was there before would be hit again
                told = tables[kind][place](rng)
            seen.add(told)
            text = "\n".join([*lines[:where], told, *lines[where:], *(f"turn {i} of {number}" for i in range(turn))])
            rows.append({"ts": 1000 * number + turn, "session_id": f"s{number}", "prompt": text + "\n"})
            truth.append(kind if turn else None)
    labels, _ = found_labels(rows, tmp_path, "o200k_base")
    wrong = [(FORMS[i // 6], rows[i]["prompt"], labels[i]) for i in range(len(rows)) if labels[i] != truth[i]]
    assert wrong == []
