"""A prompt as a harness holds it: tools, system prompt, messages of any provider; its texts and its tokens."""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import re
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import orjson

from tests.planted.slots import Slot
from traces.text.messages import parts, serialise
from traces.text.tokens import load_tokenizer

MESSAGE_TOKENS = 4
"""What frames a message."""

WRITTEN = ("messages", "headed", "chatml")
"""How a prompt is written: as messages, or as one text with headings or with chat marks."""

Message = dict[str, Any]
_ROLES = {"function_call": "assistant", "function_call_output": "tool", "reasoning": "reasoning"}


class ToldTools(NamedTuple):
    """Tools that are written into a text: how (`form`), and what stands between them."""

    form: int
    between: str
    items: list[str]

    def block(self) -> str:
        return self.between.join(self.items)


def fresh(value: Any) -> Any:
    """A copy of JSON values, much faster than `copy.deepcopy`."""
    if isinstance(value, dict):
        return {name: fresh(part) for name, part in value.items()}
    return [fresh(part) for part in value] if isinstance(value, list) else value


@dataclasses.dataclass
class State:
    """Everything that is sent. `head` holds the system prompt as `content` ("": none)."""

    head: dict[str, str]
    tools: list[dict[str, Any]]
    messages: list[Message]
    slots: list[Slot] = dataclasses.field(default_factory=list)
    reminders: list[str] = dataclasses.field(default_factory=list)
    told: ToldTools | None = None
    image_gone: str = ""
    written: str = "messages"
    hard: bool = True
    """Whether harnesses change anything anywhere, or only in the ways that most of them do."""
    known: int = 0
    """Messages that the prompt before this one had."""

    def copied(self) -> State:
        told, slots = copy.deepcopy((self.told, self.slots))
        return dataclasses.replace(
            self, head=fresh(self.head), tools=fresh(self.tools), messages=fresh(self.messages), told=told,
            slots=slots, reminders=list(self.reminders),
        )  # fmt: skip

    def all_messages(self) -> list[Message]:
        """The messages with the system prompt as the first."""
        system = [{"role": "system", "content": self.head["content"]}] if self.head["content"] else []
        return [*system, *self.messages]

    def row(self) -> dict[str, Any]:
        """The columns of a row of the format `table`."""
        if self.written != "messages":
            return {"prompt": self._text()}
        made: dict[str, Any] = {"messages": fresh(self.messages)}
        if self.head["content"]:
            made["system"] = self.head["content"]
        if self.tools:
            made["tools"] = fresh(self.tools)
        return made

    def _text(self) -> str:
        start, end = ("<|im_start|>{}\n", "<|im_end|>\n") if self.written == "chatml" else ("\n{}:\n", "\n")
        tools = "".join(json.dumps(tool) + "\n" for tool in self.tools)
        said = [("system", (f"<tools>\n{tools}</tools>\n" if tools else "") + self.head["content"])]
        said += [(role_of(message), _flat(message)) for message in self.messages]
        shown = ((role if self.written == "chatml" else role.upper(), text) for role, text in said)
        return "".join(start.format(role) + text + end for role, text in shown)


def _flat(message: Message) -> str:
    """A chat message as one text."""
    content, thought = message.get("content") or "", message.get("reasoning_content") or message.get("reasoning")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = [b["text"] if "text" in b else f"<image>{b['image_url']['url']}</image>" for b in blocks]
    said += [f"<tool_call>\n{json.dumps(call['function'])}\n</tool_call>" for call in message.get("tool_calls") or []]
    return (f"<think>\n{thought}\n</think>\n\n" if thought else "") + "\n".join(said)


class Leaf(NamedTuple):
    """A text of a prompt, `holder[key]`. Role "args": a call's arguments. `message`: its place (-1: system prompt)."""

    holder: dict[str, Any]
    key: str
    role: str
    message: int

    @property
    def text(self) -> str:
        return str(self.holder[self.key])

    def put(self, text: str) -> None:
        self.holder[self.key] = text


def role_of(message: Message) -> str:
    return message.get("role") or _ROLES.get(message.get("type", ""), "user")


def leaves(state: State) -> list[Leaf]:
    """Every text of the prompt that is not empty, in order, without the schemas of tools."""
    found = [Leaf(state.head, "content", "system", -1)]
    return [leaf for leaf in found + leaves_of(state.messages) if leaf.text]


def leaves_of(messages: list[Message]) -> list[Leaf]:
    """The texts of messages."""
    found: list[Leaf] = []
    for at, message in enumerate(messages):
        role = role_of(message)
        for key in ("reasoning_content", "reasoning"):
            if isinstance(message.get(key), str):
                found.append(Leaf(message, key, "reasoning", at))
        content = message.get("content")
        if isinstance(content, str):
            found.append(Leaf(message, "content", role, at))
        elif isinstance(content, list):
            for block in content:
                found += _block(block, role, at)
        if isinstance(message.get("output"), str):
            found.append(Leaf(message, "output", "tool", at))
        for call in message.get("tool_calls") or []:
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict) and isinstance(function.get("arguments"), str):
                found.append(Leaf(function, "arguments", "args", at))
        if message.get("type") == "function_call" and isinstance(message.get("arguments"), str):
            found.append(Leaf(message, "arguments", "args", at))
    return [leaf for leaf in found if leaf.text]


def _block(block: Any, role: str, at: int) -> list[Leaf]:
    if not isinstance(block, dict):
        return []
    if isinstance(block.get("text"), str):
        return [Leaf(block, "text", role, at)]
    if block.get("type") == "thinking":
        return [Leaf(block, "thinking", "reasoning", at)]
    if block.get("type") != "tool_result":
        return []
    inner = block.get("content")
    if isinstance(inner, str):
        return [Leaf(block, "content", "tool", at)]
    return [
        Leaf(one, "text", "tool", at)
        for one in inner or []
        if isinstance(one, dict) and isinstance(one.get("text"), str)
    ]


def put_text(r: random.Random, leaf: Leaf, text: str, where: str = "") -> str:
    """Put a text into a leaf, as lines of its own or as a sentence; says where (drawn unless given)."""
    old, where = leaf.text, where or r.choice(["start", "end", "middle"])
    between = r.choice(["\n", "\n\n"])
    if where == "middle":
        cuts = [m.end() for m in re.finditer("\n", old)] or [m.end() for m in re.finditer(r"\. ", old)]
        if cuts:
            at = r.choice(cuts)
            leaf.put(old[:at] + text + ("\n" if old[at - 1] == "\n" else " ") + old[at:])
            return where
    leaf.put(text + between + old if where == "start" else old + between + text)
    return where


class Tokens:
    """Prompts token by token, as the format `table` counts them: texts by the tokenizer, the rest by negative names."""

    def __init__(self, tokenizer: str) -> None:
        self._tokenizer = load_tokenizer(tokenizer)
        self._texts: dict[str, Any] = {}
        self._messages: dict[bytes, Any] = {}

    def of(self, state: State) -> Any:
        """The prompt: int64 array."""
        if state.written != "messages":
            return np.asarray(self._tokenizer.encode(state.row()["prompt"]), np.int64)
        found = [self._text(serialise(tool)) for tool in state.tools]
        found += [self._message(message) for message in state.all_messages()]
        return np.concatenate(found)

    def _text(self, text: str) -> Any:
        if text not in self._texts:
            self._texts[text] = np.asarray(self._tokenizer.encode(text), np.int64)
        return self._texts[text]

    def _message(self, message: Message) -> Any:
        key = orjson.dumps(message)
        if key not in self._messages:
            found = [_named(f"message|{message.get('role')}", MESSAGE_TOKENS)]
            for part in parts(message):
                if part.text:
                    found.append(self._text(part.text))
                elif part.guess:
                    found.append(_named(f"{part.role}|{part.name}", part.guess))
            self._messages[key] = np.concatenate(found)
        return self._messages[key]


def _named(name: str, count: int) -> Any:
    return -(np.int64(zlib.crc32(name.encode())) * 100_000 + np.arange(count, dtype=np.int64)) - 1


def common(a: Any, b: Any) -> int:
    """Tokens that two prompts begin with."""
    size = min(a.size, b.size)
    at, step = 0, 256
    while at < size:
        end = min(size, at + step)
        differ = a[at:end] != b[at:end]
        if differ.any():
            return at + int(differ.argmax())
        at, step = end, step * 4
    return int(size)


def lost_of(rows: Sequence[dict[str, Any]], prompts: Sequence[Any]) -> list[int]:
    """min(n, m) less the longest match with any earlier prompt, for each row (0 for the first of a session)."""
    last: dict[str, int] = {}
    lost = []
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        q = last.get(row["session_id"])
        last[row["session_id"]] = i
        both = 0 if q is None else min(len(prompt), len(prompts[q]))
        lost.append(max(0, both - max((common(prompts[o], prompt) for o in range(i)), default=0)))
    return lost
