"""Tests of what happened to whole messages; tests of changed lines are in `kinds`."""

from __future__ import annotations

import re

from traces.divergence import notes
from traces.divergence.changes import DROPPED_MESSAGES, LABEL_TAIL, MODELS, Change
from traces.divergence.notes import SCHEMA, bare, is_block, is_reminder, is_summary, same_but_layout
from traces.divergence.shapes import Side, message_of
from traces.divergence.units import SPEAKER
from traces.divergence.values import difference

PAIR_SHARE = 0.12
"""Two dropped messages, after which the prompt continues with what followed them, had this share of its tokens."""

FRESH_CHARS = 24
"""A text in the place of dropped messages is at least as long."""

SHORT_CHARS = 200
"""A message that only asks for a summary, or says that one follows, is shorter."""

_SPOKEN = re.compile(r"\A\W*(?:assistant|model|user)\n", re.IGNORECASE)
_THOUGHT = re.compile(
    r"\s*<(think|thinking|reasoning|thoughts?|scratchpad|analysis)>(.*?)</\1>\s*", re.IGNORECASE | re.DOTALL
)
_ANSWER = re.compile(r"[\W_]*+(?:im_start\W+)?(?:assistant|model|ai)\b", re.IGNORECASE)
_INPUT_END = re.compile(r"\A\s*<\|\w*(?:end|eot)\w*\|>\s*")
_DESCRIPTION = re.compile(r'"description"\s*:\s*"(?:[^"\\]|\\.)*\Z', re.DOTALL)


def tools(c: Change) -> bool:
    """A list of tools differs, by its role or by its lines."""
    return "tools" in (c.before.role, c.after.role) or _tool_lines(c.before, c.after)


def tools_or_value(c: Change) -> str:
    """`tool_schema`, or the kind of a value that changed within the description of a tool."""
    described = c.shape.resumed and _DESCRIPTION.search(difference(c.before.text or "", c.after.text or "").label)
    return (c.value if described else None) or "tool_schema"


def text_tools(c: Change) -> bool:
    """A list of tools that is written into the prompt has other tools, or others first; no value changed."""
    before, after = c.before, c.after
    if c.laid_out or after.role in (*MODELS, "image"):
        return False
    label = difference(before.ahead, after.ahead).label
    label = label[: label.rfind("\n") + 1]
    both = notes.is_tool(before.ahead) and notes.is_tool(after.ahead)
    if not (both or notes.in_tools(after.head + label, after.ahead[len(label) :])):
        return False
    a, b = before.line, after.line
    of_tool = notes.is_tool_line(a) or notes.is_tool_line(b) or notes.in_tools(after.head, b)
    if before.text == a and after.text == b and not of_tool:
        return False
    listed = notes.is_tool_line(a or before.ahead) and notes.is_tool_line(b or after.ahead)
    return listed and c.value != "clock"


def image_gone(c: Change) -> bool:
    """An image is no longer there, or another is."""
    alike = c.after.role == "image" or c.shape.resumed or c.shape.kept
    return c.before.role == "image" and c.before.text != "" and alike and c.shape.dropped < DROPPED_MESSAGES


def fewer(c: Change) -> bool:
    """Messages were dropped, and the prompt continues with what followed them."""
    pair = c.shape.dropped == 2 and c.shape.share >= PAIR_SHARE
    return (c.many or pair) and c.shape.skips


def fresh(c: Change) -> bool:
    """A text stands in the place of dropped messages, and what followed them is kept."""
    return c.many and c.shape.kept and len(message_of(c.after)) >= FRESH_CHARS


def fresh_kind(c: Change) -> str:
    """`summary`, unless a message that was there before was kept."""
    text = message_of(c.after)
    return "compaction" if is_reminder(text) or is_block(text) or _answers(c.after) else "summary"


def summarised(c: Change) -> bool:
    """The later prompt has a summary there: another one, not the same with a small change."""
    before, after, shape = c.before, c.after, c.shape
    if after.text == "" or not (is_summary(message_of(after)) or _titled(before, after)):
        return False
    if after.head.strip() and not before.head and not _titled(before, after):
        return False  # the summary stood there before, and something was put after it
    if shape.resumed and c.one_sided and c.found.label.strip() and is_summary(message_of(before)):
        return False
    if shape.resumed and shape.dropped <= 0 and same_but_layout(before.text or "", after.text or ""):
        return False
    if before.ends and same_but_layout(*c.windows, True):
        return False
    if not is_summary(message_of(before)) or shape.dropped > 0 or not shape.resumed or shape.whole:
        return True
    if is_summary(before.line) and is_summary(after.line):
        return not difference(bare(before.text or ""), bare(after.text or "")).mostly
    return not difference(*(bare(side.head + (side.text or "")) for side in (before, after))).mostly


def _titled(before: Side, after: Side) -> bool:
    """Whether the line that changed is a summary's title, from its start on."""
    whole = difference(before.ahead, after.ahead).low < LABEL_TAIL and after.head[-1:] in ("", "\n")
    return whole and after.role != "assistant" and is_summary(after.line)


def other_summary(c: Change) -> bool:
    """A summary stands there, or in the next message, that the earlier prompt does not have further on."""
    before, after = c.before, c.after
    same_writer = before.role == after.role and _answers(before) == _answers(after)
    if c.shape.dropped <= 0 and c.shape.resumed and same_writer:
        return False  # the same message with a change
    known = bare(before.head + before.ahead)
    texts = [after.ahead] if _titled(before, after) else []
    if not after.head.strip():  # else what the message begins with stood there before
        texts.append(message_of(after))
    if len(message_of(after)) < SHORT_CHARS and not after.head and after.role in ("user", "assistant", "unknown"):
        parts = [part for part in SPEAKER.split(after.ahead, maxsplit=3) if part.strip()]
        texts.append(_SPOKEN.sub("", parts[1]) if after.role == "unknown" and len(parts) > 1 else after.following)
    low = difference(before.ahead, after.ahead).low
    rest = after.ahead[low:]
    if rest.startswith("\n") and low <= len(after.line) + 1:  # at the end of what the message says anyway
        texts.append(rest.lstrip())
    if not after.head and after.role not in ("system", "unknown") and notes.has_sections(after.ahead):
        texts.append(after.ahead)
    return any(is_summary(text) and bare(text)[:SHORT_CHARS] not in known for text in texts)


def unreasoned(c: Change) -> bool:
    """The later prompt, of one text, continues with what follows the earlier one's reasoning there."""
    before, after = c.before.ahead, c.after.ahead
    thought, left = _THOUGHT.match(before), _THOUGHT.match(after)
    if thought is None or not thought[2].strip() or (left is not None and left[2].strip()):
        return False
    rest = before[thought.end() :], after[left.end() if left else 0 :]
    once, now = (SPEAKER.split(text, maxsplit=1)[0] for text in rest)
    return once.strip() == now.strip() != "" or same_but_layout(once, now)


def _answers(side: Side) -> bool:
    """Whether a model or a tool wrote what stands there: no summary that a harness puts in, but a kept message."""
    if side.role != "unknown":
        return side.role in MODELS
    return re.match(r"[\W_]*+(?:im_start\W+)?tool\b", side.ahead, re.IGNORECASE) is not None or bool(
        _ANSWER.match(side.ahead)
    )


def answered(text: str) -> bool:
    """Whether a model's answer begins where `text`, of a prompt of one text, does."""
    text = _INPUT_END.sub("", text).lstrip("\n")
    return SPEAKER.match(text) is not None and _ANSWER.match(text) is not None


def injected(c: Change) -> bool:
    """One message more is a reminder, or the one that is missing was, whatever else changed right after it."""
    before, after, shape = c.before, c.after, c.shape
    if shape.dropped not in (-1, 1) or before.head or after.head or c.cleared:
        return False
    more, less = (after, before) if shape.dropped < 0 else (before, after)
    if more.role == "unknown":
        text, other = message_of(more), message_of(less)
        return not _answers(more) and (is_block(text) or (is_reminder(text) and not is_reminder(other)))
    if more.role not in ("user", "system") or is_reminder(less.line):
        return False
    begins = notes.begins_with_block
    return is_reminder(more.line) or (begins(more.ahead) and not begins(less.ahead))


def unread(c: Change) -> bool:
    """The text of a side is not known, but what changed can be named by its role."""
    if c.before.text is not None and c.after.text is not None:
        return False
    changed = {side.role for side in (c.before, c.after) if side.text != ""}
    return c.shape.resumed or (c.before.text is None and c.after.text is None) or changed == {"image"}


def unread_kind(c: Change) -> str | None:
    """The kind by the roles of what changed."""
    before, after = c.before, c.after
    if "image" in {side.role for side in (before, after) if side.text != ""}:
        return "image"
    if before.role == "reasoning" and before.text != "" and after.role != "reasoning":
        return "stripped_reasoning"
    put_in = c.shape.resumed and before.text == "" and after.role in ("system", "user")
    return "reminder" if put_in else None


def _tool_lines(before: Side, after: Side) -> bool:
    """Whether both first lines are schemas of tools, changed or not, or the one that was put in or taken out is."""
    lines = [side.line or side.ahead.split("\n", 1)[0] for side in (before, after)]
    schemas = [bool(SCHEMA.search(line)) for line in lines]
    within = bool(SCHEMA.search(before.head.rstrip().rsplit("\n", 1)[-1]))
    return all(schemas) or any(
        there and (within or other.text == "") for there, other in zip(schemas, (after, before), strict=True)
    )
