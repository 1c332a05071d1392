"""Combines streamed answers (server-sent events or lists of chunks) into the answer that a plain call would return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson


def events(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects of the `data:` lines of a stream, skipping HTTP chunk sizes and incomplete lines."""
    for line in text.splitlines():
        if line.startswith("data:"):
            data = line[5:].strip()
            if data and data != "[DONE]":
                try:
                    found = orjson.loads(data)
                except orjson.JSONDecodeError:
                    continue
                if isinstance(found, dict):
                    yield found


def assemble(chunks: Iterable[Any]) -> dict[str, Any] | None:
    """One answer from its chunks, in its provider's shape; None if they contain no answer.

    `incomplete` is set on an answer whose end is missing.
    """
    found = [chunk for chunk in chunks if isinstance(chunk, dict)]
    if not found:
        return None
    kinds = {chunk.get("type") for chunk in found if isinstance(chunk.get("type"), str)}
    if any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds):
        return _responses(found)
    if kinds & {"message_start", "message_delta", "content_block_start", "content_block_delta", "message_stop"}:
        return _anthropic(found)
    if any("candidates" in chunk or "usageMetadata" in chunk for chunk in found):
        return _gemini(found)
    if any("choices" in chunk for chunk in found):
        return _chat(found)
    if any(key in chunk for chunk in found for key in ("contentBlockDelta", "messageStop", "messageStart")):
        return _bedrock(found)
    return found[-1] if len(found) == 1 else None


def _responses(chunks: list[dict[str, Any]]) -> dict[str, Any] | None:
    last = None
    for chunk in chunks:
        if isinstance(chunk.get("response"), dict):
            last = chunk["response"]
    ended = any(c.get("type") in ("response.completed", "response.incomplete", "response.failed") for c in chunks)
    return None if last is None else last if ended else {**last, "incomplete": True}


def _anthropic(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"type": "message", "role": "assistant"}
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    ended = False
    for chunk in chunks:
        kind = chunk.get("type")
        if kind == "message_start" and isinstance(chunk.get("message"), dict):
            message = chunk["message"]
            answer.update({k: v for k, v in message.items() if k not in ("usage", "content")})
            usage.update(_known(message.get("usage")))
        elif kind == "message_delta":
            answer.update(_known(chunk.get("delta")))
            usage.update(_known(chunk.get("usage")))
        elif kind == "message_stop":
            ended = True
        elif kind == "content_block_start" and isinstance(chunk.get("content_block"), dict):
            blocks[_index(chunk)] = dict(chunk["content_block"])
        elif kind == "content_block_delta" and isinstance(chunk.get("delta"), dict):
            _grow(blocks.setdefault(_index(chunk), {"type": "text", "text": ""}), chunk["delta"])
    for block in blocks.values():
        text = block.pop("partial_json", "")
        if text:
            try:
                block["input"] = orjson.loads(text)
            except orjson.JSONDecodeError:
                block["input"] = text
    answer["content"] = [block for _, block in sorted(blocks.items())]
    if usage:
        answer["usage"] = usage
    if not (ended or answer.get("stop_reason")):
        answer["incomplete"] = True
    return answer


def _grow(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("text", "thinking", "partial_json"):
        if isinstance(delta.get(name), str):
            block[name] = (block.get(name) if isinstance(block.get(name), str) else "") + delta[name]


def _index(chunk: Mapping[str, Any]) -> int:
    index = chunk.get("index")
    return index if isinstance(index, int) else 0


def _known(value: Any) -> dict[str, Any]:
    return {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else {}


def _chat(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    answer = {k: v for k, v in chunks[0].items() if k not in ("choices", "usage")}
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    calls: dict[int, dict[str, Any]] = {}
    finish = None
    for chunk in chunks:
        if isinstance(chunk.get("usage"), dict):
            answer["usage"] = chunk["usage"]
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta")
            if isinstance(delta, dict):
                _chat_delta(message, calls, delta)
    if calls:
        message["tool_calls"] = [call for _, call in sorted(calls.items())]
    answer["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    if finish is None:
        answer["incomplete"] = True
    return answer


def _chat_delta(message: dict[str, Any], calls: dict[int, dict[str, Any]], delta: dict[str, Any]) -> None:
    for source, name in (
        ("content", "content"),
        ("reasoning_content", "reasoning_content"),
        ("reasoning", "reasoning"),
    ):
        if isinstance(delta.get(source), str):
            message[name] = (message.get(name) or "") + delta[source]
    for one in delta["tool_calls"] if isinstance(delta.get("tool_calls"), list) else ():
        function = one.get("function") if isinstance(one, dict) else None
        if not isinstance(function, dict):
            continue
        call = calls.setdefault(_index(one), {"type": "function", "function": {"name": "", "arguments": ""}})
        for name in ("name", "arguments"):
            if isinstance(function.get(name), str):
                call["function"][name] += function[name]


def _gemini(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    parts: list[Any] = []
    usage: dict[str, Any] = {}
    finish = None
    for chunk in chunks:
        answer.update({k: v for k, v in chunk.items() if k not in ("candidates", "usageMetadata")})
        usage = _known(chunk.get("usageMetadata")) or usage  # cumulative: the last one counts
        candidates = chunk.get("candidates")
        first = candidates[0] if isinstance(candidates, list) and candidates else None
        if isinstance(first, dict):
            finish = first.get("finishReason") or finish
            content = first.get("content")
            inner = content.get("parts") if isinstance(content, dict) else None
            parts += inner if isinstance(inner, list) else []
    answer["candidates"] = [{"content": {"role": "model", "parts": _joined(parts)}, "finishReason": finish}]
    if usage:
        answer["usageMetadata"] = usage
    if finish is None:
        answer["incomplete"] = True
    return answer


def _joined(parts: list[Any]) -> list[Any]:
    """Joins neighbouring text parts, because a stream cuts text anywhere."""
    joined: list[Any] = []
    for part in parts:
        last = joined[-1] if joined else None
        plain = isinstance(part, dict) and isinstance(part.get("text"), str)
        if (
            plain
            and isinstance(last, dict)
            and isinstance(last.get("text"), str)
            and bool(last.get("thought")) == bool(part.get("thought"))
        ):
            joined[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            joined.append(part)
    return joined


def _bedrock(chunks: list[dict[str, Any]]) -> dict[str, Any]:
    blocks: dict[int, dict[str, Any]] = {}
    answer: dict[str, Any] = {}
    for chunk in chunks:
        for name in ("contentBlockStart", "contentBlockDelta"):
            part = chunk.get(name)
            if isinstance(part, dict):
                at = part.get("contentBlockIndex")
                block = blocks.setdefault(at if isinstance(at, int) else 0, {})
                _grow_bedrock(block, part.get("start") or part.get("delta"))
        if isinstance(chunk.get("messageStop"), dict):
            answer["stopReason"] = chunk["messageStop"].get("stopReason")
        if isinstance(chunk.get("metadata"), dict):
            answer.update(_known(chunk["metadata"]))
    content = [block for _, block in sorted(blocks.items())] or [{"text": ""}]
    answer["output"] = {"message": {"role": "assistant", "content": content}}
    return answer


def _grow_bedrock(block: dict[str, Any], delta: Any) -> None:
    if not isinstance(delta, dict):
        return
    if isinstance(delta.get("text"), str):
        block["text"] = block.get("text", "") + delta["text"]
    for name, grown in (("toolUse", "input"), ("reasoningContent", "text")):
        if isinstance(delta.get(name), dict):
            known = block.setdefault(name, {})
            text = delta[name].get(grown)
            known.update({k: v for k, v in delta[name].items() if k != grown})
            known[grown] = known.get(grown, "") + (text if isinstance(text, str) else "")
