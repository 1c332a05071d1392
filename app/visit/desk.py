"""A dataset that is open, and the answers given about it so far."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import streamlit as st

from app.visit import folders
from app.visit.known import Known

if TYPE_CHECKING:
    import polars as pl

    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse

KEPT_ANSWERS = 256

T = TypeVar("T")


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

    path = known.path or folders.demo_dataset()
    about = path.stat() if path.is_file() else None  # a bundle is unpacked once, not to look at its key
    key = Dataset(path).key if about is None else f"{about.st_mtime_ns} {about.st_size}"
    return (_own_desk if known.private else _shared_desk)(str(path), key)
