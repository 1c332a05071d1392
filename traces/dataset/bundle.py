"""A dataset as one zip that is safe to share: tables and manifest, pseudonyms for what may name people or projects."""

from __future__ import annotations

import io
import json
import secrets
import zipfile
from pathlib import Path
from typing import Any

import polars as pl

from traces.dataset.layout import MANIFEST, Dataset
from traces.dataset.paths import beside, remove
from traces.dataset.published_names import (
    KNOWN_TOOL_CLASSES,
    is_public_agent,
    is_public_model,
    is_public_status,
    is_public_stop,
    is_public_tokenizer,
    is_public_version,
    pseudonyms,
)
from traces.dataset.unpacking import is_bundle, unpack
from traces.schema import TABLES

__all__ = ["bundle", "is_bundle", "open_bundle"]


def bundle(dataset: Dataset, path: Path, hide_models: bool = False) -> int:
    """Write `dataset` to the zip `path`, check what was written, and return its size in bytes.

    Left out: private/, cache/, names of inputs, digests. Replaced by pseudonyms: agents, versions, stop reasons,
    states, tokenizers and tool classes that are not published ones, and names of models that a customer has a part
    in. Kept: names of published models and agents.

    Args:
        dataset: the dataset.
        path: the zip to write.
        hide_models: replace the name of every model.

    Raises:
        OSError: where the zip cannot be written; there is none then.
    """
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = beside(path, secrets.token_hex(4))
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as out:
            for name in TABLES:
                buffer = io.BytesIO()
                without_names(name, dataset.read(name), hide_models).write_parquet(buffer, compression="zstd")
                out.writestr(f"tables/{name}.parquet", buffer.getvalue())
            out.writestr(MANIFEST, json.dumps(_manifest(dataset), indent=1) + "\n")
        Dataset(part)  # raises where a table is not as declared
        part.replace(path)
    finally:
        remove(part)
    return path.stat().st_size


def _manifest(dataset: Dataset) -> dict[str, Any]:
    m = dataset.manifest
    kept = ("schema_version", "tool", "tool_version", "one_trace", "rows", "copies", "copies_by_fingerprint")
    receipt = m["receipt"]
    if receipt is not None and receipt.get("tokenizer") is not None:
        receipt = receipt | {"tokenizer": _tokenizers([receipt["tokenizer"]])[0]}
    return {
        **{key: m[key] for key in kept},
        "tables": "tables",
        "private": None,
        "content_key": secrets.token_hex(6),
        "bundle": True,
        "tokenizers": _tokenizers(m["tokenizers"]),
        "inputs": [{"label": i["label"], "order": i["order"], "format": i["format"]} for i in m["inputs"]],
        "receipt": receipt,
    }


def _tokenizers(names: list[str]) -> list[str]:
    return pseudonyms(pl.Series(names, dtype=pl.String), is_public_tokenizer, "tokenizer").to_list()


def without_names(name: str, frame: pl.DataFrame, hide_models: bool = False) -> pl.DataFrame:
    """The table `name` with pseudonyms for what may name a person, a customer or a project; see `bundle`."""

    def replaced(column: str, is_public: Any, stem: str) -> pl.Series:
        return pseudonyms(frame[column], is_public, stem).alias(column)

    if name == "sources":
        return frame.with_columns(replaced("tokenizer", is_public_tokenizer, "tokenizer"))
    if name == "sessions":
        return frame.with_columns(
            replaced("agent", is_public_agent, "agent"), replaced("agent_version", is_public_version, "version")
        )
    if name == "requests":
        element = pl.element()
        return frame.with_columns(
            replaced("model", (lambda _: False) if hide_models else is_public_model, "model"),
            replaced("stop_reason", is_public_stop, "stop"),
            replaced("status", is_public_status, "status"),
            pl.col("tool_classes").list.eval(
                pl.when(element.is_in(list(KNOWN_TOOL_CLASSES))).then(element).otherwise(pl.lit("custom"))
            ),
        )
    return frame


def open_bundle(path: Path, folder: Path) -> Dataset:
    """Unpack the bundle `path` into `folder` and open it; only the files that a bundle has are read.

    Raises:
        NotADataset: if it is no bundle, or one that is damaged or hostile.
    """
    unpack(path, folder)
    return Dataset(folder)
