"""Reads a profile from elsewhere and checks it before anything is made from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from analysis.profile.profile import READABLE, SCHEMA, schema

LARGEST = 1e15
"""An upper bound that no count of tokens, time or rate of a real workload comes near."""


class BadProfile(ValueError):
    """The text is not a profile that this release can read; the message says where it is wrong."""


def parse_profile(text: str | bytes) -> dict[str, Any]:
    """The profile in a JSON text.

    Raises:
        BadProfile: it is not JSON, not a profile, of another version, or not of the published shape.
    """
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise BadProfile("not JSON") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise BadProfile(f"its schema is not {SCHEMA}")
    if found.get("version") not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise BadProfile(f"it is of version {found.get('version')}, this release reads {known}")
    for place, value in _numbers(found, "profile"):
        if abs(value) > LARGEST:
            raise BadProfile(f"{place} is {value:.3g}" if isinstance(value, float) else f"{place} is too large")
    _check_shape(found)
    return found


def _check_shape(profile: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    wrong = best_match(Draft202012Validator(schema()).iter_errors(profile))
    if wrong is not None:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in wrong.absolute_path)
        raise BadProfile(f"profile{place}: {wrong.message[:120]}")


def _numbers(value: Any, place: str) -> Iterator[tuple[str, int | float]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{place}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _numbers(inner, f"{place}[{at}]")
    elif isinstance(value, int | float):
        yield place, value


def _no_number(text: str) -> Any:
    raise ValueError(text)
