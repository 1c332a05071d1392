"""Settings between the link, the visit and the widgets.

The entry script reads the link before the page is drawn and writes it after.
A page draws its widgets with `**at(NAME)`.
What is left at its default is not in the link. A link keeps the settings of all pages, so that going to another page
changes nothing but the page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple
from urllib.parse import urlencode

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.visit.link.schema import SETTINGS
from app.visit.link.setting import Setting, listed, short
from app.widgets.plain_text import markdown

LATE_S = 2.0
"""How long a browser may still send the link before the last one, which is nothing new."""

Query = dict[str, list[str]]


class _Kept:
    """The settings of a visit. `values`: what is not at its default."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.defaults: dict[str, Any] = {}
        self.scopes: dict[str, str] = {}
        self.unproven: set[str] = set()
        """Read from a link, and not yet drawn by a page that knows what they may be."""
        self.notes: list[str] = []
        self.opened = False
        self.page = ""
        self.current: Query = {}
        self.before: list[tuple[float, Query]] = []
        """Links that were current, and until when."""
        self.base: Query = {}
        """What the links of this run to other pages were made from."""


class Found(NamedTuple):
    """What a link says: values of settings, and a line for each of its parts that says nothing."""

    values: dict[str, Any]
    notes: list[str]


def parse(query: Query) -> Found:
    """The settings that a link's parameters name."""
    values: dict[str, Any] = {}
    notes = []
    for name, texts in query.items():
        setting = SETTINGS.get(name)
        if setting is None or not setting.linked:
            notes.append(f"`{markdown(short(name))}` (no setting of this app)")
            continue
        try:
            values[name] = setting.read(texts)
        except ValueError as error:
            notes.append(_refused(setting, texts[-1], str(error)))
    return Found(values, notes)


def compose(values: dict[str, Any]) -> Query:
    """The parameters of a link that names these values, in the order of the schema."""
    return {name: s.write(values[name]) for name, s in SETTINGS.items() if s.linked and name in values}


def read(page: str) -> None:
    """Take over what the link says, if the visitor opened it, went back or forward, or followed it."""
    kept = _kept()
    _take_up(kept)
    query = _query()
    context = get_script_run_ctx()
    went_back = context is not None and context.is_history_navigation
    moved, kept.page = page != kept.page, page
    if moved:
        kept.notes = []
        for name, setting in SETTINGS.items():
            if setting.page:  # two pages may show a setting, each with a widget of its own: it starts at what is kept
                st.session_state.pop(name, None)
    late = any(query == link and time.monotonic() < until + LATE_S for until, link in kept.before)
    if not kept.opened or went_back:
        _adopt(kept, query, {*kept.values, *query})
    elif moved and query and query != kept.current:
        _adopt(kept, query, {name for name in {*query, *kept.base} if query.get(name) != kept.base.get(name)})
    elif not moved and query != kept.current and not late:
        _adopt(kept, query, {*kept.values, *query})
    kept.opened, kept.base = True, compose(kept.values)


def _adopt(kept: _Kept, query: Query, names: set[str]) -> None:
    """Give settings the values that the link names, or their defaults."""
    found = parse({name: query[name] for name in query if name in names})
    for name in names & set(SETTINGS):
        if SETTINGS[name].linked:
            kept.values.pop(name, None)
            st.session_state.pop(name, None)  # the widget is drawn with what the link says
    kept.values |= found.values
    kept.unproven = set(found.values)
    kept.notes = found.notes


def write() -> None:
    """Write what is set into the link: one entry of the browser's history for every change."""
    kept = _kept()
    _take_up(kept)
    query = compose(kept.values)
    if query != kept.current:
        kept.before = [*kept.before, (time.monotonic(), kept.current)][-8:]
        kept.current = query
    if query != _query():
        st.query_params.from_dict(query)


def _query() -> Query:
    return {name: st.query_params.get_all(name) for name in st.query_params}


def _take_up(kept: _Kept) -> None:
    """Keep what the widgets say."""
    for name in SETTINGS:
        if name in st.session_state:
            _keep(kept, name, st.session_state[name])


def page(path: Any, label: str, icon: str | None = None, **settings: Any) -> None:
    """A link to another page that keeps all settings, but for the `settings` named here."""
    query = compose({**_kept().values, **settings})
    st.page_link(path, label=label, icon=icon, query_params=query)


def go(path: str, **settings: Any) -> None:
    """Go to another page with these settings, and all others as they are."""
    for name, value in settings.items():
        put(name, value)
    st.switch_page(path, query_params=compose(_kept().values))


def changed() -> bool:
    """Whether links to other pages that were made as the page began no longer hold."""
    kept = _kept()
    _take_up(kept)
    return compose(kept.values) != kept.base


def address() -> str:
    """The whole link of the page as it is drawn, as far as its widgets have been drawn."""
    query = urlencode(compose(_kept().values), doseq=True)
    return f"{(st.context.url or '').split('?')[0]}?{query}".rstrip("?")


def report() -> None:
    """Say in one line what the link holds that could not be taken over."""
    if notes := _kept().notes:
        st.warning(f"Not taken from the link: {'; '.join(notes)}.", icon=":material/link_off:")


def refuse(name: str, why: str) -> None:
    """Report a value that only its page can judge, and forget it."""
    kept = _kept()
    kept.notes.append(_refused(SETTINGS[name], SETTINGS[name].write(kept.values.pop(name))[-1], why))
    st.session_state.pop(name, None)


def value(name: str) -> Any:
    """What a setting is, whether or not its widget is drawn."""
    if name in st.session_state:
        return st.session_state[name]
    kept = _kept()
    return kept.values.get(name, kept.defaults.get(name, SETTINGS[name].default))


def put(name: str, value: Any) -> None:
    """Set a setting, before its widget is drawn or from a callback."""
    st.session_state[name] = value
    _keep(_kept(), name, value)


def clear(*names: str) -> None:
    """Put settings back to their defaults, before their widgets are drawn or from a callback."""
    for name in names:
        _kept().values.pop(name, None)
        st.session_state.pop(name, None)


def at(name: str, options: Sequence[Any] | None = None, default: Any = None, scope: str = "") -> dict[str, Any]:
    """The arguments of the widget that shows a setting: its key and what it may be.

    Args:
        name: of the setting.
        options: what it may be, where the schema leaves that to what is open.
        default: likewise; None: the schema's, or the first option.
        scope: what the value belongs to; with another scope it starts at its default.
    """
    setting, kept, state = SETTINGS[name], _kept(), st.session_state
    if options is None and setting.choices is not None:
        options = setting.choices()
    if default is None:
        default = setting.default
    if default is None and options and None not in options and not setting.optional:
        default = options[0]
    moved = name in kept.defaults and kept.defaults[name] != default
    if scope != kept.scopes.setdefault(name, scope):
        kept.values.pop(name, None)
        moved = True
    kept.scopes[name], kept.defaults[name] = scope, default
    if moved and name not in kept.values:
        state.pop(name, None)
    if name not in state:
        state[name] = kept.values.get(name, default)
    _check(kept, setting, options, default)
    out: dict[str, Any] = {"key": name}
    if options is not None:
        out["options"] = options
    elif setting.kind in (int, float):
        ends = {"min_value": setting.low, "max_value": setting.high}
        out |= {end: None if number is None else setting.kind(number) for end, number in ends.items()}
        if setting.optional or setting.many:
            out["value"] = default  # says whether it may be empty, and that there are two
    return out


def _check(kept: _Kept, setting: Setting, options: Sequence[Any] | None, default: Any) -> None:
    """Take back values that what is open does not have; what came by the link is reported."""
    name, state = setting.name, st.session_state
    held = state[name]
    if options is not None:
        wrong = [v for v in (held if setting.many else [held]) if v not in options]
        if wrong:
            state[name] = [v for v in held if v in options] if setting.many else default
            if name in kept.unproven:
                shown = listed([setting.write([v] if setting.many else v)[0] for v in options])
                text = setting.write(wrong if setting.many else wrong[0])[0]
                kept.notes.append(_refused(setting, text, f"must be one of {shown} here"))
            _keep(kept, name, state[name])
    kept.unproven.discard(name)


def _keep(kept: _Kept, name: str, value: Any) -> None:
    default = kept.defaults.get(name, SETTINGS[name].default)
    if value == default and not SETTINGS[name].always:
        kept.values.pop(name, None)
    else:
        kept.values[name] = list(value) if isinstance(value, list) else value


def fragment(draw: Callable[..., None]) -> Callable[..., None]:
    """A part of a page that is drawn alone when something in it changes, and writes the link as a page does."""

    @st.fragment
    @wraps(draw)
    def drawn(*args: Any, **named: Any) -> None:
        draw(*args, **named)
        write()

    return drawn


def _refused(setting: Setting, text: str, why: str) -> str:
    return f"`{setting.name}={markdown(short(text))}` ({why})"


def _kept() -> _Kept:
    kept: _Kept = st.session_state.setdefault("settings", _Kept())
    return kept
