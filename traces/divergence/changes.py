"""What became of a text that stands between parts that are alike: what was put in, taken out or put in its place."""

from __future__ import annotations

import re

from traces.divergence.clocks import is_clock
from traces.divergence.difference import difference
from traces.divergence.inserts import in_reminder, is_block, is_reminder, is_summary
from traces.divergence.layout import same_but_layout
from traces.divergence.places import is_git_lines, is_place
from traces.divergence.sides import Shape, Side, message_of
from traces.divergence.tools import SCHEMA, in_tools, is_tool, is_tool_line
from traces.divergence.words import IMAGE, REASONING, is_image, is_nonce

LABEL_TAIL = 40
"""So many characters may stand both before and at the end of a text that was put in."""

_DESCRIPTION = re.compile(r'"description"\s*:\s*"(?:[^"\\]|\\.)*\Z', re.DOTALL)
_OPEN_THOUGHT = re.compile(r"<(think|thinking|reasoning|thoughts?)>(?:(?!</\1>).)*\Z", re.IGNORECASE | re.DOTALL)
_OBSERVED = re.compile(r"\W*(?:observation|output|(?:tool )?results?)\b", re.IGNORECASE)
_CLEARED = re.compile(r"\b(?:removed|omitted|cleared|truncated|elided|pruned|masked|hidden)\b", re.IGNORECASE)


def inserted_kind(before: Side, after: Side, shape: Shape) -> str | None:
    """The kind of what was put in, or taken out."""
    found = difference(before.text or "", after.text or "")
    a, b = found.changed
    said, side = (b, after) if b else (a, before)
    if not said.strip():
        return "whitespace" if said else None
    if "image" in (side.role, before.role) or (IMAGE.search(said[:200]) and not shape.whole):
        return "image"
    if side.role == "reasoning" or REASONING.search(said[:200]):
        return "stripped_reasoning"
    if same_but_layout(before.text or "", after.text or ""):
        return "whitespace"
    if b and side.role != "assistant" and is_summary(said.lstrip()) and not is_summary(message_of(before)):
        return "summary"
    if not b and _OPEN_THOUGHT.search(side.head + found.label):
        return "stripped_reasoning"
    if side.role in ("user", "tool_result", "system", "unknown") and any(map(is_block, _turned(found.label, said))):
        return "reminder"
    if side.role not in ("assistant", "tool_result") and is_tool_line(said.lstrip("\n")) and is_tool(said.lstrip("\n")):
        return "tool_schema"
    alone = said == (side.text or "")
    where = "" if alone else found.label
    last = not found.after[found.high_after :].strip()
    begins = said.startswith("\n") or (side.head + where)[-1:] in ("", "\n")
    if (alone or begins or (last and side.role in ("user", "tool_result"))) and is_reminder(said.lstrip("\n")):
        return "reminder"
    if shape.whole and b and side.role in ("user", "system"):
        return "reminder"
    kind = None if alone else _value(before, after)
    if kind is None and in_reminder(side.role, side.head, where, (a, b)):
        return "reminder"
    if side.role in ("user", "tool_result") and said.startswith("\n") and last:
        return "reminder"  # a paragraph more at the end of a message, or one less
    if (
        kind is None
        and side.role not in ("assistant", "tool_result")
        and (is_tool(said.lstrip("\n")) or in_tools(side.head + where, side.ahead))
    ):
        return "tool_schema"
    if SCHEMA.search(said) or _in_schema(before, after):
        return "tool_schema"
    if is_git_lines(a, b, side.head + where, side.role):
        return "working_directory"
    return kind


def replaced_kind(before: Side, after: Side) -> str | None:
    """The kind of a text in the place of another, where the prompts go on alike behind it."""
    a, b = before.text or "", after.text or ""
    if "image" in (before.role, after.role):
        return "image"
    if same_but_layout(a, b):
        return "whitespace"
    if before.role == "reasoning" and after.role != "reasoning":
        return "stripped_reasoning"
    found = difference(a, b)
    gone, new = found.changed
    if REASONING.search(gone[:80]) and not REASONING.search(new):
        return "stripped_reasoning"
    if is_image(found):
        return "image"
    if cleared(before, after):
        return None
    kind = _value(before, after)
    if kind is None and (_in_schema(before, after) or changed_tools(before, after)):
        return "tool_schema"
    if kind is None and (in_reminder(after.role, after.head, found.label, (gone, new)) or _reminded(before, after)):
        return "reminder"
    return kind


def _in_schema(before: Side, after: Side) -> bool:
    """Whether a change lies in the schema of a tool, on a line or written over many."""
    if SCHEMA.search(before.line) and SCHEMA.search(after.line):
        return True
    inside = all(re.match(r'\s*["{}\[\]]', side.line) for side in (before, after) if side.line.strip())
    return (
        inside
        and bool(SCHEMA.search(after.head))
        and re.match(r"\s*[\"{}\[\]]", after.head.splitlines()[-1]) is not None
    )


def changed_tools(before: Side, after: Side) -> bool:
    """Whether tools that are written into the prompt changed."""
    if after.role in ("assistant", "tool_result", "reasoning"):
        return False
    if is_tool(before.ahead) and is_tool(after.ahead):
        return True
    return in_tools(after.head + difference(before.text or "", after.text or "").label, after.ahead)


def text_tools(before: Side, after: Side) -> bool:
    """Whether a list of tools that is written into the prompt has other tools, or others first; no value changed."""
    if after.role in ("assistant", "tool_result", "reasoning", "image"):
        return False
    label = difference(before.ahead, after.ahead).label
    label = label[: label.rfind("\n") + 1]
    both = is_tool(before.ahead) and is_tool(after.ahead)
    if not (both or in_tools(after.head + label, after.ahead[len(label) :])):
        return False
    a, b = before.line, after.line
    if before.text == a and after.text == b and not (is_tool_line(a) or is_tool_line(b) or in_tools(after.head, b)):
        return False
    return is_tool_line(a or before.ahead) and is_tool_line(b or after.ahead) and _value(before, after) != "clock"


def cleared(before: Side, after: Side) -> bool:
    """Whether a note that something was left out stands in the place of a text."""
    gone, new = difference(before.line, after.line).changed
    image = IMAGE.search(before.line) or IMAGE.search(after.line)
    return not image and bool(_CLEARED.search(new)) and not _CLEARED.search(gone)


def _turned(label: str, said: str) -> list[str]:
    """The ways to read a text that was put in: what it ends with may be what stands before it too."""
    told = [said]
    while label and said and label[-1] == said[-1] and len(told) <= LABEL_TAIL:
        label, said = label[:-1], said[-1] + said[:-1]
        told.append(said)
    return told


def _reminded(before: Side, after: Side) -> bool:
    """Whether one side is a reminder from its start, and the other none."""
    if (
        _CLEARED.search(before.line)
        or cleared(before, after)
        or after.role in ("assistant", "reasoning", "tool_result")
    ):
        return False
    heads = [side.line for side in (before, after)]
    return bool(is_reminder(heads[0])) != bool(is_reminder(heads[1])) and not difference(*heads).mostly


def _value(before: Side, after: Side) -> str | None:
    """The kind of a value that changed within its line (or its lines): a time, a place, an id."""
    found = difference(before.text or "", after.text or "")
    lines = difference(before.line, after.line)
    if found.low >= len(before.line):
        lines = found  # the first line is the same
    if is_clock(lines):
        return "clock"
    role = "tool_result" if _OBSERVED.match(after.head) else after.role
    if is_place(lines, role):
        return "working_directory"
    for a, b in ((before.text, after.text), (before.line, after.line)):
        if is_git_lines(a or "", b or "", after.head, role):
            return "working_directory"
    return "nonce" if is_nonce(lines) else None


def first_lines_kind(before: Side, after: Side, named_only: bool = False) -> str | None:
    """The kind where the two do not go on alike: the later may just be another prompt, so the first lines have to be
    alike for the most part, or to name what changed."""
    found = difference(before.line, after.line)
    if is_git_lines(before.line, after.line, after.head, after.role):
        return "working_directory"
    if found.low in (len(before.line), len(after.line)):
        return None
    if not found.label.strip() and is_clock(found):
        return "clock"
    if not found.label.strip():
        return None
    if is_image(found):
        return "image"
    named = found.mostly or bool(re.search(r"[:=]\s*\S*$", found.label[-200:])) or len(found.label) < 40
    if not named:
        return None
    if is_clock(found):
        return "clock"
    if is_place(found, "tool_result" if named_only else after.role):
        return "working_directory"
    if is_nonce(found):
        return "nonce"
    return "tool_schema" if _in_schema(before, after) else None


def described_kind(before: Side, after: Side) -> str | None:
    """The kind of a value that changed within the description of a tool: a time, a place, an id."""
    label = difference(before.text or "", after.text or "").label
    return _value(before, after) if _DESCRIPTION.search(label) else None
