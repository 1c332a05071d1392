"""The receipt of a dataset: what was read, in one row of figures, then what was not used, and ways on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import streamlit as st

from app.visit.desk import desk
from app.visit.known import Known
from app.visit.uploads.reading import Again, ways_on
from app.widgets import figures, formats
from app.widgets.plain_text import markdown
from app.widgets.table import texts


def show(receipt: dict[str, Any]) -> None:
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
         "A file is skipped if the dataset has its content already, or if it is not a trace.",
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
    st.caption(" · ".join(markdown(f) for f in facts))
    notes = receipt["warnings"]
    if notes:
        st.warning("\n".join(f"- {markdown(n)}" for n in notes), icon=":material/warning:")


def rejects(known: Known | None, receipt: dict[str, Any]) -> None:
    """The records that were not used, from the receipt or, without one, from the dataset."""
    listed = receipt.get("rejects") or []
    total = receipt["records"]["rejected"] + receipt["files"]["failed"]
    if listed:
        rows = {
            "File": [r["file"] for r in listed],
            "Line or entry": [formats.count(r["line"]) if r["line"] else formats.UNKNOWN for r in listed],
            "Reason": [r["reason"] for r in listed],
        }
    elif known is not None:
        frame = desk(known).warehouse.dataset.read("rejects").head(1000)
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
    texts(rows, "Records that were not used, with the reason", ("Line or entry",))


def download(name: str, receipt: dict[str, Any]) -> None:
    """The whole receipt as a file."""
    st.download_button(
        "Receipt (JSON)", lambda: json.dumps(receipt, indent=1, ensure_ascii=False),
        f"{'-'.join(name.replace('/', ' ').split())}-receipt.json", "application/json", on_click="ignore",
        key="receipt-file", type="tertiary", icon=":material/download:",
    )  # fmt: skip


def ways(receipt: dict[str, Any], again: Callable[[Again], None], of: str) -> None:
    """A button for each option with which the receipt of an upload suggests to read again."""
    with st.container(horizontal=True):
        for way in ways_on(receipt):
            st.button(
                f"Read again with {way.words}", key=f"again-{of}-{way.option}-{way.value}", on_click=again, args=(way,),
                icon=":material/replay:", type="primary",
            )  # fmt: skip
