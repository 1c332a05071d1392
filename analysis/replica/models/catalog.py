"""The catalogue of models and GPUs: data files with a source per row, and models from any config.json."""

from __future__ import annotations

import difflib
import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from analysis.replica.models.config import ConfigError, Model, model_from_config

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Gpu:
    """One GPU. Bytes and bytes/s; FLOP/s dense, None where unknown or not supported; link: host link, one way."""

    name: str
    memory_bytes: int
    hbm_bytes_per_s: float
    bf16_flops: float
    fp8_flops: float | None
    fp4_flops: float | None
    link_bytes_per_s: float
    source: str
    verified: bool

    def peak_flops(self, scheme: str) -> tuple[float, str]:
        """(dense FLOP/s, unit used) for matrices whose weights are stored as `scheme`.

        Low-bit experts run beside fp8 layers, so everything below 16 bits is counted at the fp8 rate where there is
        one.
        """
        if scheme != "bf16" and self.fp8_flops is not None:
            return self.fp8_flops, "fp8"
        return self.bf16_flops, "bf16"


@cache
def _table(file: str) -> dict[str, dict[str, Any]]:
    with (HERE / file).open("rb") as handle:
        return tomllib.load(handle)


def _find(table: dict[str, dict[str, Any]], kind: str, name: str, hint: str) -> tuple[str, dict[str, Any]]:
    wanted = name.strip().lower()
    for key, row in table.items():
        if wanted == key or wanted in row.get("aliases", ()):
            return key, row
    known = sorted([*table, *(a for row in table.values() for a in row.get("aliases", ()))])
    near = difflib.get_close_matches(wanted, known, 3)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise ValueError(f"unknown {kind} {name!r}: {guess}known: {', '.join(known)}{hint}")


def model_names() -> list[str]:
    """Names of the catalogue's models, in file order; aliases are not listed."""
    return list(_table("models.toml"))


def gpu_names() -> list[str]:
    """Names of the catalogue's GPUs, in file order."""
    return list(_table("gpus.toml"))


def model_aliases(name: str) -> list[str]:
    """Other names under which a catalogue model is known."""
    return list(_table("models.toml")[name].get("aliases", ()))


def load_model(name: str) -> Model:
    """A model of the catalogue, or one described by a `config.json` file (a path that exists or ends in .json).

    Raises:
        ValueError: the name is unknown (the message lists the known ones), the file cannot be read or is not JSON.
        ConfigError: the config.json lacks a needed key.
    """
    path = Path(name)
    if name.endswith(".json") or path.is_file():
        return _load_config(path)
    key, row = _find(_table("models.toml"), "model", name, "; or give the path of a Hugging Face config.json")
    return model_from_config(row["config"], key, row["weights"], row["source"])


def _load_config(path: Path) -> Model:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ValueError(
            f"no such file: {path}; a model is a name of the catalogue or the path of a config.json"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read as a config.json: {error}") from error
    return model_from_text(text, path.name)


def model_from_text(text: str, name: str = "config.json") -> Model:
    """A model from the text of a `config.json`; `name` is what the model and errors are called.

    Raises:
        ValueError: the text is not JSON.
        ConfigError: a needed key is missing or impossible.
    """
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{name}: cannot be read as a config.json: {error}") from error
    try:
        return model_from_config(config, name)
    except ConfigError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        raise ConfigError(f"{name}: not a usable config.json: {error}") from error


def load_gpu(name: str) -> Gpu:
    """A GPU of the catalogue; ValueError lists the known ones."""
    key, row = _find(_table("gpus.toml"), "GPU", name, "; or give the bytes of one GPU with the nearest GPU")
    return Gpu(
        name=key,
        memory_bytes=row["memory_bytes"],
        hbm_bytes_per_s=row["hbm_bytes_per_s"],
        bf16_flops=row["bf16_flops"],
        fp8_flops=row.get("fp8_flops"),
        fp4_flops=row.get("fp4_flops"),
        link_bytes_per_s=row["link_bytes_per_s"],
        source=row["source"],
        verified=row.get("verified", True),
    )
