"""Splits the messages of any provider into the parts that a model reads: role, text, and size of parts without text.

OpenAI chat and Responses, Anthropic, Bedrock Converse, Gemini, OpenTelemetry and LangChain messages differ only in
names (`traces.text.blocks`). Cache marks are dropped, because they move from call to call and no model sees them. Ids
of tool calls are dropped too, because they differ between runs. Images, documents and base64 are never read as text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

import orjson
import xxhash

from traces.text.blocks import (
    IMAGE_TOKENS,
    KIND_OF_TYPE,
    ROLE_OF,
    is_binary,
    kind_of_block,
    tool_call,
    tool_result,
)

ENCRYPTED_BYTES_PER_TOKEN = 5.0
"""Base64 characters of encrypted reasoning per token: 4/3 of about 4 bytes, rounded down."""

DROPPED = frozenset({"cache_control", "prompt_cache_breakpoint", "cachePoint", "cache_point", "cacheControl"})
MAX_DEPTH = 40


class Part(NamedTuple):
    """A part of one message. `text` is tokenised; `guess` is the assumed number of tokens of a part without text.

    `name` is the tool that an assistant's part calls.
    """

    role: str
    text: str
    guess: int = 0
    name: str = ""


def compact(value: Any) -> bytes:
    """Any parsed JSON value as bytes, equal for equal values sent in the same order.

    Raises:
        ValueError: It is nested too deeply.
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS, default=str)
    except TypeError:  # numbers beyond 64 bits, or nesting beyond orjson's limit
        import json

        try:
            return json.dumps(value, default=str).encode()
        except RecursionError:
            raise ValueError("nested too deeply") from None


def serialise(value: Any) -> str:
    """Any JSON value as compact text, with keys in the order sent, without cache marks and binary data."""
    if isinstance(value, str):
        return value
    return compact(_clean(value, 0)).decode("utf-8", "replace")


def _clean(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return ""
    if isinstance(value, dict):
        return {key: _clean(inner, depth + 1) for key, inner in value.items() if key not in DROPPED}
    if isinstance(value, list):
        return [_clean(inner, depth + 1) for inner in value]
    if isinstance(value, str):
        return "" if is_binary(value) else value.encode("utf-8", "replace").decode()
    return value if isinstance(value, (int, float, bool)) or value is None else str(value)


def role_of(message: Mapping[str, Any]) -> str:
    """The role of a message: system | user | assistant | tool_result | unknown."""
    role = message.get("role")
    if not isinstance(role, str):
        kind = message.get("id") if isinstance(message.get("kwargs"), dict) else message.get("type")
        role = kind[-1] if isinstance(kind, list) and kind else kind
    return ROLE_OF.get(role, "unknown") if isinstance(role, str) else "unknown"


def parts(message: Any) -> list[Part]:
    """The parts of one message (or Responses item) in the order in which they are sent."""
    if isinstance(message, str):
        return list(_block(message, "user", 0))
    if not isinstance(message, dict):
        return []
    inner = message.get("kwargs")
    if isinstance(inner, dict) and isinstance(message.get("id"), list):  # LangChain's serialised form
        return parts({**inner, "role": role_of(message)} if "role" not in inner else inner)
    role = role_of(message)
    kind = message.get("type")
    if role == "unknown" and isinstance(kind, str) and kind in KIND_OF_TYPE:  # an item of Responses
        return list(_block(message, "assistant", 0))
    found: list[Part] = []
    for name in ("reasoning_content", "reasoning", "thinking"):
        text = message.get(name)
        if isinstance(text, str) and text:
            found.append(Part("reasoning", text))
            break
    for name in ("content", "parts", "text"):
        content = message.get(name)
        if content:
            found += _block(content, role, 0)
            break
    more = message.get("additional_kwargs")
    calls = message.get("tool_calls") or message.get("toolCalls") or (more.get("tool_calls") if _is_map(more) else None)
    for call in calls if isinstance(calls, list) else [message.get("function_call")]:
        if isinstance(call, dict):
            found.append(_call(call))
    return found


def _is_map(value: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, dict)


def _block(block: Any, role: str, depth: int) -> Iterator[Part]:
    """The parts of one content block, of a list of them, or of a text."""
    if isinstance(block, str):
        if is_binary(block):
            yield Part("image", "", IMAGE_TOKENS)
        elif block:
            yield Part(role, block)
    elif isinstance(block, list):
        for one in block if depth < MAX_DEPTH else ():
            yield from _block(one, role, depth + 1)
    elif isinstance(block, dict):
        yield from _object(block, role, depth)


def _object(block: Mapping[str, Any], role: str, depth: int) -> Iterator[Part]:
    kind = kind_of_block(block)
    if kind == "media":
        yield from _media(block)
    elif kind == "call":
        yield _call(block)
    elif kind == "result":
        yield from _result(block, depth)
    elif kind == "reasoning":
        yield from _reasoning(block)
    elif kind == "summary":
        yield from _block(block.get("content") or block.get("summary") or "", "summary", depth + 1)
    elif isinstance(block.get("text"), str):
        yield from _block(block["text"], role, depth + 1)
    elif isinstance(block.get("content"), (str, list)):
        yield from _block(block["content"], role, depth + 1)
    elif set(block) - DROPPED - {"type"}:
        yield Part(role, serialise(block))


def _media(block: Mapping[str, Any]) -> Iterator[Part]:
    source = block.get("source")
    text = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else None
    if isinstance(text, str) and not is_binary(text):
        yield Part("user", text)
    else:
        # A digest of the content stands for it: equal images are equal parts, different images are not.
        yield Part("image", "", IMAGE_TOKENS, name=_mark(block))


def _mark(block: Mapping[str, Any]) -> str:
    return "media:" + xxhash.xxh3_128_hexdigest(compact({k: v for k, v in block.items() if k not in DROPPED}))


def _call(block: Mapping[str, Any]) -> Part:
    call = tool_call(block)
    arguments = "" if call.arguments is None else serialise(call.arguments)
    return Part("assistant", f"{call.name}\n{arguments}", name=call.name)


def _result(block: Mapping[str, Any], depth: int) -> Iterator[Part]:
    body = tool_result(block).body
    if isinstance(body, dict):
        yield Part("tool_result", serialise(body))
    elif body is not None:
        yield from _block(body, "tool_result", depth + 1)


def _reasoning(block: Mapping[str, Any]) -> Iterator[Part]:
    inner = block.get("reasoningContent")
    if isinstance(inner, dict):
        inner = inner.get("reasoningText", inner)
        block = inner if isinstance(inner, dict) else block
    text = "\n".join(_texts(block.get("summary"))) if block.get("summary") else ""
    for name in ("thinking", "text", "content", "reasoning"):
        if not text and block.get(name):
            text = "\n".join(_texts(block[name]))
    if text and not is_binary(text):
        yield Part("reasoning", text)
        return
    hidden = next((block[k] for k in ("encrypted_content", "data", "redactedContent") if block.get(k)), "")
    if isinstance(hidden, str) and hidden:
        yield Part("reasoning", "", max(1, round(len(hidden) / ENCRYPTED_BYTES_PER_TOKEN)), name=_mark(block))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [t for one in value for t in ([one] if isinstance(one, str) else _texts_of(one))]
    return []


def _texts_of(block: Any) -> list[str]:
    text = block.get("text") if isinstance(block, dict) else None
    return [text] if isinstance(text, str) else []
