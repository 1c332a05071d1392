"""What kind of change parts two prompts: by its shape, the roles of what differs and its words, kept without text.

Shape comes first: what was put in, taken out or replaced, whether whole messages were, and whether the two prompts go
on alike behind it. Words decide only where shape does not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from traces.divergence_layout import WINDOW_CHARS, bare, same_but_layout
from traces.divergence_words import (
    IMAGE,
    REASONING,
    SCHEMA,
    SPEAKER,
    difference,
    in_reminder,
    is_clock,
    is_git_lines,
    is_image,
    is_nonce,
    is_place,
    is_reminder,
    is_summary,
)

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
)
"""Clock or date · random id or nonce · working directory or git state · tool order or schema · reasoning that is no
longer sent · injected reminder · image · whitespace or re-serialisation · summary."""

SHAPES = ("compaction", "edit")
"""What is named by its shape alone: messages dropped and none in their place · other text in the place of some."""

DROPPED_MESSAGES = 3
"""So many messages fewer are no single message taken out; of two a quarter of the prompt has to go with them."""

FRESH_CHARS = 24
"""A text in the place of dropped messages is at least as long."""


_THOUGHT = re.compile(
    r"\s*<(think|thinking|reasoning|thoughts?|scratchpad|analysis)>.*?</\1>\s*", re.IGNORECASE | re.DOTALL
)

SAME_CHARS = 60
"""A message that goes on alike for so many characters besides whitespace is the same one."""

LABEL_TAIL = 40
"""So many characters alike at the end of a message say that it is the same one."""


class Side(NamedTuple):
    """One prompt at the place where two part.

    Attributes:
        role: of what stands there; of what changed, where anything did on this side.
        text: the changed lines; "" where there are none, None where they are not known.
        line: the first of them.
        ahead: the text from there on, changed or not.
        ends: whether the prompt ends with `ahead`.
        head: the text of the same part before the changed lines.
    """

    role: str
    text: str | None
    line: str = ""
    ahead: str = ""
    ends: bool = False
    head: str = ""


class Shape(NamedTuple):
    """How two prompts differ, whatever they say.

    Attributes:
        resumed: they go on alike behind the changed lines, as far as the earlier one goes.
        whole: the changed lines are whole messages on one side, and nothing on the other.
        dropped: how many messages fewer the later prompt has there; 0 also where that is not known.
        share: of the earlier prompt's tokens, how many went with them.
        skips: behind the change the later prompt goes on with what the earlier one has further on.
        kept: the end of the earlier prompt stands in the later one.
        compaction: the source says that the history was compacted before the later prompt.
        unreasoned: the later prompt goes on with what stands right behind the earlier one's reasoning.
    """

    resumed: bool
    whole: bool = False
    dropped: int = 0
    share: float = 0.0
    skips: bool = False
    kept: bool = False
    compaction: bool = False
    unreasoned: bool = False


def name_kind(before: Side, after: Side, shape: Shape) -> str | None:
    """Name the change from `before` (the earlier prompt) to `after`: of KINDS or SHAPES; None where nothing fits."""
    if shape.compaction or after.role == "summary":
        return "summary"
    if "tools" in (before.role, after.role) or _tool_lines(before, after):
        return "tool_schema"
    if shape.unreasoned or _unreasoned(before, after):
        return "stripped_reasoning"
    if before.role == after.role == "image" and shape.dropped < DROPPED_MESSAGES:
        return "image"
    if same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], least=SAME_CHARS):
        return "whitespace"
    if shape.dropped > 0 and _other_summary(before, after):
        return "summary"
    if shape.dropped > 0:
        kind = _of_first_lines(before, after, named_only=True)
        if kind is not None:
            return kind
    dropped = shape.dropped >= DROPPED_MESSAGES or (shape.dropped == 2 and shape.share >= 0.25)
    if dropped and shape.skips:
        return "compaction"
    if _summarised(before, after, shape):
        return "summary"
    if dropped and shape.kept and len(_message(after)) >= FRESH_CHARS:
        return "compaction" if is_reminder(_message(after)) or _answers(after) else "summary"
    if shape.dropped <= 0 and same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], before.ends):
        return "whitespace"
    if _injected(before, after, shape):
        return "reminder"
    if before.text is None or after.text is None:
        return _without_text(before, after, shape)
    ended = None if shape.resumed else _ended(before, after)
    if ended is not None:
        before, after = ended
    a, b = before.text or "", after.text or ""
    found = difference(a, b)
    if shape.resumed or ended is not None:
        if found.low in (found.high_before, found.high_after):
            kind = _inserted(before, after, shape)
        else:
            kind = _replaced(before, after)
        return kind or ("edit" if shape.dropped <= 2 else "compaction" if after.text == "" else None)
    if same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], before.ends):
        return "whitespace"
    if shape.dropped <= 0 and (same_but_layout(a, b) or (before.ends and _blank_end(before, after))):
        return "whitespace"
    return _of_first_lines(before, after) or ("edit" if shape.kept and shape.dropped <= 0 else None)


def _summarised(before: Side, after: Side, shape: Shape) -> bool:
    """Whether the later prompt tells a summary there: another one, not the same with a small change."""
    if after.text == "" or not is_summary(_message(after)):
        return False
    if shape.resumed and shape.dropped <= 0 and same_but_layout(before.text or "", after.text or ""):
        return False
    if before.ends and same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], True):
        return False
    if not is_summary(_message(before)) or shape.dropped > 0 or not shape.resumed or shape.whole:
        return True
    return not difference(*(bare(side.head + (side.text or "")) for side in (before, after))).mostly


def _other_summary(before: Side, after: Side) -> bool:
    """Whether a summary stands there that the earlier prompt has not further on."""
    said = _message(after)
    return is_summary(said) and bare(said)[:WINDOW_CHARS] not in bare(before.ahead)


def _unreasoned(before: Side, after: Side) -> bool:
    """Whether the later prompt, of one text, goes on with what stands behind the earlier one's reasoning there."""
    thought = _THOUGHT.match(before.ahead)
    if thought is None or _THOUGHT.match(after.ahead):
        return False
    said, now = (SPEAKER.split(text, maxsplit=1)[0] for text in (before.ahead[thought.end() :], after.ahead))
    return said.strip() == now.strip() != "" or same_but_layout(said, now)


def _answers(side: Side) -> bool:
    """Whether a model or a tool says what stands there: no summary that a harness puts in, but a kept message."""
    if side.role != "unknown":
        return side.role in ("assistant", "reasoning", "tool_result")
    return re.match(r"[\W_]*(?:im_start\W+)?(?:assistant|model|ai|tool)\b", side.ahead, re.IGNORECASE) is not None


def _message(side: Side) -> str:
    """The message that holds the change, from its start on; in a prompt of one text without the mark before it."""
    if side.role != "unknown":
        return side.head + (side.line or side.ahead.split("\n", 1)[0])
    ahead = side.ahead.lstrip("\n")
    mark = SPEAKER.match(ahead)
    return side.head + SPEAKER.split(ahead[mark.end() :] if mark else ahead, maxsplit=1)[0].lstrip()


def _injected(before: Side, after: Side, shape: Shape) -> bool:
    """Whether a message more is a reminder, or one less was, whatever else changed right behind it."""
    if shape.dropped not in (-1, 1) or before.head or after.head:
        return False
    more, less = (after, before) if shape.dropped < 0 else (before, after)
    if more.role == "unknown":
        return not _answers(more) and is_reminder(_message(more)) and not is_reminder(_message(less))
    return more.role in ("user", "system") and is_reminder(more.line) and not is_reminder(less.line)


def _ended(before: Side, after: Side) -> tuple[Side, Side] | None:
    """The two sides where a prompt of one text ends with lines that the later one has no longer, or others for: what
    was put behind its last message, or into its end, before the next one came."""
    if before.role != "unknown" or not before.ends or SPEAKER.search(before.ahead):
        return None
    mark = SPEAKER.search(after.ahead)
    if mark is None:
        return None
    a, b = before.ahead.rstrip(), after.ahead[: mark.start()].rstrip()
    if a == b:
        return None
    if same_but_layout(a, b):
        return before._replace(text=a, line=a), after._replace(text=b, line=b)
    found = difference(a, b)
    label = before.head + found.label
    tail = len(a) - found.high_before
    same = tail > LABEL_TAIL or 2 * (len(label) + tail) > len(before.head) + max(len(a), len(b))
    if not label.strip() or not (same or label.endswith("\n") or all(c[:1] in ("", "\n") for c in found.changed)):
        return None
    return before._replace(text=a, line=a), after._replace(text=b, line=b)


def _without_text(before: Side, after: Side, shape: Shape) -> str | None:
    """The kind where a side is not known by its text: by the roles of what changed."""
    changed = {side.role for side in (before, after) if side.text != ""}
    sure = shape.resumed or (before.text is None and after.text is None) or changed == {"image"}
    if not sure:
        return None
    if "image" in changed:
        return "image"
    if before.role == "reasoning" and before.text != "" and after.role != "reasoning":
        return "stripped_reasoning"
    if not shape.resumed:
        return None
    if before.text == "" and after.role in ("system", "user"):
        return "reminder"
    return None


def _inserted(before: Side, after: Side, shape: Shape) -> str | None:
    """The kind of what was put in, or taken out."""
    found = difference(before.text or "", after.text or "")
    a, b = found.changed
    said, side = (b, after) if b else (a, before)
    if not said.strip():
        return "whitespace" if said else None
    if side.role == "image" or (IMAGE.search(said[:200]) and not shape.whole):
        return "image"
    if side.role == "reasoning" or REASONING.search(said[:200]):
        return "stripped_reasoning"
    if same_but_layout(before.text or "", after.text or ""):
        return "whitespace"
    alone = said == (side.text or "")
    where = "" if alone else found.label
    if (alone or said.startswith("\n") or where.endswith("\n")) and is_reminder(said.lstrip("\n")):
        return "reminder"
    if shape.whole and b and side.role in ("user", "system"):
        return "reminder"
    kind = None if alone else _value(before, after)
    if kind is None and in_reminder(side.head, where, (a, b)):
        return "reminder"
    if SCHEMA.search(said) or _in_schema(before, after):
        return "tool_schema"
    if is_git_lines(a, b, side.head + where, side.role):
        return "working_directory"
    return kind


def _replaced(before: Side, after: Side) -> str | None:
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
    kind = _value(before, after)
    if kind is None and _in_schema(before, after):
        return "tool_schema"
    if kind is None and (in_reminder(after.head, found.label, (gone, new)) or _reminded(before, after)):
        return "reminder"
    return kind


def _tool_lines(before: Side, after: Side) -> bool:
    """Whether both first lines are schemas of tools, changed or not, or the one that was put in or taken out is."""
    lines = [side.line or side.ahead.split("\n", 1)[0] for side in (before, after)]
    told = [bool(SCHEMA.search(line)) for line in lines]
    within = bool(SCHEMA.search(before.head.rstrip().rsplit("\n", 1)[-1]))
    return all(told) or any(
        there and (within or other.text == "") for there, other in zip(told, (after, before), strict=True)
    )


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


def _reminded(before: Side, after: Side) -> bool:
    """Whether one side is a reminder from its start, and the other none."""
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
    if is_place(lines, after.role):
        return "working_directory"
    for a, b in ((before.text, after.text), (before.line, after.line)):
        if is_git_lines(a or "", b or "", after.head, after.role):
            return "working_directory"
    return "nonce" if is_nonce(lines) else None


def _of_first_lines(before: Side, after: Side, named_only: bool = False) -> str | None:
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


def _blank_end(before: Side, after: Side) -> bool:
    """Whether all that the earlier prompt has there is blank, and the later one goes on behind other blanks."""
    return not before.ahead.strip() and after.ahead[:1].isspace() and before.ahead != ""
