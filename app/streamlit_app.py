"""The browser app's entry: `streamlit run app/` runs this file. It names the pages; each is a file in views/."""

import sys
import time
from pathlib import Path

import streamlit as st

if str(Path(__file__).parents[1]) not in sys.path:  # run from a checkout that is not installed
    sys.path.append(str(Path(__file__).parents[1]))

st.set_page_config(page_title="Tracetower", page_icon=str(Path(__file__).with_name("favicon.svg")), layout="wide")

# a browser draws nothing while more keeps coming: a visitor's first title gets this much time
TITLE_S = 0.2

PAGES = {
    "": [
        st.Page("views/data/data.py", title="Data", icon=":material/database:", default=True),
    ],
    "Workload": [
        st.Page("views/overview.py", title="Overview", icon=":material/insights:", url_path="overview"),
        st.Page("views/cache.py", title="Cache", icon=":material/memory:", url_path="cache"),
        st.Page("views/why/why.py", title="Why", icon=":material/help:", url_path="why"),
    ],
    "What-if": [
        st.Page("views/replica/replica.py", title="Replica", icon=":material/dns:", url_path="replica"),
        st.Page("views/fleet/replicas.py", title="Replicas", icon=":material/hub:", url_path="replicas"),
    ],
    "Hand on": [
        st.Page("views/export.py", title="Export", icon=":material/output:", url_path="export"),
    ],
}

page = st.navigation(PAGES)
st.session_state["page"] = page.url_path
st.title(page.title)

if "title_seen" not in st.session_state:
    st.session_state["title_seen"] = True
    time.sleep(TITLE_S)

from app.visit import sidebar  # noqa: E402 (the title is on the page before anything is loaded)

sidebar.draw(filters=page.url_path != "")
page.run()
