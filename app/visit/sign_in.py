"""Sign-in, where the server is set up for it: Streamlit's own, with an OIDC provider of the operator's."""

from __future__ import annotations

import streamlit as st
from streamlit.auth_util import is_authlib_installed


def ask() -> None:
    """Stop with a button to sign in, if `.streamlit/secrets.toml` has a section `auth` and the visitor has not."""
    if not (st.secrets.load_if_toml_exists() and st.secrets.get("auth")):
        return
    if getattr(st.user, "is_logged_in", False):
        st.sidebar.button("Sign out", on_click=st.logout, icon=":material/logout:", type="tertiary")
        return
    if not is_authlib_installed():
        st.error("Sign-in is set up, but its library is missing: `pip install 'streamlit[auth]'`.")
        st.stop()
    st.write("This server asks who you are before it shows anything.")
    st.button("Sign in", on_click=st.login, type="primary", icon=":material/login:")
    st.stop()
