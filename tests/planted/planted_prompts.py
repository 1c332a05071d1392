"""What a session says, the ways to write it as a prompt, and the prompt token by token."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xxhash

from tests.planted.planted import lost_of
from traces.formats.table.prompts import Prompts
from traces.records import Context
from traces.text.tokens import load_tokenizer

DIALECTS = ("chat", "blocks", "text", "chatml")
"""Chat messages; blocks of content with the system prompt apart; two ways to write it all as one text."""


@dataclasses.dataclass
class Item:
    """A message. `made`: what put it there (reminder, summary) or into it; empty: the conversation itself."""

    role: str
    text: str
    reasoning: str = ""
    call: str = ""
    image: str = ""
    image_note: str = ""
    made: str = ""
    form: int = 0
    emptied: bool = False


@dataclasses.dataclass
class State:
    """Everything that is sent."""

    tools: list[dict[str, Any]]
    system: list[str]
    forms: dict[str, Callable[[Any], str]]
    slots: dict[str, str] = dataclasses.field(default_factory=dict)
    items: list[Item] = dataclasses.field(default_factory=list)
    tools_first: bool = True
    tool_form: str = "json"
    empties: bool = False
    told: str = ""

    def head(self) -> str:
        """The system prompt with the values of what changes in it."""
        lines = (self.slots.get(line[1:-1], line) if line[:1] == "{" else line for line in self.system)
        return "\n".join(lines) + "\n" + (f"\n{self.told}\n" if self.told else "")

    def __deepcopy__(self, memo: Any) -> State:
        return dataclasses.replace(
            self, tools=json.loads(json.dumps(self.tools)), system=list(self.system), slots=dict(self.slots),
            items=[dataclasses.replace(item) for item in self.items],
        )  # fmt: skip


def written(state: State, dialect: str) -> dict[str, Any]:
    """The columns of a row of the format `table`."""
    if dialect == "chat":
        return {"tools": state.tools, "messages": [{"role": "system", "content": state.head()}, *_chat(state.items)]}
    if dialect == "blocks":
        return {"tools": state.tools, "system": state.head(), "messages": _blocks(state.items)}
    tools = "\n".join(_told_tool(tool, state.tool_form) for tool in state.tools)
    tools = f"# Tools\n{tools}\n" if dialect == "text" else f"<tools>\n{tools}\n</tools>\n"
    head = state.head()
    if dialect == "text":
        start = f"{tools}\n{head}" if state.tools_first else f"{head}\n{tools}"
        return {"prompt": start + "".join(f"\n{item.role.upper()}:\n{_flat(item)}\n" for item in state.items)}
    start = tools + head if state.tools_first else head + tools
    return {
        "prompt": f"<|im_start|>system\n{start}<|im_end|>\n"
        + "".join(f"<|im_start|>{item.role}\n{_flat(item)}<|im_end|>\n" for item in state.items)
    }


TOOL_FORMS = ("json", "headings", "ruled", "lines")
"""How a tool is written into a prompt of one text."""


def _told_tool(tool: dict[str, Any], form: str) -> str:
    name, does, takes = tool["name"], tool["description"], tool["parameters"]["properties"]
    told = [(key, value.get("description", "the value")) for key, value in takes.items()]
    if form == "headings":
        return f"## {name}\nDescription: {does}\nParameters:\n" + "".join(f"- {k}: (required) {v}\n" for k, v in told)
    if form == "ruled":
        lines = "".join(f"  ({i}) {k} (string, required): {v}\n" for i, (k, v) in enumerate(told, 1))
        return f"---- BEGIN FUNCTION: {name} ----\nDescription: {does}\nParameters:\n{lines}---- END FUNCTION ----\n"
    if form == "lines":
        return f"{name}: {does} Args: " + ", ".join(f"{k} (str)" for k, _ in told)
    return json.dumps(tool)


def _flat(item: Item) -> str:
    said = f"<think>\n{item.reasoning}\n</think>\n\n" if item.reasoning or item.emptied else ""
    said += item.text + (f"\n<tool_call>\n{item.call}\n</tool_call>" if item.call else "")
    if item.image:
        said += f"\n<image>data:image/png;base64,{item.image}</image>"
    return said + (f"\n{item.image_note}" if item.image_note else "")


def _chat(items: Sequence[Item]) -> list[dict[str, Any]]:
    out = []
    for number, item in enumerate(items):
        message: dict[str, Any] = {"role": item.role, "content": item.text}
        if item.image or item.image_note:
            parts: list[Any] = [{"type": "text", "text": item.text}]
            if item.image:
                parts.append({"type": "image_url", "image_url": {"url": f"data:image/png;base64,{item.image}"}})
            if item.image_note:
                parts.append({"type": "text", "text": item.image_note})
            message["content"] = parts
        if item.reasoning:
            message["reasoning_content"] = item.reasoning
        if item.call:
            call = {"name": "run", "arguments": item.call}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": call}]
        if item.role == "tool":
            message["tool_call_id"] = f"call_{number}"
        out.append(message)
    return out


def _blocks(items: Sequence[Item]) -> list[dict[str, Any]]:
    out = []
    for number, item in enumerate(items):
        parts: list[Any] = [{"type": "thinking", "thinking": item.reasoning}] if item.reasoning else []
        parts.append({"type": "text", "text": item.text})
        if item.image:
            parts.append({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": item.image}})
        if item.image_note:
            parts.append({"type": "text", "text": item.image_note})
        if item.call:
            parts.append({"type": "tool_use", "id": f"toolu_{number}", "name": "run", "input": json.loads(item.call)})
        if item.role == "tool":
            parts = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": parts}]
        out.append({"role": "user" if item.role == "tool" else item.role, "content": parts})
    return out


def turns_of(messages: Sequence[dict[str, Any]]) -> list[list[Item]]:
    """A real conversation (chat messages, texts only) in turns: what comes first, then answers and their inputs."""
    turns: list[list[Item]] = [[]]
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else "".join(
            part.get("text", "") for part in content or [] if isinstance(part, dict)
        )  # fmt: skip
        role = message["role"]
        if role == "assistant" and turns[-1]:
            turns.append([])
        turns[-1].append(Item(role if role in ("assistant", "tool") else "user", text))
    if turns[-1][-1].role == "assistant":
        turns.pop()
    return turns


def _digest(value: Any) -> int:
    return int(xxhash.xxh3_64_intdigest(value.encode("utf-8", "replace") if isinstance(value, str) else value))


def symbols(row: dict[str, Any], tokenizer: str = "bytes") -> Any:
    """The prompt of a row symbol by symbol, as the format counts it: int64 array."""
    prompts = Prompts(Context(load_tokenizer(tokenizer), _digest))
    if "prompt" in row:
        prompt, _ = prompts.of_text(None, "", row["prompt"])
    else:
        prompt, _ = prompts.of_messages(None, "", row["messages"], row.get("system"), row.get("tools"))
    parts = []
    for piece in prompt.pieces:
        if piece.units is not None:
            parts.append(piece.units.astype(np.int64))
        else:
            parts.append(-1 - (piece.key % (1 << 40)) * (1 << 20) - np.arange(piece.tokens, dtype=np.int64))
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def lost_tokens(rows: Sequence[dict[str, Any]], tokenizer: str = "bytes") -> list[int]:
    """`planted.lost_of` the prompts as they are written."""
    return lost_of(rows, [symbols(row, tokenizer) for row in rows])
