"""One record never spoils the rest: a copy of a record with something absurd in it, in the middle of each sample."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.places import SAMPLES
from traces.intake.ingest import NothingUsable, Options, ingest
from traces.intake.registry import READERS
from traces.source.limits import MOST_TOKENS

FILES = [
    path for name in READERS for path in sorted((SAMPLES / name).glob("*.jsonl")) if path.read_bytes().count(b"\n") > 2
]


def _everywhere(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {name: _everywhere(inner, change) for name, inner in value.items()}
    return [_everywhere(inner, change) for inner in value] if isinstance(value, list) else change(value)


def _numbers(text: str) -> Callable[[Any], bytes]:
    """Every number of the record becomes this one."""
    mark = "a number that stands here"

    def changed(record: Any) -> bytes:
        numbers = (int, float)
        found = json.dumps(_everywhere(record, lambda value: mark if type(value) in numbers else value))
        return found.replace(f'"{mark}"', text).encode()

    return changed


def _deep(levels: int, inner: str = "1") -> Callable[[Any], bytes]:
    """In the record, something nested."""
    nested = '{"content": [' * (levels // 2) + inner + "]}" * (levels // 2)
    return lambda record: (json.dumps(record)[:-1] + f', "content": {nested}, "message": {nested}}}').encode()


BAD: dict[str, Callable[[Any], bytes]] = {
    "2^31": _numbers("2147483648"),
    "2^48 - 1": _numbers("281474976710655"),
    "2^63": _numbers("9223372036854775808"),
    "300 digits": _numbers("9" * 300),
    "1e400": _numbers("1e400"),
    "-0": _numbers("-0"),
    "NaN": _numbers("NaN"),
    "nested 700": _deep(700),
    "nested 100,000": _deep(100_000),
    "a surrogate at 600": _deep(600, '"\\udc00"'),
    "surrogates": lambda record: json.dumps(
        _everywhere(record, lambda value: "\ud83d" if isinstance(value, str) else value)
    ).encode(),
}
NO_JSON = {"NaN": b"NaN", "nested 100,000": b"["}
"""What makes a record no JSON: it is a reject with its line, in every format."""


def _receipt(path: Path, format_name: str) -> dict[str, Any]:
    try:
        return ingest([str(path)], None, Options(format=format_name, tokenizer="bytes"))
    except NothingUsable as error:
        return error.receipt


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_other_records_are_read(path: Path, tmp_path: Path) -> None:
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    middle = len(lines) // 2
    name = path.parent.name
    whole = _receipt(path, name)
    (tmp_path / path.name).write_bytes(b"\n".join([*lines[:middle], b"{", *lines[middle:]]))
    fewest = _receipt(tmp_path / path.name, name)
    assert fewest["requests"] == whole["requests"], "a line that is cut off costs itself"
    lost = {}
    for kind, change in BAD.items():
        bad = change(json.loads(lines[middle]))
        (tmp_path / path.name).write_bytes(b"\n".join([*lines[:middle], bad, *lines[middle:]]))
        receipt = _receipt(tmp_path / path.name, name)
        counts = dict(receipt["records"])
        reasons = [one["reason"] for one in receipt["rejects"] if one["line"]]
        balanced = counts.pop("read") == sum(counts.values())
        most = (whole["input_tokens"] or 0) + MOST_TOKENS
        silent = kind in NO_JSON and NO_JSON[kind] in bad and not reasons
        if silent or receipt["requests"] < whole["requests"] or not balanced or (receipt["input_tokens"] or 0) > most:
            lost[kind] = (whole["requests"], receipt["requests"], receipt["input_tokens"], reasons[:1])
    assert lost == {}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name_are_two_inputs(tmp_path: Path) -> None:
    row = '{{"timestamp": {}, "input_length": 512, "output_length": 1, "hash_ids": [{}]}}'
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        for at in range(2):
            file.writestr("a.jsonl", row.format(at, at))
    assert _receipt(path, "mooncake")["requests"] == 2
