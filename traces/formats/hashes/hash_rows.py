"""JSONL rows that carry block ids, read without parsing the ids."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec

from traces.source.sources import parse_json

Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]
BlockSize = Annotated[int, msgspec.Meta(ge=1, lt=1 << 30)]
Row = TypeVar("Row")


def row_and_ids(
    line: bytes, decoder: msgspec.json.Decoder[Row], field: bytes = b"hash_ids"
) -> tuple[Row, bytes | list[Any] | None]:
    """The row without its ids, and the ids: raw text where they are plain, a list else, None where there are none.

    Args:
        line: one JSON object.
        decoder: of the row's type, whose `field` takes anything.
        field: where the ids are, at the top level.

    Raises:
        ValueError: with a reason that quotes nothing.
    """
    at = line.find(b'"' + field + b'"')
    if at > 0 and line[at - 1] != 92:
        begin = line.find(b"[", at)
        end = line.find(b"]", begin)
        if begin > 0 and end > 0 and line[at + len(field) + 2 : begin].strip() == b":":
            try:
                return decoder.decode(line[:begin] + b"0" + line[end + 1 :]), line[begin + 1 : end]
            except (msgspec.DecodeError, ValueError, RecursionError):
                pass
    value = parse_json(line)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    ids = value.pop(field.decode(), None)
    if ids is not None and not isinstance(ids, list):
        raise ValueError(f"{field.decode()} is not a list")
    try:
        return msgspec.convert(value, decoder.type), ids
    except msgspec.ValidationError as error:
        raise ValueError(without_content(str(error))) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def without_content(message: str) -> str:
    """A decoder's message, short and in ASCII."""
    return re.sub(r"[^ -~]", "?", message)[:120]
