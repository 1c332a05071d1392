"""JSON texts as values, with reasons that never quote the content."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from traces.source.limits import MAX_JSON_MEMORY_BYTES

_CHECKED_BYTES = 8 << 20
"""Texts shorter than this take little memory with any content."""
_BYTES_OF = ((b"{", 240), (b"[", 90), (b",", 60))
"""What a dict, a list and one more element cost as Python objects (CPython 3.11, rounded up)."""


class TooLarge(ValueError):
    """A document that has to be held whole is larger than the limits allow."""


def parse_json(text: bytes) -> Any:
    """Return the JSON value of `text`; lone surrogates become U+FFFD.

    NaN and Infinity are errors, and so are numbers that no double holds (1e400). Whole numbers of more than 64 bits may
    come back as floats.

    Raises:
        TooLarge: if the value would take more than `MAX_JSON_MEMORY_BYTES` of memory.
        ValueError: for anything else, with a short reason that never quotes the content.
    """
    if len(text) > _CHECKED_BYTES and memory_of(text) > MAX_JSON_MEMORY_BYTES:
        raise TooLarge(f"a JSON value that takes more than {MAX_JSON_MEMORY_BYTES >> 30} GiB of memory")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if b"\\u" in text or re.search(rb"\d{19}", text):
            return _parse_slowly(text)
        at = f" at byte {error.pos}" if error.pos else ""
        raise ValueError(f"not valid JSON{at}: {_reason(error.msg)}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def memory_of(text: bytes) -> int:
    """About how many bytes the value of a JSON text takes as Python objects: up to 50 times the text."""
    return len(text) + sum(cost * text.count(mark) for mark, cost in _BYTES_OF)


def _reason(message: str) -> str:
    return re.sub(r":\s*line \d+.*$", "", message)[:60]


def _parse_slowly(text: bytes) -> Any:
    def refuse(_: str) -> None:
        raise ValueError("NaN or Infinity is not a JSON number")

    try:
        return _storable(json.loads(text.decode("utf-8", "replace"), parse_constant=refuse))
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON at character {error.pos}: {error.msg[:60]}") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise ValueError(str(error) if "JSON number" in str(error) else "a number with too many digits") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _storable(value: Any) -> Any:
    """Replace lone surrogates, which cannot be stored as UTF-8, and refuse numbers that overflowed."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("a number beyond what a double holds")
    if isinstance(value, list):
        return [_storable(v) for v in value]
    if isinstance(value, dict):
        return {_storable(k): _storable(v) for k, v in value.items()}
    return value


def reason_of(error: Exception) -> str:
    """Why a record cannot be used, by what a reader raised on it: a reader's own words, else the exception's type."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if type(error) in (ValueError, TooLarge) and str(error):
        return str(error)[:120]
    return f"a record that cannot be read ({type(error).__name__})"
