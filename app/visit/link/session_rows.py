"""Tables whose rows name sessions: a click on a row opens its session on the page Sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.visit.link import link
from app.widgets.table import Column, table

PAGE = "views/sessions/sessions.py"
HINT = "Click a row to open its session."


def session_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], alt: str, key: str) -> None:
    """Show rows as `app.widgets.table.table` does; `session_id` of a row is its session, None: it names none."""
    if not any(row.get("session_id") is not None for row in rows):
        table(rows, columns, alt, key)
        return
    st.caption(HINT)
    picked = table(rows, columns, alt, key, pick=True)
    if picked is not None and picked.get("session_id") is not None:
        link.go(PAGE, session=int(picked["session_id"]), turn=None)


def of_group(axis: str, group: str) -> int | None:
    """The session that a group of an axis is; None for other axes, and for requests without one."""
    return int(group) if axis == "session" and group.isdecimal() else None
