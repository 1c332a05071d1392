"""A dataset that answers questions: `open_dataset(path)` -> `Warehouse`; `query(name, question, **params)` -> frame.

Facts and reuse runs are computed once per (block size, arrivals) and kept in the dataset's cache; DuckDB does the rest.
"""

from __future__ import annotations

import math
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from analysis.store import arrivals as arrival_models
from analysis.store import catalog
from analysis.store.axes import check_axis
from analysis.store.prepared import Prepared
from analysis.store.question import BadQuestion, NeedsArrivals, Question, block_choice, parse_window
from traces.dataset.layout import Dataset
from traces.schema import TABLES

if TYPE_CHECKING:
    import duckdb

    from analysis.store.connection import Limits
    from analysis.store.facts import Arrived, Loaded


MOST_KEPT_ROWS = 10_000
"""Answers of up to this many rows are kept in the dataset's cache for when they are asked for again."""


def open_dataset(path: str | Path) -> Warehouse:
    """Open a dataset for questions.

    Raises:
        traces.dataset.layout.NotADataset: if there is none at `path`.
    """
    return Warehouse(Dataset(path))


class Warehouse:
    """Answers questions about one dataset. Threads may share it: each call uses a cursor of its own."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._lock = threading.Lock()
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._loaded: Loaded | None = None
        self._arrived: dict[arrival_models.Arrivals, Arrived] = {}
        self._kinds: pl.DataFrame | None = None
        self._blocks: list[int] | None = None
        self._distinct: dict[tuple[Any, ...], int | None] = {}
        self._con: duckdb.DuckDBPyConnection | None = None
        self._defined: set[str] = set()
        self._spill: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Close the connection and delete the files it spilled."""
        if self._con is not None:
            self._con.close()
        if self._spill is not None:
            self._spill.cleanup()

    def loaded(self) -> Loaded:
        """The dataset as arrays, read once."""
        if self._loaded is None:
            from analysis.store.facts import load

            self._loaded = load(self.dataset)
        return self._loaded

    def arrived(self, arrivals: str) -> Arrived:
        """Arrival times and order under a model."""
        from analysis.store.facts import arrive

        model = _model(arrivals)
        if model not in self._arrived:
            self._arrived[model] = arrive(self.loaded(), model)
        return self._arrived[model]

    def kinds(self) -> pl.DataFrame:
        """Transition and trajectory type per request row (independent of arrivals and block size)."""
        if self._kinds is None:
            from analysis.store.facts import classify

            recorded = "recorded"
            self._kinds = self.dataset.caches.frame(
                "kinds", (), lambda: classify(self.loaded(), self.arrived(recorded))
            )
        return self._kinds

    def native_blocks(self) -> list[int]:
        """Native block sizes of the dataset's sources (1 for text)."""
        if self._blocks is None:
            self._blocks = self.dataset.read("sources")["native_block_tokens"].drop_nulls().unique().sort().to_list()
        return self._blocks

    def prepare(self, question: Question) -> Prepared:
        """Compute the facts and runs that the question reads, or find them in the dataset's cache.

        Raises:
            BadQuestion: what does not fit this dataset.
        """
        block = block_choice(question.block_size, self.native_blocks())
        parse_window(question.window)
        for axis, _ in question.where:
            check_axis(axis)
        model = _model(question.arrivals)
        with self._lock:
            found = self._prepared.get(key := (block, model))
            # never computed, or evicted from the cache
            if found is None or not (found.facts.is_file() and found.runs.is_file()):
                found = self._prepared[key] = self._compute(block, model, question)
        return found._replace(question=question)

    def _compute(self, block: int, model: arrival_models.Arrivals, question: Question) -> Prepared:
        caches, key = self.dataset.caches, (block, model)
        facts_file, runs_file = caches.find("facts", key), caches.find("runs", key)
        if facts_file is None or runs_file is None:
            from analysis.store.facts import facts, runs_frame

            arrived = self.arrived(question.arrivals)
            frame, runs = facts(self.loaded(), arrived, self.kinds(), block)
            about = {
                "unanchored": arrived.unanchored,
                "order_known": not arrived.unanchored or self._families_apart(frame, block),
                "timed": frame["arrival_s"].null_count() == 0,
                "requests": frame.height,
            }
            runs_file = caches.keep("runs", key, runs_frame(runs))
            facts_file = caches.keep("facts", key, frame, about)
        return Prepared(question, block, facts_file, runs_file, **caches.about(facts_file))

    def _families_apart(self, frame: pl.DataFrame, block: int) -> bool:
        """Whether no prefix is shared across top-level sessions, so that their order changes nothing."""
        from analysis.kernel.families import family_hits

        return family_hits(self.loaded(), block) == int(frame["hit_tokens"].fill_null(0).sum()) // block

    def query(self, name: str, question: Question, **params: Any) -> pl.DataFrame:
        """Answer the query `name` of the catalogue; `params` are those of its macro (texts are converted).

        `block=N` is the question's block size.

        Raises:
            BadQuestion: an unknown query or parameter, or an invalid value.
            NeedsArrivals: the answer depends on when sessions start, and the dataset does not say that.
        """
        known = catalog.queries()
        if name not in known:
            raise BadQuestion(f"unknown query {name!r}. Queries: {', '.join(known)}", "name", known)
        query = known[name]
        if (block := params.pop("block", None)) is not None:
            question = question._replace(block_size=_whole("block", block))
        bound = query.bind(params)
        prepared = self.prepare(question)
        if query.needs:
            self.need_times(prepared, f"the query {name}", seconds=query.needs == "times")
        call = ", ".join(f"{key} := ${key}" for key in bound)  # names are the catalogue's, values are bound
        # the file of the causes is named by all that they depend on, wherever it lies
        exact = tuple((key, Path(value).name if key == "causes" and value else value) for key, value in bound.items())
        if bound.get("causes") is not None:
            from analysis.store.connection import pattern_of

            bound["causes"] = pattern_of(Path(bound["causes"]))
        return self._answer(prepared, f"FROM {name}({call})", bound, exact)

    def _answer(self, prepared: Prepared, sql: str, params: dict[str, Any], exact: tuple[Any, ...]) -> pl.DataFrame:
        """The answer kept in the dataset's cache for this question, statement and `exact` values, or a new one."""
        q = prepared.question
        key = (sql, q._replace(block_size=prepared.block_size, arrivals=str(_model(q.arrivals))), exact)
        return self.dataset.caches.frame("answer", key, lambda: self._run(prepared, sql, params), MOST_KEPT_ROWS)

    def grouped(self, question: Question, axis: str) -> pl.DataFrame:
        """row, group and prefix_tokens of the selected requests whose prompt is known, by row."""
        check = axis if axis == "all" else check_axis(axis)
        sql = 'SELECT row, "group", prefix_tokens FROM grouped($axis) WHERE prefix_tokens IS NOT NULL ORDER BY row'
        return self.select(question, sql, {"axis": check})

    def select(self, question: Question, sql: str, params: dict[str, Any] | None = None) -> pl.DataFrame:
        """Run a SELECT of the library over the views of `question`; values are bound, any number of rows comes."""
        return self._run(self.prepare(question), sql, params or {})

    def answer(self, question: Question, sql: str) -> pl.DataFrame:
        """`select` of an answer that is kept in the dataset's cache."""
        return self._answer(self.prepare(question), sql, {}, ())

    def sql(self, text: str, question: Question, limits: Limits | None = None) -> pl.DataFrame:
        """Run one SELECT that a user wrote, over the dataset's tables, the views and the queries.

        Raises:
            BadQuestion: no SELECT, not understood, or beyond the limits.
        """
        return self._run(self.prepare(question), text, None, limits)

    def _run(
        self, prepared: Prepared, sql: str, params: dict[str, Any] | None, limits: Limits | None = None
    ) -> pl.DataFrame:
        from analysis.store import connection

        cursor = self._connection(prepared, sql).cursor()
        try:
            for name, value in self._variables(prepared, sql).items():
                cursor.execute(f"SET VARIABLE {name} = $value", {"value": value})
            if params is None:
                return connection.select_text(cursor, sql, limits or connection.Limits())
            return connection.select(cursor, sql, params)
        finally:
            cursor.close()

    def _connection(self, prepared: Prepared, sql: str) -> duckdb.DuckDBPyConnection:
        """The connection, which knows every query that `sql` names."""
        from analysis.store import connection

        with self._lock:
            if self._con is None:
                folders = [self.dataset.tables, *self.dataset.caches.folders()]
                self._con = connection.connect(self._files(prepared), folders, self._spill_folder())
            connection.define(self._con, sql, self._defined)
            return self._con

    def _spill_folder(self) -> Path:
        """Where DuckDB puts what does not fit into memory."""
        if self._spill is None:
            self._spill = tempfile.TemporaryDirectory(prefix="tracetower-", ignore_cleanup_errors=True)
        return Path(self._spill.name)

    def _files(self, prepared: Prepared) -> dict[str, Path]:
        tables = {name: self.dataset.table_path(name) for name in TABLES}
        return {**tables, "facts": prepared.facts, "runs": prepared.runs}

    def _variables(self, prepared: Prepared, sql: str) -> dict[str, Any]:
        """The session variables that the views and queries read; unknown or unset ones are left out."""
        from analysis.store.connection import pattern_of

        question = prepared.question
        window = parse_window(question.window)
        values: dict[str, Any] = {
            "timezone": question.timezone,
            "block_size": prepared.block_size,
            "order_known": prepared.order_known,
            "timed": prepared.timed and not prepared.unanchored,
            "first_rank": None if window.last is None else math.floor(prepared.requests * (1 - window.last)),
            "from_s": window.from_s,
            "to_s": window.to_s,
        }
        for name, path in self._files(prepared).items():
            values[f"{name}_file"] = pattern_of(path)
        for axis, value in question.where:
            values.setdefault(f"where_{axis}", []).append(value)
        if "overlap" in sql.lower():  # the only query that reads distinct_tokens, which SQL computes too slowly
            values["distinct_tokens"] = self.distinct_tokens(prepared)
        return {name: value for name, value in values.items() if value is not None}

    def distinct_tokens(self, prepared: Prepared) -> int | None:
        """Tokens of the tree nodes on the paths of selected prompts; None if no prompt is known."""
        key = prepared.question, prepared.block_size
        if key not in self._distinct:
            rows = self._run(prepared, "SELECT prefix_id FROM selected WHERE prefix_id IS NOT NULL", {})
            if rows.is_empty():
                self._distinct[key] = None
            else:
                from analysis.kernel.reuse import reuse

                tree, paths = self.loaded().tree, self.loaded().paths
                leaf = rows["prefix_id"].to_numpy().astype("int64")
                order = pl.int_range(leaf.size, eager=True).to_numpy()
                # at block size 1 every token that does not hit is seen for the first time
                runs = reuse(tree.parent, tree.start, tree.end, leaf, order, order.astype("float64"), 1, None, paths)
                self._distinct[key] = runs.distinct_blocks
        return self._distinct[key]

    def need_times(self, prepared: Prepared, what: str, seconds: bool = False) -> None:
        """Refuse a question whose answer depends on times that the dataset does not have.

        Raises:
            NeedsArrivals: times are relative and no arrival model is named.
            BadQuestion: `seconds` are needed and requests have none.
        """
        if prepared.unanchored:
            raise NeedsArrivals(what)
        if seconds and not prepared.timed:
            raise BadQuestion(f"{what} needs times, and some requests of this dataset have none")


def _model(text: str) -> arrival_models.Arrivals:
    try:
        return arrival_models.parse(text)
    except ValueError as error:
        raise BadQuestion(str(error), "arrivals") from None


def _whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadQuestion(f"{name} takes a whole number, not {value!r}", name) from None
