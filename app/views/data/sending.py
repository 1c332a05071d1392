"""Sending files: the box, how they are read, and into which dataset."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import streamlit as st

from app.views.data import progress
from app.visit import state
from app.visit.link import link
from app.visit.link.schema import DETECTED
from app.visit.server import server_folder
from app.visit.uploads import leases, sent
from app.visit.uploads.leases import Lease
from app.widgets.plain_text import markdown

NEW = "A new dataset"
LONGEST_NAME = 60


def draw() -> None:
    """The box for files or a folder and, once there are some, the button that reads them."""
    folder = st.segmented_control(
        "What to send", **link.at("send"), required=True, label_visibility="collapsed",
        format_func={"files": "Files", "folder": "A folder"}.__getitem__,
    ) == "folder"  # fmt: skip
    files = st.file_uploader(
        "A folder with traces" if folder else "Traces, zips of traces, or a bundled dataset",
        accept_multiple_files="directory" if folder else True,
        key=f"sent-{'folder' if folder else 'files'}-{st.session_state.get('sent', 0)}",
        help="Agent transcripts and request traces, also .gz, .zst and .zip; or the zip that `tracetower bundle` "
        "writes. Only those who have the link see them; they are deleted "
        f"{leases.lease_s() / 60:g} minutes after the last visit.",
    )
    if refused := st.session_state.pop("upload_refused", None):
        st.error(markdown(refused), icon=":material/error:")
    if not files:
        return
    into, name = _into(files)
    try:
        sent.check(files, sum(lease.used() for lease in state.held()), server_folder())
    except sent.TooMuch as error:
        _drop(files, str(error))
    if st.button("Read what was sent", type="primary", icon=":material/upload:", key="read-sent"):
        try:
            chosen = options()
        except ValueError as error:
            st.error(markdown(str(error)), icon=":material/error:")
            return
        _take(files, into, name, chosen)


def _into(files: list[Any]) -> tuple[Lease | None, str]:
    """The upload that the files are added to, and the name of a new one."""
    present = {lease.id: lease for lease in state.held() if lease.dataset is not None and lease.inputs}
    into = None
    if present:
        into = st.selectbox(
            "Into", [NEW, *present], key="into", format_func=lambda v: present[v].name if v in present else v
        )
    if into in present:
        return present[str(into)], ""
    first = sent.safe_parts(files[0].name)[0].split(".")[0]
    name = st.text_input("Name", key="upload-name", placeholder=first, max_chars=LONGEST_NAME)
    return None, " ".join((name or "").split()) or first


def how() -> None:
    """How inputs are read, where that is not left to the reader; beside it the button that reads an upload again."""
    with st.expander("How to read it: format, blocks, times, tokenizer, columns", icon=":material/tune:"):
        one, two, three, four = st.columns(4)
        one.selectbox("Format", **link.at("read-format"), help="See the formats at the end of this page.")
        two.number_input("Tokens per block", **link.at("read-blocks"), placeholder="as the file says",
                         help="Of hash ids, where the file does not say it.")  # fmt: skip
        three.selectbox("Unit of times", **link.at("read-unit"), help="Of times that are bare numbers.")
        four.selectbox("Tokenizer", **link.at("read-tokenizer"), help="That counts the tokens of texts.")
        st.text_area("Columns", **link.at("read-columns"), placeholder="input_tokens=prompt_len\noutput_tokens=gen_len",
                     help="NAME=COLUMN, one per line: read field NAME from this column.", height=80)  # fmt: skip
        st.checkbox("All files are parts of one trace", **link.at("read-one"),
                    help="Equal ids in two files then mean the same block.")  # fmt: skip
        known = state.chosen()
        lease = state.lease_of(known) if known is not None else None
        if lease is not None and lease.inputs:
            st.button(f"Read {markdown(lease.name)} again with these", on_click=_again, args=(lease,),
                      key="read-again", icon=":material/replay:")  # fmt: skip
        if refused := st.session_state.pop("options_refused", None):
            st.error(markdown(refused), icon=":material/error:")


def _again(lease: Lease) -> None:
    try:
        progress.read_again(lease, options=options())
    except ValueError as error:
        st.session_state["options_refused"] = str(error)


def options() -> dict[str, Any]:
    """What `how` says, as fields of `traces.intake.ingest.Options`.

    Raises:
        ValueError: a line of the columns is not NAME=COLUMN.
    """
    mapping = {}
    for line in filter(None, map(str.strip, (link.value("read-columns") or "").splitlines())):
        name, sign, column = line.partition("=")
        if not (name.strip() and sign and column.strip()):
            raise ValueError(f"{line!r} is not NAME=COLUMN")
        mapping[name.strip()] = column.strip()
    named = {
        "format": link.value("read-format"), "block_tokens": link.value("read-blocks"),
        "time_unit": link.value("read-unit"), "tokenizer": link.value("read-tokenizer"),
        "mapping": mapping or None, "one_trace": link.value("read-one") or None,
    }  # fmt: skip
    return {name: value for name, value in named.items() if value not in (None, DETECTED)}


def _drop(files: list[Any], why: str) -> None:
    """Give back the memory that the files hold, and say why on the page as it is drawn anew."""
    sent.forget(files)
    st.session_state["upload_refused"] = why
    _empty_box()
    st.rerun()


def _empty_box() -> None:
    st.session_state["sent"] = st.session_state.get("sent", 0) + 1
    st.session_state.pop("upload-name", None)


def _take(files: list[Any], into: Lease | None, name: str, chosen: dict[str, Any]) -> None:
    from traces.dataset.bundle import open_bundle
    from traces.dataset.layout import NotADataset, is_dataset

    lease = into or leases.new(name)
    try:
        inputs = sent.save(files, lease.folder)
        sent.forget(files)
        if into is None and len(inputs) == 1 and is_dataset(Path(inputs[0])):
            path = Path(inputs[0])
            if path.is_file():
                path = lease.folder / f"dataset-{secrets.token_hex(8)}"
                open_bundle(Path(inputs[0]), path)
            lease.dataset = path
            state.open_lease(lease)
        else:
            progress.start(lease, tuple(inputs), {**lease.options, **chosen}, add=into is not None)
    except (sent.TooMuch, NotADataset, OSError) as error:
        if into is None:
            lease.end()
        _drop(files, str(error) if isinstance(error, ValueError) else "This server has no room for that now.")
    _empty_box()
    st.rerun()
