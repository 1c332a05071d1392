"""Content blocks of Anthropic messages as parts: a digest, a count and a role each; the text is let go."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import orjson

from traces.records import ROLES, Context
from traces.text.text_counts import TextCounts


class Part(NamedTuple):
    """One content block: its digest, the number under which its text is counted (-1: none), and what it is.

    `code` is the place of its node role in `ROLES`, with `CALL` where it is a tool call and `ELASTIC` where the
    transcript does not show its size.
    """

    key: int
    text: int
    code: int


CALL, ELASTIC = 16, 32
_CODES = {role: code for code, role in enumerate(ROLES)}


class PartReader:
    """Turns content blocks into parts."""

    def __init__(self, context: Context) -> None:
        self.digest = context.digest
        self.counts: TextCounts = getattr(context.tokenizer, "counts", None) or TextCounts(context.tokenizer)

    def blocks(self, content: object) -> list[Any]:
        """The blocks of a message's content: a string is one text block, anything but a list is none."""
        if isinstance(content, str):
            return [{"type": "text", "text": content}]
        return content if isinstance(content, list) else []

    def block(self, block: object, role: str, tag: str = "") -> Part:
        """One block; `tag` distinguishes equal contents in different places. Base64 is never counted as text."""
        if not isinstance(block, dict):
            return self._text(role, tag, block if isinstance(block, str) else _dump(block))
        kind = block.get("type")
        if kind == "text":
            return self._text(role, tag, _string(block.get("text")))
        if kind == "thinking":
            return self._text("reasoning", _string(block.get("signature")), _string(block.get("thinking")))
        if kind == "redacted_thinking":
            return Part(self.digest(f"reasoning\0{_dump(block)}"), -1, _CODES["reasoning"])
        if kind == "tool_use":
            body = f"{block.get('name')}{_dump(block.get('input'))}"
            return self._text("assistant", str(block.get("id")), body, CALL)
        if kind in ("image", "document"):
            source = block.get("source")
            if isinstance(source, dict) and source.get("type") == "text" and isinstance(source.get("data"), str):
                return self._text(role, tag, source["data"])
            return Part(self.digest(f"image\0{_dump(block)}"), -1, _CODES["image"] | ELASTIC)
        return self._text(role, tag, _dump(_without_blobs(block)))

    def result(self, call: str, content: object) -> list[Part]:
        """The content of the result of the tool call with id `call`."""
        if isinstance(content, list):
            return [self.block(block, "tool_result", call) for block in content]
        return [self._text("tool_result", call, content if isinstance(content, str) else _dump(content))]

    def _text(self, role: str, tag: str, text: str, code: int = 0) -> Part:
        return Part(self.digest(f"{role}\0{tag}\0{text}"), self.counts.number(text), _CODES[role] | code)


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _dump(value: object) -> str:
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(value)


def _without_blobs(block: dict[str, Any]) -> dict[str, Any]:
    blobs = ("data", "signature", "encrypted_content", "encrypted_index", "source")
    return {name: value for name, value in block.items() if name not in blobs}
