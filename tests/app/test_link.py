"""The link: every setting written and read back, in a fresh session too; what it cannot name is reported."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as some
from streamlit.testing.v1 import AppTest

from app.visit.link.link import compose, parse
from app.visit.link.schema import SETTINGS
from app.visit.link.setting import LONGEST_TEXT, Setting
from tests.places import ROOT

INPUTS = {
    "selectbox", "multiselect", "number_input", "text_input", "text_area", "slider", "select_slider", "checkbox",
    "segmented_control", "pills", "radio", "toggle",
}  # fmt: skip
NO_SETTINGS = {"path-text", "root-dataset", "into", "upload-name"}
"""Inputs that say what to do once, not how a page is shown."""


def values(setting: Setting) -> some.SearchStrategy[Any]:
    """What a setting may be."""
    if setting.choices is not None:
        one: some.SearchStrategy[Any] = some.sampled_from(list(setting.choices()))
    elif setting.kind is bool:
        one = some.booleans()
    elif setting.kind is str:
        one = some.text(some.characters(codec="utf-8"), min_size=1 if setting.many else 0, max_size=60)
    elif setting.kind is int:
        one = some.integers(int(setting.low or 0), int(setting.high or 10**12))
    else:
        one = some.floats(setting.low, setting.high, allow_nan=False, allow_infinity=False)
    if isinstance(setting.default, tuple):
        return some.tuples(one, one).map(lambda pair: tuple(sorted(pair)))
    if setting.many:
        return some.lists(one, unique=True, max_size=4)
    return one | some.none() if setting.optional else one


LINKED = [setting for setting in SETTINGS.values() if setting.linked]


@given(some.fixed_dictionaries({setting.name: values(setting) for setting in LINKED}))
def test_every_setting_comes_back_from_the_link_as_it_was(chosen: dict[str, Any]) -> None:
    query = parse_qs(urlencode(compose(chosen), doseq=True), keep_blank_values=True)
    found = parse(query)
    assert found.notes == []
    assert found.values == chosen
    assert {name: type(v) for name, v in found.values.items()} == {name: type(v) for name, v in chosen.items()}


def visit() -> None:
    import streamlit as st

    from app.visit.link import link
    from app.visit.link.schema import SETTINGS

    link.read("")
    st.session_state["seen"] = {name: link.value(name) for name, s in SETTINGS.items() if s.linked}
    link.report()
    link.write()


def session(query: dict[str, list[str]]) -> AppTest:
    at = AppTest.from_function(visit, default_timeout=60)
    for name, texts in query.items():
        at.query_params[name] = texts
    return at.run()


def other(setting: Setting) -> Any:
    """A value that is not the default."""
    if setting.choices is not None:
        one = next(c for c in reversed(setting.choices()) if c != setting.default)
    elif setting.kind is bool:
        return not setting.default
    elif setting.kind is str:
        one = "a & b=c?ü%20+"
    else:
        one = setting.kind(setting.high if setting.high is not None else 7)
    if isinstance(setting.default, tuple):
        return (setting.low, one)
    return [one] if setting.many else one


def test_every_setting_survives_into_a_fresh_session_and_stays_in_the_link() -> None:
    chosen = {setting.name: other(setting) for setting in LINKED}
    at = session(compose(chosen))
    assert not at.exception
    assert not at.warning
    assert at.session_state["seen"] == chosen
    assert {n: v if isinstance(v, list) else [v] for n, v in at.query_params.items()} == compose(chosen)


@pytest.mark.parametrize("setting", LINKED, ids=lambda s: s.name)
def test_what_is_none_of_a_settings_values_is_refused_with_what_would_be(setting: Setting) -> None:
    wrong = "x" * (LONGEST_TEXT + 1) if setting.kind is str and setting.choices is None else "no such value"
    found = parse({setting.name: [wrong]})
    assert found.values == {}
    assert re.search(rf"^`{setting.name}=.{{1,60}}` \(must be .+\)$", found.notes[0])


def test_unknown_and_mistyped_parts_are_reported_in_one_line_and_the_rest_is_taken() -> None:
    at = session({"tp": ["abc"], "foo": ["1"], "batch": ["16"], "config-text": ["{}"]})
    assert len(at.warning) == 1
    assert at.warning[0].value == (
        "Not taken from the link: `tp=abc` (must be one of 1, 2, 4, 8, 16, 32); `foo` (no setting of this app); "
        "`config-text` (no setting of this app)."
    )
    assert at.session_state["seen"]["batch"] == 16
    assert dict(at.query_params) == {"batch": "16"}


def test_a_page_that_lacks_a_value_says_so() -> None:
    def draw() -> None:
        import streamlit as st

        from app.visit.link import link

        link.read("")
        st.select_slider("Size", **link.at("capacity", [1, 2, 4], 2))
        st.multiselect("Model", **link.at("model", ["a", "b"]))
        link.report()
        link.write()

    at = AppTest.from_function(draw, default_timeout=60)
    at.query_params["capacity"] = "3"
    at.query_params["model"] = ["a", "gone"]
    at.run()
    assert at.select_slider[0].value == 2
    assert at.multiselect[0].value == ["a"]
    assert at.warning[0].value == (
        "Not taken from the link: `capacity=3` (must be one of 1, 2, 4 here); `model=gone` (must be one of a, b here)."
    )
    at.select_slider[0].set_value(4).run()
    assert at.query_params["capacity"] == "4"


def _inputs(path: Path) -> list[ast.Call]:
    calls = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)]
    return [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in INPUTS]


def test_every_input_of_every_page_is_a_setting_and_every_setting_has_one() -> None:
    text = ""
    for room in ("views", "visit"):
        for path in (ROOT / "app" / room).rglob("*.py"):
            text += path.read_text("utf-8") if "link" not in path.parts else ""
            for call in _inputs(path):
                keys = [ast.literal_eval(k.value) for k in call.keywords if k.arg == "key"]
                held = any(k.arg is None and "link.at(" in ast.unparse(k.value) for k in call.keywords)
                assert held or set(keys) <= NO_SETTINGS, f"{path}:{call.lineno}"
                assert held or keys, f"{path}:{call.lineno}"
    for name in SETTINGS:
        stem = re.sub(r"-(\d|context)$|\d$", "", name)
        assert f'"{stem}"' in text or f'"{name}"' in text, name
