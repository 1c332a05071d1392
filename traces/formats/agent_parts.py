"""Message content of coding agents as parts: digest, tokenizer count, role. Shared by the readers of transcripts.

Agents log the content blocks of the APIs they call: OpenAI chat and Responses, Anthropic, Gemini, and the AI SDK's. A
block's shape says what it is, so one table reads them all. Base64 is never counted as text.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from traces.lengths import PER_TOKEN, PER_TOOL_CALL
from traces.records import Context, Piece

IMAGE_TOKENS = 1500
"""Assumed size of an image or document: about that of the largest image the APIs take without shrinking it."""

SHORT_CHARS, SHORT_TEXTS = 1000, 20_000
"""Texts up to this length are counted once while they are remembered."""


class Part(NamedTuple):
    """One content block. `units` are its token ids (uint32) where lengths come from the tokenizer alone."""

    key: int
    counted: int
    calls: int
    role: str
    elastic: bool = False
    units: NDArray[Any] | None = None

    @property
    def estimate(self) -> float:
        """Provider tokens expected of it in a prompt."""
        return float(IMAGE_TOKENS) if self.elastic else PER_TOKEN * self.counted + PER_TOOL_CALL * self.calls

    def piece(self) -> Piece:
        """The part at its tokenizer length."""
        return Piece(self.key, IMAGE_TOKENS if self.elastic else self.counted, self.role, self.units)


class Told(NamedTuple):
    """Content as parts, the names of the tools it calls, and whether it holds a tool's result."""

    parts: list[Part]
    tools: list[str]
    results: bool = False


_TEXT_KEYS = ("text", "thinking", "reasoning", "content", "summary", "think", "refusal", "value")
_REASONING = {"thinking", "reasoning", "redacted_thinking", "think", "thought", "reasoning_text"}
_IMAGES = {"image", "image_url", "input_image", "document", "input_file", "file", "audio", "input_audio", "media"}
_CALLS = {"tool_use", "toolCall", "tool_call", "tool-call", "function_call", "functionCall", "toolRequest"}
_RESULTS = {"tool_result", "toolResult", "tool-result", "functionResponse", "function_call_output", "toolResponse"}
_BLOBS = {"data", "image_url", "signature", "encrypted_content", "thoughtSignature", "thinkingSignature"}
_MARKS = {"type", "id", "cache_control", "signature", "thoughtSignature", "thinkingSignature", "encrypted_content"}


class PartMaker:
    """Makes parts. With `exact` they carry token ids, for sources whose lengths are the tokenizer's."""

    def __init__(self, context: Context, exact: bool = False) -> None:
        self.digest = context.digest
        self.tokenizer = context.tokenizer
        self.exact = exact
        self._known: dict[str, Any] = {}

    def text(self, role: str, text: str, tag: str = "", calls: int = 0) -> Part:
        """A text as one part; `tag` tells equal texts of different messages apart."""
        counted = self._units(text)
        units = counted if isinstance(counted, np.ndarray) else None
        size = counted if isinstance(counted, int) else len(counted)
        return Part(self.digest(f"{role}\0{tag}\0{text}"), size, calls, role, False, units)

    def _units(self, text: str) -> Any:
        if len(text) > SHORT_CHARS:
            return self.tokenizer.encode(text) if self.exact else self.tokenizer.count(text)
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= SHORT_TEXTS:
                self._known.clear()
            found = self._known[text] = self.tokenizer.encode(text) if self.exact else self.tokenizer.count(text)
        return found

    def image(self, value: object) -> Part:
        """An image, a document or a sound: of a size that the text does not tell."""
        return Part(self.digest(f"image\0{dump(value)}"), 0, 0, "image", elastic=True)

    def call(self, name: object, arguments: object, tag: object = "") -> Part:
        """A tool call as the model wrote it."""
        body = arguments if isinstance(arguments, str) else dump(arguments)
        return self.text("assistant", f"{name if isinstance(name, str) else ''}{body}", str(tag or ""), calls=1)

    def result(self, content: object, tag: object = "") -> list[Part]:
        """A tool's result."""
        if isinstance(content, list) and any(_is_image(b) for b in content):
            return self.content(content, "tool_result").parts
        return [self.text("tool_result", plain(content), str(tag or ""))]

    def content(self, content: object, role: str, tag: str = "") -> Told:
        """Content as a text, a block or a list of blocks."""
        if content is None or content == "":
            return Told([], [])
        if isinstance(content, str):
            return Told([self.text(role, content, tag)], [])
        parts: list[Part] = []
        tools: list[str] = []
        results = False
        for block in content if isinstance(content, list) else [content]:
            results |= self._block(block, role, tag, parts, tools)
        return Told(parts, tools, results)

    def _block(self, block: object, role: str, tag: str, parts: list[Part], tools: list[str]) -> bool:
        if not isinstance(block, dict):
            parts.append(self.text(role, block if isinstance(block, str) else dump(block), tag))
            return False
        kind = block.get("type")
        if kind in _CALLS or "functionCall" in block:
            inner = _inner(block, "functionCall", "toolCall", "function")
            name, arguments = _first(inner, "name", "toolName", "tool"), _first(inner, *_ARGUMENTS)
            tools.append(name if isinstance(name, str) else "")
            parts.append(self.call(name, arguments, _first(block, "id", "call_id", "toolCallId")))
        elif kind in _RESULTS or "functionResponse" in block:
            inner = _inner(block, "functionResponse", "toolResult")
            body = _first(inner, "content", "output", "result", "response", "value")
            parts.extend(self.result(body, _first(block, "tool_use_id", "call_id", "toolCallId", "id")))
            return True
        elif _is_image(block):
            parts.append(self.image(_without_marks(block)))
        elif kind in _REASONING or block.get("thought") is True:
            text = _first(block, *_TEXT_KEYS)
            parts.append(self.text("reasoning", plain(text), str(block.get("signature") or "")))
        else:
            text = _first(block, *_TEXT_KEYS)
            parts.append(self.text(role, plain(text) if text is not None else dump(_without_blobs(block)), tag))
        return False


_ARGUMENTS = ("arguments", "input", "args", "parameters", "value")


def _inner(block: dict[str, Any], *names: str) -> dict[str, Any]:
    found = next((block[n] for n in names if isinstance(block.get(n), dict)), None)
    return block if found is None else {**{k: v for k, v in block.items() if k != "type"}, **found}


def _first(block: dict[str, Any], *names: str) -> Any:
    return next((block[n] for n in names if block.get(n) is not None), None)


def _is_image(block: object) -> bool:
    return isinstance(block, dict) and (block.get("type") in _IMAGES or "inlineData" in block or "fileData" in block)


def _without_blobs(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_blobs(v) for k, v in value.items() if k not in _BLOBS}
    return [_without_blobs(v) for v in value] if isinstance(value, list) else value


def _without_marks(block: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in block.items() if k not in _MARKS}


def plain(content: object) -> str:
    """All text of `content`: of blocks their texts, of other values their JSON (long encoded data left out)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return "" if content.startswith("data:") and ";base64," in content[:80] else content
    if isinstance(content, list):
        return "\n".join(plain(c) for c in content)
    if isinstance(content, dict):
        for name in _TEXT_KEYS:
            if isinstance(content.get(name), str | list):
                return plain(content[name])
        return dump(_without_blobs(content))
    return dump(content)


def dump(value: object) -> str:
    """`value` as compact JSON."""
    if value is None:
        return ""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return json.dumps(value, default=str)


def seconds(value: object) -> float | None:
    """Seconds since the epoch of an ISO 8601 time with a zone, or of a number (s, ms, µs or ns by its size)."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        for factor in (1.0, 1e3, 1e6, 1e9):
            if 1e8 < value / factor < 1e10:
                return value / factor
        return None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


def text_of(value: object) -> str | None:
    """`value` if it is a text with something in it."""
    return value if isinstance(value, str) and value else None


def as_dict(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one: for looking into logged records without a check at each step."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
