"""Where the demo lies."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

from app.visit.known import DEMO
from app.visit.server import server_folder


@st.cache_resource(show_spinner=False)
def demo_dataset() -> Path:
    """The bundled sessions as a dataset; ingested once a server, when they are first looked at."""
    from traces.intake.demo import demo_inputs
    from traces.intake.ingest import ingest

    path = Path(tempfile.mkdtemp(prefix="demo-", dir=server_folder())) / DEMO
    ingest(demo_inputs(), path)
    return path
