"""A dataset as one zip that is safe to share: tables and manifest, pseudonyms for what may name people or projects."""

from __future__ import annotations

import io
import json
import re
import secrets
import zipfile
from pathlib import Path

import polars as pl

from traces.dataset.layout import MANIFEST, Dataset
from traces.dataset.unpacking import is_bundle, unpack
from traces.schema import TABLES

__all__ = ["bundle", "is_bundle", "open_bundle"]

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
_PLAIN = re.compile(
    r"(?!arn:|ft:|home/|users/)[A-Za-z0-9][A-Za-z0-9._:/+-]{0,79}(@(\d{6,8}|latest|default))?", re.IGNORECASE
)
"""A model's public name: no e-mail address, account, folder or fine-tune of someone's."""
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
                without_names(name, dataset.read(name)).write_parquet(buffer, compression="zstd")
                out.writestr(f"tables/{name}.parquet", buffer.getvalue())
            out.writestr(MANIFEST, json.dumps(_manifest(dataset), indent=1) + "\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path.stat().st_size


def _manifest(dataset: Dataset) -> dict[str, object]:
    m = dataset.manifest
    return {
        "schema_version": m["schema_version"],
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


def without_names(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The table `name` with pseudonyms for agents, versions, models, tools and reasons that could name someone."""
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
    unpack(path, folder)
    return Dataset(folder)
