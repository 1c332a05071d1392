"""The three ways in: the demo, what the visitor sends, a path of this server; and reading again with other options."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from app.visit import folders, known, reading, state, uploads
from app.visit.known import Known
from app.visit.link import link
from app.visit.server import server_folder
from app.widgets import formats
from app.widgets.plain_text import markdown


class Inputs(NamedTuple):
    """What a dataset was read from, so that it can be read again with other options."""

    paths: tuple[str, ...]
    name: str
    options: tuple[tuple[str, Any], ...] = ()


def _progress(box: Any) -> reading.Watch:
    """A watcher that draws a bar and one line into `box`."""

    def watch(progress: dict[str, Any]) -> None:
        share = progress["done"] / progress["total"] if progress["total"] else 0.0
        done = f"{formats.count(progress['done'])} of {formats.count(progress['total'])} files"
        read = f"{formats.count(progress['requests'])} requests · {formats.size(progress['bytes_read'])}"
        text = f"{progress['stage'].capitalize()} · {done} · {read} · {formats.seconds(progress['seconds'])}"
        box.progress(min(1.0, share), text=text)

    return watch


def read(inputs: Inputs) -> None:
    """Read inputs into a dataset of this session and open it, or keep the receipt that says why nothing was usable."""
    path = folders.session_folder() / f"dataset-{secrets.token_hex(8)}"
    session = st.session_state
    session["read_from"] = {**session.get("read_from", {}), inputs.name: inputs}
    with st.status("Reading", expanded=True):
        box = st.empty()
        try:
            receipt = reading.read(list(inputs.paths), path, dict(inputs.options), _progress(box))
            before = state.opened().get(inputs.name)
            state.open_dataset(Known(inputs.name, path, True), receipt)
            if before is not None and before.private and before.path is not None:
                shutil.rmtree(before.path, ignore_errors=True)  # read again: the new one takes its place
            session.pop("failed", None)
        except reading.NotRead as error:
            session["failed"] = (inputs.name, str(error), error.receipt)
    session["sent"] = session.get("sent", 0) + 1  # an empty box for what is sent next
    st.rerun()


def read_again(name: str, way: reading.Again) -> None:
    """Put off until the page runs: read the inputs of `name` with one option more."""
    inputs: Inputs | None = st.session_state.get("read_from", {}).get(name)
    if inputs is not None:
        value = int(way.value) if way.option == "block_tokens" else way.value
        options = {**dict(inputs.options), way.option: value}
        st.session_state["read_next"] = inputs._replace(options=tuple(options.items()))


def can_read_again(name: str) -> bool:
    """Whether the inputs of `name` still exist."""
    return name in st.session_state.get("read_from", {})


def draw() -> None:
    """The three boxes; first what a button has put off."""
    waiting: Inputs | None = st.session_state.pop("read_next", None)
    if waiting is not None:
        read(waiting)
    demo, sent, server = st.columns(3, gap="medium")
    with demo.container(border=True, height="stretch"):
        st.subheader("Try the demo", anchor=False)
        st.write("Ten real coding-agent sessions with their sub-agents, ready in a second.")
        st.button("Open the demo", type="primary", on_click=_open_demo, icon=":material/play_arrow:", key="open-demo")
    with sent.container(border=True, height="stretch"):
        st.subheader("Send your own", anchor=False)
        _upload()
    with server.container(border=True, height="stretch"):
        st.subheader("Read a path of this server", anchor=False)
        _path_box()


def _open_demo() -> None:
    st.session_state.pop("failed", None)
    state.open_dataset(known.demo())
    if link.value("arrivals") == "recorded":
        # the same choice as `tracetower demo`, shown in the sidebar and in every command line
        link.put("arrivals", "staggered:600")


def _upload() -> None:
    what = st.segmented_control(
        "What to send", **link.at("send"), required=True, label_visibility="collapsed",
        format_func={"files": "Files", "folder": "A folder"}.__getitem__,
    )  # fmt: skip
    folder = what == "folder"
    sent = st.file_uploader(
        "A folder with traces" if folder else "Traces, zips of traces, or a bundled dataset",
        accept_multiple_files="directory" if folder else True,
        key=f"sent-{'folder' if folder else 'files'}-{st.session_state.get('sent', 0)}",
        help="Agent transcripts and request traces, also .gz, .zst and .zip; or the zip that `tracetower bundle` "
        "writes. Only this session of yours can see them; they are deleted when it ends.",
    )
    if refused := st.session_state.pop("upload_refused", None):
        st.error(markdown(refused), icon=":material/error:")
    if not sent:
        return
    try:
        uploads.check(sent, folders.session_folder(), server_folder())
    except uploads.TooMuch as error:
        _drop(sent, str(error))
    if st.button("Read what was sent", type="primary", icon=":material/upload:", key="read-sent"):
        _take(sent)


def _drop(sent: list[Any], why: str) -> None:
    """Give back the memory that the files hold, and say why on the page as it is drawn anew."""
    uploads.forget(sent)
    st.session_state["upload_refused"] = why
    st.session_state["sent"] = st.session_state.get("sent", 0) + 1
    st.rerun()


def _take(sent: list[Any]) -> None:
    from traces.dataset.bundle import open_bundle
    from traces.dataset.layout import NotADataset, is_dataset

    name = f"upload {sum(k.private for k in state.opened().values()) + 1}"
    try:
        inputs = uploads.save(sent, folders.session_folder())
        uploads.forget(sent)
        if len(inputs) == 1 and is_dataset(Path(inputs[0])):
            path = Path(inputs[0])
            if path.is_file():
                path = folders.session_folder() / f"dataset-{secrets.token_hex(8)}"
                open_bundle(Path(inputs[0]), path)
            state.open_dataset(Known(name, path, True))
            st.session_state.pop("failed", None)
            st.rerun()
    except (uploads.TooMuch, NotADataset, OSError) as error:
        _drop(sent, str(error) if isinstance(error, ValueError) else "This server has no room for that now.")
    read(Inputs(tuple(inputs), name))


def _path_box() -> None:
    roots = known.roots()
    if not roots:
        st.write("For traces too large to send. This server was started without folders to read; start it with")
        st.code("tracetower app --data-root DIR", language="bash", wrap_lines=True)
        return
    names = ", ".join(f"`{root.name}`" for root in roots)
    with st.form("path", border=False):
        text = st.text_input(
            "File, folder or dataset", placeholder="team/2026-11", key="path-text",
            help=f"In the folders that this server may read: {names}.",
        )  # fmt: skip
        sent = st.form_submit_button("Open", icon=":material/folder_open:")
    if not sent or not text.strip():
        return
    st.session_state.pop("failed", None)
    try:
        path = known.within_roots(text)
    except known.OutsideRoots as error:
        st.error(f"{error}. It may read: {names}.", icon=":material/error:")
        return
    name = known.root_name(path)
    from traces.dataset.layout import is_dataset

    if is_dataset(path):
        state.open_dataset(Known(name, path, False))
        st.rerun()
    read(Inputs((str(path),), name))
