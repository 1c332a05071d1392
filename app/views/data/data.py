"""Data: open the demo, a folder of the server, or what the visitor sends; the receipt; rejects; formats."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import streamlit as st

from app.visit import sidebar, state
from app.widgets import figures, formats

LEAD = "Open traces of coding agents or of a serving system, and see what a KV cache could reuse of them."


def _progress(box: Any) -> Any:
    """A watcher for `ingest` that draws a bar and one line into `box`."""

    def watch(progress: Any) -> None:
        share = progress.done / progress.total if progress.total else 0.0
        done = f"{formats.count(progress.done)} of {formats.count(progress.total)} files"
        read = f"{formats.count(progress.requests)} requests · {formats.size(progress.bytes_read)}"
        text = f"{progress.stage.capitalize()} · {done} · {read} · {formats.seconds(progress.seconds)}"
        box.progress(min(1.0, share), text=text)

    return watch


def _ingest(inputs: list[str], name: str) -> None:
    """Read inputs into a dataset of this session and open it, or keep the receipt that says why nothing was usable."""
    from traces.intake.ingest import NothingUsable, Options, ingest
    from traces.source.inputs import UPLOAD_LIMITS

    path = state.session_folder() / f"dataset-{secrets.token_hex(8)}"
    with st.status("Reading", expanded=True):
        box = st.empty()
        try:
            receipt = ingest(inputs, path, Options(limits=UPLOAD_LIMITS), watch=_progress(box))
            state.open_dataset(state.Known(name, path, True), receipt)
        except NothingUsable as error:
            st.session_state["failed"] = error.receipt
    st.session_state["sent"] = st.session_state.get("sent", 0) + 1  # an empty box for what is sent next
    st.rerun()


def _open_demo() -> None:
    st.session_state.pop("failed", None)
    state.open_dataset(state.demo())
    if "arrivals" not in st.query_params:
        # the same choice as `tracetower demo`, shown in the sidebar and in every command line
        st.session_state["arrivals"] = "staggered:600"


def _ways_in() -> None:
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


def _upload() -> None:
    what = st.segmented_control(
        "What to send",
        ["Files", "A folder"],
        default="Files",
        required=True,
        label_visibility="collapsed",
        key="send-what",
    )
    folder = what == "A folder"
    sent = st.file_uploader(
        "A folder with traces" if folder else "Traces, zips of traces, or a bundled dataset",
        accept_multiple_files="directory" if folder else True,
        key=f"sent-{'folder' if folder else 'files'}-{st.session_state.get('sent', 0)}",
        help="Agent transcripts and request traces, also .gz, .zst and .zip; or the zip that `tracetower bundle` "
        "writes. Only this session of yours can see them; they are deleted when it ends.",
    )
    if sent and st.button("Read what was sent", type="primary", icon=":material/upload:", key="read-sent"):
        st.session_state.pop("failed", None)
        _take(sent)


def _take(sent: list[Any]) -> None:
    from app.visit import uploads
    from traces.dataset.bundle import is_bundle, open_bundle
    from traces.dataset.layout import NotADataset

    number = sum(k.private for k in state.opened().values()) + 1
    name = f"upload {number}"
    try:
        inputs = uploads.save(sent, state.session_folder())
        if len(inputs) == 1 and is_bundle(Path(inputs[0])):
            path = state.session_folder() / f"dataset-{secrets.token_hex(8)}"
            open_bundle(Path(inputs[0]), path)
            state.open_dataset(state.Known(name, path, True))
            st.rerun()
    except (uploads.TooMuch, NotADataset) as error:
        st.error(sidebar.plain(str(error)), icon=":material/error:")
        return
    _ingest(inputs, name)


def _path_box() -> None:
    roots = state.roots()
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
        asked = st.form_submit_button("Open", icon=":material/folder_open:")
    if not asked or not text.strip():
        return
    st.session_state.pop("failed", None)
    try:
        path = state.within_roots(text)
    except state.OutsideRoots as error:
        st.error(f"{error}. It may read: {names}.", icon=":material/error:")
        return
    name = state.root_name(path)
    if state.is_dataset(path):
        state.open_dataset(state.Known(name, path, False))
        st.rerun()
    _ingest([str(path)], name)


def _show_receipt(receipt: dict[str, Any]) -> None:
    """What was read, in one row of figures, then what was not."""
    records, files = receipt["records"], receipt["files"]
    ignored = f"{formats.count(records['ignored'])} not requests, {formats.count(records['duplicate'])} copies"
    rows = [
        ("Requests", formats.count(receipt["requests"]), "Model calls that reached an engine, each counted once.",
         f"in {formats.count(receipt['sessions'])} sessions"),
        ("Input tokens", formats.tokens(receipt["input_tokens"]),
         "All prompt tokens, cached included. Requests whose length is unknown are not in it.",
         f"unknown for {formats.count(receipt['unknown_usage_requests'])} requests"),
        ("Output tokens", formats.tokens(receipt["output_tokens"]), "Generated tokens as recorded, reasoning included.",
         f"cut off in {formats.count(receipt['incomplete_output_requests'])} requests"),
        ("Records used", formats.count(records["used"]),
         "Lines or entries that were of use. Read = used + rejected + copies of the same call + not requests.",
         f"of {formats.count(records['read'])}: {ignored}"),
        ("Records rejected", formats.count(records["rejected"]),
         "Lines or entries that could not be used, listed below.",
         f"{formats.count(receipt['failed_attempts'])} failed attempts"),
        ("Files read", formats.count(files["read"]),
         "A file is skipped if its content is already in, or it is no trace.",
         f"{formats.count(files['skipped'])} skipped, {formats.count(files['failed'])} failed"),
    ]  # fmt: skip
    for start in (0, 3):
        for column, (label, value, help, note) in zip(st.columns(3), rows[start : start + 3], strict=True):
            with column:
                figures.metric(label, value, help, note)
    facts = [
        "formats: " + (", ".join(f"{n} × {name}" for name, n in receipt["formats"].items()) or formats.UNKNOWN),
        f"block size: {receipt['block_size']} tokens" if receipt["block_size"] else "lengths by token (text)",
        f"times: {receipt['time_basis']}" + (f", in {receipt['time_unit']}" if receipt["time_unit"] else ""),
    ]
    if receipt["tokenizer"]:
        facts.append(f"tokenizer: {receipt['tokenizer']}")
    st.caption(" · ".join(sidebar.plain(f) for f in facts))
    notes = receipt["warnings"]
    if notes:
        st.warning("\n".join(f"- {sidebar.plain(n)}" for n in notes), icon=":material/warning:")


def _show_rejects(known: state.Known | None, receipt: dict[str, Any]) -> None:
    listed = receipt.get("rejects") or []
    total = receipt["records"]["rejected"] + receipt["files"]["failed"]
    if listed:
        rows = {
            "File": [r["file"] for r in listed],
            "Line or entry": [formats.count(r["line"]) if r["line"] else formats.UNKNOWN for r in listed],
            "Reason": [r["reason"] for r in listed],
        }
    elif known is not None:
        frame = state.desk(known).warehouse.dataset.read("rejects").head(1000)
        total = max(total, frame.height)
        rows = {
            "File": frame["input_label"].to_list(),
            "Line or entry": [formats.count(n) if n else formats.UNKNOWN for n in frame["record_ordinal"].to_list()],
            "Reason": frame["reason"].to_list(),
        }
    else:
        return
    if not rows["File"]:
        st.caption("Every record could be used.")
        return
    st.subheader("Not used", anchor=False)
    shown = len(rows["File"])
    counts = f"{formats.count(shown)} of {formats.count(max(total, shown))} listed"
    st.caption(f"{counts}. Bad records are left out; all others count.")
    st.dataframe(rows, hide_index=True, alt="Records that were not used, with the reason")


def _show_formats() -> None:
    from traces.intake.registry import READERS, reader

    summaries = {name: dict(reader(name).SUMMARY) for name in sorted(READERS)}
    parts = list(dict.fromkeys(part for s in summaries.values() for part in s))
    rows: dict[str, list[str]] = {"Format": list(summaries)}
    for part in parts:
        rows[part.capitalize()] = [s.get(part, formats.UNKNOWN) for s in summaries.values()]
    st.dataframe(rows, hide_index=True, row_height=60, alt="Formats that can be read and what each carries")


def _show_open(known: state.Known) -> None:
    """The receipt of what is open, the way on, and what was not used."""
    with st.spinner("Opening"):
        receipt = state.receipt(known)
    st.subheader(f"Receipt: {sidebar.plain(known.name)}", anchor=False)
    if receipt is None:
        st.caption("This dataset came without a receipt.")
    else:
        _show_receipt(receipt)
    with st.container(horizontal=True):
        st.page_link("views/overview/overview.py", label="See the overview", icon=":material/insights:")
        st.page_link("views/cache/cache.py", label="See what a cache of a size would hit", icon=":material/memory:")
    if receipt is not None:
        _show_rejects(known, receipt)
    st.divider()


with sidebar.page(LEAD):
    failed = st.session_state.get("failed")
    if failed is not None:
        st.error(
            "**Nothing usable was found**, so nothing was opened. Each file and the reason are below; the formats that "
            "can be read are at the end of this page.",
            icon=":material/error:",
        )
        _show_rejects(None, failed)
    else:
        with sidebar.guarded():
            known = sidebar.opened()
            if known is not None:
                _show_open(known)
    _ways_in()
    with st.expander("Formats that can be read", icon=":material/description:"), sidebar.guarded():
        _show_formats()
