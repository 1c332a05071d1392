"""The kind of a content block, in any provider's format, and the parts of a tool call or result inside it.

OpenAI chat and Responses, Anthropic, Bedrock Converse, Gemini, LangChain, the AI SDK and the agents that log them
differ only in names. The block's type decides; without a type, its fields do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

IMAGE_TOKENS = 1500
"""Assumed size of an image or document whose size the log does not show. What providers document gives for a full-HD
screenshot: 1,105 tokens at OpenAI's tile models (scaled to a short side of 768 pixels; 85, and 170 for each of 6 tiles
of 512), 1,548 at Gemini (258 for each of 6 tiles of 768), about 1,600 at Anthropic (width x height / 750, scaled down
to that many). Pixel sizes are not read, since most logs leave the picture out; other models of a provider differ."""

ROLE_OF = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "model": "assistant",
    "ai": "assistant",
    "gemini": "assistant",
    "agent": "assistant",
    "tool": "tool_result",
    "function": "tool_result",
    "ipython": "tool_result",
    "toolResult": "tool_result",
    "tool_result": "tool_result",
    "SystemMessage": "system",
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "ToolMessage": "tool_result",
}
"""The names that logs give the writer of a message, and the node role of each."""

_TYPES = {
    "media": """image image_url input_image document file input_file container_upload blob uri video audio input_audio
        media image_asset computer_screenshot""",
    "call": """tool_use server_tool_use mcp_tool_use function_call functionCall tool_call toolCall tool-call
        custom_tool_call local_shell_call web_search_call computer_call mcp_call code_interpreter_call file_search_call
        toolRequest""",
    "result": """tool_result toolResult tool-result function_call_output functionResponse tool_call_response
        custom_tool_call_output local_shell_call_output computer_call_output mcp_tool_result toolResponse""",
    "reasoning": "thinking redacted_thinking reasoning reasoning_content reasoning_text think thought",
    "summary": "compaction compaction_summary",
}
KIND_OF_TYPE = {name: kind for kind, names in _TYPES.items() for name in names.split()}
"""A block's type -> media | call | result | reasoning | summary. Other types are text or unknown."""

_MEDIA_FIELDS = ("inlineData", "inline_data", "fileData", "image", "document")
_CALL_FIELDS = ("toolUse", "functionCall", "function_call", "toolCall")
_RESULT_FIELDS = ("toolResult", "functionResponse", "function_response")

_BINARY = re.compile(r"[A-Za-z0-9+/=_\-]{2000,}\Z")


class ToolCall(NamedTuple):
    """A tool call as the model wrote it: the tool's name ("" if there is none), its arguments, the call's id."""

    name: str
    arguments: Any
    id: Any


class ToolResult(NamedTuple):
    """The output of a tool, and the id of the call it answers."""

    body: Any
    id: Any


def kind_of_block(block: Mapping[str, Any]) -> str:
    """media | call | result | reasoning | summary; "" for text and unknown blocks."""
    named = block.get("type")
    kind = KIND_OF_TYPE.get(named) if isinstance(named, str) else None
    if kind is not None:
        return kind
    if isinstance(named, str) and named.endswith("_tool_result"):
        return "result"
    if any(field in block for field in _CALL_FIELDS):
        return "call"
    if any(field in block for field in _RESULT_FIELDS):
        return "result"
    if any(field in block for field in _MEDIA_FIELDS):
        return "media"
    return "reasoning" if "reasoningContent" in block or block.get("thought") is True else ""


def tool_call(block: Mapping[str, Any]) -> ToolCall:
    """The parts of a call; a call without a name is named after its type (web_search_call)."""
    inner = _inside(block, *_CALL_FIELDS)
    inner = _inside(inner, "function")
    name = first(inner, "name", "toolName", "tool", "function_name", "function")
    if not isinstance(name, str):
        named = block.get("type")
        name = named if isinstance(named, str) and named.endswith("_call") else ""
    arguments = first(inner, "arguments", "input", "args", "parameters", "action", "value")
    return ToolCall(name, arguments, first(block, "id", "call_id", "toolCallId"))


def tool_result(block: Mapping[str, Any]) -> ToolResult:
    """The parts of a result."""
    inner = _inside(block, *_RESULT_FIELDS)
    body = first(inner, "content", "output", "response", "result", "value")
    return ToolResult(body, first(block, "tool_use_id", "call_id", "toolCallId", "id"))


def first(block: Mapping[str, Any], *fields: str) -> Any:
    """The first of the fields that is not empty."""
    return next((block[name] for name in fields if block.get(name) is not None), None)


def is_binary(text: str) -> bool:
    """Whether a string is base64 or a data URL instead of text."""
    if text.startswith("data:") and ";base64," in text[:200]:
        return True
    if len(text) < 2000 or not _BINARY.match(text):
        return False
    start = text[:2000]
    return bool(re.search("[a-z]", start) and re.search("[A-Z]", start) and re.search("[0-9]", start))


def _inside(block: Mapping[str, Any], *fields: str) -> Mapping[str, Any]:
    inner = next((block[name] for name in fields if isinstance(block.get(name), Mapping)), None)
    return block if inner is None else {**{k: v for k, v in block.items() if k != "type"}, **inner}
