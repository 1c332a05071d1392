"""Where usage lies in a logged record: in an object of its own, in the answer, or as columns of the row itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from traces.source.sources import parse_json
from traces.usage.name_cache import by_names
from traces.usage.names import figure, plan_of, words

OBJECTS = (
    "usage",
    "usageMetadata",
    "usage_metadata",
    "usageDetails",
    "usage_details",
    "usage_object",
    "token_usage",
    "tokenUsage",
    "llm_usage",
    "model_usage",
    "tokens",
    "metrics",
)
"""Names of objects that hold the usage of the record they are in."""

_INSIDE = ("response", "response_body", "body", "message", "result", "answer", "output", "metadata")
_UNITS = {"token", "tokens", "isl", "osl", "length", "len"}
_ALONE = {"input", "output", "cached", "reasoning", "thoughts"}


@by_names(4096)
def is_count(name: str) -> bool:
    """Whether a column is surely a number of tokens of a call, by its name."""
    kind, said = figure((name,)), {*words(name)}
    if kind is None:
        return bool(said & {"details", "detail"} and said & {"token", "tokens"})
    return bool(said & _UNITS) or (kind in ("read", "written", "fresh", "split") and len(said) > 1)


def may_count(name: str) -> bool:
    """Whether a column is a number of tokens if it holds whole numbers: `input`, `output`, `cached` and the like."""
    return words(name)[:1] == words(name) and bool({*words(name)} & _ALONE)


def row_counts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a row that are numbers of tokens; without one of the input or output: nothing."""
    found = {name: row[name] for name in _places(tuple(row)).counts if row[name] is not None}
    return found if {figure((name,)) for name in found} & {"input", "fresh", "whole", "output"} else {}


class _Places(NamedTuple):
    """Which fields of a record may have its usage: objects of usage, counts, and other objects that hold one."""

    objects: tuple[str, ...]
    counts: tuple[str, ...]
    inside: tuple[str, ...]


@by_names(2048)
def _places(names: tuple[str, ...]) -> _Places:
    known = {*names}
    counts = tuple(name for name in names if isinstance(name, str) and is_count(name))
    return _Places(tuple(n for n in OBJECTS if n in known), counts, tuple(n for n in _INSIDE if n in known))


def usage_in(record: Any, depth: int = 2) -> dict[str, Any]:
    """The usage of a record, wherever it is kept; {} where there is none.

    An object of its own wins over columns of the row, and both over what lies deeper; figures that only the others
    have are added, since a log may keep the cached tokens apart from the rest.
    """
    record = json_in(record)
    if not isinstance(record, dict):
        return {}
    places = _places(tuple(record))
    usage: dict[str, Any] = {}
    for name in places.objects:
        inner = json_in(record[name])
        if isinstance(inner, dict):
            usage = _together(usage, inner)
    if places.counts:
        usage = _together(usage, row_counts(record))
    for name in places.inside if depth else ():
        if record[name] is not None:
            usage = _together(usage, usage_in(record[name], depth - 1))
    return usage


def _together(usage: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """`usage` with the figures of `more` that it has none of."""
    if not usage or not more:
        return usage or (dict(more) if _kinds(more) else {})
    known = _kinds(usage)
    return usage | {
        name: value for name, value in more.items() if name not in usage and not _kinds({name: value}) & known
    }


def _kinds(usage: Mapping[str, Any]) -> set[str]:
    """The figures that an object has with a value that is not 0."""
    found = set()
    for kind, path in plan_of(usage).places:
        value: Any = usage
        for name in path:
            value = value[name]
        if value not in (None, "", 0, "0", {}):
            found.add("written" if kind == "split" else kind)
    return found


def json_in(value: Any) -> Any:
    """A value that may be JSON in a text; the text itself where it is none."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return parse_json(value.encode("utf-8", "replace"))
        except ValueError:
            return value
    return value
