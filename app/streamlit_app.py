"""The browser app's entry: `streamlit run app/` runs this file. It names the pages; each is a file in views/."""

import sys
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import StopException

if str(Path(__file__).parents[1]) not in sys.path:  # run from a checkout that is not installed
    sys.path.append(str(Path(__file__).parents[1]))

st.set_page_config(page_title="Tracetower", page_icon=str(Path(__file__).with_name("favicon.svg")), layout="wide")

PAGES = {
    "": [
        st.Page("views/data/data.py", title="Data", icon=":material/database:", default=True),
    ],
    "Workload": [
        st.Page("views/overview/overview.py", title="Overview", icon=":material/insights:", url_path="overview"),
        st.Page("views/sessions/sessions.py", title="Sessions", icon=":material/forum:", url_path="sessions"),
        st.Page("views/cache/cache.py", title="Cache", icon=":material/memory:", url_path="cache"),
        st.Page("views/why/why.py", title="Why", icon=":material/help:", url_path="why"),
    ],
    "What-if": [
        st.Page("views/replica/replica.py", title="Hardware", icon=":material/dns:", url_path="hardware"),
        st.Page("views/fleet/replicas.py", title="Routing", icon=":material/hub:", url_path="routing"),
        st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:", url_path="compare"),
    ],
    "Hand on": [
        st.Page("views/export.py", title="Export", icon=":material/output:", url_path="export"),
        st.Page("views/sql.py", title="SQL", icon=":material/terminal:", url_path="sql"),
    ],
}
FORMER = {"replica": "hardware", "replicas": "routing"}
"""Paths of earlier releases, and where their links lead."""

found = {page.url_path: page for pages in PAGES.values() for page in pages}
for former, now in FORMER.items():
    moved = st.Page(lambda: None, title=found[now].title, url_path=former, visibility="hidden")
    found[former] = moved

page = st.navigation(list(found.values()), position="hidden")
if page.url_path in FORMER:
    st.switch_page(found[FORMER[page.url_path]], query_params={k: st.query_params.get_all(k) for k in st.query_params})
st.session_state["page"] = page.url_path
st.title(page.title)

from app.visit import sidebar, sign_in, state  # noqa: E402 (the title is on the page before anything is loaded)
from app.visit.link import link  # noqa: E402

sign_in.ask()
link.read(page.url_path)
navigation = st.sidebar.empty()
sidebar.pages(navigation, PAGES)
reported = st.empty()
try:
    name = sidebar.draw(filters=page.url_path != "")
    st.set_page_config(page_title=" · ".join(filter(None, (page.title, name, "Tracetower"))))
    with state.computing():
        page.run()
except StopException:  # the page says why it has nothing to show
    pass
with reported:
    link.report()
if link.changed():
    sidebar.pages(navigation, PAGES)
link.write()
