"""Items of a Codex rollout as parts of a prompt."""

from __future__ import annotations

from typing import Any

from traces.transcripts.parts import Part, PartMaker, as_dict, kind_of, plain, text_of

CALLS = {
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "tool_search_call",
    "image_generation_call",
    "mcp_tool_call",
    "tool_call",
}
RESULTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "tool_search_output",
    "mcp_tool_call_output",
    "tool_result",
}


def parts_of(item: dict[str, Any], make: PartMaker) -> list[Part]:
    """What an item puts into a prompt."""
    kind = kind_of(item)
    if kind == "message":
        role = str(item.get("role"))
        return make.content(item.get("content"), "system" if role in ("system", "developer") else role).parts
    if kind == "reasoning":
        return [make.text("reasoning", plain([item.get("summary"), item.get("content")]), _seal(item))]
    if kind in ("compaction", "compaction_summary"):
        return [Part(make.digest(f"compaction\0{_seal(item)}"), 0, 0, "summary", elastic=True)]
    if kind in CALLS:
        given = item.get("arguments") or item.get("input") or item.get("action") or item.get("parameters")
        return [make.call(tool_of(item), given, item.get("call_id"))]
    if kind in RESULTS:
        body = item.get("output", item.get("result", item.get("tools")))
        return make.result(body, item.get("call_id"))
    return make.content(item.get("content"), "user").parts


def tool_of(item: dict[str, Any]) -> str:
    """A call's tool: its name, or what its kind says (`web_search_call`)."""
    name = text_of(item.get("name")) or text_of(as_dict(item.get("function")).get("name"))
    return name or kind_of(item).removesuffix("_call")


def _seal(item: dict[str, Any]) -> str:
    sealed = item.get("encrypted_content")
    return sealed if isinstance(sealed, str) else ""
