"""Export: the workload in the form the next tool takes; a preview, the command to run next, a download."""

from __future__ import annotations

import io
import shlex
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from app.visit import findings, guard, question
from app.visit.link import link
from app.widgets import formats

LEAD = (
    "Hand this workload to a planner or load generator. What is written holds lengths and sharing: no text, no names."
)
PREVIEW_LINES, PREVIEW_CHARACTERS = 12, 240
MOST_BYTES = 256 << 20


class _Made(NamedTuple):
    """An export in memory: file name, bytes (None where they are too many), size, first lines, notes, commands."""

    name: str
    data: bytes | None
    size: int
    preview: str
    records: int
    notes: list[str]
    commands: list[str]


def _make(asked: question.Asked, to: str, scaling: Any) -> _Made:
    from analysis.export.planners import target
    from analysis.export.write import export

    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / to
        written = export(asked.desk.warehouse, to, path, _block(asked, to), scaling)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        size = sum(f.stat().st_size for f in files)
        preview = _preview(files[0])
        data = None if size > MOST_BYTES else _zip(files) if target(to).folder else path.read_bytes()
    commands = [c.replace(str(path), to) for c in written.commands]
    name = f"{to}.zip" if target(to).folder else to
    return _Made(name, data, size, preview, written.records, written.notes, commands)


def _block(asked: question.Asked, to: str) -> int | None:
    from analysis.export.planners import target

    return None if target(to).block is not None else asked.question.block_size


def _preview(file: Path) -> str:
    """The first lines of a file, long ones cut."""
    lines = []
    with file.open("r", encoding="utf-8") as text:
        for _ in range(PREVIEW_LINES):
            line = text.readline(1 << 20)
            if not line:
                break
            line = line.rstrip("\n")
            lines.append(line if len(line) <= PREVIEW_CHARACTERS else line[:PREVIEW_CHARACTERS] + " …")
    return "\n".join(lines)


def _zip(files: list[Path]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, file.name)
    return out.getvalue()


def _choose() -> tuple[str, Any]:
    """(target, scaling without its arrivals, window and filters)."""
    from analysis.export.planners import TARGETS
    from analysis.export.selection import Scaling

    which, sessions, cap, rate = st.columns([3, 1, 1, 1])
    to = which.selectbox(
        "Target", **link.at("to"),
        help="A trace replays these requests; a profile makes requests like them.",
    )  # fmt: skip
    kept = sessions.number_input(
        "Sessions", **link.at("export-sessions"), placeholder="all",
        help="Keep this many top-level sessions, drawn at random.",
    )  # fmt: skip
    longest = cap.number_input(
        "Context cap (tokens)", **link.at("export-cap"), placeholder="none",
        help="Leave out requests with longer prompts.",
    )  # fmt: skip
    faster = rate.number_input(
        "Rate ×", **link.at("export-rate"),
        help="Start sessions this many times as often; the times inside a session are kept.",
    )  # fmt: skip
    st.caption(TARGETS[to].line)
    return to, Scaling(rate=float(faster), sessions=kept, context_cap=longest)


def _command(asked: question.Asked, to: str, scaling: Any) -> str:
    """The command line that writes the same."""
    words = ["tracetower export", asked.known.name, f"--to {to}", f"-o {to}", f"--arrivals {asked.question.arrivals}"]
    if asked.question.window != "all":
        words.append(f"--window {asked.question.window}")
    block = _block(asked, to)
    if block is not None:
        words.append(f"--block-size {block}")
    if scaling.sessions is not None:
        words.append(f"--sessions {scaling.sessions}")
    if scaling.context_cap is not None:
        words.append(f"--context-cap {scaling.context_cap}")
    if scaling.rate != 1:
        words.append(f"--rate {scaling.rate:g}")
    words += [f"--where {shlex.quote(f'{axis}={value}')}" for axis, value in scaling.where]
    return " ".join(words)


with guard.page(LEAD):
    asked = question.ask()
    question.facts_line(asked)
    findings.draw(asked, "export")
    to, scaling = _choose()
    scaling = scaling._replace(
        arrivals=asked.question.arrivals, window=asked.question.window, where=asked.question.where
    )
    key = f"export {to} {scaling!r} {asked.question.block_size}"
    if st.button("Write it", type="primary", key="export-go") or asked.desk.answered(key):
        with st.spinner("Writing …"):
            made = asked.desk.answer(key, lambda: _make(asked, to, scaling))
        st.markdown(f"**{formats.count(made.records)} records, {formats.size(made.size)}**")
        for note in made.notes:
            st.caption(note)
        if made.data is not None:
            st.download_button("Download", made.data, made.name, key="export-download")
        else:
            st.info("Too large for a browser: write it with the command below.")
        st.code(made.preview, language=None)
        st.subheader("Run next", anchor=False)
        for command in made.commands:
            st.code(command, language="bash")
    with st.expander("The same from the command line"):
        st.code(_command(asked, to, scaling), language="bash")
