"""A profile that someone hands to a command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from app.commands.shell.command import BadData


def load_profile(path: str) -> dict[str, Any]:
    """A profile from a file.

    Raises:
        BadData: where it is none.
    """
    from analysis.profile.reading import BadProfile, parse_profile

    try:
        return parse_profile(Path(path).read_bytes())
    except OSError as error:
        raise BadData(f"{path} cannot be read: {error.strerror}") from None
    except BadProfile as error:
        raise BadData(
            f"{path} is not a profile: {error}. Make one with: tracetower profile DATASET -o {path}"
        ) from None
