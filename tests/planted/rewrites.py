"""What harnesses do to a history: write it otherwise, sum it up, leave out its middle, change what it said."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from tests.planted.causes import Cause, Change, image, reminder, step_slot, stripped_reasoning, tool_schema
from tests.planted.notes import CLEARED, CUTS, SUMMARIES
from tests.planted.prompts import Leaf, Message, State, leaves
from tests.planted.words import paragraph, path, sentence, task, word


def _reserialised(text: str, r: random.Random) -> str | None:
    """A JSON text as another serialiser writes it; None: it is no JSON object or array."""
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, (dict, list)) or not value:
        return None

    def reordered(of: Any) -> Any:
        if isinstance(of, dict):
            keys = list(of)
            r.shuffle(keys)
            return {key: reordered(of[key]) for key in keys}
        return [reordered(one) for one in of] if isinstance(of, list) else of

    ascii_only = json.dumps(value)
    forms = [
        lambda: json.dumps(value, indent=2, ensure_ascii=False),
        lambda: json.dumps(value, separators=(",", ":"), ensure_ascii=False),
        lambda: ascii_only,
        lambda: json.dumps(value, ensure_ascii=False),
        lambda: json.dumps(value, sort_keys=True, ensure_ascii=False),
        lambda: json.dumps(reordered(value), ensure_ascii=False),
        lambda: ascii_only.replace("/", "\\/"),
        lambda: ascii_only.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
        lambda: json.dumps(value, indent=4),
        lambda: json.dumps(value, indent="\t", ensure_ascii=False),
        lambda: repr(value),
    ]
    return r.choice(forms)()


_SPACINGS = ["crlf", "trail", "strip", "lines", "tabs", "blank", "lead", "join", "nbsp", "html", "dedent", "lf"]


def _respaced(text: str, how: str, r: random.Random) -> str:
    if how == "trail":
        return text + r.choice(["\n", " ", "\n\n"])
    if how == "lead":
        return r.choice(["\n", " ", "  "]) + text
    if how == "tabs":
        return text.replace("    ", "\t") if r.random() < 0.5 else text.replace("\t", "    ")
    if how == "blank":
        return re.sub(r"\n\n+", "\n", text) if r.random() < 0.5 else text.replace("\n", "\n\n", 3)
    if how == "join":
        return re.sub(r"(?<=[a-z.,])\n(?=[A-Za-z])", " ", text, count=4)
    if how == "html":
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    lines = text.split("\n")
    return {
        "crlf": text.replace("\r\n", "\n").replace("\n", "\r\n"),
        "lf": text.replace("\r\n", "\n"),
        "strip": text.strip(),
        "nbsp": text.replace(" ", "\u00a0", 2),
        "lines": "\n".join(line.rstrip() for line in lines),
        "dedent": "\n".join(line.lstrip() for line in lines),
    }[how]


def whitespace(state: State, r: random.Random) -> Change | None:
    """The same text, otherwise written: JSON by another serialiser, other spaces, lines or escapes."""
    found = leaves(state)
    r.shuffle(found)
    for leaf in found[:6]:
        again = _reserialised(leaf.text, r)
        if again is not None and again != leaf.text:
            leaf.put(again)
            return Change("json")
        if leaf.role == "args":
            continue
        how = r.choice(_SPACINGS)
        again = _respaced(leaf.text, how, r)
        if again != leaf.text and again.strip():
            leaf.put(again)
            return Change(how)
    return None


def head_length(messages: list[Message]) -> int:
    """Messages of the system that a prompt begins with."""
    return next((i for i, m in enumerate(messages) if m.get("role") not in ("system", "developer")), len(messages))


def _is_result(message: Message) -> bool:
    content = message.get("content")
    return (
        message.get("role") == "tool"
        or message.get("type") == "function_call_output"
        or (isinstance(content, list) and any(isinstance(b, dict) and b.get("type") == "tool_result" for b in content))
    )


def _clean_cut(messages: list[Message], at: int) -> int:
    """The first place from `at` on where what is kept may begin: not at a tool's result."""
    return next((i for i in range(at, len(messages)) if not _is_result(messages[i])), max(at, len(messages)))


_ACCEPTED = ["Ok.", "Understood. I will continue.", "Got it. Thanks for the additional context!"]


def summary(state: State, r: random.Random) -> Change | None:
    """A summary stands for the history, less some of its end and perhaps the first message."""
    messages = state.messages
    head = head_length(messages)
    if len(messages) - head < 7:
        return None
    first = r.random() < 0.35
    keep = r.choice([0, 0, 1, 2, 3, 4, r.randint(1, max(1, (len(messages) - head) // 2))])
    cut, said = _clean_cut(messages, len(messages) - keep), r.choice(SUMMARIES)(r)
    if cut <= head + 2:
        return None
    kept, tail = messages[: head + first], messages[cut:] if keep else []
    how = r.choice(["user", "user", "assistant", "pair", "block", *(["user", "system"] if state.hard else [])])
    middle: list[Message] = [{"role": "user", "content": said}]
    if how == "system" and state.head["content"]:
        state.head["content"] += "\n\n" + said
        middle = []
    elif how == "pair":
        middle.append({"role": "assistant", "content": r.choice(_ACCEPTED)})
    elif how == "assistant":
        middle = [{"role": "assistant", "content": said}]
        if r.random() < 0.6 or not first:
            middle.insert(0, {"role": "user", "content": "What did we do so far?"})
    elif how == "block":
        middle = [{"role": "user", "content": [{"type": "text", "text": said}]}]
    if not tail and r.random() < 0.5:
        tail = [{"role": "user", "content": r.choice(["Continue.", "continue", task(r)])}]
    if not middle and not tail and not (kept and kept[-1].get("role") == "user"):
        return None
    state.messages = [*kept, *middle, *tail]
    return Change(f"{how}, {min(keep, 1)} kept, first {first}: {said[:24]!r}")


def compaction(state: State, r: random.Random) -> Change | None:
    """The middle of the history is left out, with or without its first message."""
    messages = state.messages
    head = head_length(messages)
    held = len(messages) - head
    if held < 6:
        return None
    first = r.random() < 0.4
    keep = r.choice([1, 2, 3, 4, max(1, held // 2), max(1, held // 4), max(1, 3 * held // 4)])
    cut = _clean_cut(messages, len(messages) - keep)
    if cut >= len(messages) or cut <= head + first:
        return None
    state.messages = [*messages[: head + first], *messages[cut:]]
    few = "leaves out one or two messages" if cut - head - first < 3 else ""
    return Change(f"{keep} kept, first {first}", few)


# edits ----------------------------------------------------------------------------------------------------------

_EDITS = [
    "clear", "clear", "clear_many", "cut", "cut", "first_lines", "rewrite", "words", "words", "args", "system",
    "replace",
]  # fmt: skip
_PLAIN_EDITS = ["clear", "rewrite", "words"]
_WORD = re.compile(r"\b[a-z]{4,}\b")


def edit(state: State, r: random.Random) -> Change | None:
    """What was said is changed: results cleared or cut, texts rewritten, words replaced, arguments left out."""
    found = [leaf for leaf in leaves(state) if leaf.role != "reasoning"]
    if len(found) < 3:
        return None
    how = r.choice(_EDITS if state.hard else _PLAIN_EDITS)
    results = [leaf for leaf in found if leaf.role == "tool" and len(leaf.text) > 80]
    results = results or [leaf for leaf in found if leaf.role == "user" and len(leaf.text) > 80][1:]
    if how in ("clear", "clear_many"):
        chosen = (
            r.sample(results, min(1, len(results)))
            if how == "clear"
            else results[: max(1, len(results) - r.randint(0, 3))]
        )
        said = r.choice(CLEARED).format(n=r.randint(3, 4000))
        edits = [(leaf, said, 0, len(leaf.text)) for leaf in chosen]
    elif how in ("cut", "first_lines"):
        edits = _cut(r.choice(results), how, r) if results else []
    elif how in ("words", "replace"):
        edits = _words(
            r.choice([leaf for leaf in found if leaf.role in ("user", "assistant", "tool")] or found), how, r
        )
    elif how == "rewrite":
        leaf = r.choice([leaf for leaf in found if leaf.role in ("user", "assistant")] or found)
        edits = [(leaf, paragraph(r), 0, len(leaf.text))] if leaf.role != "args" else []
    elif how == "system":
        edits = _words(found[0], how, r) if found[0].role == "system" else []
    else:
        calls = [leaf for leaf in found if leaf.role == "args"]
        less = json.dumps({"path": path(r), "content": r.choice(["[content omitted]", "...", sentence(r)])})
        edits = [(leaf, less, 0, len(leaf.text)) for leaf in r.sample(calls, min(1, len(calls)))]
    edits = [one for one in edits if one[1] != one[0].text]
    if not edits:
        return None
    arguable = _arguable(state, edits[0])
    for leaf, text, _, _ in edits:
        leaf.put(text)
    return Change(how, arguable)


Edit = tuple[Leaf, str, int, int]
"""A text, what it becomes, and the stretch of it that is changed (of several: the first)."""


def _cut(leaf: Leaf, how: str, r: random.Random) -> list[Edit]:
    text = leaf.text
    at = r.randint(20, max(21, len(text) - 40))
    if len(text) < 100:
        return []
    if how == "first_lines":
        kept = text[: min(at, 200)].rstrip()
        return [(leaf, kept, len(kept), len(text))]
    tail = text[-20:] if r.random() < 0.3 and at < len(text) - 60 else ""
    mark = r.choice(CUTS).format(n=len(text) - at)
    return [(leaf, text[:at] + mark + tail, at, len(text) - len(tail))]


def _words(leaf: Leaf, how: str, r: random.Random) -> list[Edit]:
    text, found = leaf.text, list(_WORD.finditer(leaf.text))
    if not found:
        return []
    if how == "replace":
        at = r.choice(found)
        return [(leaf, text[: at.start()] + sentence(r), at.start(), len(text))]
    chosen = r.sample(found, min(len(found), r.randint(1, 5))) if how == "words" else [r.choice(found)]
    for at in sorted(chosen, key=lambda m: -m.start()):
        text = text[: at.start()] + word(r) + text[at.end() :]
    first = min(chosen, key=lambda m: m.start())
    return [(leaf, text, first.start(), first.end())]


def _arguable(state: State, change: Edit) -> str:
    """Why an edit may be called by another name.

    Of a stretch that lies within a tool's description written into the prompt, within a reminder that was put in, or
    within a text that the harness writes anew, the change is of that. What rewrites as a whole the last message that
    was sent goes back to before it: a rewind, with another message in its place.
    """
    leaf, text, start, end = change
    if "<think>" in leaf.text and "<think>" not in text:
        return "its reasoning goes too"
    told = {
        "a tool": state.told.items if state.told else [],
        "a reminder": state.reminders,
        "what is written anew": [slot.text() for slot in state.slots],
    }
    for what, texts in told.items():
        for known in texts:
            at = leaf.text.find(known)
            if 0 <= at <= start and end <= at + len(known):
                return f"within {what}"
    own = [one.holder for one in leaves(state) if one.message == leaf.message]
    if leaf.message == state.known - 1 and start == 0 and end == len(leaf.text) and own[0] is leaf.holder:
        return "the last message that was sent, as a whole"
    return ""


CAUSES: dict[str, Cause] = {
    "clock": step_slot("clock"),
    "nonce": step_slot("nonce"),
    "working_directory": step_slot("working_directory"),
    "tool_schema": tool_schema,
    "stripped_reasoning": stripped_reasoning,
    "reminder": reminder,
    "image": image,
    "whitespace": whitespace,
    "edit": edit,
    "summary": summary,
    "compaction": compaction,
}
"""How each kind is planted; a fork is planted by the planter itself."""
