"""Evaluations before and after a change of precision: entered by hand, or imported from Inspect logs."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.visit.link import link
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.replica.evaluation import Comparison, Score

LOG_MB = 200


def evaluation(change: str) -> list[Comparison]:
    """Scores before and after the change, entered or imported; none is "not evaluated"."""
    from analysis.replica.evaluation import Comparison, Score

    with st.expander("Evaluation before and after", icon=":material/fact_check:"):
        way = st.segmented_control(
            "Evaluation", **link.at("evaluation"), required=True, label_visibility="collapsed",
            format_func={"scores": "Enter scores", "logs": "Inspect logs"}.__getitem__,
        )  # fmt: skip
        if way == "logs":
            return _imported(change)
        one, two, three = st.columns([2, 1, 1])
        task = one.text_input("Task and metric", **link.at("score-task", scope=change),
                              placeholder="SWE-bench Verified, resolved")  # fmt: skip
        before = two.number_input("Before", **link.at("score-before", scope=change))
        after = three.number_input("After", **link.at("score-after", scope=change))
        if before is None or after is None:
            st.caption(f"Scores of the same task with the cache at both precisions ({change}).")
            return []
        named = task.strip() or "score"
        first, second = (Score(named, "", "entered by hand", float(v), None, None) for v in (before, after))
        return [Comparison(first, second)]


def _imported(change: str) -> list[Comparison]:
    from analysis.replica.evaluation import compare_scores

    one, two = st.columns(2)
    logs = [
        column.file_uploader(f"Log {when}", type=["eval", "json"], key=f"log-{when}-{change}", max_upload_size=LOG_MB)
        for column, when in ((one, "before"), (two, "after"))
    ]
    if logs[0] is None or logs[1] is None:
        st.caption("Logs of the same Inspect task, one with the cache at each precision.")
        return []
    try:
        return compare_scores(read_scores(logs[0]), read_scores(logs[1]))
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return []


def read_scores(sent: Any) -> list[Score]:
    """Scores of a sent Inspect log. Raises ValueError where it is none."""
    from analysis.replica.evaluation import read_inspect_scores

    # the reader takes a file; a visitor's name for it never becomes a path
    with tempfile.TemporaryDirectory(prefix="tracetower-log-") as folder:
        path = Path(folder) / f"log{'.eval' if sent.name.endswith('.eval') else '.json'}"
        path.write_bytes(sent.getvalue())
        return read_inspect_scores(path)
