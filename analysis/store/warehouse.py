"""A dataset that answers questions: `open_dataset(path)` -> `Warehouse`; `query(name, question, **params)` -> frame.

Facts and reuse runs are computed once per (block size, arrivals) and kept in the dataset's cache; DuckDB does the rest.
"""

from __future__ import annotations

import math
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import polars as pl

from analysis.store import arrivals as arrival_models
from analysis.store import catalog
from analysis.store.question import AXES, BadQuestion, NeedsArrivals, Question, block_choice, check_axis, parse_window
from traces.dataset.layout import Dataset

_VARIABLES = (
    "facts_file",
    "runs_file",
    "timezone",
    "first_rank",
    "from_s",
    "to_s",
    *(f"where_{axis}" for axis in AXES),
)


class Prepared(NamedTuple):
    """A question made ready: where its facts and runs lie and what is known about its times."""

    question: Question
    block_size: int
    facts: Path
    runs: Path
    unanchored: bool  # recorded times say nothing across sessions
    order_known: bool  # who came first is known, or does not matter
    timed: bool  # every request has a time
    requests: int


def open_dataset(path: str | Path) -> Warehouse:
    """Open a dataset for questions.

    Raises:
        traces.dataset.layout.NotADataset: if there is none at `path`.
    """
    return Warehouse(Dataset(path))


class Warehouse:
    """Answers questions about one dataset; may be shared by threads (a cursor per call)."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._lock = threading.Lock()
        self._prepared: dict[tuple[Any, ...], Prepared] = {}
        self._loaded: Any = None
        self._arrived: dict[arrival_models.Arrivals, Any] = {}
        self._kinds: pl.DataFrame | None = None
        self._blocks: list[int] | None = None
        self._con: duckdb.DuckDBPyConnection | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Give back the connection and any scratch files."""
        if self._con is not None:
            self._con.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    # arrays ----------------------------------------------------------------------------------------------------

    def loaded(self) -> Any:
        """The dataset as arrays (analysis.store.facts.Loaded), read once."""
        if self._loaded is None:
            from analysis.store.facts import load

            self._loaded = load(self.dataset)
        return self._loaded

    def arrived(self, arrivals: str) -> Any:
        """Arrival times and order under a model (analysis.store.facts.Arrived)."""
        from analysis.store.facts import arrive

        try:
            model = arrival_models.parse(arrivals)
        except ValueError as error:
            raise BadQuestion(str(error)) from None
        if model not in self._arrived:
            self._arrived[model] = arrive(self.loaded(), model)
        return self._arrived[model]

    def kinds(self) -> pl.DataFrame:
        """Transition and trajectory type per request row (independent of arrivals and block size)."""
        if self._kinds is None:
            kept = self.dataset.read_cache("kinds.parquet")
            if kept is None:
                from analysis.store.facts import classify

                kept = classify(self.loaded(), self.arrived("recorded"))
                self.dataset.write_cache("kinds.parquet", kept)
            self._kinds = kept
        return self._kinds

    # questions -------------------------------------------------------------------------------------------------

    def native_blocks(self) -> list[int]:
        """Native block sizes of the dataset's sources (1 for text)."""
        if self._blocks is None:
            self._blocks = self.dataset.read("sources")["native_block_tokens"].drop_nulls().unique().sort().to_list()
        return self._blocks

    def prepare(self, question: Question) -> Prepared:
        """Compute (or find in the cache) what the question stands on.

        Raises:
            BadQuestion: for a block size, arrival model or window that makes no sense here.
        """
        block = block_choice(question.block_size, self.native_blocks())
        parse_window(question.window)
        for axis, _ in question.where:
            check_axis(axis)
        model = _model(question.arrivals)
        key = (block, model)
        with self._lock:
            found = self._prepared.get(key)
            if found is None:
                found = self._prepared[key] = self._compute(block, model, question)
        return found._replace(question=question)

    def _compute(self, block: int, model: arrival_models.Arrivals, question: Question) -> Prepared:
        import json

        stem = f"b{block}-{str(model).replace(':', '-')}"
        paths = {
            name: self.dataset.path / "cache" / self.dataset.key / f"{name}-{stem}.parquet"
            for name in ("facts", "runs")
        }
        note = paths["facts"].with_suffix(".json")
        if not all(p.is_file() for p in (*paths.values(), note)):
            from analysis.store.facts import facts, runs_frame

            arrived = self.arrived(question.arrivals)
            frame, runs = facts(self.loaded(), arrived, self.kinds(), block)
            about = {
                "unanchored": arrived.unanchored,
                "order_known": not arrived.unanchored or self._families_apart(frame, block),
                "timed": frame["arrival_s"].null_count() == 0,
                "requests": frame.height,
            }
            paths, note = self._keep({"facts": frame, "runs": runs_frame(runs)}, about, paths, note)
        about = json.loads(note.read_text("utf-8"))
        return Prepared(question, block, paths["facts"], paths["runs"], **about)

    def _families_apart(self, frame: pl.DataFrame, block: int) -> bool:
        """True where no prefix is shared across top-level sessions, so that their order changes nothing."""
        from analysis.kernel.families import family_hits

        return family_hits(self.loaded(), block) == int(frame["hit_tokens"].fill_null(0).sum()) // block

    def _keep(
        self, frames: dict[str, pl.DataFrame], about: dict[str, Any], paths: dict[str, Path], note: Path
    ) -> tuple[dict[str, Path], Path]:
        import json

        for name, frame in frames.items():
            self.dataset.write_cache(paths[name].name, frame)
        try:
            note.write_text(json.dumps(about), "utf-8")
        except OSError:
            # a dataset on a read-only disk: keep them for as long as this warehouse lives
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="tracetower-")
            folder = Path(self._scratch.name)
            paths = {name: folder / path.name for name, path in paths.items()}
            note = folder / note.name
            for name, frame in frames.items():
                frame.write_parquet(paths[name])
            note.write_text(json.dumps(about), "utf-8")
        return paths, note

    def query(self, name: str, question: Question, **params: Any) -> pl.DataFrame:
        """Answer the query `name` of `analysis/queries` with bound parameters.

        Raises:
            BadQuestion: for an unknown query or parameter.
        """
        known = catalog.queries()
        if name not in known:
            raise BadQuestion(f"unknown query {name!r}. Queries: {', '.join(known)}")
        prepared = self.prepare(question)
        call = ", ".join(f"{key} := ${key}" for key in params)
        return self._run(prepared, f"FROM {name}({call})", params)  # name is one of the catalogue's, values are bound

    def grouped(self, question: Question, axis: str) -> pl.DataFrame:
        """row, group and prefix_tokens of the selected requests whose prompt is known."""
        check = axis if axis == "all" else check_axis(axis)
        sql = 'SELECT row, "group", prefix_tokens FROM grouped($axis) WHERE prefix_tokens IS NOT NULL ORDER BY row'
        return self._run(self.prepare(question), sql, {"axis": check})

    def sql(self, text: str, question: Question) -> pl.DataFrame:
        """Run read-only SQL over the dataset's tables and the views facts, runs, selected.

        Raises:
            BadQuestion: if it is not one SELECT.
        """
        statements = duckdb.extract_statements(text)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise BadQuestion("--sql takes one SELECT (the dataset is only read)")
        return self._run(self.prepare(question), text, {})

    def _run(self, prepared: Prepared, sql: str, params: dict[str, Any]) -> pl.DataFrame:
        con = self._connection(prepared)
        cursor = con.cursor()
        try:
            for name, value in self._bound(prepared).items():
                if value is None:
                    cursor.execute(f"RESET VARIABLE {name}")
                else:
                    cursor.execute(f"SET VARIABLE {name} = $value", {"value": value})
            try:
                return cursor.sql(sql, params=params).pl() if params else cursor.sql(sql).pl()
            except duckdb.Error as error:
                raise BadQuestion(str(error).split("\n")[0]) from None
        finally:
            cursor.close()

    def _connection(self, prepared: Prepared) -> duckdb.DuckDBPyConnection:
        with self._lock:
            if self._con is None:
                con = duckdb.connect(config={"threads": "4"})
                con.execute("SET VARIABLE facts_file = $value", {"value": str(prepared.facts)})
                con.execute("SET VARIABLE runs_file = $value", {"value": str(prepared.runs)})
                for name in ("sources", "sessions", "requests", "prefixes", "rejects"):
                    path = str(self.dataset.table_path(name)).replace("'", "''")
                    con.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")  # noqa: S608 (own path)
                con.execute(catalog.views())
                for query in catalog.queries().values():
                    con.execute(query.sql)
                folders = [str(self.dataset.path), str(prepared.facts.parent)]
                con.execute(f"SET allowed_directories = {[f + '/' for f in folders]}")
                con.execute("SET enable_external_access = false")
                self._con = con
            return self._con

    def _bound(self, prepared: Prepared) -> dict[str, Any]:
        question = prepared.question
        window = parse_window(question.window)
        values: dict[str, Any] = dict.fromkeys(_VARIABLES)
        values["facts_file"], values["runs_file"] = str(prepared.facts), str(prepared.runs)
        values["timezone"] = question.timezone
        if window.last is not None:
            values["first_rank"] = math.floor(prepared.requests * (1 - window.last))
        values["from_s"], values["to_s"] = window.from_s, window.to_s
        for axis, value in question.where:
            values[f"where_{axis}"] = [*(values[f"where_{axis}"] or []), value]
        return values

    def need_times(self, prepared: Prepared, what: str, seconds: bool = False) -> None:
        """Refuse a question whose answer depends on times that the dataset does not have.

        Raises:
            NeedsArrivals: where times are relative and no arrival model is named.
            BadQuestion: where `seconds` are needed and requests have none.
        """
        if prepared.unanchored:
            raise NeedsArrivals(what)
        if seconds and not prepared.timed:
            raise BadQuestion(f"{what} needs times, and some requests of this dataset have none")


def _model(text: str) -> arrival_models.Arrivals:
    try:
        return arrival_models.parse(text)
    except ValueError as error:
        raise BadQuestion(str(error)) from None
