"""Random changes of files: of what is in them, and of the containers around it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import re
from collections.abc import Callable

import polars as pl
import zstandard

from tests.traces.source.hostile import zipped

WINDOW_BYTES = 2048

_JUNK = [
    b"null",
    b"true",
    b"-1",
    b"0",
    b"1e400",
    b"-0",
    b"1" * 400,
    b'"\\udc00\\ud83d"',
    b"[" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    b"NaN",
    b"1.5",
    b"9223372036854775808",
    b"36893488147419103232",
    b"-9223372036854775809",
    b"1e15",
    b'""',
    b'"x"',
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"[[]]",
    b"[1.5]",
    b"[null]",
    b'{"a":{"a":{"a":1}}}',
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b'"',
    b",",
    b"\n",
    b"\r\n",
    b"[" * 3000,
    b"2026-13-45T99:99:99Z",
    b"0001-01-01T00:00:00+14:00",
    b"9999-12-31T23:59:59-14:00",
]
_VALUE = re.compile(rb'-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|"(?:[^"\\\n]|\\.){0,200}"|true|false|null')


def mutate(data: bytes, seed: int) -> bytes:
    """`data` with one to eight random changes; the same for the same seed."""
    rnd = random.Random(seed)
    for _ in range(rnd.randint(1, 8)):
        data = rnd.choice(_CHANGES)(data, rnd)
    return data


def mutated(name: str, data: bytes, seed: int) -> tuple[str, bytes]:
    """The file with random changes of its content."""
    return name, mutate(data, seed)


def _span(data: bytes, rnd: random.Random) -> tuple[int, int]:
    start = rnd.randrange(len(data) + 1)
    return start, min(len(data), start + int(rnd.expovariate(0.05)))


def _flip(data: bytes, rnd: random.Random) -> bytes:
    if not data:
        return data
    at = rnd.randrange(len(data))
    return data[:at] + bytes([rnd.randrange(256)]) + data[at + 1 :]


def _delete(data: bytes, rnd: random.Random) -> bytes:
    start, stop = _span(data, rnd)
    return data[:start] + data[stop:]


def _repeat(data: bytes, rnd: random.Random) -> bytes:
    start, stop = _span(data, rnd)
    return data[:stop] + data[start:stop] * rnd.randint(1, 3) + data[stop:]


def _insert(data: bytes, rnd: random.Random) -> bytes:
    at = rnd.randrange(len(data) + 1)
    return data[:at] + rnd.choice(_JUNK) + data[at:]


def _cut(data: bytes, rnd: random.Random) -> bytes:
    return data[: rnd.randrange(len(data) + 1)] if rnd.random() < 0.3 else data


def _value(data: bytes, rnd: random.Random) -> bytes:
    """Replace a value by another kind of value: what finds most of the errors."""
    start = max(0, rnd.randrange(len(data) + 1) - WINDOW_BYTES // 2)
    found = list(_VALUE.finditer(data, start, start + WINDOW_BYTES))
    if not found:
        return data
    one = rnd.choice(found)
    other = rnd.choice(_JUNK) if rnd.random() < 0.7 else rnd.choice(found).group()
    return data[: one.start()] + other + data[one.end() :]


def _lines(data: bytes, rnd: random.Random) -> bytes:
    lines = data.split(b"\n")
    a, b = rnd.randrange(len(lines)), rnd.randrange(len(lines))
    if rnd.random() < 0.5:
        lines[a], lines[b] = lines[b], lines[a]
    else:
        lines.insert(a, lines[b])
    return b"\n".join(lines)


_CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    _flip,
    _delete,
    _repeat,
    _insert,
    _cut,
    _value,
    _value,
    _value,
    _value,
    _lines,
]


LONG_BYTES = 40 << 20


def with_long_line(data: bytes, seed: int) -> bytes:
    """`data` with a text of 40 MB for one of its first values, so in one of its lines."""
    found = list(_VALUE.finditer(data, 0, WINDOW_BYTES))
    one = random.Random(seed).choice(found) if found else None
    start, stop = one.span() if one is not None else (0, 0)
    return data[:start] + b'"' + b"x" * LONG_BYTES + b'"' + data[stop:]


def _parquet(_: str, data: bytes) -> bytes:
    """A column of texts, each a line."""
    out = io.BytesIO()
    lines = [line.decode("utf-8", "replace") for line in data.split(b"\n") if line]
    pl.DataFrame({"record": lines}, schema={"record": pl.String}).write_parquet(out)
    return out.getvalue()


_PACKED: dict[str, Callable[[str, bytes], bytes]] = {
    ".gz": lambda _, data: gzip.compress(data, mtime=0),
    ".zst": lambda _, data: zstandard.ZstdCompressor().compress(data),
    ".bz2": lambda _, data: bz2.compress(data),
    ".xz": lambda _, data: lzma.compress(data),
    ".zip": lambda name, data: zipped({name: data, f"more/{name}": data}),
    ".twice.zip": lambda name, data: zipped({"inner.zip": zipped({name: data})}),
    ".parquet": _parquet,
}


def packed(name: str, data: bytes, seed: int) -> tuple[str, bytes]:
    """(name, content) of `data` in a container, of which two in three are damaged."""
    rnd = random.Random(seed)
    suffix = list(_PACKED)[seed % len(_PACKED)]
    container = _PACKED[suffix](name, mutate(data, seed) if rnd.random() < 0.5 else data)
    return name + suffix, mutate(container, seed) if rnd.random() < 0.66 else container
