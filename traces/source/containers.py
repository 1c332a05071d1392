"""JSON in any arrangement as one value a line: lines, an array, pretty-printed documents, an API's page of rows.

Whatever the arrangement, the records are the same and readers see lines. The values are cut out of the bytes without
being parsed, one after the other, so an array of gigabytes takes the memory of its longest element.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, NamedTuple, cast

import msgspec

from traces.source.limits import LINE_BUFFER_BYTES, MAX_LINE_BYTES
from traces.source.streams import Rest, read_exactly

PARQUET = b"PAR1"
_PAGE_KEYS = b"data|items|results|rows|records"
_FLAT = rb'(?:"(?:[^"\\]|\\.)*+"|[-+.\w]++|\{[^{}\[\]]*+\}|\[[^{}\[\]]*+\])'
_ROWS = rb'\s*+:\s*+\[\s*+(?:\{|\[\s*+")'  # a list of objects, or of arrays that begin with a text
_PAGE = re.compile(
    rb'\s*+\{\s*+((?:"(?!(?:%s)"%s)[^"\\]{1,64}"\s*+:\s*+%s\s*+,\s*+)*+)"(%s)"%s'
    % (_PAGE_KEYS, _ROWS, _FLAT, _PAGE_KEYS, _ROWS),
    re.DOTALL,
)
_PAGING = re.compile(
    rb'"(?:object|has_?more|first_?id|last_?id|meta|metadata|pagination|paging|page|page_?size|limit|offset|total|count'
    rb'|total_?count|next|next_?(?:page|cursor|token)|prev(?:ious)?|cursor|cursors|links|status|ok|success|url|version)"',
    re.IGNORECASE,
)
_ARRAY = re.compile(rb"\s*+\[\s*+[\{\[\]]")
_PLAIN = rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+'
_NEAR = rb"%s(?:(?:\{%s\}|\[%s\])%s)*+" % (*(_PLAIN,) * 4,)
_SKIP = re.compile(_PLAIN, re.DOTALL)
_SKIP_INSIDE = re.compile(rb"%s(?:(?:\{%s\}|\[%s\])%s)*+" % (_PLAIN, _NEAR, _NEAR, _PLAIN), re.DOTALL)
"""Of a record, also what is closed at once: lists and objects that hold none, or only such."""
_OPENING, _CLOSING = re.compile(rb"[{\[]++"), re.compile(rb"[}\]]++")
_SCALAR = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\s,\]}"]++', re.DOTALL)
_CUT_CHARACTERS = 8
"""A text that is cut in the middle of a value stops being JSON at most this far from its end."""
_WHOLE_BYTES = 64 << 20
"""A document up to this size is looked at whole before it is taken for several."""
_QUOTE = 34
_LOOK_BACK = 256
"""Bytes before a bracket that are kept: its key, and the margin of its line."""
_AGAIN, _AGAIN_BYTES = 1, 8 << 20
"""After damaged records, so many bytes are looked at again for each byte of the file, and so many more."""


class Shape(NamedTuple):
    """How a file arranges its records. kind: text (lines, of JSON or not) | array | documents | page | parquet.

    `key` is the page's key whose list holds the rows.
    """

    kind: str
    key: bytes = b""


TEXT = Shape("text")


def shape_of(start: bytes) -> Shape:
    """How a file that starts with these bytes arranges its records."""
    if start.startswith(PARQUET):
        return Shape("parquet")
    if start.lstrip()[:1] not in (b"{", b"["):
        return TEXT
    first, _, rest = start.lstrip().partition(b"\n")
    if _ARRAY.match(start):
        return TEXT if rest.strip() and _is_value(first) else Shape("array")  # an array a line, or one of all
    page = _PAGE.match(start)
    if page is not None and (page[2] == b"data" or _only_paging(page[1])):
        return Shape("page", page[2])
    if not rest or _is_value(first):
        return TEXT
    return Shape("documents") if _starts_a_value(start) else TEXT


def _only_paging(before: bytes) -> bool:
    keys = re.findall(rb'"[^"\\]{1,64}"(?=\s*+:)', before)
    return all(_PAGING.fullmatch(key) for key in keys)


def _is_value(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _starts_a_value(start: bytes) -> bool:
    """Whether these bytes are a JSON value, or the start of one: a line that is cut off is neither with the next."""
    text = start.decode("utf-8", "replace").lstrip()
    try:
        json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()) - _CUT_CHARACTERS
    except (ValueError, RecursionError):
        return False
    return True


def values(stream: IO[bytes], shape: Shape) -> Iterator[bytes | None]:
    """Yield each record of an array, of documents or of a page as one line; None for one that is too long to hold."""
    if shape.kind == "documents":  # mostly a single one
        start = read_exactly(stream, _WHOLE_BYTES)
        if len(start) < _WHOLE_BYTES and _is_value(start):
            yield _one_line(start)
            return
        stream = cast(IO[bytes], Rest(start, stream))
    for value in _Cutter(stream, shape).cut():
        yield value if value is None else _one_line(value)


def _one_line(value: bytes) -> bytes:
    if b"\n" not in value and b"\r" not in value:
        return value
    try:
        return msgspec.json.format(value, indent=-1)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return value.replace(b"\r", b" ").replace(b"\n", b" ")


class _Cutter:
    """Finds where the values of one depth begin and end. Strings are passed over whole: brackets in them do not count.

    `depth`: open brackets at `at`. `level`: the depth at which records lie. `start`: where the open record begins, or
    -1. `gap`: where the text after the last record begins.
    """

    def __init__(self, stream: IO[bytes], shape: Shape) -> None:
        self._stream = stream
        self._level = {"documents": 0, "array": 1, "page": 2}[shape.kind]
        self._key = re.compile(rb'"%s"\s*+:\s*+\Z' % shape.key) if shape.key else None
        self._in_list = self._key is None  # whether records may begin here: in a page only in its list of rows
        self._buffer = b""
        self._at = self._depth = self._gap = self._restarts = 0
        self._start = -1
        self._spare = _AGAIN_BYTES
        self._too_long = False

    def cut(self) -> Iterator[bytes | None]:
        """Yield the records as they are, those that are damaged or cut off too."""
        while True:
            skip = _SKIP if self._start < 0 else _SKIP_INSIDE
            self._at = self._after(skip)
            if self._at == len(self._buffer) or self._buffer[self._at] == _QUOTE:  # a string that is not all here
                if self._read_on():
                    continue
                yield from self._loose(len(self._buffer))
                if self._start < 0:
                    return
                self._at, restarts = len(self._buffer), self._restarts
                yield self._record(whole=False)
                if restarts == self._restarts:
                    return
            elif self._buffer[self._at] in b"{[":
                yield from self._open()
            else:
                yield from self._close()

    def _open(self) -> Iterator[bytes | None]:
        if self._depth == 1 and self._key is not None:
            self._in_list = self._key.search(self._buffer[max(0, self._at - _LOOK_BACK) : self._at]) is not None
        if self._depth == self._level and self._in_list and self._start < 0:
            yield from self._loose(self._at)
            self._start = self._at
        opened = self._after(_OPENING) - self._at if self._start >= 0 else 1
        self._depth += opened
        self._at += opened
        if self._depth == self._level:
            self._gap = self._at

    def _after(self, pattern: re.Pattern[bytes]) -> int:
        """Where a match of the pattern ends that begins at this place; this place where there is none."""
        match = pattern.match(self._buffer, self._at)
        return match.end() if match else self._at

    def _close(self) -> Iterator[bytes | None]:
        yield from self._loose(self._at)
        closed = self._after(_CLOSING) - self._at
        if self._depth:  # at most to where a record ends; those that close nothing are passed over
            closed = min(closed, max(1, self._depth - self._level))
        self._depth = max(0, self._depth - closed)
        self._at += closed
        if self._depth == self._level and self._start >= 0:
            yield self._record(whole=True)
        elif self._depth < self._level:
            self._gap = self._at
            self._in_list = self._key is None

    def _record(self, whole: bool) -> bytes | None:
        """The record that ends here, or the part of it before the next one where it is damaged."""
        start, self._start, self._gap = self._start, -1, self._at
        if self._too_long:
            self._too_long = False
            return None
        value = self._buffer[start : self._at]
        if whole and (b"\n" not in value or _is_value(value)):
            return value
        return self._restart(value, start)

    def _restart(self, value: bytes, start: int) -> bytes:
        """Go on at the next line that starts as this damaged record did.

        So a bracket or a quote that is missing in one record costs that record and not the rest of the file.
        """
        margin = self._buffer[self._buffer.rfind(b"\n", 0, start) + 1 : start]
        mark = b"\n" + (margin if not margin.strip() else b"") + value[:1]
        again = value.find(mark, 1)
        if again < 0 or len(value) > self._spare:
            return value
        self._restarts += 1
        self._spare -= len(value)
        self._at = self._gap = start + again + len(mark) - 1
        self._depth, self._in_list = self._level, True
        return value[:again].rstrip(b" \t\r\n,")

    def _loose(self, end: int) -> Iterator[bytes]:
        """What lies between records and is none: numbers and texts in an array, words between documents."""
        if self._start >= 0 or not (self._depth == 0 or (self._depth == self._level and self._in_list)):
            return
        between, self._gap = self._buffer[self._gap : end].strip(b" \t\r\n,"), end
        if between:
            yield from _SCALAR.findall(between) if self._depth else [between]

    def _read_on(self) -> bool:
        """Let go of what was used and read more; False at the end of the stream."""
        needed = self._start if self._start >= 0 else min(self._gap, self._at)
        if len(self._buffer) - needed > MAX_LINE_BYTES:  # of a record that is too long, only its end is looked for
            needed = self._gap = self._at
            if self._start >= 0:
                self._too_long, self._start = True, self._at
        drop = max(0, needed - _LOOK_BACK)
        kept = self._buffer[drop:]
        more = read_exactly(self._stream, max(LINE_BUFFER_BYTES, len(kept)))
        self._spare += _AGAIN * len(more)
        self._buffer = kept + more
        self._at, self._gap = self._at - drop, max(0, self._gap - drop)
        self._start = self._start - drop if self._start >= 0 else -1
        return bool(more)
