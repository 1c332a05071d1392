"""A dataset as one zip that is safe to share: tables and manifest, pseudonyms for what may name people or projects."""

from __future__ import annotations

import io
import json
import re
import secrets
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from traces.dataset.layout import MANIFEST, SCHEMA_VERSION, Dataset, NotADataset
from traces.schema import TABLES

KNOWN_AGENTS = frozenset(
    [
        "claude_code",
        "codex",
        "gemini_cli",
        "opencode",
        "cline",
        "roo",
        "kilo",
        "goose",
        "swe_agent",
        "mini_swe_agent",
        "openhands",
        "pi",
        "kimi",
        "qwen",
        "copilot",
        "aider",
        "cursor",
        "droid",
        "grok",
        "hermes",
        "antigravity",
        "openclaw",
        "inspect",
        "atif",
    ]
)
KNOWN_TOOL_CLASSES = frozenset(
    ["explore", "edit", "execute", "plan", "other", "unknown", "mcp", "custom", "tool", "web", "agent"]
)
_PLAIN = re.compile(r"[A-Za-z0-9._:/@+-]{1,80}")
_VERSION = re.compile(r"v?\d+(\.\d+){0,3}([-+.][0-9A-Za-z]{1,16})*")


def bundle(dataset: Dataset, path: Path) -> int:
    """Write `dataset` to the zip `path` and return its size in bytes.

    Left out: private/, the cache, input names, input digests. Replaced by pseudonyms: agents that are not public tools,
    their versions where they are no plain versions, tool classes and models that could carry names.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as out:
            for name in TABLES:
                buffer = io.BytesIO()
                _clean(name, dataset.read(name)).write_parquet(buffer, compression="zstd")
                out.writestr(f"tables/{name}.parquet", buffer.getvalue())
            out.writestr(MANIFEST, json.dumps(_manifest(dataset), indent=1) + "\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path.stat().st_size


def _manifest(dataset: Dataset) -> dict[str, object]:
    m = dataset.manifest
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": m["tool"],
        "tool_version": m["tool_version"],
        "tables": "tables",
        "private": None,
        "content_key": secrets.token_hex(6),
        "bundle": True,
        "tokenizers": m["tokenizers"],
        "tokenizer_digest": m.get("tokenizer_digest"),
        "one_trace": m["one_trace"],
        "rows": m["rows"],
        "copies": m["copies"],
        "inputs": [{"label": i["label"], "order": i["order"], "format": i["format"]} for i in m["inputs"]],
        "receipt": m["receipt"],
    }


def _clean(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    if name == "sessions":
        agents = _pseudonyms(frame["agent"], lambda v: v in KNOWN_AGENTS, "agent")
        versions = _pseudonyms(frame["agent_version"], lambda v: bool(_VERSION.fullmatch(v)), "version")
        return frame.with_columns(agent=agents, agent_version=versions)
    if name == "requests":
        models = _pseudonyms(frame["model"], lambda v: bool(_PLAIN.fullmatch(v)) and v.count("/") <= 2, "model")
        known = pl.col("tool_classes").list.eval(
            pl.when(pl.element().is_in(list(KNOWN_TOOL_CLASSES))).then(pl.element()).otherwise(pl.lit("custom"))
        )
        stops = _pseudonyms(frame["stop_reason"], lambda v: bool(re.fullmatch(r"[A-Za-z_-]{1,40}", v)), "stop")
        status = _pseudonyms(frame["status"], lambda v: bool(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", v)), "status")
        return frame.with_columns(models.alias("model"), known, stops.alias("stop_reason"), status.alias("status"))
    return frame


def _pseudonyms(series: pl.Series, fine: object, stem: str) -> pl.Series:
    assert callable(fine)
    names = series.drop_nulls().unique().sort().to_list()
    other = [n for n in names if not fine(n)]
    mapping = {n: f"{stem}-{i + 1}" for i, n in enumerate(other)}
    return series.replace(mapping) if mapping else series


def open_bundle(path: Path, folder: Path) -> Dataset:
    """Unpack the bundle `path` into `folder` and open it; only the files that a bundle has are read.

    Raises:
        NotADataset: if it is no bundle, or one that is damaged or hostile.
    """
    wanted = {MANIFEST, *(f"tables/{name}.parquet" for name in TABLES)}
    try:
        with zipfile.ZipFile(path) as file:
            infos = {i.filename: i for i in file.infolist() if i.filename in wanted}
            if set(infos) != wanted:
                raise NotADataset("not a bundle: it does not hold a manifest and every table")
            if sum(i.file_size for i in infos.values()) > 8 << 30:
                raise NotADataset("a bundle of more than 8 GiB unpacked is not opened from an upload")
            if infos[MANIFEST].file_size > 64 << 20:
                raise NotADataset("not a bundle: its manifest is too large")
            manifest = _trusted(json.loads(file.read(MANIFEST)))
            (folder / "tables").mkdir(parents=True, exist_ok=True)
            for name, info in infos.items():
                if name == MANIFEST:
                    continue
                with file.open(info) as inner, (folder / name).open("wb") as out:
                    while chunk := inner.read(1 << 20):
                        out.write(chunk)
            (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")
    except (zipfile.BadZipFile, OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, NotADataset):
            raise
        raise NotADataset(f"not a bundle, or a damaged one: {type(error).__name__}") from None
    dataset = Dataset(folder)
    check_tables(dataset)
    return dataset


def _trusted(told: dict[str, Any]) -> dict[str, Any]:
    """A sent manifest's fields that are used, each of its type; its key names folders, so it is our own."""
    inputs = [
        {"label": str(i["label"]), "order": int(i["order"]), "format": str(i["format"]), "digest": ""}
        for i in told["inputs"]
    ]
    receipt = told.get("receipt")
    return {
        "schema_version": told["schema_version"],
        "tool": "tracetower",
        "tool_version": str(told.get("tool_version", "")),
        "tables": "tables",
        "private": None,
        "content_key": secrets.token_hex(6),
        "bundle": True,
        "tokenizers": [str(t) for t in told.get("tokenizers", [])],
        "tokenizer_digest": None,
        "one_trace": bool(told.get("one_trace")),
        "rows": {name: int(n) for name, n in told.get("rows", {}).items() if name in TABLES},
        "copies": int(told.get("copies", 0)),
        "inputs": inputs,
        "receipt": receipt if isinstance(receipt, dict) else None,
    }


def is_bundle(path: Path) -> bool:
    """True where the zip at `path` looks like a bundle of a dataset."""
    try:
        with zipfile.ZipFile(path) as file:
            return MANIFEST in file.namelist() and "tables/requests.parquet" in file.namelist()
    except (zipfile.BadZipFile, OSError):
        return False


def check_tables(dataset: Dataset) -> None:
    """Check that the tables of an uploaded dataset have their columns and types.

    Raises:
        NotADataset: naming the table that does not.
    """
    from traces.schema import polars_schema

    for name, table in TABLES.items():
        try:
            found = pl.read_parquet_schema(dataset.table_path(name))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise NotADataset(f"table {name} cannot be read ({type(error).__name__})") from None
        if dict(found) != dict(polars_schema(table)):
            raise NotADataset(f"table {name} does not have the columns of this release; ingest again and bundle again")
    _check_tree(dataset)


def _check_tree(dataset: Dataset) -> None:
    """Compiled code walks the tree without bounds checks: every link must lead up, every prompt must lie in it."""
    tree = dataset.read("prefixes", ["prefix_id", "parent_id", "start_token", "end_token"])
    below, ends, count = tree.slice(1), tree["end_token"], tree.height
    whole = (
        count > 0
        and tree["prefix_id"].equals(pl.Series("prefix_id", range(count), pl.Int64))
        and tree["parent_id"][0] is None
        and (tree["start_token"][0], ends[0]) == (0, 0)
        and not any(below[name].null_count() for name in below.columns)
        and bool(below["parent_id"].is_between(0, count - 1).all())
        # a child starts where its parent ends and is not empty, so no path can come back to where it was
        and bool((below["start_token"] == ends.gather(below["parent_id"])).all())
        and bool((below["end_token"] > below["start_token"]).all())
    )
    if not whole:
        raise NotADataset("table prefixes is no tree; ingest again and bundle again")
    requests = dataset.read("requests", ["request_id", "prefix_id", "prefix_tokens"])
    known = requests.filter(pl.col("prefix_id").is_not_null())
    fit = (
        requests["request_id"].is_unique().all()
        and bool(known["prefix_id"].is_between(0, count - 1).all())
        and known["prefix_tokens"].null_count() == 0
        and bool((known["prefix_tokens"] == ends.gather(known["prefix_id"])).all())
    )
    if not fit:
        raise NotADataset("table requests points outside its tree; ingest again and bundle again")
