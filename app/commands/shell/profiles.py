"""A profile that someone hands to a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from app.commands.shell.command import BadData


def load_profile(path: str) -> dict[str, Any]:
    """A profile from a file.

    Raises:
        BadData: where it is none.
    """
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise BadData(f"{path} is no profile: not JSON. Make one with: tracetower profile DATASET -o {path}") from None
    from analysis.profile.profile import READABLE, SCHEMA

    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise BadData(f"{path} is no profile. Make one with: tracetower profile DATASET -o {path}")
    if found.get("version") not in READABLE:
        raise BadData(
            f"{path} is a profile of version {found.get('version')}, this release reads "
            f"{' and '.join(map(str, READABLE))}. Make one with: tracetower profile DATASET -o {path}"
        )
    return found
