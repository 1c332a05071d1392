"""Messages and usage in the attributes of spans: OpenTelemetry GenAI, OpenInference, Traceloop and the AI SDK."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from traces.calls.model_calls import text_of
from traces.source.sources import parse_json

_USAGE = ("gen_ai.usage.", "llm.token_count.")
_AI_SDK = "ai.usage."
_LEGACY = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
_INDEXED = re.compile(r"(\d+)\.(.+)\Z")
MAX_INDEX = 100_000


def usage_attributes(attributes: Mapping[str, Any]) -> dict[str, Any] | None:
    """The usage among the attributes, under its original names; None if there is none."""
    found = {name: value for name, value in attributes.items() if name.startswith(_USAGE) and value is not None}
    own = {name[len(_AI_SDK) :]: value for name, value in attributes.items() if name.startswith(_AI_SDK)}
    # the AI SDK's own attributes have more, for example cached tokens
    return own if len(own) > len(found) else found or None


def content_of(
    attributes: Mapping[str, Any], events: Iterable[Any] = ()
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """(request body, answer) of a span, in the shapes of calls.model_calls; None for one that the span does not
    have."""
    body, answer = _gen_ai(attributes)
    for event in events:
        inner = event.get("attributes") if isinstance(event, dict) else None
        if body is None and isinstance(inner, dict) and "gen_ai.input.messages" in inner:
            body, answer = _gen_ai(inner)
    if body is None:
        body, answer = _legacy_events(events)
    if body is None:
        body, answer = _open_inference(attributes)
    if body is None:
        body, answer = _traceloop(attributes)
    if body is None:
        body, answer = _ai_sdk(attributes)
    return body, answer


def parsed(value: Any) -> Any:
    """A value that may be JSON inside a text (or inside a text inside a text)."""
    for _ in range(3):
        if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"')):
            break
        try:
            value = parse_json(value.encode("utf-8", "replace"))
        except ValueError:
            break
    return value


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _answer(messages: list[Any], reason: str | None = None) -> dict[str, Any] | None:
    if not messages:
        return None
    last = messages[-1]
    return {"output": messages, "status": reason or text_of(last, "finish_reason", "finishReason")}


def _gen_ai(at: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    messages = parsed(at.get("gen_ai.input.messages"))
    if messages is None:
        return None, None
    body: dict[str, Any] = {"messages": _listed(messages)}
    tools = parsed(at.get("gen_ai.tool.definitions"))
    if isinstance(tools, list):
        body["tools"] = tools
    system = parsed(at.get("gen_ai.system_instructions"))
    if system:
        body["system"] = [{"type": "text", **one} if isinstance(one, dict) else one for one in _listed(system)]
    output = _listed(parsed(at.get("gen_ai.output.messages")))
    if not output and isinstance(at.get("gen_ai.output.text"), str):
        output = [{"role": "assistant", "content": at["gen_ai.output.text"]}]
    reasons = parsed(at.get("gen_ai.response.finish_reasons"))
    reason = reasons[0] if isinstance(reasons, list) and reasons and isinstance(reasons[0], str) else None
    return body, _answer(output, reason)


def _legacy_events(events: Iterable[Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    messages: list[Any] = []
    output: list[Any] = []
    for event in events:
        name, at = text_of(event, "name"), event.get("attributes") if isinstance(event, dict) else None
        if not isinstance(at, dict):
            continue
        if name in _LEGACY:
            message = {"role": _LEGACY[name], "content": parsed(at.get("content"))}
            calls = parsed(at.get("tool_calls"))
            messages.append(message | ({"tool_calls": calls} if isinstance(calls, list) else {}))
        elif name == "gen_ai.choice":
            message = parsed(at.get("message"))
            output.append(message if isinstance(message, dict) else {"role": "assistant", "content": at.get("content")})
        elif name == "gen_ai.content.prompt":
            messages += _listed(parsed(at.get("gen_ai.prompt")))
        elif name == "gen_ai.content.completion":
            output += _listed(parsed(at.get("gen_ai.completion")))
    return ({"messages": messages}, _answer(output)) if messages else (None, None)


def indexed(at: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Attributes `prefix`N.rest as a list of {rest: value}; gaps are closed."""
    found: dict[int, dict[str, Any]] = {}
    for name, value in at.items():
        if name.startswith(prefix):
            match = _INDEXED.match(name[len(prefix) :])
            if match and len(match.group(1)) < 6:
                found.setdefault(int(match.group(1)), {})[match.group(2)] = value
    return [found[index] for index in sorted(found)]


def _open_inference(at: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    messages = [_oi_message(one) for one in indexed(at, "llm.input_messages.")]
    output = [_oi_message(one) for one in indexed(at, "llm.output_messages.")]
    if not messages:
        prompts = [one.get("prompt.text") for one in indexed(at, "llm.prompts.")]
        messages = [{"role": "user", "content": text} for text in prompts if isinstance(text, str)]
    if not messages:
        return None, None
    body: dict[str, Any] = {"messages": messages}
    tools = [parsed(one.get("tool.json_schema")) for one in indexed(at, "llm.tools.")]
    if any(tools):
        body["tools"] = [tool for tool in tools if tool]
    return body, _answer(output, text_of(at, "llm.finish_reason"))


def _oi_message(at: Mapping[str, Any]) -> dict[str, Any]:
    role = at.get("message.role")
    message: dict[str, Any] = {"role": role if isinstance(role, str) else "user"}
    blocks: list[Any] = []
    for one in indexed(at, "message.contents."):
        kind = one.get("message_content.type")
        if kind == "image":
            blocks.append({"type": "image", "source": str(one.get("message_content.image.image.url"))})
        else:
            blocks.append({"type": kind if kind == "reasoning" else "text", "text": one.get("message_content.text")})
    content = at.get("message.content")
    message["content"] = content if isinstance(content, str) and content else blocks
    calls = [
        {"function": {"name": one.get("tool_call.function.name"), "arguments": one.get("tool_call.function.arguments")}}
        for one in indexed(at, "message.tool_calls.")
    ]
    if calls:
        message["tool_calls"] = calls
    return message


def _traceloop(at: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    prompts = indexed(at, "gen_ai.prompt.")
    if not prompts:
        return None, None
    output = [_tl_message(one) for one in indexed(at, "gen_ai.completion.")]
    body: dict[str, Any] = {"messages": [_tl_message(one) for one in prompts]}
    tools = indexed(at, "llm.request.functions.")
    if tools:
        body["tools"] = [{name: parsed(value) for name, value in tool.items()} for tool in tools]
    return body, _answer(output)


def _tl_message(at: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{"function": one} for one in indexed(at, "tool_calls.")]
    return {
        "role": at.get("role") or "assistant",
        "content": parsed(at.get("content")),
        "finish_reason": at.get("finish_reason"),
        **({"tool_calls": calls} if calls else {}),
    }


def _ai_sdk(at: Mapping[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    messages = parsed(at.get("ai.prompt.messages"))
    if not isinstance(messages, list):
        return None, None
    body: dict[str, Any] = {"messages": messages}
    tools = parsed(at.get("ai.prompt.tools"))
    if isinstance(tools, list):
        body["tools"] = [parsed(tool) for tool in tools]
    reply: list[Any] = []
    text, calls = at.get("ai.response.text"), parsed(at.get("ai.response.toolCalls"))
    if text or calls:
        blocks = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
        blocks += [{"type": "tool-call", **call} for call in _listed(calls) if isinstance(call, dict)]
        reply = [{"role": "assistant", "content": blocks}]
    return body, _answer(reply, text_of(at, "ai.response.finishReason"))
