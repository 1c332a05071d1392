"""A profile from elsewhere is read right or refused in one line, whatever was done to it."""

from __future__ import annotations

import contextlib
import copy
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.profile.profile import profile
from analysis.profile.reading import BadProfile, parse_profile
from tests.analysis.export.exported import read, weka_folder
from traces.synth.workload import synthesize

WRONG: list[Any] = [
    None, -1, 0, 1, 1e308, 10**400, -1e9, "x", [], {}, [1], True, 2**40, 0.5, [0] * 3, [None], [-5, 3],
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("profile")
    return profile(read(weka_folder(folder / "weka"), folder), 64, "staggered:600")


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [above] * bool(above) + [place for key, part in inner for place in places(part, (*above, key))]


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_a_changed_profile_is_refused_or_made(whole: dict[str, Any], data: st.DataObject) -> None:
    changed = copy.deepcopy(whole)
    *path, key = data.draw(st.sampled_from(places(whole)))
    at = changed
    for step in path:
        at = at[step]
    how = data.draw(st.sampled_from(["drop", "half", "double", "wrong"]))
    if how == "drop":
        del at[key]
    elif how in ("half", "double") and isinstance(at[key], list):
        at[key] = at[key][: len(at[key]) // 2] if how == "half" else at[key] * 2
    else:
        at[key] = data.draw(st.sampled_from(WRONG))
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ValueError):  # any other exception fails
        synthesize(parse_profile(json.dumps(changed)), Path(folder) / "made", 3, 1)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\xff", b"1e400", b"NaN", b'{"schema": "x"}', b"[" * 100_000,
             b'{"schema": "tracetower.profile", "version": 9}', b'{"schema": "tracetower.profile", "version": 2}',
             b'{"schema": "tracetower.profile", "version": [2]}'],
)  # fmt: skip
def test_other_files_are_refused(text: bytes) -> None:
    with pytest.raises(BadProfile):
        parse_profile(text)


def test_a_profile_is_read_as_it_is(whole: dict[str, Any]) -> None:
    assert parse_profile(json.dumps(whole)) == whole
