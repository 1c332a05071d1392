"""Aider's chat history (Markdown): the counts that it prints after each message.

Facts: Aider-AI/aider, base_coder.py (calculate_and_show_tokens_and_cost). A line is
"> Tokens: 23,172 sent, 10,496 cache hit, 9 received."; older ones say "cached". `sent` includes cached tokens, except
for some days of 2024: then the cached ones exceed it. Thousands are printed as "4.2k". The texts are no prompts: the
files that were sent are not logged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Note, Record, Reject, Request, Session, Skipped
from traces.source.limits import MOST_TOKENS
from traces.usage.rules import normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "aider_history"
SUMMARY = {
    "carries": "lengths of prompts and answers, cache reads and writes, models, sessions",
    "time": "none (the start of a session in local time only)",
    "computes": "shape and reported hit rates; no achievable one: the prompts are not logged",
    "notes": "counts above a thousand are rounded where Aider printed them so",
}
_START = re.compile(rb"^# aider chat started at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_MODEL = re.compile(rb"^> (?:Main model|Models?): ([^\s\xe2]+)")
_VERSION = re.compile(rb"^> Aider v([0-9][0-9A-Za-z.+-]{0,31})")
_TOKENS = re.compile(
    rb"^> Tokens: ([\d.,]+[kM]?) sent((?:, [\d.,]+[kM]? (?:cached|cache hit|cache write))*), ([\d.,]+[kM]?) received"
)
_CACHED = re.compile(rb", ([\d.,]+[kM]?) (cached|cache hit|cache write)")


def sniff(head: Any, name: str) -> float:
    """Sure of Aider's own heading."""
    return 0.97 if head.data.lstrip().startswith(b"# aider chat started at ") else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield a session for each chat, and a request for each line of counts."""
    chat, model, version, counted = 0, None, None, 0
    text = rounded = chats = 0
    for ordinal, line in source.lines():
        if line is None:
            yield Reject(ordinal, "line is too long")
            continue
        if not line.strip():
            continue
        found = _TOKENS.match(line)
        if found is None:
            text += 1
            if _START.match(line):
                chat, model, version = chat + 1, None, None
            name, number = _MODEL.match(line), _VERSION.match(line)
            model = name[1].decode("utf-8", "replace") if name else model
            version = number[1].decode() if number else version
            continue
        if chat > chats:
            yield Session(f"chat-{chat}", agent="aider", agent_version=version, role="main")
            chats = chat
        sent, received = _count(found[1]), _count(found[3])
        parts = {kind: _count(value) for value, kind in _CACHED.findall(found[2])}
        read_, written = parts.get(b"cache hit", parts.get(b"cached")), parts.get(b"cache write")
        if sent is None or received is None:
            yield Reject(ordinal, "counts that are no numbers")
            continue
        logged = {"prompt_tokens": sent, "cached_tokens": read_, "cache_write_tokens": written, "output": received}
        known = {name: tokens for name, tokens in logged.items() if tokens is not None}
        apart = (read_ or 0) + (written or 0) > sent  # by line: one file has lines of many versions and models
        usage = normalise(known, None, apart, context.meanings, model)
        rounded += any(mark in b"".join(found.groups()[::2]) for mark in (b"k", b"M"))
        counted += 1
        yield Request(
            key=str(ordinal),
            session_key=f"chat-{chat}",
            ordinal=ordinal,
            time_basis="none",
            model=model,
            input_tokens=usage.input_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            output_complete=True,
            trigger="user",
        )
    if text:
        yield Skipped("ignored", text, "text of the chat")
    if rounded:
        yield Note(f"aider: {rounded} of {counted} lines have counts that were rounded when they were printed")


def _count(text: bytes) -> int | None:
    scale = {b"k": 1000, b"M": 1_000_000}.get(text[-1:], 1)
    try:
        value = float(text.rstrip(b"kM").replace(b",", b"")) * scale
    except ValueError:
        return None
    return round(value) if 0 <= value <= MOST_TOKENS else None
