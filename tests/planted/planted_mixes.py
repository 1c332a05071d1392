"""A second, independent planter: other wordings, other shapes of prompts, several causes at once, from a seed.

Where tests.planted.planted plants one wording a line, this one draws from tests.planted.planted_texts, puts what
changes into system
prompts, first messages or anywhere, and writes each session as chat messages, as blocks of content, or as one text.
What was planted first is not reckoned but seen: each cause is tried alone, and the one that parts the prompts earliest
is the truth; where two part them at the same token nothing is planted.

    python -m tests.planted.planted_mixes SEED [--rate R] [--sessions N] [--out rows.jsonl]
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

from tests.planted import planted_texts as texts
from tests.planted.planted import KINDS, Planted
from tests.planted.planted_prompts import DIALECTS, TOOL_FORMS, Item, State, symbols, written

Change = Callable[[random.Random, State], bool]


def _of_role(state: State, *roles: str, least: int = 40, last: bool = True) -> list[int]:
    """Items of these roles with a text of some length that nothing was put into by a harness."""
    stop = len(state.items) - (not last)
    return [
        i
        for i, item in enumerate(state.items[:stop])
        if item.role in roles and len(item.text) >= least and not item.made
    ]


# causes: each changes the state and says whether it could ------------------------------------------------------------


def _volatile(name: str) -> Change:
    def change(rng: random.Random, state: State) -> bool:
        state.slots[name] = _other(state.slots[name], lambda: state.forms[name](rng))
        return True

    return change


def _other(before: Any, make: Callable[[], Any]) -> Any:
    while True:
        made = make()
        if made != before:
            return made


def _tool_schema(rng: random.Random, state: State) -> bool:
    tools = state.tools
    if len(tools) < 2:
        return False
    drawn = rng.random()
    tool = rng.choice(tools)
    if drawn < 0.35:
        state.tools = _other(tools, lambda: rng.sample(tools, len(tools)))
    elif drawn < 0.5:
        tool["parameters"]["properties"][f"extra_{texts.hexes(rng, 3)}"] = {"type": rng.choice(("string", "integer"))}
    elif drawn < 0.65:
        tool["description"] = _other(tool["description"], lambda: texts.sentence(rng))
    elif drawn < 0.85:
        tools.insert(rng.randint(0, len(tools)), new_tool(rng))
    else:
        tools.remove(tool)
    return True


def _stripped_reasoning(rng: random.Random, state: State) -> bool:
    found = [item for item in state.items if item.reasoning]
    if not found:
        return False
    for item in found if rng.random() < 0.7 else found[: rng.randint(1, len(found))]:
        item.reasoning = ""
        item.emptied = state.empties
    return True


def _reminder(rng: random.Random, state: State) -> bool:
    there = [i for i, item in enumerate(state.items) if item.made == "reminder"]
    drawn = rng.random()
    if there and drawn < 0.25:
        del state.items[rng.choice(there)]
        return True
    if there and drawn < 0.4:
        item = state.items[rng.choice(there)]
        item.text = _other(item.text, lambda: texts.REMINDERS[item.form](rng))
        return True
    form = rng.randrange(len(texts.REMINDERS))
    said = texts.REMINDERS[form](rng)
    users = _of_role(state, "user", "tool")
    if users and drawn < 0.65:  # behind what a message or a tool's result says
        item = state.items[rng.choice(users)]
        item.text += "\n\n" + said
        item.made = "reminded"
        return True
    # a message of its own, never between a call and its result
    places = [i for i in range(len(state.items) + 1) if i == len(state.items) or state.items[i].role != "tool"]
    at = rng.choice(places[:-1] or places)
    if at == len(state.items):
        return False
    state.items.insert(at, Item("user", said, made="reminder", form=form))
    return True


def _image(rng: random.Random, state: State) -> bool:
    found = [item for item in state.items if item.image]
    if not found:
        return False
    item = rng.choice(found)
    item.image = texts.hexes(rng, 96) if rng.random() < 0.6 else ""
    if not item.image and rng.random() < 0.7:
        notes = ("[Image omitted]", "[image removed]", "[Image: screenshot.png]", "[media attached: screenshot.png]")
        item.image_note = rng.choice(notes)
    return True


def _layouts(rng: random.Random, text: str) -> list[str]:
    try:
        value = json.loads(text)
        forms = [
            json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators, sort_keys=keys)
            for ascii_only in (True, False)
            for indent, separators in ((None, None), (None, (",", ":")), (2, None), (4, None))
            for keys in (False, True)
        ]
    except ValueError:
        lines = text.split("\n")
        forms = [
            text.replace("\n", "\r\n"),
            text.replace("\n", "\n\n"),
            text.replace("\n\n", "\n"),
            text.replace("    ", "\t"),
            text.replace(". ", ".  "),
            "\n".join(line + "  " for line in lines),
            "\n".join(line.rstrip() for line in lines) + "\n\n",
            "\n".join("  " + line for line in lines),
            text.replace(" ", "\u00a0"),
        ]
    return [form for form in forms if form != text]


def _whitespace(rng: random.Random, state: State) -> bool:
    for at in rng.sample(found := _of_role(state, "user", "tool", "assistant"), len(found)):
        forms = _layouts(rng, state.items[at].text)
        if forms:
            state.items[at].text = rng.choice(forms)
            return True
    return False


def _summary(rng: random.Random, state: State) -> bool:
    if len(state.items) < 6:
        return False
    kept = state.items[-rng.randint(1, 3) :]
    while kept and kept[0].role == "tool":
        kept.pop(0)
    said, drawn = rng.choice(texts.SUMMARIES)(rng), rng.random()
    if drawn < 0.12:  # at the end of the system prompt
        state.told = said
        state.items = kept or [Item("user", "Continue.")]
        return True
    head = [Item("user", said, made="summary")]
    if drawn < 0.3:
        head.append(Item("assistant", "Understood. I go on with the next step."))
    elif drawn < 0.45:  # asked for, and answered
        head = [
            Item("user", "What did we do so far?"),
            Item("assistant", said, made="summary"),
            Item("user", "Continue."),
        ]
    state.items = head + kept
    return True


def _edit(rng: random.Random, state: State) -> bool:
    drawn = rng.random()
    if drawn < 0.3:
        found = _of_role(state, "tool", last=False)
        if not found:
            return False
        form = rng.choice(texts.CLEARED)
        for at in found if rng.random() < 0.4 else [rng.choice(found)]:
            state.items[at].text = form
        return True
    # another last message as a whole is a rewind: only a change within it is told from one
    found = _of_role(state, "user", "assistant", "tool", least=80, last=drawn >= 0.6)
    if not found:
        return False
    item = state.items[rng.choice(found)]
    if drawn < 0.5:
        item.text = texts.prose(rng)
    elif drawn < 0.6:
        item.text = item.text[: len(item.text) // 3] + f"\n... [{rng.randint(100, 9000)} characters truncated]"
    else:
        words = item.text.split(" ")
        at = rng.randrange(max(1, len(words) - 5))
        words[at : at + rng.randint(1, 4)] = texts.sentence(rng).split(" ")[1 : rng.randint(3, 6)]
        item.text = " ".join(words)
    return True


def _compaction(rng: random.Random, state: State) -> bool:
    if len(state.items) < 8:
        return False
    first = rng.randint(0, 1)  # the task itself is often kept
    kept = state.items[len(state.items) * rng.randint(60, 85) // 100 :]
    while kept and kept[0].role == "tool":
        kept.pop(0)
    state.items = state.items[:first] + kept
    return bool(kept)


CAUSES: dict[str, Change] = {
    "clock": _volatile("clock"),
    "nonce": _volatile("nonce"),
    "working_directory": _volatile("working_directory"),
    "tool_schema": _tool_schema,
    "stripped_reasoning": _stripped_reasoning,
    "image": _image,
    "whitespace": _whitespace,
    "edit": _edit,
    "reminder": _reminder,
    "compaction": _compaction,
    "summary": _summary,
}
"""How each kind is planted, in the order in which they are applied; forks are made by `mix`."""


# sessions -----------------------------------------------------------------------------------------------------------


def new_tool(rng: random.Random) -> dict[str, Any]:
    """A tool and its schema."""
    return {
        "name": f"{rng.choice(('read', 'write', 'run', 'find', 'list'))}_{texts.hexes(rng, 4)}",
        "description": texts.sentence(rng),
        "parameters": {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": texts.sentence(rng)}
                for name in rng.sample(("path", "command", "query", "limit"), 2)
            },
        },
    }


def turn(rng: random.Random) -> list[Item]:
    """An answer and the input behind it."""
    answer = Item("assistant", texts.prose(rng, 0, 3))
    if rng.random() < 0.5:
        answer.reasoning = texts.prose(rng, 1, 5)
    if rng.random() < 0.3:
        return [answer, Item("user", texts.prose(rng, 1, 5))]
    if rng.random() < 0.5:
        answer.call = json.dumps({"path": texts.sentence(rng), "limit": rng.randint(1, 400)})
    given = Item("tool", texts.tool_output(rng))
    if rng.random() < 0.2:
        given.image = texts.hexes(rng, 96)
    return [answer, given]


def session(rng: random.Random) -> State:
    """A session before its first call."""
    system = [texts.sentence(rng) if rng.random() < 0.8 else "" for _ in range(rng.randint(4, 25))]
    forms = {
        name: rng.choice(table)
        for name, table in (("clock", texts.CLOCKS), ("nonce", texts.NONCES), ("working_directory", texts.PLACES))
    }
    state = State([new_tool(rng) for _ in range(rng.randint(2, 6))], system, forms)
    names = list(forms)
    rng.shuffle(names)
    together = rng.random() < 0.4
    at = rng.randint(0, len(system))
    for name in names:
        system.insert(at if together else rng.randint(0, len(system)), "{" + name + "}")
        state.slots[name] = forms[name](rng)
    state.tools_first = rng.random() < 0.7
    state.tool_form = rng.choice(TOOL_FORMS)
    state.empties = rng.random() < 0.3
    state.items.append(Item("user", texts.prose(rng, 1, 6)))
    return state


class Step(NamedTuple):
    """A state and what was planted in it."""

    state: State
    kind: str | None


def mix(
    seed: int, sessions: int, rates: dict[str, float], dialect: str | None = None,
    real: Sequence[Sequence[list[Item]]] = (),
) -> Planted:  # fmt: skip
    """Plant a mix of kinds into sessions.

    Args:
        seed: of everything that is drawn.
        sessions: how many.
        rates: by kind of `KINDS`, the chance that a call after the first gets it (where it is possible).
        dialect: one of `DIALECTS`; None: each session draws its own.
        real: turns of real sessions, taken in turn instead of generated ones.
    """
    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    truth: list[str | None] = []
    for number in range(sessions):
        spoken = dialect or rng.choice(DIALECTS)
        state = session(rng)
        turns = [turn(rng) for _ in range(rng.randint(5, 30))]
        if real:
            first, *turns = copy.deepcopy(list(real[number % len(real)]))
            state.items = first
        at = 1_790_000_000.0 + 100_000 * number
        past: list[State] = []  # since something was planted: who goes back behind that undoes it

        def emit(one: State, kind: str | None, number: int = number, spoken: str = spoken) -> None:
            nonlocal at
            at += rng.uniform(5, 60)
            row = {"ts": at, "end_time": at + rng.choice((2.0, 90.0)), "session_id": f"s{number}"}
            rows.append(row | written(one, spoken))
            truth.append(kind)

        emit(state, None)
        past.append(copy.deepcopy(state))
        branched = False
        for added in turns:
            kind: str | None = "fork" if branched else None
            if not branched:
                drawn = [name for name in CAUSES if rng.random() < rates.get(name, 0.0)]
                state, kind = _planted(rng, state, drawn, spoken)
            state.items += copy.deepcopy(added)
            emit(state, kind)
            if kind not in (None, "fork"):
                past.clear()
            past.append(copy.deepcopy(state))
            branched = False
            if len(past) > 3 and rng.random() < rates.get("fork", 0.0):
                back = copy.deepcopy(past[-rng.randint(2, 3)])
                back.items += turn(rng)
                emit(back, "fork")
                if rng.random() < 0.5:
                    state = back  # the branch goes on
                    past.append(copy.deepcopy(back))
                else:
                    branched = True
    return Planted(rows, truth)


def _planted(rng: random.Random, state: State, names: list[str], dialect: str) -> tuple[State, str | None]:
    """The state with the causes of these names, and which of them parts the prompts first."""
    if not names:
        return state, None
    before = symbols(written(state, dialect))
    at: dict[str, int] = {}
    seeds = {name: rng.getrandbits(32) for name in names}
    for name in names:
        alone = copy.deepcopy(state)
        if CAUSES[name](random.Random(seeds[name]), alone):
            place = shared(before, symbols(written(alone, dialect)))
            if place < len(before):  # what only adds something at the very end is no change
                at[name] = place
    told = sorted(at, key=lambda name: at[name])
    if len(told) > 1 and at[told[0]] + 200 > at[told[1]]:
        told = told[:1]  # too near to say which came first
    changed = copy.deepcopy(state)
    for name in CAUSES:
        if name in told:
            CAUSES[name](random.Random(seeds[name]), changed)
    if told and shared(before, symbols(written(changed, dialect))) != at[told[0]]:
        return state, None  # one undid another
    return (changed, told[0]) if told else (state, None)


def shared(a: Any, b: Any) -> int:
    """How many leading symbols two prompts share."""
    size = min(len(a), len(b))
    differ = a[:size] != b[:size]
    return int(differ.argmax()) if differ.any() else size


def main() -> None:
    """Write planted rows, and what was planted, for a look by hand."""
    parser = argparse.ArgumentParser(description="Plant causes of misses from a seed.")
    parser.add_argument("seed", type=int)
    parser.add_argument("--rate", type=float, default=0.05, help="of every kind")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    made = mix(asked.seed, asked.sessions, dict.fromkeys(KINDS, asked.rate))
    text = "".join(json.dumps({**row, "planted": kind}) + "\n" for row, kind in zip(*made, strict=True))
    if asked.out:
        asked.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
