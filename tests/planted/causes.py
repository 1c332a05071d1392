"""What harnesses change in a prompt from call to call: what they write anew, tools, reasoning, reminders, images."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.planted.notes import REMINDERS
from tests.planted.prompts import Message, State, leaves, leaves_of, put_text, role_of
from tests.planted.words import hexes, paragraph, sentence, word


class Change(NamedTuple):
    """What was done. `arguable`: why it may fairly be called by another name ("": it may not)."""

    note: str
    arguable: str = ""


Cause = Callable[[State, random.Random], Change | None]
"""Changes a prompt, and says how; None: it could not (what it left behind is not to be used then)."""


def step_slot(kind: str) -> Cause:
    """What is written anew: a clock, a nonce or a directory that is still in the prompt gets another value."""

    def cause(state: State, r: random.Random) -> Change | None:
        own = [slot for slot in state.slots if slot.kind == kind]
        r.shuffle(own)
        for slot in own:
            old = slot.text()
            hits = [(leaf.holder, leaf.key) for leaf in leaves(state) if old in leaf.text]
            functions = [tool.get("function", tool) for tool in state.tools]
            hits += [(f, "description") for f in functions if old in str(f.get("description") or "")]
            if hits:
                slot.step(r)
                holder, key = hits[0]
                holder[key] = holder[key].replace(old, slot.text(), 1)
                return Change(f"{'tool' if key == 'description' else 'text'}: {slot.form}")
        return None

    return cause


# tools ----------------------------------------------------------------------------------------------------------


def tool_name(r: random.Random) -> str:
    made = [f"{word(r)}_{word(r)}", f"mcp__{word(r)}__{word(r)}_{word(r)}", word(r).title() + word(r).title()]
    return r.choice(made)


def new_tool(r: random.Random, style: str) -> dict[str, Any]:
    """A tool as a provider's API takes it: anthropic | responses | openai."""
    kinds = ["string", "integer", "boolean", "array"]
    takes = {word(r): {"type": r.choice(kinds), "description": sentence(r)} for _ in range(r.randint(1, 4))}
    schema: dict[str, Any] = {"type": "object", "properties": takes, "required": list(takes)[:1]}
    if r.random() < 0.3:
        schema["additionalProperties"] = False
    told = {"name": tool_name(r), "description": paragraph(r)}
    if style == "anthropic":
        return {**told, "input_schema": schema}
    if style == "responses":
        return {"type": "function", **told, "parameters": schema, "strict": False}
    return {"type": "function", "function": {**told, "parameters": schema}}


TOLD_FORMS = 5


def told_tool(r: random.Random, form: int) -> str:
    """A tool as it is written into a text, in one of `TOLD_FORMS` ways."""
    name, takes = tool_name(r), word(r)
    if form == 0:
        return (
            f"## {name}\nDescription: {paragraph(r)}\nParameters:\n- {takes}: (required) {sentence(r)}\n"
            f"Usage:\n<{name}>\n<{takes}>value here</{takes}>\n</{name}>"
        )
    if form == 1:
        return (
            f"---- BEGIN FUNCTION: {name} ----\nDescription: {paragraph(r)}\nParameters:\n"
            f"  (1) {takes} (string, required): {sentence(r)}\n---- END FUNCTION ----"
        )
    if form == 2:
        return json.dumps(new_tool(r, "openai"))
    if form == 3:
        schema = {"type": "object", "properties": {takes: {"type": "string"}}}
        told = json.dumps({"name": name, "description": sentence(r), "parameters": schema})
        return f"<function>{told}</function>"
    return f"{name}: {sentence(r)} Args: {takes} (str)"


def tool_schema(state: State, r: random.Random) -> Change | None:
    """One change of the tools, of those written into a text or of those sent beside the messages."""
    if state.told and (not state.tools or r.random() < 0.5):
        for leaf in leaves(state):
            if state.told.block() in leaf.text:
                return _told_tools(state, leaf.holder, leaf.key, r)
    return _tools(state.tools, r) if state.tools else None


def _told_tools(state: State, holder: dict[str, Any], key: str, r: random.Random) -> Change | None:
    told = state.told
    assert told is not None
    items, how = list(told.items), r.choice(["add", "remove", "swap", "description", "add first"])
    if how in ("add", "add first"):
        items.insert(r.randint(0, len(items)) if how == "add" else 0, told_tool(r, told.form))
    elif how == "remove" and len(items) > 1:
        items.pop(r.randrange(len(items)))
    elif how == "swap" and len(items) > 1:
        i, j = r.sample(range(len(items)), 2)
        items[i], items[j] = items[j], items[i]
    else:
        i = r.randrange(len(items))
        words = re.findall(r"[A-Z][a-z]+ [a-z]+ [a-z]+", items[i])
        if not words:
            return None
        items[i] = items[i].replace(r.choice(words), sentence(r, 4)[:-1], 1)
    state.told = told._replace(items=items)
    holder[key] = holder[key].replace(told.block(), state.told.block(), 1)
    return Change(f"told tools: {how}")


_TOOL_CHANGES = [
    "shuffle", "swap", "add", "add", "append", "remove", "description", "parameter", "less_parameters", "required",
    "enum", "parameter_description", "rename",
]  # fmt: skip


def _tools(tools: list[dict[str, Any]], r: random.Random) -> Change | None:
    style = "anthropic" if "input_schema" in tools[0] else "responses" if "parameters" in tools[0] else "openai"
    how, i = r.choice(_TOOL_CHANGES), r.randrange(len(tools))
    function = tools[i].get("function", tools[i])
    schema = function.get("input_schema") or function.get("parameters") or {}
    takes = schema.get("properties") or {}
    if how == "shuffle":
        r.shuffle(tools)
    elif how == "swap" and len(tools) > 1:
        j = r.randrange(len(tools))
        tools[i], tools[j] = tools[j], tools[i]
    elif how == "add":
        tools.insert(r.randint(0, len(tools)), new_tool(r, style))
    elif how == "append":
        tools += [new_tool(r, style) for _ in range(r.randint(1, 4))]
    elif how == "remove" and len(tools) > 1:
        tools.pop(i)
    elif how == "description" and isinstance(function.get("description"), str):
        old = function["description"]
        made = [old + " " + sentence(r), paragraph(r), old.replace(" ", f" {word(r)} ", 1)]
        function["description"] = r.choice(made)
    elif how == "parameter" and takes:
        takes[word(r) + "_new"] = {"type": "string", "description": sentence(r)}
    elif how == "less_parameters" and len(takes) > 1:
        takes.pop(r.choice(list(takes)))
    elif how == "required" and takes:
        schema["required"] = [name for name in takes if r.random() < 0.5]
    elif how == "enum" and takes:
        takes[r.choice(list(takes))]["enum"] = [word(r), word(r)]
    elif how == "parameter_description" and takes:
        takes[r.choice(list(takes))]["description"] = sentence(r)
    elif how == "rename":
        function["name"] = tool_name(r)
    else:
        return None
    return Change(f"tools: {how}")


# reasoning ------------------------------------------------------------------------------------------------------

_THINK = re.compile(r"<(think|thinking|thought)>.*?</\1>\n*", re.DOTALL)
_THINKING = ("thinking", "redacted_thinking")


def _reasoning_of(message: Message) -> str:
    """Where a message holds reasoning: field | item | block | tag ("": it has none)."""
    content = message.get("content")
    if isinstance(message.get("reasoning_content"), str) or isinstance(message.get("reasoning"), str):
        return "field"
    if message.get("type") == "reasoning":
        return "item"
    if isinstance(content, list) and any(isinstance(b, dict) and b.get("type") in _THINKING for b in content):
        return "block"
    if message.get("role") == "assistant" and any(_THINK.search(leaf.text) for leaf in leaves_of([message])):
        return "tag"
    return ""


def stripped_reasoning(state: State, r: random.Random) -> Change | None:
    """Reasoning of earlier answers is no longer sent: all of it, all but the last, some, one; or it is left empty."""
    spots = [(at, where) for at, message in enumerate(state.messages) if (where := _reasoning_of(message))]
    if not spots:
        return None
    how = r.choice(["all", "all", "but the last", "some", "one", "emptied"] if state.hard else ["all", "one"])
    if how == "but the last":
        spots = spots[:-1]
    elif how == "some":
        spots = [spot for spot in spots if r.random() < 0.5]
    elif how == "one":
        spots = [r.choice(spots)]
    for at, where in spots:
        message = state.messages[at]
        if where == "field":
            message.pop("reasoning_content", None)
            message.pop("reasoning", None)
        elif where == "block":
            left = [b for b in message["content"] if not (isinstance(b, dict) and b.get("type") in _THINKING)]
            message["content"] = left or message["content"]
        elif where == "tag":
            for leaf in leaves_of([message]):
                said = _THINK.sub("<think>\n\n</think>\n\n" if how == "emptied" else "", leaf.text)
                if said.strip():
                    leaf.put(said)
    for at, where in reversed(spots):
        if where == "item":
            state.messages.pop(at)
    return Change(f"{how}: {spots[0][1] if spots else ''}")


# reminders ------------------------------------------------------------------------------------------------------


def reminder(state: State, r: random.Random) -> Change | None:
    """A reminder is put in anywhere, or one that was put in is taken out or moved to the end."""
    if not state.reminders or r.random() >= 0.5:
        return put_reminder(state, r, r.choice(REMINDERS)(r))
    said = state.reminders.pop(r.randrange(len(state.reminders)))
    for leaf in leaves(state):
        if said in leaf.text:
            forms = ("\n\n" + said, "\n" + said, said + "\n\n", said + "\n", said)
            left = leaf.text.replace(next(form for form in forms if form in leaf.text), "", 1)
            if left.strip():
                leaf.put(left)
                out = "out of a text"
            elif state.messages[leaf.message] is leaf.holder:
                state.messages.pop(leaf.message)
                out = "a message out"
            else:
                content = state.messages[leaf.message].get("content")
                blocks = content if isinstance(content, list) else []
                found = [i for i, block in enumerate(blocks) if block is leaf.holder]
                if not found or len(blocks) < 2:
                    return None
                blocks.pop(found[0])
                return Change("a block out")
            if r.random() < 0.3:
                put_reminder(state, r, said, last=True)
            return Change(out)
    return None


def put_reminder(state: State, r: random.Random, said: str, last: bool = False) -> Change | None:
    """Put a reminder into an input (`last`: the last) as text, block or message, or into the system prompt."""
    messages, tag = state.messages, said[:22].replace("\n", " ")
    state.reminders.append(said)
    inputs = [i for i, m in enumerate(messages) if role_of(m) in ("user", "tool")]
    if not inputs:
        return None
    if state.hard and not last and state.head["content"] and r.random() < 0.2:
        put_text(r, leaves(state)[0], said)
        return Change(f"into the system prompt: {tag}")
    at = inputs[0] if r.random() < 0.25 else r.choice(inputs)
    at = inputs[-1] if last else at
    message, how = messages[at], r.choice(["text", "block", "message"])
    content = message.get("content")
    if how == "message" and not last and message.get("role") == "user" and isinstance(content, str):
        role = r.choice(["user", "user", "system", "developer"])
        messages.insert(at + r.choice([0, 1]), {"role": role, "content": said})
        return Change(f"a message: {tag}")
    if how == "block" and isinstance(content, list):
        kind = "input_text" if message.get("type") == "message" else "text"
        content.insert(r.choice([0, len(content)]), {"type": kind, "text": said})
        return Change(f"a block: {tag}")
    found = leaves_of([message])
    if not found:
        return None
    where = put_text(r, r.choice(found), said, r.choice(["start", "end", "end", "middle"] if state.hard else ["end"]))
    return Change(f"text {where}: {tag}")


# images ---------------------------------------------------------------------------------------------------------


def image(state: State, r: random.Random) -> Change | None:
    """Images become a note, are left out, or get another signature in their address."""
    spots = []
    for message in state.messages:
        content = message.get("content")
        lists = [content] if isinstance(content, list) else []
        lists += [
            b["content"] for b in list(content or []) if isinstance(b, dict) and isinstance(b.get("content"), list)
        ]
        for blocks in lists:
            for at, block in enumerate(blocks):
                if isinstance(block, dict) and block.get("type") in ("image", "image_url", "input_image"):
                    spots.append((blocks, at))
    if not spots:
        return None
    r.shuffle(spots)
    how = r.choice(
        ["placeholder", "drop", "all", "signature"] if state.written == "messages" else ["placeholder", "all"]
    )
    if how == "signature":
        return _signed_anew(spots, r)
    for blocks, at in sorted(spots, key=lambda spot: -spot[1]) if how == "all" else spots[:1]:
        if how == "drop" and len(blocks) > 1:
            blocks.pop(at)
        else:
            kind = next((b.get("type") for b in blocks if isinstance(b, dict) and "text" in b), "text")
            blocks[at] = {"type": kind, "text": state.image_gone}
    return Change(how)


def _signed_anew(spots: list[tuple[list[Any], int]], r: random.Random) -> Change | None:
    for blocks, at in spots:
        flat = isinstance(blocks[at].get("image_url"), str)
        holder, key = (
            (blocks[at], "image_url") if flat else (blocks[at].get("image_url") or blocks[at].get("source"), "url")
        )
        url = (holder or {}).get(key)
        if url and url.startswith("http"):
            date = f"20250{r.randint(100, 999)}T{r.randint(100000, 235959)}Z"
            holder[key] = f"{url.split('?')[0]}?X-Amz-Date={date}&X-Amz-Signature={hexes(r, 64)}"
            return Change("signature")
    return None
