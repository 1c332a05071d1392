"""Texts that are counted together, beside the reader, have the counts that each has alone."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.dataset.layout import Dataset
from traces.intake.ingest import ingest
from traces.text import text_counts, tokens
from traces.text.text_counts import TextCounts
from traces.text.tokens import load_tokenizer

TEXTS = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.text(alphabet=["\0", "\x1e", "\x1f", "a", " ", "\n"], max_size=8),
        st.sampled_from(["", "<|endoftext|>", "\ud800 lone", " " * 500, "naïve 日本語\r\n"]),
    ),
    max_size=12,
)


@given(TEXTS, st.sampled_from(["o200k_base", "cl100k_base", "bytes"]), st.sampled_from([1, 7, 1 << 20]))
@settings(max_examples=80, deadline=None)
def test_together_as_one_by_one(texts: list[str], name: str, together: int) -> None:
    tokenizer = load_tokenizer(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "TOGETHER_CHARS", together)
        assert tokenizer.count_all(texts) == [tokenizer.count(text) for text in texts]


def test_a_text_of_many_parts_between_short_ones() -> None:
    tokenizer = load_tokenizer()
    texts = ["one", "line of text\n" * 30_000, "two", " " * 300_000]
    assert tokenizer.count_all(texts) == [tokenizer.count(text) for text in texts]


def test_equal_texts_have_one_number_and_are_counted_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_counts, "BATCH_CHARS", 10)
    counts = TextCounts(load_tokenizer("bytes"))
    texts = [f"{n:03d}" * (n % 7) for n in range(200)]
    numbers = [counts.number(text) for text in texts]
    assert [counts.number(text) for text in texts] == numbers
    counts.settle(max(numbers) + 1)
    assert [counts.tokens[number] for number in numbers] == [len(text) for text in texts]


def _transcript(name: str, calls: int) -> bytes:
    lines: list[dict[str, object]] = []
    above = None
    for call in range(calls):
        for kind in ("user", "assistant"):
            content = [{"type": "text", "text": f"{kind} {name} {call} " * (call + 1)}]
            message: dict[str, object] = {"role": kind, "content": content}
            if kind == "assistant":
                usage = {"input_tokens": 50 * (call + 1), "output_tokens": 7}
                message |= {"id": f"{name}-{call}", "model": "m", "usage": usage, "stop_reason": "end_turn"}
            uuid = f"{name}-{kind}-{call}"
            lines.append({"type": kind, "uuid": uuid, "parentUuid": above, "sessionId": name, "message": message,
                          "timestamp": f"2026-01-01T00:00:{call:02d}Z"})  # fmt: skip
            above = uuid
    return b"not json\n" + b"\n".join(map(orjson.dumps, lines)) + b"\n"


def test_inputs_read_beside_each_other_are_as_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for at in range(9):
        files.append(tmp_path / f"{at}.jsonl")
        files[-1].write_bytes(_transcript(f"s{at}", at + 1) if at != 4 else b'{"timestamp": 1, "hash_ids": [1]}\n')
    made = []
    for beside, batch in ((64, 1 << 19), (0, 1), (2, 300)):
        monkeypatch.setattr("traces.intake.inputs.OPEN_BESIDE", beside)
        monkeypatch.setattr(text_counts, "BATCH_CHARS", batch)
        out = tmp_path / f"ds{beside}"
        receipt = ingest([str(file) for file in files], out)
        dataset = Dataset(out)
        tables = [dataset.read(table).drop("source_id", strict=False).rows() for table in ("requests", "prefixes")]
        made.append((receipt["records"], receipt["rejects"], tables))
    assert made[0] == made[1] == made[2]
    assert made[0][0]["rejected"] >= 8
    assert sum(1 for rejected in made[0][1] if rejected["line"] == 1) >= 8
