"""What a page begins with: its findings, each with a link to where more is shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import streamlit as st

from app.visit import guard
from app.visit.link import link
from app.widgets import formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.findings.finding import Finding
    from analysis.why.caches.cache import Cache
    from app.visit.question import Asked

PAGES = {
    "data": ("views/data/data.py", "Open another dataset"),
    "overview": ("views/overview/overview.py", "The workload"),
    "sessions": ("views/sessions/sessions.py", "Open the session"),
    "cache": ("views/cache/cache.py", "Hit rate by cache size"),
    "why": ("views/why/why.py", "Where the tokens went"),
    "routing": ("views/fleet/replicas.py", "Policies"),
}
"""Page of a finding -> its file, and what its link is called."""


def draw(asked: Asked, page: str, cache: Cache | None = None) -> None:
    """The findings of a page: the answer first, and the rest once it is computed."""
    with guard.guarded():
        _draw(asked, page, cache)


def _draw(asked: Asked, page: str, cache: Cache | None) -> None:
    from analysis.findings.frames import headline_frames
    from analysis.findings.kept import findings_of
    from analysis.findings.workload import findings, of_page

    desk, place = asked.desk, st.empty()
    name = f"findings {asked.question!r} {cache!r}"
    if not desk.answered(name):
        first = findings(headline_frames(desk.warehouse, asked.question, desk.answer))
        with place.container():
            write([finding for finding in of_page(first, page) if finding.weight > 1], page)
    found = desk.answer(name, lambda: findings_of(desk.warehouse, asked.question, desk.answer, cache))
    with place.container():
        write(of_page(found, page), page)


def write(found: Iterable[Finding], page: str) -> None:
    """Sentences, the first one larger, each with its link."""
    for finding in found:
        text = markdown(finding.sentence(formats.WRITTEN))
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.markdown(f"**{text}**" if finding.weight > 1 else text, width="content")
            if finding.page != page or finding.settings:
                path, label = PAGES[finding.page]
                link.page(path, label=label, icon=":material/arrow_forward:", **finding.settings)
