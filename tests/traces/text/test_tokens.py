from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.places import SHARED
from traces.text import tokens
from traces.text.tokens import load_tokenizer


def test_known_ids_of_both_vocabularies() -> None:
    # Published examples of tiktoken's README and of OpenAI's tokenizer page.
    assert load_tokenizer("o200k_base").encode("hello world").tolist() == [24912, 2375]
    assert load_tokenizer("cl100k_base").encode("hello world").tolist() == [15339, 1917]
    assert load_tokenizer("bytes").encode("hé").tolist() == [104, 195, 169]


def test_special_tokens_are_text() -> None:
    o200k = load_tokenizer()
    assert o200k.count("<|endoftext|>") > 1
    assert 199999 not in o200k.encode("<|endoftext|>")


@pytest.mark.parametrize("text", [" " * 1_200_000, "\t" * 1_200_000, "a b " * 100_000, "=" * 300_000])
def test_long_runs_neither_panic_nor_stall(text: str) -> None:
    count = load_tokenizer().count(text)
    assert 0 < count <= len(text)


def test_lone_surrogates_count_as_replacement_characters() -> None:
    o200k = load_tokenizer()
    assert o200k.encode("a\ud83db").tolist() == o200k.encode("a\ufffdb").tolist()
    assert tokens.plain("\ud83d\ude00") == "\U0001f600"


@settings(deadline=None, max_examples=60)
@given(st.text(alphabet="aB1_ \n\t/é.", max_size=400), st.integers(min_value=5, max_value=60))
@example("\nB1B11", 5)
def test_cuts_at_line_starts_leave_the_ids_alone(text: str, size: int) -> None:
    whole = load_tokenizer().encode(text)
    parts = re.split(r"(?<=\n)(?=[A-Za-z])", text)
    before = tokens.CHUNK_CHARS
    tokens.CHUNK_CHARS = max(size, *map(len, parts))
    try:
        assert "".join(tokens.chunks(text)) == text
        assert load_tokenizer().encode(text).tolist() == whole.tolist()
    finally:
        tokens.CHUNK_CHARS = before


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=300))
def test_count_is_the_length_of_encode(text: str) -> None:
    for name in tokens.KNOWN:
        tokenizer = load_tokenizer(name)
        ids = tokenizer.encode(text)
        assert ids.dtype == np.uint32
        assert tokenizer.count(text) == len(ids) <= len(text.encode("utf-8", "replace")) * 3


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="o200k_base, cl100k_base, bytes"):
        load_tokenizer("gpt-9")


def test_local_ranks_file(tmp_path: Path) -> None:
    ranks = [bytes([byte]) for byte in range(256)] + [b"ab", b"abab"]
    path = tmp_path / "small.tiktoken"
    path.write_bytes(b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(ranks)))
    tokenizer = load_tokenizer(str(path))
    assert tokenizer.encode("ababab").tolist() == [257, 256]
    assert len(tokenizer.digest) == 64
    path.write_bytes(b"YWI= 0\n")
    load_tokenizer.cache_clear()
    with pytest.raises(ValueError, match="256 of the 256 single bytes"):
        load_tokenizer(str(path))
    path.write_bytes(b"not a vocabulary\n")
    with pytest.raises(ValueError, match="no tiktoken ranks file"):
        load_tokenizer(str(path))


def test_local_tokenizer_json(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "truncation": {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0},
                "added_tokens": [
                    {
                        "id": 3,
                        "content": "<|end|>",
                        "special": True,
                        "single_word": False,
                        "lstrip": False,
                        "rstrip": False,
                        "normalized": False,
                    }
                ],
                "pre_tokenizer": {"type": "Whitespace"},
                "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "world": 2}, "unk_token": "[UNK]"},
            }
        )
    )
    tokenizer = load_tokenizer(str(path))
    assert tokenizer.encode("hello world hello").tolist() == [1, 2, 1]
    assert 3 not in tokenizer.encode("hello <|end|>")
    path.write_text("{}")
    load_tokenizer.cache_clear()
    with pytest.raises(ValueError, match=r"no tokenizer\.json"):
        load_tokenizer(str(path))


def test_case_22_special_tokens_and_long_runs() -> None:
    case = SHARED / "cases" / "22-special-tokens-and-long-runs"
    expected = json.loads((case / "expected.json").read_text())
    prompts = [json.loads(line)["prompt"] for line in (case / "input.jsonl").read_text().splitlines()]
    assert len(prompts) == expected["requests"]
    assert [len(prompt.encode()) for prompt in prompts] == expected["utf8_bytes"]
    for prompt, size in zip(prompts, expected["utf8_bytes"], strict=True):
        assert 1 <= load_tokenizer().count(prompt) <= size
