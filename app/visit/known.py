"""The datasets that a visitor may look at, and the folders of this server that a visitor may open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

ROOTS_VARIABLE = "TRACETOWER_DATA_ROOTS"
DATASET_VARIABLE = "TRACETOWER_DATASET"
DEMO = "demo"


class Known(NamedTuple):
    """A dataset that this visitor may look at; no path: the demo."""

    name: str
    path: Path | None
    private: bool
    id: str = ""
    """Of an upload."""

    @property
    def value(self) -> str:
        """What the link calls it."""
        return self.id or self.name


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


def root_name(path: Path) -> str:
    """A path's name relative to its data root."""
    for root in roots():
        if root in path.parents:
            return path.relative_to(root).as_posix()
    return path.name
