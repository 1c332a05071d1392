"""Causes of misses planted into sessions, from a seed: what a diagnosis has to find again.

`plant` takes conversations (generated ones, or real ones) and plants kinds of divergence, edits, compactions and forks,
each at its own rate, mixed as they come. Each row of the result is a call with its whole prompt, as the format `table`
reads it; `truth` says what was planted there first in the prompt (None: the prompt only grew).

    python -m tests.planted.planted SEED [--rate R] [--sessions N] [--out rows.jsonl]
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from traces.calls.entries import MESSAGE_TOKENS
from traces.text.messages import IMAGE_TOKENS

KINDS = (
    "clock",
    "nonce",
    "working_directory",
    "tool_schema",
    "stripped_reasoning",
    "reminder",
    "image",
    "whitespace",
    "summary",
    "edit",
    "compaction",
    "fork",
)
Message = dict[str, Any]
WORDS = [
    "parser", "lexer", "buffer", "queue", "worker", "handler", "token", "stream", "server", "client", "socket",
    "thread", "module", "package", "import", "test", "assert", "value", "index", "table", "column", "row", "query",
    "cache", "block", "prefix", "tree", "leaf", "root", "path", "node", "edge", "graph", "order", "sort", "merge",
]  # fmt: skip


class Planted(NamedTuple):
    """Rows for the format `table`, and for each the kind planted in it (None: nothing)."""

    rows: list[dict[str, Any]]
    truth: list[str | None]


class Conversation(NamedTuple):
    """What a session says: tools, the lines of its system prompt, and messages in turns (each ends with an input)."""

    tools: list[dict[str, Any]]
    system: list[str]
    turns: list[list[Message]]


class _Session:
    """A conversation as it is sent, and what is done to it."""

    def __init__(self, rng: random.Random, conversation: Conversation) -> None:
        self.rng = rng
        self.tools = copy.deepcopy(conversation.tools)
        self.system = list(conversation.system)
        self.history: list[Message] = []
        self.clock = rng.randint(1_700_000_000, 1_790_000_000)
        self.forms = {name: rng.choice(forms) for name, forms in _LINES.items()}
        self.slots: dict[str, int] = {}
        for name in rng.sample(sorted(_LINES), len(_LINES)):
            self.slots[name] = len(self.system) if rng.random() < 0.5 else rng.randint(0, len(self.system))
            for other, at in self.slots.items():
                if other != name and at >= self.slots[name]:
                    self.slots[other] += 1
            self.system.insert(self.slots[name], "")
        for name in _LINES:
            self.refresh(name)

    def refresh(self, name: str) -> None:
        """Give a volatile line another value."""
        slot = self.slots[name]
        before = self.system[slot]
        while self.system[slot] == before:
            self.clock += self.rng.randint(61, 90_000)
            self.system[slot] = self.forms[name](self.rng, self.clock)

    def prompt(self) -> dict[str, Any]:
        """The prompt's columns."""
        system = {"role": "system", "content": "\n".join(self.system) + "\n"}
        return {"tools": copy.deepcopy(self.tools), "messages": copy.deepcopy([system, *self.history])}


# the lines that change ------------------------------------------------------------------------------------------


def _when(seconds: int, form: str) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).strftime(form)


def _hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _uuid(rng: random.Random) -> str:
    return "-".join(_hex(rng, n) for n in (8, 4, 4, 4, 12))


def _some_path(rng: random.Random) -> str:
    return "/" + "/".join(rng.choice(WORDS) for _ in range(rng.randint(2, 5)))


_LINES: dict[str, tuple[Callable[[random.Random, int], str], ...]] = {
    "clock": (
        lambda _, s: f"Current date and time: {_when(s, '%Y-%m-%dT%H:%M:%SZ')}",
        lambda _, s: f"Today's date: {_when(s, '%A, %B %d, %Y')}",
        lambda _, s: f"The time is {_when(s, '%H:%M:%S')} UTC.",
        lambda _, s: f"now={s}",
        lambda _, s: f"Session clock {_when(s, '%Y/%m/%d %H:%M')}",
    ),
    "nonce": (
        lambda rng, _: f"request-id: {_uuid(rng)}",
        lambda rng, _: f"hdr: v=1; id={_hex(rng, 4)};",
        lambda rng, _: f"x-billing-header: cch={_hex(rng, 5)}",
        lambda rng, _: "run " + "".join(rng.choice("ABCDEFGHJKMNPQRSTVWXYZ0123456789") for _ in range(26)),
    ),
    "working_directory": (
        lambda rng, _: f"Working directory: {_some_path(rng)}",
        lambda rng, _: f"cwd={_some_path(rng)}",
        lambda rng, _: f"Git branch: {rng.choice(WORDS)}-{rng.choice(WORDS)}",
        lambda rng, _: f"git status: M src/{rng.choice(WORDS)}.py, ?? {rng.choice(WORDS)}.txt",
        lambda rng, _: f"HEAD is now at {_hex(rng, 7)} {rng.choice(WORDS)}",
    ),
}


# what is planted ------------------------------------------------------------------------------------------------
# Each returns where it changed the prompt, as (item, line): item -1 is the tools, 0 the system prompt, then messages.

Place = tuple[int, int] | None


def _volatile(name: str) -> Callable[[_Session], Place]:
    def change(session: _Session) -> Place:
        session.refresh(name)
        return 0, session.slots[name]

    return change


def _tool_schema(session: _Session) -> Place:
    if len(session.tools) > 1 and session.rng.random() < 0.6:
        before = list(session.tools)
        while session.tools == before:
            session.rng.shuffle(session.tools)
        return -1, 0
    if not session.tools:
        return None
    tool = session.rng.choice(session.tools)
    tool["description"] = _sentence(session.rng, tool["description"])
    return -1, 0


def _stripped_reasoning(session: _Session) -> Place:
    # The next prompt of the same turn would keep it, so there has to be some of an earlier answer.
    found = [i for i, m in enumerate(session.history) if m.get("reasoning_content")]
    for i in found:
        del session.history[i]["reasoning_content"]
    return (1 + found[0], -1) if found else None


def _reminder(session: _Session) -> Place:
    said = "<system-reminder>" + _sentence(session.rng, "") + "</system-reminder>"
    there = [i for i, m in enumerate(session.history) if "<system-reminder>" in str(m["content"])]
    if there and session.rng.random() < 0.3:
        at = session.rng.choice(there)
        del session.history[at]
        return 1 + at, 0
    if not session.history:
        return None
    at = session.rng.randrange(len(session.history))
    session.history.insert(at, {"role": "user", "content": said})
    return 1 + at, 0


def _image(session: _Session) -> Place:
    found = [i for i, m in enumerate(session.history) if isinstance(m["content"], list)]
    if not found:
        return None
    at = session.rng.choice(found)
    session.history[at]["content"][1]["image_url"]["url"] = f"data:image/png;base64,{_hex(session.rng, 64)}"
    return 1 + at, 1


def _texts(session: _Session) -> list[int]:
    return [
        i
        for i, m in enumerate(session.history)
        if isinstance(m["content"], str)
        and len(m["content"].split()) > 12
        and not m["content"].startswith("<system-reminder>")
    ]


def _whitespace(session: _Session) -> Place:
    for at in session.rng.sample(_texts(session), len(_texts(session))):
        message = session.history[at]
        try:
            value = json.loads(message["content"])
            forms = [json.dumps(value), json.dumps(value, separators=(",", ":")), json.dumps(value, indent=2)]
        except ValueError:
            text = message["content"]
            forms = [text.replace("\n", "\n\n"), text.replace("\n\n", "\n"), text.replace("\n", " \n"), text + "\n"]
            forms = [f for f in forms[:3] if f != text] or ["  " + text]
        forms = [f for f in forms if f != message["content"]]
        if forms:
            before, message["content"] = message["content"], session.rng.choice(forms)
            return 1 + at, _first_change(before, message["content"])
    return None


def _first_change(before: str, after: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(len(before), len(after))
    )


_SUMMARIES = (
    "This session is being continued from a previous conversation. ",
    "<summary>",
    "Summary of the conversation so far: ",
)


def _summary(session: _Session) -> Place:
    if len(session.history) < 6:
        return None
    said = session.rng.choice(_SUMMARIES)
    kept = session.history[-2:]
    session.history = [{"role": "user", "content": said + _paragraph(session.rng)}, *kept]
    return 1, 0


def _edit(session: _Session) -> Place:
    found = _texts(session)
    if not found:
        return None
    at = session.rng.choice(found)
    words = session.history[at]["content"].split(" ")
    spot = session.rng.randrange(max(1, len(words) - 4))
    fresh = [w for w in session.rng.sample(WORDS, 9) if w not in words[spot : spot + 5]][:4]
    words[spot : spot + 4] = fresh
    text = " ".join(words)
    before, session.history[at]["content"] = session.history[at]["content"], text
    return 1 + at, _first_change(before, text)


def _compaction(session: _Session) -> Place:
    if len(session.history) < 12:
        return None
    keep = max(1, len(session.history) // 5)
    session.history = session.history[-keep:]
    return 1, 0


PLANTS: dict[str, Callable[[_Session], Place]] = {
    "clock": _volatile("clock"),
    "nonce": _volatile("nonce"),
    "working_directory": _volatile("working_directory"),
    "tool_schema": _tool_schema,
    "stripped_reasoning": _stripped_reasoning,
    "reminder": _reminder,
    "image": _image,
    "whitespace": _whitespace,
    "edit": _edit,
    "summary": _summary,
    "compaction": _compaction,
}
"""How each kind is planted. "fork" is planted by `plant` itself: it goes back to an earlier prompt."""


def _sentence(rng: random.Random, other_than: str) -> str:
    text = other_than
    while text == other_than:
        text = " ".join(rng.choice(WORDS) for _ in range(rng.randint(6, 14)))
    return text


def _paragraph(rng: random.Random) -> str:
    return ".\n".join(_sentence(rng, "") for _ in range(rng.randint(2, 6))) + "."


# conversations --------------------------------------------------------------------------------------------------


def tower(rng: random.Random, turns: int) -> Conversation:
    """A generated conversation: tools, a system prompt, and turns of reasoning, answers, tool results and images."""
    names = rng.sample(WORDS, 5)
    tools = [
        {"name": name, "description": _sentence(rng, ""), "parameters": {"type": "object", "properties": {}}}
        for name in names
    ]
    system = [_sentence(rng, "") + "." for _ in range(rng.randint(8, 30))]
    said: list[list[Message]] = [[{"role": "user", "content": _paragraph(rng)}]]
    for _ in range(turns - 1):
        answer: Message = {"role": "assistant", "content": _paragraph(rng)}
        if rng.random() < 0.5:
            answer["reasoning_content"] = _paragraph(rng)
        given: Message = {"role": "tool", "content": _paragraph(rng)}
        drawn = rng.random()
        if drawn < 0.2:
            given["content"] = json.dumps({"result": _sentence(rng, ""), "files": rng.sample(WORDS, 12)})
        elif drawn < 0.35:
            picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_hex(rng, 64)}"}}
            given["content"] = [{"type": "text", "text": _sentence(rng, "")}, picture]
        elif drawn < 0.55:
            given = {"role": "user", "content": _paragraph(rng)}
        said.append([answer, given])
    return Conversation(tools, system, said)


def from_messages(messages: Sequence[Message]) -> Conversation:
    """A real conversation (chat messages) as turns; texts only, so that only what is planted changes."""
    system: list[str] = []
    said: list[list[Message]] = [[]]
    for message in messages:
        content = message.get("content")
        text = content if isinstance(content, str) else "".join(
            part.get("text", "") for part in content or [] if isinstance(part, dict)
        )  # fmt: skip
        if message["role"] == "system":
            system += text.splitlines()
        elif message["role"] == "assistant":
            if said[-1]:
                said.append([])
            said[-1].append({"role": "assistant", "content": text})
        else:
            said[-1].append({"role": message["role"], "content": text})
    if said[-1] and said[-1][-1]["role"] == "assistant":
        said.pop()
    return Conversation([], system, said)


def plant(seed: int, conversations: Sequence[Conversation], rates: dict[str, float]) -> Planted:
    """Plant kinds into conversations.

    Args:
        seed: of everything that is drawn.
        conversations: one a session.
        rates: by kind, the chance that a call after the first gets it (where it is possible).
    """
    rng = random.Random(f"planted {seed}")  # who drew the conversations may have had the same seed
    rows: list[dict[str, Any]] = []
    truth: list[str | None] = []
    for number, conversation in enumerate(conversations):
        session = _Session(rng, conversation)
        at = 1_790_000_000.0 + 10_000 * number
        past: list[dict[str, Any]] = []
        branched = False

        def emit(prompt: dict[str, Any], kind: str | None, number: int = number) -> None:
            nonlocal at
            at += rng.uniform(5, 60)
            rows.append({"ts": at, "end_time": at + rng.choice((2.0, 120.0)), "session_id": f"s{number}", **prompt})
            truth.append(kind)

        for turn, messages in enumerate(conversation.turns):
            places: list[tuple[Place, str]] = []
            if turn and not branched:
                for kind, change in PLANTS.items():
                    if rng.random() < rates.get(kind, 0.0):
                        places = _moved(places, kind, session, change)
            session.history += copy.deepcopy(messages)
            told = [(place, kind) for place, kind in places if place is not None]
            emit(session.prompt(), min(told)[1] if told else "fork" if branched else None)
            branched = False
            if told:
                past.clear()  # who goes back behind a change undoes it, and that is what parts the prompts then
            past.append(session.prompt())
            if len(past) > 3 and rng.random() < rates.get("fork", 0.0):
                back = copy.deepcopy(past[-rng.randint(2, 3)])
                back["messages"] += [
                    {"role": "assistant", "content": _paragraph(rng)},
                    {"role": "user", "content": _paragraph(rng)},
                ]
                emit(back, "fork")
                branched = True
    return Planted(rows, truth)


def _moved(
    places: list[tuple[Place, str]], kind: str, session: _Session, change: Callable[[_Session], Place]
) -> list[tuple[Place, str]]:
    """Plant one more kind. What rewrites the history as a whole hides what was planted in it."""
    place = change(session)
    if place is None:
        return places
    if kind in ("summary", "compaction"):
        places = [(p, k) for p, k in places if p is not None and p[0] <= 0]
    elif kind == "reminder":
        # a message put in (or taken out) before another change shifts it: the first in the prompt stays the first
        places = [(p if p is None or p[0] < place[0] else (p[0] + 1, p[1]), k) for p, k in places]
    return [*places, (place, kind)]


# what it loses --------------------------------------------------------------------------------------------------


def symbols(row: dict[str, Any], encode: Callable[[str], Any]) -> Any:
    """The prompt of a row as the format `table` counts it, token by token: int64 array."""
    parts: list[Any] = [np.asarray(encode(orjson.dumps(tool).decode()), np.int64) for tool in row["tools"]]
    for message in row["messages"]:
        parts.append(np.full(MESSAGE_TOKENS, -1 - sum(map(ord, message["role"])), np.int64))
        if message.get("reasoning_content"):
            parts.append(np.asarray(encode(message["reasoning_content"]), np.int64))
        content = message["content"]
        for part in content if isinstance(content, list) else [content]:
            if isinstance(part, str):
                parts.append(np.asarray(encode(part), np.int64))
            elif part["type"] == "text":
                parts.append(np.asarray(encode(part["text"]), np.int64))
            else:
                name = int.from_bytes(part["image_url"]["url"][-15:].encode(), "big") % (1 << 60)
                parts.append(-(1 << 61) - name + np.arange(IMAGE_TOKENS, dtype=np.int64))
    return np.concatenate(parts)


def lost_tokens(rows: Sequence[dict[str, Any]], encode: Callable[[str], Any]) -> list[int]:
    """`lost_of` the prompts as they are written."""
    return lost_of(rows, [symbols(row, encode) for row in rows])


def lost_of(rows: Sequence[dict[str, Any]], prompts: Sequence[Any]) -> list[int]:
    """min(n, m) less the longest match with anyone before, for each row (0 for the first of a session)."""
    last: dict[str, int] = {}
    lost = []
    for i, (row, prompt) in enumerate(zip(rows, prompts, strict=True)):
        q = last.get(row["session_id"])
        last[row["session_id"]] = i
        if q is None:
            lost.append(0)
            continue
        both = min(len(prompt), len(prompts[q]))
        lost.append(max(0, both - max(_common(prompts[o], prompt) for o in range(i))))
    return lost


def _common(a: Any, b: Any) -> int:
    size = min(len(a), len(b))
    differ = a[:size] != b[:size]
    return int(differ.argmax()) if differ.any() else size


# hash traces ----------------------------------------------------------------------------------------------------

HASH_KINDS = ("nonce", "edit", "compaction", "fork")
"""What can be planted where prompts are block ids. A nonce changes the first block, and so every id."""


def plant_hashes(seed: int, sessions: Sequence[Sequence[int]], rates: dict[str, float], block: int = 64) -> Planted:
    """Plant kinds into sessions of block ids, chained as engines do: behind a change no id is as it was.

    An edit or a compaction keeps less than any earlier prompt of the session has: what keeps all of one is a rewind.

    Args:
        seed: of everything that is drawn.
        sessions: per session the lengths of its prompts in blocks, growing.
        rates: by kind of `HASH_KINDS`, the chance that a call after the first gets it.
        block: tokens a block holds.
    """
    rng = random.Random(seed)
    used = 0
    rows: list[dict[str, Any]] = []
    truth: list[str | None] = []

    def fresh(count: int) -> list[int]:
        nonlocal used
        used += count
        return list(range(used - count, used))

    for number, lengths in enumerate(sessions):
        at = 1_790_000_000.0 + 100_000 * number
        ids: list[int] = []
        past: list[list[int]] = []
        before = 0
        for length in lengths:
            drawn = [kind for kind in HASH_KINDS if past and rng.random() < rates.get(kind, 0.0)]
            kind: str | None = drawn[0] if drawn else None
            least = min(map(len, past), default=0)
            if (kind in ("edit", "compaction") and least < 8) or (
                kind == "fork" and (len(past) < 3 or len(past[-1]) - len(past[-2]) < 3)
            ):
                kind = None  # within the tolerance of a block it would be an append
            if kind == "fork":
                branch = past[-2] + fresh(5)
                at += 30
                rows.append(_hash_row(rng, number, at, branch, block))
                truth.append("fork")
            elif kind == "nonce":
                ids = fresh(len(ids))
            elif kind == "edit":
                keep = rng.randint(1, least - 3)
                ids = ids[:keep] + fresh(len(ids) - keep)
            elif kind == "compaction":
                keep = rng.randint(1, least // 2 - 1)
                ids = ids[:keep] + fresh(max(1, len(ids) // 3 - keep))
            grown = max(1, length - before)
            before = length
            if kind == "compaction":
                grown = min(grown, len(past[-1]) - len(ids) - 1)
            ids = ids + fresh(max(grown, 0))
            at += 30
            rows.append(_hash_row(rng, number, at, ids, block))
            truth.append(kind)
            past.append(ids)
    return Planted(rows, truth)


def lost_hash_tokens(rows: Sequence[dict[str, Any]]) -> list[int]:
    """`lost_tokens` of rows of block ids: ids of one session never match another's."""
    past: dict[str, list[Any]] = {}
    lost = []
    for row in rows:
        prompt, earlier = np.array(row["hash_ids"]), past.setdefault(row["session_id"], [])
        both = min(len(prompt), len(earlier[-1])) if earlier else 0
        lost.append(max(0, both - max((_common(o, prompt) for o in earlier), default=0)) * row["block_size"])
        earlier.append(prompt)
    return lost


def _hash_row(rng: random.Random, number: int, at: float, ids: list[int], block: int) -> dict[str, Any]:
    return {
        "ts": at, "end_time": at + rng.choice((2.0, 120.0)), "session_id": f"s{number}", "block_size": block,
        "input_tokens": block * len(ids), "hash_ids": ids,
    }  # fmt: skip


def main() -> None:
    """Write planted rows, and what was planted, for a look by hand."""
    parser = argparse.ArgumentParser(description="Plant causes of misses from a seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--rate", type=float, default=0.05, help="of every kind")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    made = plant(
        asked.seed, [tower(rng, rng.randint(4, 40)) for _ in range(asked.sessions)], dict.fromkeys(KINDS, asked.rate)
    )
    text = "".join(json.dumps({**row, "planted": kind}) + "\n" for row, kind in zip(*made, strict=True))
    if asked.out:
        asked.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
