"""SGLang's request log as text, its default: `Receive: obj=…` and `Finish: obj=…, out=…` lines as events.

Facts: sgl-project/sglang, srt/utils/request_logger.py. Objects are written as a dataclass's repr; at level 2 a long
text is `'head' ... 'tail'` and a long list `[head] ... [tail]`. Only literals are read, nothing is evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from traces.source.sources import parse_json

CUT = "..."
_LINE = re.compile(r"\b(Receive|Finish): (?=obj=)")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d(?:\.\d{1,6})?)")
_TOKEN = re.compile(r"""'(?:[^'\\]++|\\.)*+(?:'|\\?\Z)|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[()\[\]{},]""", re.DOTALL)
"""A text, which ends with the line where its quote is never closed, or a mark of structure. It matches in one pass."""
_NAMED = re.compile(r"\s*+(?:(\w++)=|'(\w++)': )", re.DOTALL)
_HALVES = re.compile(r"(.+[\]'\"]) \.\.\. ([\['\"].+)", re.DOTALL)
_KEPT = {"rid", "text", "input_ids", "session_params", "headers"}
_OUT = {"text", "meta_info"}
_DEEPEST = 8
"""Dicts of `meta_info` in dicts that are looked into."""


def event(line: str) -> dict[str, Any] | None:
    """A line as the event that the log's JSON would have; None for any other line.

    Raises:
        ValueError: It is one, and cannot be read.
    """
    found = _LINE.search(line)
    if found is None:
        return None
    sides = _fields(line[found.end() :].rstrip().removesuffix("."))
    name, _, inner = sides.get("obj", "").partition("(")
    if not name.isidentifier() or not inner:
        raise ValueError("a request that cannot be read")
    sent = {k: _value(v) for k, v in _fields(inner.removesuffix(")")).items() if k in _KEPT}
    record: dict[str, Any] = {"rid": sent.get("rid"), "obj": sent, "event": "request.received"}
    moments = _TIME.findall(line[: found.start()])
    if moments:
        record["timestamp"] = "T".join(moments[-1])
    if "headers" in sides:
        record["headers"] = _value(sides["headers"])
    if found[1] == "Finish":
        record["event"] = "request.finished"
        out = _fields(sides.get("out", "").strip().removeprefix("{").removesuffix("}"))
        record["out"] = {k: _mapping(v) if k == "meta_info" else _value(v) for k, v in out.items() if k in _OUT}
    return record


def _fields(text: str) -> dict[str, str]:
    """`name=value` and `'name': value` pairs that stand side by side, as text."""
    found = {}
    for part in _parts(text):
        named = _NAMED.match(part)
        if named is not None:
            found[named[1] or named[2]] = part[named.end() :].strip()
    return found


def _parts(text: str) -> Iterator[str]:
    depth = start = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
        elif mark == "," and depth == 0:
            yield text[start : token.start()]
            start = token.end()
    yield text[start:]


def _mapping(text: str, depth: int = 0) -> dict[str, Any]:
    """A dict's repr: what of it is a literal, or holds one."""
    inner = _fields(text.strip().removeprefix("{").removesuffix("}"))
    deeper = depth < _DEEPEST
    return {
        name: _mapping(value, depth + 1) if deeper and value[:1] == "{" else _value(value)
        for name, value in inner.items()
    }


def _value(text: str) -> Any:
    """A literal, whole or cut in the middle; None for anything else."""
    whole = _literal(text)
    halves = _HALVES.fullmatch(text) if whole is None and text[:1] in ("[", "'", '"') else None
    if halves is not None:
        head, tail = _literal(halves[1]), _literal(halves[2])
        if isinstance(head, str) and isinstance(tail, str):
            return head + CUT + tail
        if isinstance(head, list) and isinstance(tail, list):
            return [*head, CUT, *tail]
    return whole


def _literal(text: str) -> Any:
    try:
        return parse_json(text.encode("utf-8", "replace")) if text[:1] in "[0123456789" else ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
