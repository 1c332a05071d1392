"""Sessions to plant into: towers of any provider's messages, and the public conversations beside the checkout."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.places import SHARED
from tests.planted.causes import new_tool
from tests.planted.notes import SYSTEMS
from tests.planted.prompts import Message, leaves_of
from tests.planted.rewrites import head_length
from tests.planted.words import hexes, letters, paragraph, path, record, result, sentence, task, word

TRACES = SHARED / "traces"
LONGEST = 9000
"""Characters that are kept of a text of a real conversation."""


class Session(NamedTuple):
    """What a session says: groups of messages, each what one more prompt adds (an answer, and what came after it)."""

    style: str
    system: str
    tools: list[dict[str, Any]]
    groups: list[list[Message]]
    generated: bool


# towers ---------------------------------------------------------------------------------------------------------

STYLES = ("openai", "anthropic", "text", "responses")


def tower(r: random.Random, prompts: int, style: str = "") -> Session:
    """A generated session of `prompts` prompts."""
    style = style or r.choice(STYLES)
    field = r.choice(["", "reasoning_content", "reasoning_content", "reasoning"])
    if style != "openai":
        field = "reasoning_content" if r.random() < 0.6 else ""
    groups = steps(r, style, field, style != "text" and r.random() < 0.6, prompts)
    said = [
        r.choice([paragraph(r), f"# {sentence(r, 3)}\n{paragraph(r)}", f"- {sentence(r)}\n- {sentence(r)}"])
        for _ in range(r.randint(1, 8))
    ]
    tools = []
    if style != "text" and r.random() < 0.85:
        tools = [new_tool(r, style) for _ in range(r.randint(2, 8))]
    return Session(style, r.choice(SYSTEMS) + "\n\n" + "\n\n".join(said), tools, groups, True)


def steps(r: random.Random, style: str, field: str, images: bool, prompts: int) -> list[list[Message]]:
    """Groups of messages. `field` names where an answer of chat messages holds its reasoning ("": nowhere)."""
    groups = [[_user(r, style, images)]]
    calls = 0
    for _ in range(prompts - 1):
        final = r.random() < 0.25
        group: list[Message] = []
        for _ in range(2 if not final and r.random() < 0.1 else 1):
            calls += 1
            group += _ANSWERS[style](r, field, images, final, calls)
        groups.append([*group, _user(r, style, images)] if final else group)
    return groups


def _user(r: random.Random, style: str, images: bool) -> Message:
    said, pictured = task(r), images and r.random() < 0.3
    if style == "responses":
        content = [{"type": "input_text", "text": said}] + ([_image(r, style)] if pictured else [])
        return {"type": "message", "role": "user", "content": content}
    if pictured:
        blocks = [{"type": "text", "text": said}, _image(r, style)]
        r.shuffle(blocks)
        return {"role": "user", "content": blocks}
    in_blocks = style == "anthropic" and r.random() < 0.6
    return {"role": "user", "content": [{"type": "text", "text": said}] if in_blocks else said}


def _image(r: random.Random, style: str) -> dict[str, Any]:
    data = base64.b64encode(r.randbytes(r.choice([90, 600, 3000]))).decode()
    url = f"https://bucket.s3.amazonaws.com/{word(r)}/{hexes(r, 8)}.png?X-Amz-Signature={hexes(r, 64)}"
    if style == "anthropic":
        held = {"type": "base64", "media_type": "image/png", "data": data}
        return {"type": "image", "source": held if r.random() < 0.6 else {"type": "url", "url": url}}
    told = url if r.random() < 0.5 else f"data:image/png;base64,{data}"
    if style == "responses":
        return {"type": "input_image", "image_url": told}
    return {"type": "image_url", "image_url": {"url": told, "detail": "auto"}}


def _thought(r: random.Random, field: str) -> str:
    if not field or r.random() >= 0.8:
        return ""
    return "\n".join(paragraph(r) for _ in range(r.randint(1, 3)))


def _said(r: random.Random, final: bool) -> str:
    return paragraph(r) if final or r.random() < 0.6 else ""


def _arguments(r: random.Random) -> dict[str, Any]:
    return {"path": path(r), "cmd": sentence(r, 4), **(record(r, 1) if r.random() < 0.4 else {})}


def _text_answer(r: random.Random, field: str, images: bool, final: bool, number: int) -> list[Message]:
    thought, said = _thought(r, field), _said(r, final) or "Ok."
    actions = [
        f"\n```bash\n{word(r)} {path(r)}\n```",
        f"\n<execute>{word(r)} {path(r)}</execute>",
        f"\nDISCUSSION\n{sentence(r)}\n```\nopen {path(r)}\n```",
    ]
    text = (f"<think>\n{thought}\n</think>\n\n" if thought else "") + said + ("" if final else r.choice(actions))
    answer = {"role": "assistant", "content": text}
    seen = {"role": "user", "content": r.choice(["", "OBSERVATION:\n", "Observation: "]) + result(r)}
    return [answer] if final else [answer, seen]


def _openai_answer(r: random.Random, field: str, images: bool, final: bool, number: int) -> list[Message]:
    thought, said = _thought(r, field), _said(r, final)
    answer: Message = {"role": "assistant", **({field: thought} if thought else {}), "content": said or None}
    if final:
        return [answer]
    arguments = json.dumps(_arguments(r), ensure_ascii=r.random() < 0.5)
    function = {"name": word(r), "arguments": arguments}
    answer["tool_calls"] = [{"id": f"call_{number:04d}", "type": "function", "function": function}]
    content: Any = result(r)
    if images and r.random() < 0.25:
        content = [{"type": "text", "text": content}, _image(r, "openai")]
    return [answer, {"role": "tool", "tool_call_id": f"call_{number:04d}", "content": content}]


def _anthropic_answer(r: random.Random, field: str, images: bool, final: bool, number: int) -> list[Message]:
    thought, said = _thought(r, field), _said(r, final)
    blocks: list[dict[str, Any]] = []
    if thought and r.random() < 0.9:
        blocks.append({"type": "thinking", "thinking": thought, "signature": letters(r, 60)})
    elif thought:
        blocks.append({"type": "redacted_thinking", "data": letters(r, 200)})
    if said:
        blocks.append({"type": "text", "text": said})
    answer = {"role": "assistant", "content": blocks}
    if final:
        return [answer]
    call = f"call_{number:04d}"
    blocks.append({"type": "tool_use", "id": call, "name": word(r), "input": _arguments(r)})
    content: Any = result(r)
    if images and r.random() < 0.3:
        content = [{"type": "text", "text": content}, _image(r, "anthropic")]
    elif r.random() < 0.3:
        content = [{"type": "text", "text": content}]
    return [answer, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": content}]}]


def _responses_answer(r: random.Random, field: str, images: bool, final: bool, number: int) -> list[Message]:
    thought, said = _thought(r, field), _said(r, final)
    items: list[Message] = []
    if thought:
        told = [{"type": "summary_text", "text": thought}] if r.random() < 0.6 else []
        items.append({"type": "reasoning", "id": f"rs_{number}", "summary": told, "encrypted_content": letters(r, 300)})
    if said:
        items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": said}]})
    if final:
        return items
    call, arguments = f"call_{number:04d}", json.dumps(_arguments(r))
    items.append({"type": "function_call", "call_id": call, "name": word(r), "arguments": arguments})
    return [*items, {"type": "function_call_output", "call_id": call, "output": result(r)}]


_ANSWERS = {
    "openai": _openai_answer,
    "anthropic": _anthropic_answer,
    "text": _text_answer,
    "responses": _responses_answer,
}


# real conversations ---------------------------------------------------------------------------------------------


def _grouped(messages: list[Message], tools: list[dict[str, Any]] | None = None, system: str = "") -> Session | None:
    """Messages in groups, long texts cut; None: too few prompts."""
    kept = []
    for message in json.loads(json.dumps([m for m in messages if m.get("role") or m.get("type")])):
        if message.get("role") and not any(message.get(k) for k in ("content", "tool_calls", "reasoning_content")):
            continue
        for leaf in leaves_of([message]):
            leaf.put(leaf.text[:LONGEST])
        kept.append(message)
    at = head_length(kept)
    while at < len(kept) and kept[at].get("role") == "user":
        at += 1
    groups = [kept[:at]]
    group: list[Message] = []
    for message in kept[at:]:
        if message.get("role") == "assistant" and group and group[-1].get("role") != "assistant":
            groups.append(group)
            group = []
        group.append(message)
    groups += [group] if group else []
    if len(groups) <= 3 or sum(map(len, groups)) <= 5:
        return None
    own = ("tool_use", "tool_result", "thinking")
    contents = [m["content"] for m in kept if isinstance(m.get("content"), list)]
    anthropic = any(isinstance(b, dict) and b.get("type") in own for content in contents for b in content)
    return Session("anthropic" if anthropic else "openai", system, tools or [], groups, False)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def _claude_code(path: Path) -> list[Message]:
    messages: list[Message] = []
    last = None
    for line in _lines(path):
        said = line.get("message")
        if line.get("isSidechain") or line.get("type") not in ("user", "assistant") or not isinstance(said, dict):
            continue
        if "content" not in said:
            continue
        content = said["content"]
        if messages and said.get("id") and said["id"] == last and isinstance(content, list):
            messages[-1]["content"] = messages[-1]["content"] + content  # an answer is logged block by block
            continue
        last = said.get("id")
        messages.append({"role": said["role"], "content": content})
    return messages


def _atif(trajectory: dict[str, Any]) -> list[Message]:
    messages: list[Message] = []
    for step in trajectory["steps"]:
        role = "assistant" if step["source"] == "agent" else step["source"]
        message: Message = {"role": role, "content": step.get("message") or "ok"}
        if step.get("reasoning_content"):
            message["reasoning_content"] = step["reasoning_content"]
        calls = [
            (call["tool_call_id"], {"name": call["function_name"], "arguments": json.dumps(call["arguments"])})
            for call in step.get("tool_calls") or []
        ]
        if calls:
            message["tool_calls"] = [{"id": name, "type": "function", "function": f} for name, f in calls]
        messages.append(message)
        seen = (step.get("observation") or {}).get("results", [])
        messages += [{"role": "tool" if calls else "user", "content": o["content"]} for o in seen if o.get("content")]
    return messages


@cache
def public() -> list[Session]:
    """The public conversations that are beside the checkout, of eight programs' formats; none where they are not."""
    return [session for session in _read() if session is not None]


def _read() -> Iterator[Session | None]:
    for file in sorted(TRACES.glob("openai_messages_sft/swesmith_ft_xml.head2.jsonl")):
        yield from (_grouped(line["messages"]) for line in _lines(file))
    for file in sorted(TRACES.glob("swe_agent_traj/*.traj")):
        history = [step for step in json.loads(file.read_text("utf-8"))["history"] if not step.get("is_demo")]
        yield _grouped([{k: s[k] for k in ("role", "content", "tool_calls") if s.get(k)} for s in history])
    tools: list[dict[str, Any]] = []
    for file in sorted(TRACES.glob("openhands_llm_logs/*.json"))[-1:]:
        log = json.loads(file.read_text("utf-8"))
        tools = log.get("tools") or log["kwargs"].get("tools") or []
        yield _grouped(log["messages"], tools)
    for file in sorted(TRACES.glob("tau_bench/tb_airline.json")):
        said = json.loads(file.read_text("utf-8"))["traj"]
        yield _grouped([{k: v for k, v in message.items() if v is not None} for message in said], tools)
    for file in sorted(TRACES.glob("mini_swe_agent/*.json")):
        told = json.loads(file.read_text("utf-8"))
        said = told["messages"] if isinstance(told, dict) else told
        yield _grouped([{"role": message["role"], "content": message["content"]} for message in said])
    for file in sorted(TRACES.glob("claude_code/*/*.jsonl")):
        yield _grouped(_claude_code(file), None, SYSTEMS[0])
    for file in sorted(TRACES.glob("atif/*.json")):
        yield _grouped(_atif(json.loads(file.read_text("utf-8"))), tools)
    for file in [
        *sorted(TRACES.glob("anthropic_messages/*.pairs.jsonl")),
        *sorted(TRACES.glob("openai_chat/*.pairs.jsonl")),
    ]:
        requests = [line["request"] for line in _lines(file) if isinstance(line.get("request"), dict)]
        longest: dict[str, Any] = max(requests, key=lambda request: len(request.get("messages") or []), default={})
        yield _grouped(longest.get("messages") or [], longest.get("tools"))
