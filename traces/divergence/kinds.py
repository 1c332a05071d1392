"""The kind of a change: one ordered table of tests. The first test that holds names the kind, without keeping any text.

Shape comes first: what was put in, taken out or replaced, whether whole messages were, and whether the two prompts are
alike again after it. Words decide only where shape does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from traces.divergence import notes, whole_messages
from traces.divergence.changes import CLEARED, DROPPED_MESSAGES, MODELS, Change
from traces.divergence.notes import REASONING, SCHEMA, is_block, is_reminder, is_summary, same_but_layout
from traces.divergence.shapes import Shape, Side, message_of
from traces.divergence.values import difference, is_clock, is_git_lines, is_nonce, is_place

KINDS = {
    "clock": "a clock or date",
    "nonce": "a random id or nonce",
    "working_directory": "the working directory or what git says",
    "tool_schema": "the order or the schemas of tools",
    "stripped_reasoning": "reasoning that is no longer sent",
    "reminder": "an injected reminder",
    "image": "an image",
    "whitespace": "whitespace or re-serialisation",
    "summary": "a summary",
}
"""What is named by its words or roles, and what it means."""

SHAPES = {
    "compaction": "messages were dropped, and none stands in their place",
    "edit": "other text stands in the place of some",
}
"""What is named by its shape alone."""

TURNS = 40
"""Most characters that may stand both before a text that was put in and at its end."""


def name_kind(before: Side, after: Side, shape: Shape) -> str | None:
    """Name the change from `before` (the earlier prompt) to `after`: of KINDS or SHAPES; None where nothing fits."""
    change = Change(before, after, shape)
    for test in TESTS:
        if test.stage and test.stage not in change.stages:
            continue
        subject = change.lines if test.stage else change
        if test.holds(subject):
            return test.kind(subject) if callable(test.kind) else test.kind
    return None


# Tests of changed lines ----------------------------------------------------------------------------------------------


def _images(c: Change) -> bool:
    """An image was put in or taken out, or the text between an image's tags was."""
    marked = (notes.IMAGE.search(c.extra[:200]) or notes.is_image(c.found)) and not c.shape.whole
    gone = c.before.role == "image" and c.before.text != ""
    return c.side.role == "image" or gone or bool(marked)


def _reasoning(c: Change) -> bool:
    """Reasoning was put in or taken out."""
    return c.side.role == "reasoning" or bool(REASONING.search(c.extra[:200]))


def _open_thought(c: Change) -> bool:
    """What was taken out stood within reasoning."""
    return not c.found.changed[1] and notes.in_thought(c.side.head + c.found.label)


def _new_summary(c: Change) -> bool:
    """What was put in begins as a summary does."""
    new = c.found.changed[1] and c.side.role != "assistant" and is_summary(c.extra.lstrip())
    return bool(new) and not is_summary(message_of(c.before))


def _block(c: Change) -> bool:
    """It is one tagged block that a harness puts in."""
    of_harness = c.side.role in ("user", "tool_result", "system", "unknown")
    return of_harness and any(map(is_block, _turns(c.found.label, c.extra)))


def _turns(label: str, text: str) -> Iterator[str]:
    """The ways to read a text that was put in: what it ends with may be what stands before it too."""
    yield text
    for _ in range(TURNS):
        if not (label and text and label[-1] == text[-1]):
            return
        label, text = label[:-1], text[-1] + text[:-1]
        yield text


def _tool(c: Change) -> bool:
    """It begins as a tool in a list of tools does."""
    text = c.extra.lstrip("\n")
    return c.side.role not in ("assistant", "tool_result") and notes.is_tool_line(text) and notes.is_tool(text)


def _reminder(c: Change) -> bool:
    """It is a reminder that stands on lines of its own or at the end of an input."""
    begins = c.extra.startswith("\n") or (c.side.head + c.label)[-1:] in ("", "\n")
    apart = c.alone or begins or (c.last and c.side.role in ("user", "tool_result"))
    return apart and is_reminder(c.extra.lstrip("\n"))


def _message(c: Change) -> bool:
    """It is a whole message of a harness or a user, or a whole part of one that stands between parts of other roles."""
    part = c.alone and not c.side.head and c.before.role != c.after.role
    return (c.shape.whole or part) and bool(c.found.changed[1]) and c.side.role in ("user", "system")


def _within_reminder(c: Change) -> bool:
    """It lies within a reminder, and is no value."""
    return c.inner_value is None and notes.in_reminder(c.side.role, c.side.head, c.label, c.found.changed)


def _paragraph(c: Change) -> bool:
    """It is a paragraph more at the end of an input's text, or one less; in a prompt of one text an answer or an image
    follows it."""
    if c.side.role == "unknown":
        before, rest = c.side.head + c.label, c.side.ahead[len(c.label) + len(c.extra) :]
        return before[-1:] == "\n" and bool(whole_messages.answered(rest) or notes.IMAGE.match(rest))
    return c.side.role in ("user", "tool_result") and c.extra.startswith("\n") and c.last


def _within_tools(c: Change) -> bool:
    """It is a tool or lies in a list of tools, and is no value."""
    if c.inner_value is not None or c.side.role in ("assistant", "tool_result"):
        return False
    return notes.is_tool(c.extra.lstrip("\n")) or notes.in_tools(c.side.head + c.label, c.side.ahead)


def _git(c: Change) -> bool:
    """It is what git says."""
    return is_git_lines(*c.found.changed, c.side.head + c.label, c.side.role)


def _schema(c: Change) -> bool:
    """A change lies in the schema of a tool, on a line or written over many."""
    before, after = c.before, c.after
    if SCHEMA.search(before.line) and SCHEMA.search(after.line):
        return True
    inside = all(_JSON_LINE.match(side.line) for side in (before, after) if side.line.strip())
    return inside and bool(SCHEMA.search(after.head)) and _JSON_LINE.match(after.head.splitlines()[-1]) is not None


_JSON_LINE = re.compile(r'\s*["{}\[\]]')


def _changed_tools(c: Change) -> bool:
    """Tools that are written into the prompt changed."""
    if c.after.role in MODELS:
        return False
    if notes.is_tool(c.before.ahead) and notes.is_tool(c.after.ahead):
        return True
    return notes.in_tools(c.after.head + c.found.label, c.after.ahead)


def _lost_reasoning(c: Change) -> bool:
    """Reasoning stood there, and none does now."""
    gone, new = c.found.changed
    of_role = c.before.role == "reasoning" and c.after.role != "reasoning"
    return of_role or bool(REASONING.search(gone[:80]) and not REASONING.search(new))


def _reminded(c: Change) -> bool:
    """A change lies within a reminder, or one side is a reminder from its start and the other is none."""
    if notes.in_reminder(c.after.role, c.after.head, c.found.label, c.found.changed):
        return True
    if c.after.role in MODELS or CLEARED.search(c.before.line) or REASONING.search(c.after.head):
        return False  # whoever reasons in a message writes the rest of it
    return is_reminder(c.before.line) != is_reminder(c.after.line) and not c.first_line.mostly


def _few_or_nothing(c: Change) -> str | None:
    return "edit" if c.shape.dropped <= 2 else "compaction" if c.after.text == "" else None


def _blank_end(c: Change) -> bool:
    """All that the earlier prompt has there is blank, and the later one continues after other blanks."""
    before = c.before
    return before.ends and not before.ahead.strip() and c.after.ahead[:1].isspace() and before.ahead != ""


def _other_layout(c: Change) -> bool:
    """The lines differ by their layout only."""
    return c.shape.dropped <= 0 and (_texts_by_layout(c) or _blank_end(c))


def _moved(c: Change) -> bool:
    """The earlier prompt ends with a reminder that the later one no longer has there."""
    rest = c.before.ahead[difference(c.before.ahead, c.after.ahead).low :].strip()
    return c.before.ends and c.before.role in ("user", "tool_result") and (is_block(rest) or is_reminder(rest))


def _first_lines_kind(c: Change, named_only: bool = False) -> str | None:
    """The kind where the two are not alike after the change: the later may just be another prompt, so the first lines
    have to be alike for the most part, or to name what changed."""
    before, after, found = c.before, c.after, c.first_line
    if is_git_lines(before.line, after.line, after.head, after.role):
        return "working_directory"
    if found.low in (len(before.line), len(after.line)):
        return None
    if not found.label.strip():
        return "clock" if is_clock(found) else None
    if notes.is_image(found):
        return "image"
    if not (found.mostly or _NAMED.search(found.label[-200:]) or len(found.label) < 40):
        return None
    if is_clock(found):
        return "clock"
    if is_place(found, "tool_result" if named_only else after.role):
        return "working_directory"
    if is_nonce(found):
        return "nonce"
    return "tool_schema" if _schema(c) else None


_NAMED = re.compile(r"[:=]\s*+\S*$")


def _texts_by_layout(c: Change) -> bool:
    """The changed lines differ by their layout only."""
    return same_but_layout(c.before.text or "", c.after.text or "")


class Test(NamedTuple):
    """A test of a change.

    Attributes:
        kind: what it names, or a function that does.
        holds: whether it does.
        stage: empty: of whole messages; else of the changed lines where text was only put in or taken out (inserted),
            where other text replaced it (replaced), where the prompts are alike again after the change (resumed, the
            last resort of both), or where they are not (parted).
    """

    kind: str | Callable[[Change], str | None] | None
    holds: Callable[[Change], bool]
    stage: str = ""


TESTS = (
    Test("summary", lambda c: c.shape.compaction or c.after.role == "summary"),
    Test(whole_messages.tools_or_value, whole_messages.tools),
    Test("tool_schema", whole_messages.text_tools),
    Test("stripped_reasoning", lambda c: c.shape.unreasoned or whole_messages.unreasoned(c)),
    Test("summary", whole_messages.other_summary),
    Test("image", whole_messages.image_gone),
    Test("whitespace", lambda c: c.laid_out),
    Test(
        lambda c: _first_lines_kind(c, named_only=True),
        lambda c: c.shape.dropped > 0 and _first_lines_kind(c, named_only=True) is not None,
    ),
    Test("edit", lambda c: not c.shape.resumed and c.shape.dropped < DROPPED_MESSAGES and c.cleared),
    Test("compaction", whole_messages.fewer),
    Test("summary", whole_messages.summarised),
    Test(whole_messages.fresh_kind, whole_messages.fresh),
    Test("whitespace", lambda c: c.shape.dropped <= 0 and same_but_layout(*c.windows, c.before.ends)),
    Test("reminder", whole_messages.injected),
    Test(whole_messages.unread_kind, whole_messages.unread),
    Test("whitespace", lambda c: not c.extra.strip(), "inserted"),
    Test("image", _images, "inserted"),
    Test("stripped_reasoning", _reasoning, "inserted"),
    Test("whitespace", _texts_by_layout, "inserted"),
    Test("summary", _new_summary, "inserted"),
    Test("stripped_reasoning", _open_thought, "inserted"),
    Test("reminder", _block, "inserted"),
    Test("tool_schema", _tool, "inserted"),
    Test("reminder", _reminder, "inserted"),
    Test("reminder", _message, "inserted"),
    Test("reminder", _within_reminder, "inserted"),
    Test("reminder", _paragraph, "inserted"),
    Test("tool_schema", _within_tools, "inserted"),
    Test("tool_schema", lambda c: bool(SCHEMA.search(c.extra)) or _schema(c), "inserted"),
    Test("working_directory", _git, "inserted"),
    Test(lambda c: c.inner_value, lambda c: c.inner_value is not None, "inserted"),
    Test("image", lambda c: "image" in (c.before.role, c.after.role), "replaced"),
    Test("whitespace", _texts_by_layout, "replaced"),
    Test("stripped_reasoning", _lost_reasoning, "replaced"),
    Test("image", lambda c: notes.is_image(c.found), "replaced"),
    Test(_few_or_nothing, lambda c: c.cleared, "replaced"),
    Test(lambda c: c.value, lambda c: c.value is not None, "replaced"),
    Test("tool_schema", lambda c: _schema(c) or _changed_tools(c), "replaced"),
    Test("reminder", _reminded, "replaced"),
    Test(_few_or_nothing, lambda c: True, "resumed"),
    Test("whitespace", lambda c: same_but_layout(*c.windows, c.before.ends), "parted"),
    Test("whitespace", _other_layout, "parted"),
    Test("tool_schema", lambda c: c.shape.dropped <= 0 and c.shape.kept and _changed_tools(c), "parted"),
    Test(_first_lines_kind, lambda c: _first_lines_kind(c) is not None, "parted"),
    Test("reminder", _moved, "parted"),
    Test("edit", lambda c: c.shape.kept and c.shape.dropped <= 0, "parted"),
)
"""Tests in their order: the first that holds names the kind."""
