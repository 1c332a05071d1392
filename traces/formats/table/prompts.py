"""Prompts of table rows, from text, messages or token ids: each as what it adds to the previous prompt of its
session."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

from traces.calls.entries import MESSAGE_TOKENS
from traces.records import Base, Context, Piece, Prompt
from traces.text.messages import compact, parts, serialise

SEGMENT_CHARS = 2000
MEMORY_BYTES = 64 << 20

_CUT = re.compile(r"(?<=\n)(?=[A-Za-z])")
_SPEAKERS = {"human": "user", "gpt": "assistant", "bing": "assistant", "chatgpt": "assistant"}
_EXACT_CUTS = {"o200k_base", "cl100k_base", "bytes"}

Units = NDArray[Any]


class _Last(NamedTuple):
    """A session's last prompt: its request, and its tokens or its items with the tokens up to the end of each."""

    request_key: str
    units: Units | None
    items: list[bytes]
    ends: list[int]
    bytes: int


class _Memory:
    """What was seen last, of bounded size; the oldest goes first."""

    def __init__(self) -> None:
        self._held: OrderedDict[Any, tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: Any) -> Any:
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def put(self, key: Any, value: Any, size: int) -> None:
        old = self._held.pop(key, None)
        self._bytes += size - (old[1] if old else 0)
        self._held[key] = (value, size)
        while self._bytes > MEMORY_BYTES and len(self._held) > 1:
            self._bytes -= self._held.popitem(last=False)[1][1]


class Prompts:
    """Turns the prompts of one input's rows into pieces."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last = _Memory()
        self._texts = _Memory()
        self._pieces = _Memory()
        self.guesses = 0

    def of_text(self, session: str | None, request_key: str, text: str) -> tuple[Prompt, int]:
        """The prompt `text` as it stands (no chat template), and its tokens."""
        return self._of_units(session, request_key, self.encode(text))

    def of_ids(self, session: str | None, request_key: str, ids: list[Any]) -> tuple[Prompt, int]:
        """The prompt of the token ids `ids`, and its tokens.

        Raises:
            ValueError: for ids that are no whole numbers from 0 to 2^64 - 1.
        """
        return self._of_units(session, request_key, _token_ids(ids))

    def encode(self, text: str) -> Units:
        """Token ids of `text`, by segments: a segment seen before is not encoded again.

        Segments end between a line end and a letter, where no token of the named vocabularies crosses, so the ids are
        those of the whole text; with a vocabulary from a file the text is encoded whole.
        """
        tokenizer = self._context.tokenizer
        if len(text) <= SEGMENT_CHARS or tokenizer.name not in _EXACT_CUTS:
            return self._encoded(text)
        parts, start = [], 0
        while start < len(text):
            cut = _CUT.search(text, start + SEGMENT_CHARS)
            stop = cut.start() if cut else len(text)
            parts.append(self._encoded(text[start:stop]))
            start = stop
        return np.concatenate(parts)

    def _encoded(self, text: str) -> Units:
        if len(text) < 16:
            return self._context.tokenizer.encode(text)
        key = self._context.digest(text)
        units: Units | None = self._texts.get(key)
        if units is None:
            units = self._context.tokenizer.encode(text)
            self._texts.put(key, units, units.nbytes + 100)
        return units

    def _of_units(self, session: str | None, request_key: str, units: Units) -> tuple[Prompt, int]:
        last: _Last | None = self._last.get(session)
        base, shared = None, 0
        if last is not None and last.units is not None:
            shared = _common(last.units, units)
            if shared:
                base = Base(last.request_key, False, shared)
        added = units[shared:].copy()
        pieces = (Piece(0, added.size, "unknown", added),) if added.size else ()
        self._last.put(session, _Last(request_key, units, [], [], units.nbytes), units.nbytes + 200)
        return Prompt(pieces, base, content=self._content(units)), int(units.size)

    def of_messages(
        self, session: str | None, request_key: str, messages: list[Any], system: Any, tools: Any
    ) -> tuple[Prompt, int]:
        """The prompt of tools, system prompt and messages, in that order, and its tokens.

        Raises:
            ValueError: for messages that are none.
        """
        items: list[Any] = [_Tool(one) for one in _listed(tools)]
        items += [{"role": "system", "content": system}] if system else []
        items += messages
        written = [compact(item) for item in items]
        last: _Last | None = self._last.get(session)
        same = 0
        if last is not None and last.units is None:
            for mine, theirs in zip(written, last.items, strict=False):
                if mine != theirs:
                    break
                same += 1
        ends = last.ends[:same] if last is not None else []
        base = Base(last.request_key, False, ends[-1]) if last is not None and ends and ends[-1] else None
        pieces: list[Piece] = []
        tokens = ends[-1] if ends else 0
        for item, raw in zip(items[same:], written[same:], strict=True):
            for piece in self._item(item, raw):
                pieces.append(piece)
                tokens += piece.tokens
            ends.append(tokens)
        size = sum(map(len, written)) + 100 * len(written)
        self._last.put(session, _Last(request_key, None, written, ends, size), size)
        return Prompt(tuple(pieces), base, content=self._content(*written)), tokens

    def _content(self, *parts: Any) -> int:
        """The digest of a whole prompt, which does not depend on what came before it in the file."""
        whole = xxhash.xxh3_128()
        for part in parts:
            whole.update(part)
        return int(self._context.digest(whole.digest()))

    def _item(self, item: Any, raw: bytes) -> tuple[Piece, ...]:
        key = self._context.digest(raw)
        known: tuple[Piece, ...] | None = self._pieces.get(key)
        if known is None:
            known = tuple(self._tool(item) if isinstance(item, _Tool) else self._message(item))
            self._pieces.put(key, known, 200 + 4 * sum(p.tokens for p in known))
        return known

    def _tool(self, item: _Tool) -> list[Piece]:
        return [self._text(serialise(item.schema), "tools")]

    def _message(self, item: Any) -> list[Piece]:
        if not isinstance(item, dict):
            raise ValueError("a message is not an object")
        if "from" in item and "role" not in item:
            item = {"role": _SPEAKERS.get(str(item["from"]), item["from"]), "content": item.get("value")}
        out = [Piece(self._context.digest(f"message|{item.get('role')}"), MESSAGE_TOKENS, "template")]
        for part in parts(item):
            if part.text:
                out.append(self._text(part.text, part.role))
            elif part.guess:
                self.guesses += 1
                out.append(Piece(self._context.digest(f"{part.role}|{part.name}"), part.guess, part.role))
        return out

    def _text(self, text: str, role: str) -> Piece:
        units = self.encode(text)
        return Piece(0, int(units.size), role, units)

    def reply(self, value: Any) -> tuple[Piece, ...] | None:
        """The answer's pieces, where it is a text."""
        return (self._text(value, "assistant"),) if isinstance(value, str) and value else None

    def reply_of_ids(self, ids: list[Any]) -> tuple[Piece, ...] | None:
        """The answer's piece of the token ids `ids`; None where there are none. Raises ValueError like `of_ids`."""
        units = _token_ids(ids)
        return (Piece(0, int(units.size), "assistant", units),) if units.size else None


class _Tool(NamedTuple):
    schema: Any


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _token_ids(ids: list[Any]) -> Units:
    try:
        units = np.array(ids)
    except (ValueError, OverflowError):
        raise ValueError("token_ids are not whole numbers") from None
    if units.size == 0:
        return np.zeros(0, np.uint64)
    if units.ndim != 1 or units.dtype.kind not in "iu" or (units.dtype.kind == "i" and int(units.min()) < 0):
        raise ValueError("token_ids are not whole numbers")
    return units.astype(np.uint32 if int(units.max()) < 1 << 32 else np.uint64)


def _common(a: Units, b: Units) -> int:
    size = min(a.size, b.size)
    differ = a[:size] != b[:size]
    return int(differ.argmax()) if differ.any() else int(size)
