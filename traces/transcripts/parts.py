"""Message content of coding agents as parts: digest, tokenizer count, role. Shared by the readers of transcripts.

Agents log the content blocks of the APIs they call: OpenAI chat and Responses, Anthropic, Gemini, and the AI SDK's. A
block's shape says what it is, so one table reads them all. Base64 is never counted as text.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
from numpy.typing import NDArray

from traces.records import Context, Piece
from traces.text.blocks import IMAGE_TOKENS, ROLE_OF, first, kind_of_block, tool_call, tool_result
from traces.text.lengths import PER_TOKEN, PER_TOOL_CALL
from traces.usage.rules import count

KNOWN_PARTS = 100_000
"""Parts that are remembered, so that a message that is logged again is not counted again."""


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


class Contents(NamedTuple):
    """Content as parts, the names of the tools it calls, and whether it holds a tool's result."""

    parts: list[Part]
    tools: list[str]
    results: bool = False


_TEXT_KEYS = ("text", "thinking", "reasoning", "content", "summary", "think", "refusal", "value")
_BLOBS = {"data", "image_url", "signature", "encrypted_content", "thoughtSignature", "thinkingSignature"}
_MARKS = {"type", "id", "cache_control", "signature", "thoughtSignature", "thinkingSignature", "encrypted_content"}


class PartMaker:
    """Makes parts. With `exact` they carry token ids, for sources whose lengths are the tokenizer's."""

    def __init__(self, context: Context, exact: bool = False) -> None:
        self.digest = context.digest
        self.tokenizer = context.tokenizer
        self.meanings = context.meanings  # of the usage figures, for `traces.usage.rules.normalise`
        self.exact = exact
        self._texts = context.texts
        self._parts: dict[int, Part] = {}

    def text(self, role: str, text: str, tag: str = "", calls: int = 0) -> Part:
        """A text as one part; `tag` distinguishes equal texts of different messages. Each text is counted once."""
        key = self.digest(f"{role}\0{tag}\0{calls}\0{text}")
        found = self._parts.get(key)
        if found is None:
            if len(self._parts) >= KNOWN_PARTS:
                self._parts.clear()
            units = self.tokenizer.encode(text) if self.exact else None
            size = self.tokenizer.count(text) if units is None else len(units)
            found = self._parts[key] = Part(key, size, calls, role, False, units)
            if units is None and self._texts is not None:
                self._texts.add(key, text)
        return found

    def image(self, value: object) -> Part:
        """An image, a document or a sound: whose size the log does not show."""
        return Part(self.digest(f"image\0{dump(value)}"), 0, 0, "image", elastic=True)

    def call(self, name: object, arguments: object, tag: object = "") -> Part:
        """A tool call as the model wrote it."""
        body = arguments if isinstance(arguments, str) else dump(arguments)
        return self.text("assistant", f"{name if isinstance(name, str) else ''}{body}", str(tag or ""), calls=1)

    def result(self, content: object, tag: object = "") -> list[Part]:
        """A tool's result."""
        if isinstance(content, list) and any(_is_a("media", block) for block in content):
            return self.content(content, "tool_result").parts
        return [self.text("tool_result", plain(content), str(tag or ""))]

    def content(self, content: object, role: str, tag: str = "") -> Contents:
        """Content as a text, a block or a list of blocks."""
        if content is None or content == "":
            return Contents([], [])
        if isinstance(content, str):
            return Contents([self.text(role, content, tag)], [])
        parts: list[Part] = []
        tools: list[str] = []
        results = False
        for block in content if isinstance(content, list) else [content]:
            results |= self._block(block, role, tag, parts, tools)
        return Contents(parts, tools, results)

    def message(self, message: dict[str, Any]) -> Contents:
        """A message of the OpenAI chat API (or of Anthropic's, whose content blocks carry what OpenAI's fields do)."""
        role = kind_of(message, "role") or kind_of(message, "source") or "user"
        kind = ROLE_OF.get(role, "user")
        tag = message.get("tool_call_id") or _first_of(message.get("tool_call_ids"))
        content = message.get("content")
        if kind == "tool_result":
            blocks = isinstance(content, list) and all(_is_a("result", block) for block in content)
            return Contents(self.content(content, kind).parts if blocks else self.result(content, tag), [], True)
        contents = self.content(content, kind)
        thoughts = message.get("reasoning_content") or message.get("reasoning")
        parts = [self.text("reasoning", plain(thoughts))] if thoughts else []
        parts += contents.parts
        tools = list(contents.tools)
        single = message.get("function_call")
        for call in as_list(message.get("tool_calls")) + ([single] if isinstance(single, dict) else []):
            written = tool_call(as_dict(call))
            tools.append(written.name)
            parts.append(self.call(written.name, written.arguments, written.id))
        return Contents(parts, tools, contents.results)

    def tools(self, schemas: object) -> list[Part]:
        """Tool schemas, one part each."""
        return [self.text("tools", schema if isinstance(schema, str) else dump(schema)) for schema in as_list(schemas)]

    def _block(self, block: object, role: str, tag: str, parts: list[Part], tools: list[str]) -> bool:
        """Add what a block holds; whether it is a tool's result."""
        if not isinstance(block, dict):
            parts.append(self.text(role, block if isinstance(block, str) else dump(block), tag))
            return False
        kind = kind_of_block(block)
        if kind == "call":
            call = tool_call(block)
            tools.append(call.name)
            parts.append(self.call(call.name, call.arguments, call.id))
        elif kind == "result":
            result = tool_result(block)
            parts.extend(self.result(result.body, result.id))
            return True
        elif kind == "media":
            parts.append(self.image(_without_marks(block)))
        elif kind == "reasoning":
            text = first(block, *_TEXT_KEYS)
            parts.append(self.text("reasoning", plain(text), str(block.get("signature") or "")))
        else:
            text = first(block, *_TEXT_KEYS)
            parts.append(self.text(role, plain(text) if text is not None else dump(_without_blobs(block)), tag))
        return False


def _first_of(value: object) -> object:
    return value[0] if isinstance(value, list) and value else None


def _is_a(kind: str, block: object) -> bool:
    return isinstance(block, dict) and kind_of_block(block) == kind


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


def kind_of(record: object, name: str = "type") -> str:
    """The text under `name` of a record; empty where there is none."""
    value = record.get(name) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def tokens_of(value: object) -> int | None:
    """`value` as a number of tokens, None where it is none."""
    try:
        return count(value, "")
    except ValueError:
        return None


def as_dict(value: object) -> dict[str, Any]:
    """`value` if it is an object, else an empty one: for looking into logged records without a check at each step."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    """`value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def clock_seconds(value: object) -> float | None:
    """Seconds of an ISO 8601 time, with or without a zone (then of a clock whose zero is not known)."""
    known = seconds(value)
    if known is not None or not isinstance(value, str):
        return known
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp()
