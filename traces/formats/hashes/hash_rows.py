"""JSON Lines rows that carry block ids, read without parsing the ids: what Mooncake and its relatives share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeVar

import msgspec

from traces.records import Reject
from traces.source.limits import MOST_TOKENS
from traces.source.sources import Source, parse_json

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
BlockSize = Annotated[int, msgspec.Meta(ge=1, lt=1 << 30)]
Ids = bytes | list[Any] | None
"""Block ids: raw text where they are plain, a list else, None where there are none."""


class HashRow(msgspec.Struct):
    """The fields of one request that Mooncake's relatives have in common. Times in ticks of the format's unit."""

    input_length: Count | None = None
    input_tokens: Count | None = None
    output_length: Count | None = None
    output_tokens: Count | None = None
    timestamp: int | float | None = None
    created_time: int | float | None = None
    hash_ids: Any = None
    session_id: str | int | None = None
    block_size: BlockSize | None = None
    model: str | None = None

    @property
    def output(self) -> int | None:
        """Tokens of the answer."""
        return self.output_length if self.output_length is not None else self.output_tokens


Row = TypeVar("Row", bound=HashRow)


def rows(
    source: Source, decoder: msgspec.json.Decoder[Row], is_header: Callable[[Row], bool] | None = None
) -> Iterator[tuple[int, Row, int, Ids] | Reject]:
    """Yield (line, row, its prompt tokens, its ids); a reject where a line is no row or has no length.

    A row that `is_header` has a length of 0.
    """
    for number, line in source.lines():
        if line is None:
            yield Reject(number, TOO_LONG)
        elif line and not line.isspace():
            try:
                row, ids = row_and_ids(line, decoder)
            except ValueError as error:
                yield Reject(number, str(error))
                continue
            tokens = row.input_length if row.input_length is not None else row.input_tokens
            if tokens is None and is_header is not None and is_header(row):
                tokens = 0
            yield Reject(number, "no input_length") if tokens is None else (number, row, tokens, ids)


TOO_LONG = "a line longer than 256 MiB"


def row_and_ids(line: bytes, decoder: msgspec.json.Decoder[Row], field: bytes = b"hash_ids") -> tuple[Row, Ids]:
    """The row without its ids, and the ids.

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
