"""The three what-ifs of each kind of divergence against inputs that were really changed and ingested again."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from analysis.store.question import Question
from analysis.store.warehouse import open_dataset
from analysis.why.divergences import divergences
from tests.planted.prompts import State, Tokens, common
from traces.intake.ingest import Options, ingest
from traces.text.messages import serialise

BLOCK = 8
FACTS = [f"fact {i}: the {i * 7919 % 1000} of it stays as it is and where it is\n" for i in range(60)]
VALUES: dict[str, tuple[str | None, ...]] = {
    "clock": (
        "Current time: 2026-03-03T10:00:00Z\n",
        "Current time: 2026-03-04T11:30:17Z\n",
        "Current time: 9:15 PM\n",
    ),
    "nonce": ("request-id: 7f3a91c2\n", "request-id: 00be1d44a7\n", "request-id: c4\n"),
    "working_directory": ("cwd: /home/ana/shop\n", "cwd: /tmp/shop-2\n", "cwd: /home/ana/another/place\n"),
    "tool_schema": ("reads a file", "reads a file or a part of it", "opens files"),
    "stripped_reasoning": ("First I look at what there is, then I change it.", None),
    "reminder": (None, "<system-reminder>Keep the list of tasks.</system-reminder>"),
    "image": ("aaaa" * 20, "bbbb" * 20, "cccc" * 20),
    "whitespace": (
        '{"ok": true, "lines": [1, 2, 3], "name": "parser"}\n',
        '{"ok":true,"lines":[1,2,3],"name":"parser"}\n',
    ),
    "summary": (
        "Find the bug in the lexer and mend it.\n",
        "<summary>The bug was found in line 12.</summary>\n",
        "<summary>All tests of the parser pass since then, but for two.</summary>\n",
    ),
}
"""What takes turns at the changing place, by kind; None: nothing is there."""


def prompt(kind: str, value: str | None, turns: int, last: str | None) -> dict[str, Any]:
    """A prompt with `value` at the changing place, and `last` at the end of it all."""
    system, first, second = [FACTS[0], FACTS[1]], [FACTS[2]], [FACTS[3]]
    answer: dict[str, Any] = {"role": "assistant"}
    given: list[Any] = []
    tools: list[Any] = []
    injected: list[Any] = []
    if kind in ("clock", "nonce", "working_directory"):
        system.insert(1, value or "")
    elif kind == "tool_schema":
        tools = [tool(value)] if value else []
    elif kind == "stripped_reasoning" and value:
        answer["reasoning_content"] = value
    elif kind == "reminder" and value:
        injected = [{"role": "developer", "content": value}]
    elif kind == "image" and value:
        given = [picture(value)]
    elif kind == "whitespace":
        second.insert(0, value or "")
    elif kind == "summary":
        first.insert(0, value or "")
    answer["content"] = "".join(FACTS[4:7])
    messages = [
        {"role": "system", "content": "".join(system)},
        {"role": "user", "content": "".join(first)},
        *injected,
        answer,
        {"role": "tool", "content": [*given, {"type": "text", "text": "".join(second)}]},
    ]
    messages += [{"role": "user", "content": "".join(FACTS[30 + i : 32 + i])} for i in range(turns)]
    if last is not None and kind == "reminder":
        # framed as no other message is: what two prompts share by chance behind a moved text, the tree cannot know
        messages.append({"role": "developer", "content": last})
    elif last is not None:
        text = serialise(tool(last)) if kind == "tool_schema" else last
        moved = picture(last) if kind == "image" else {"type": "text", "text": text}
        messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]}, moved]
    return {"tools": tools, "messages": messages}


def tool(description: str) -> dict[str, Any]:
    return {"name": "read", "description": description, "parameters": {"type": "object"}}


def picture(data: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def asked(folder: Path, name: str, rows: list[dict[str, Any]]) -> Any:
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / f"{name}.jsonl")], folder / name, Options(tokenizer="bytes"))
    return open_dataset(folder / name)


def ceiling(rows: list[dict[str, Any]]) -> float:
    tokens = Tokens("bytes")
    prompts = [tokens.of(State({"content": ""}, row["tools"], row["messages"])) for row in rows]
    matches = [max((common(mine, other) for other in prompts[:i]), default=0) for i, mine in enumerate(prompts)]
    hits = sum(match // BLOCK * BLOCK for match in matches)
    return hits / sum(map(len, prompts))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", VALUES)
def test_what_ifs_of_each_kind_equal_changed_inputs(tmp_path: Path, kind: str, seed: int) -> None:
    rng = random.Random(seed)
    pool = VALUES[kind]
    values = [pool[0], pool[1], *(rng.choice(pool) for _ in range(6))]
    if kind == "summary":  # what was summarised does not come back
        values = sorted(values, key=pool.index)
    fixed = next(value for value in values if value is not None)

    def rows(*values: tuple[str | None, str | None]) -> list[dict[str, Any]]:
        return [
            {"ts": t, "session_id": "s", **prompt(kind, *value[:1], t + 1, value[1])} for t, value in enumerate(values)
        ]

    there = asked(tmp_path, "there", rows(*((value, None) for value in values)))
    (found,) = (row for row in divergences(there, Question(block_size=BLOCK)) if row["kind"] == kind)
    changed = {
        "what_if_removed": rows(*((None, None) for _ in values)),
        "what_if_constant": rows(*((fixed, None) for _ in values)),
        "what_if_moved_to_end": rows(*((None, value) for value in values)),
    }
    for name, made in changed.items():
        again = asked(tmp_path, name, made)
        rate = again.query("hit_rate", Question(block_size=BLOCK))["ceiling"][0]
        assert rate == pytest.approx(ceiling(made)), name
        assert found[name] == pytest.approx(rate), name
