"""Real conversations rewritten with transitions whose names are known by construction."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

PLANTS = ("retry", "rewind", "fork", "compaction", "edit", "system change", "sub-agent start", "model switch", "tail")

Row = tuple[dict[str, Any], str]


def conversations(paths: list[Path]) -> list[list[dict[str, str]]]:
    """Role and text of the messages in files of chat messages or of Claude Code, each of at least six messages."""
    found = []
    for path in paths:
        session: list[dict[str, str]] = []
        for line in path.read_text("utf-8").splitlines():
            record = json.loads(line)
            if "messages" in record:
                found.append([{"role": m["role"], "content": str(m["content"])} for m in record["messages"]])
            message = record.get("message")
            if isinstance(message, dict) and record.get("type") in ("user", "assistant"):
                said = message.get("content")
                text = said if isinstance(said, str) else json.dumps(said)
                if session and session[-1]["role"] == message["role"]:
                    session[-1]["content"] += "\n" + text
                else:
                    session.append({"role": message["role"], "content": text})
        found.append(session)
    return [[m for m in session if m["role"] != "system"] for session in found if len(session) >= 6]


def _size(items: list[dict[str, str]]) -> int:
    return sum(len(item["content"]) for item in items)


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


class Planter:
    """Writes sessions of one seed. `rows`: (row of a table of logged calls, label) in order of arrival."""

    def __init__(self, told: list[list[dict[str, str]]], seed: int) -> None:
        """Sessions are drawn from the conversations `told`."""
        self.told, self.random = told, random.Random(seed)
        self.rows: list[Row] = []
        self.clock = 0.0
        self.model = "model-a"
        self.systems: list[str] = []

    def _nonce(self, words: int = 12) -> str:
        return " ".join(f"{self.random.getrandbits(40):x}" for _ in range(words))

    def _send(
        self, session: str, items: list[dict[str, str]], label: str, lasts: float = 2.0, gap: float = 30.0
    ) -> None:
        self.clock += gap
        tokens = {
            "prompt_tokens": max(1, _size(items) // 4),
            "completion_tokens": 20 if label == "side request" else 300,
        }
        row = {"ts": self.clock, "session_id": session, "model": self.model, "duration_s": lasts, "usage": tokens}
        self.rows.append(({**row, "messages": [dict(item) for item in items]}, label))

    def session(self, name: str, rate: float) -> None:
        """One session: a conversation's turns, before each with chance `rate` a transition."""
        warm = bool(self.systems) and self.random.random() < 0.5
        system = self.random.choice(self.systems) if warm else f"{self._nonce()} You are an agent. {self._nonce(300)}"
        self.systems.append(system)
        self.model = "model-a"
        talk = self.random.choice(self.told)
        start = self.random.randrange(max(1, len(talk) // 2))
        talk = talk[start : start + 60]
        while talk and talk[0]["role"] == "assistant":
            talk = talk[1:]
        items = [{"role": "system", "content": system}]
        prompts: list[list[dict[str, str]]] = []
        reminder = False
        for index, message in enumerate(talk):
            if message["role"] == "assistant" and index:
                label = "append" if prompts else "warm start" if warm else "cold start"
                plant = self.random.choice(PLANTS) if len(prompts) >= 3 and self.random.random() < rate else ""
                if reminder:
                    label, plant, reminder = "tail", "", False
                elif plant:
                    items, label = self._planted(plant, name, items, prompts)
                sent = list(items)
                if plant == "tail" and _size(items) > 40_000:
                    sent, reminder = [*items, _user(f"note {self._nonce(8)}")], True
                self._send(name, sent, label)
                prompts.append(list(items))
            items = [*items, message]
        if self.random.random() < 0.5:
            self._send(
                f"{name}-title", [_user(f"{self._nonce()} Name this talk: {talk[0]['content'][:200]}")], "side request"
            )

    def _planted(
        self, plant: str, name: str, items: list[dict[str, str]], prompts: list[list[dict[str, str]]]
    ) -> tuple[list[dict[str, str]], str]:
        """The items to send next and their label, after what the plant sends before them."""
        last = prompts[-1]
        if plant == "retry":
            self._send(name, last, "retry", gap=5.0)
        elif plant == "rewind":
            back = self.random.choice(prompts[:-1])
            return [*back, {"role": "assistant", "content": self._nonce(30)}, _user(self._nonce(40))], "rewind"
        elif plant == "fork":
            self._send(name, items, "append", lasts=60.0)
            self._send(
                name,
                [*last, {"role": "assistant", "content": self._nonce(30)}, _user(self._nonce(40))],
                "fork",
                gap=5.0,
            )
            return [*items, {"role": "assistant", "content": self._nonce(20)}, _user(self._nonce(20))], "append"
        elif plant == "compaction" and _size(last) > 12_000:
            return [items[0], _user(f"Summary: {self._nonce(60)}"), items[-1]][
                : 3 if _size(items[-1:]) < 4000 else 2
            ], ("compaction")
        elif plant == "edit":
            place = self.random.randrange(1, max(2, len(last) // 2))
            changed = {**items[place], "content": f"{self._nonce(6)} {items[place]['content']} {self._nonce(40)}"}
            return [*items[:place], changed, *items[place + 1 :]], "edit"
        elif plant == "system change":
            head = items[0]["content"]
            middle = len(head) // 2
            return [{**items[0], "content": f"{head[:middle]} {self._nonce(30)} {head[middle:]}"}, *items[1:]], plant
        elif plant == "sub-agent start":
            inner = [{"role": "system", "content": f"{self._nonce()} You are a sub-agent."}, _user(self._nonce(150))]
            for turn in range(self.random.randint(1, 4)):
                self._send(name, inner, "append" if turn else plant)
                inner = [*inner, {"role": "assistant", "content": self._nonce(30)}, _user(self._nonce(60))]
        elif plant == "model switch":
            self.model = "model-b" if self.model == "model-a" else "model-a"
            return items, plant
        return items, "append"
