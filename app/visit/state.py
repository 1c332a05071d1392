"""What a visitor has open and asks: datasets of this session, the dataset picker, the filter sidebar.

One visitor's data is shown to nobody else: it lies in a folder of the session, is listed only in the session, and what
is computed from it is cached for the session alone. The demo and the folders the server was started with are shared.
"""

from __future__ import annotations

import os
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import streamlit as st

if TYPE_CHECKING:
    import polars as pl

    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse

ROOTS_VARIABLE = "TRACETOWER_DATA_ROOTS"
DATASET_VARIABLE = "TRACETOWER_DATASET"
DEMO = "demo"
KEPT_ANSWERS = 256

T = TypeVar("T")


class Known(NamedTuple):
    """A dataset that this visitor may look at. `name` is its label and its value in the URL; no path: the demo."""

    name: str
    path: Path | None
    private: bool


class Desk:
    """An open dataset and the answers given so far, so that going back to a page is instant."""

    def __init__(self, path: Path) -> None:
        from analysis.store.warehouse import open_dataset

        self.warehouse: Warehouse = open_dataset(path)
        self._answers: OrderedDict[str, Any] = OrderedDict()

    def answer(self, key: str, make: Callable[[], T]) -> T:
        """The answer called `key`, made once."""
        if key not in self._answers:
            self._answers[key] = make()
            while len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
        return cast(T, self._answers[key])

    def answered(self, key: str) -> bool:
        """Whether `answer` has it without making it."""
        return key in self._answers

    def query(self, name: str, question: Question, **params: Any) -> pl.DataFrame:
        """Answer a query of the catalogue."""
        key = f"{name} {question!r} {sorted(params.items())!r}"
        return self.answer(key, lambda: self.warehouse.query(name, question, **params))


@st.cache_resource(show_spinner=False, max_entries=16)
def _shared_desk(path: str, key: str) -> Desk:
    return Desk(Path(path))


@st.cache_resource(show_spinner=False, max_entries=8, scope="session")
def _own_desk(path: str, key: str) -> Desk:
    return Desk(Path(path))


def desk(known: Known) -> Desk:
    """The open dataset, reopened when its content has changed.

    Raises:
        traces.dataset.layout.NotADataset: if it cannot be opened.
    """
    from traces.dataset.layout import Dataset

    path = known.path or Path(_demo_folder().name) / DEMO
    key = Dataset(path).key
    return (_own_desk if known.private else _shared_desk)(str(path), key)


# Folders -----------------------------------------------------------------------------------------------------------


@st.cache_resource(show_spinner=False, scope="session", on_release=lambda folder: folder.cleanup())
def _session_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="tracetower-visit-", ignore_cleanup_errors=True)


def session_folder() -> Path:
    """This visitor's own folder (mode 0700, an unguessable name), removed when the session ends."""
    return Path(_session_folder().name)


@st.cache_resource(show_spinner=False)
def _demo_folder() -> tempfile.TemporaryDirectory[str]:
    from traces.intake.demo import demo_inputs
    from traces.intake.ingest import ingest

    folder = tempfile.TemporaryDirectory(prefix="tracetower-demo-", ignore_cleanup_errors=True)
    ingest(demo_inputs(), Path(folder.name) / DEMO)
    return folder


def demo() -> Known:
    """The bundled sessions; ingested once a server, when they are first looked at."""
    return Known(DEMO, None, False)


def roots() -> list[Path]:
    """Folders that the path box may read, as the server was started with."""
    return [Path(p).resolve() for p in os.environ.get(ROOTS_VARIABLE, "").split(os.pathsep) if p]


class OutsideRoots(ValueError):
    """A path that this server may not read; the message does not say whether it exists."""


def within_roots(text: str) -> Path:
    """The file or folder called `text`, absolute or relative to a data root.

    Raises:
        OutsideRoots: if it is in none of them, links followed.
    """
    for root in roots():
        try:
            path = (root / text.strip()).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            continue
        if path == root or root in path.parents:
            return path
    raise OutsideRoots("nothing of that name in the folders that this server may read")


def is_dataset(path: Path) -> bool:
    """Whether `path` is a dataset's folder (it may still be damaged)."""
    from traces.dataset.layout import MANIFEST

    return (path / MANIFEST).is_file()


def root_name(path: Path) -> str:
    """A path's name relative to its data root."""
    for root in roots():
        if root in path.parents:
            return path.relative_to(root).as_posix()
    return path.name


# What is open ------------------------------------------------------------------------------------------------------


def opened() -> dict[str, Known]:
    """The datasets that this visitor has opened, by name; a link may name the demo or one in a data root."""
    found: dict[str, Known] | None = st.session_state.get("opened")
    if found is None:
        found = st.session_state["opened"] = {}
        if given := os.environ.get(DATASET_VARIABLE):
            path = Path(given)
            found[path.name] = Known(path.name, path, False)
        _from_link(found)
    return found


def _from_link(found: dict[str, Known]) -> None:
    asked = st.query_params.get("dataset")
    if asked is None or asked in found:
        return
    if asked == DEMO:
        found[DEMO] = demo()
        return
    try:
        path = within_roots(asked)
    except OutsideRoots:
        return
    if is_dataset(path):
        found[asked] = Known(asked, path, False)


def open_dataset(known: Known, receipt: dict[str, Any] | None = None) -> None:
    """List a dataset in this session and choose it; `receipt` is shown on the Data page."""
    opened()[known.name] = known
    st.session_state.setdefault("receipts", {})[known.name] = receipt
    st.session_state["choose"] = known.name


def receipt(known: Known) -> dict[str, Any] | None:
    """What the ingest said: with the visitor's own file names where it ran in this session."""
    mine: dict[str, Any] | None = st.session_state.get("receipts", {}).get(known.name)
    return mine or desk(known).warehouse.dataset.manifest.get("receipt")


def picked() -> Known | None:
    """Draw the dataset picker in the sidebar and return what is chosen; None where nothing is open."""
    found = opened()
    if not found:
        return None
    state = st.session_state
    chosen = state.pop("choose", None) or state.get("current") or st.query_params.get("dataset")
    state["picker"] = chosen if chosen in found else next(reversed(found))
    name: str = st.sidebar.selectbox("Dataset", list(found), key="picker", on_change=_switched)
    state["current"] = name
    # not bound to the link as the filters are: a bound widget is late to write what the program has set
    if st.query_params.get("dataset") != name:
        st.query_params["dataset"] = name
    return found[name]


def _switched() -> None:
    st.session_state["current"] = st.session_state["picker"]
