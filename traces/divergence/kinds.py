"""What kind of change parts two prompts: by its shape, the roles of what differs and its words, kept without text.

Shape comes first: what was put in, taken out or replaced, whether whole messages were, and whether the two prompts go
on alike behind it. Words decide only where shape does not.
"""

from __future__ import annotations

import re

from traces.divergence.changes import (
    changed_tools,
    cleared,
    described_kind,
    first_lines_kind,
    inserted_kind,
    replaced_kind,
    text_tools,
)
from traces.divergence.difference import difference
from traces.divergence.inserts import begins_with_block, has_sections, is_block, is_reminder, is_summary
from traces.divergence.layout import WINDOW_CHARS, bare, same_but_layout
from traces.divergence.sides import Shape, Side, message_of
from traces.divergence.tools import SCHEMA
from traces.divergence.words import SPEAKER

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

PAIR_SHARE = 0.12
"""Two messages that were dropped, where the prompt goes on with what stood behind them, had so much of its tokens."""

FRESH_CHARS = 24
"""A text in the place of dropped messages is at least as long."""


SHORT_CHARS = 200
"""A message that only asks for a summary, or says that one follows, is shorter."""

_SPOKEN = re.compile(r"\A\W*(?:assistant|model|user)\n", re.IGNORECASE)
_THOUGHT = re.compile(
    r"\s*<(think|thinking|reasoning|thoughts?|scratchpad|analysis)>(.*?)</\1>\s*", re.IGNORECASE | re.DOTALL
)

SAME_CHARS = 60
"""A message that goes on alike for so many characters besides whitespace is the same one."""

LABEL_TAIL = 40
"""So many characters alike at the end of a message say that it is the same one."""


def name_kind(before: Side, after: Side, shape: Shape) -> str | None:
    """Name the change from `before` (the earlier prompt) to `after`: of KINDS or SHAPES; None where nothing fits."""
    if shape.compaction or after.role == "summary":
        return "summary"
    if "tools" in (before.role, after.role) or _tool_lines(before, after):
        return (described_kind(before, after) if shape.resumed else None) or "tool_schema"
    laid_out = same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], least=SAME_CHARS)
    if not laid_out and text_tools(before, after):
        return "tool_schema"
    if shape.unreasoned or _unreasoned(before, after):
        return "stripped_reasoning"
    if (shape.dropped > 0 or not shape.resumed) and _other_summary(before, after):
        return "summary"
    alike = after.role == "image" or shape.resumed or shape.kept
    if before.role == "image" and alike and shape.dropped < DROPPED_MESSAGES:
        return "image"
    if laid_out:
        return "whitespace"
    if shape.dropped > 0:
        kind = first_lines_kind(before, after, named_only=True)
        if kind is not None:
            return kind
    dropped = shape.dropped >= DROPPED_MESSAGES or (shape.dropped == 2 and shape.share >= 0.25)
    if not shape.resumed and shape.dropped < DROPPED_MESSAGES and cleared(before, after):
        return "edit"
    if (dropped or (shape.dropped == 2 and shape.share >= PAIR_SHARE)) and shape.skips:
        return "compaction"
    if _summarised(before, after, shape):
        return "summary"
    if dropped and shape.kept and len(message_of(after)) >= FRESH_CHARS:
        said = message_of(after)
        return "compaction" if is_reminder(said) or is_block(said) or _answers(after) else "summary"
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
            kind = inserted_kind(before, after, shape)
        else:
            kind = replaced_kind(before, after)
        return kind or ("edit" if shape.dropped <= 2 else "compaction" if after.text == "" else None)
    if shape.kept and shape.dropped <= 0 and found.low in (found.high_before, found.high_after):
        kind = inserted_kind(before, after, shape)
        if kind is not None:
            return kind
    if same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], before.ends):
        return "whitespace"
    if shape.dropped <= 0 and (same_but_layout(a, b) or (before.ends and _blank_end(before, after))):
        return "whitespace"
    if shape.dropped <= 0 and shape.kept and changed_tools(before, after):
        return "tool_schema"
    return first_lines_kind(before, after) or ("edit" if shape.kept and shape.dropped <= 0 else None)


def _summarised(before: Side, after: Side, shape: Shape) -> bool:
    """Whether the later prompt tells a summary there: another one, not the same with a small change."""
    if after.text == "" or not (is_summary(message_of(after)) or _titled(before, after)):
        return False
    if after.head.strip() and not before.head and not _titled(before, after):
        return False  # the summary stood there before, and something was put behind it
    if shape.resumed and shape.dropped <= 0 and same_but_layout(before.text or "", after.text or ""):
        return False
    if before.ends and same_but_layout(before.ahead[:WINDOW_CHARS], after.ahead[:WINDOW_CHARS], True):
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


def _other_summary(before: Side, after: Side) -> bool:
    """Whether a summary stands there, or in the message behind, that the earlier prompt has not further on."""
    known = bare(before.head + before.ahead)
    texts = [after.ahead] if _titled(before, after) else []
    if not after.head.strip():  # else what the message begins with stood there before
        texts.append(message_of(after))
    if len(message_of(after)) < SHORT_CHARS and not after.head and after.role in ("user", "assistant", "unknown"):
        said = [part for part in SPEAKER.split(after.ahead, maxsplit=3) if part.strip()]
        texts.append(_SPOKEN.sub("", said[1]) if after.role == "unknown" and len(said) > 1 else after.following)
    low = difference(before.ahead, after.ahead).low
    behind = after.ahead[low:]
    if behind.startswith("\n") and low <= len(after.line) + 1:  # at the end of what the message says anyway
        texts.append(behind.lstrip())
    if not after.head and after.role not in ("system", "unknown") and has_sections(after.ahead):
        texts.append(after.ahead)
    return any(is_summary(text) and bare(text)[:SHORT_CHARS] not in known for text in texts)


def _unreasoned(before: Side, after: Side) -> bool:
    """Whether the later prompt, of one text, goes on with what stands behind the earlier one's reasoning there."""
    thought, left = _THOUGHT.match(before.ahead), _THOUGHT.match(after.ahead)
    if thought is None or not thought[2].strip() or (left is not None and left[2].strip()):
        return False
    rest = before.ahead[thought.end() :], after.ahead[left.end() if left else 0 :]
    said, now = (SPEAKER.split(text, maxsplit=1)[0] for text in rest)
    return said.strip() == now.strip() != "" or same_but_layout(said, now)


def _answers(side: Side) -> bool:
    """Whether a model or a tool says what stands there: no summary that a harness puts in, but a kept message."""
    if side.role != "unknown":
        return side.role in ("assistant", "reasoning", "tool_result")
    return re.match(r"[\W_]*(?:im_start\W+)?(?:assistant|model|ai|tool)\b", side.ahead, re.IGNORECASE) is not None


def _injected(before: Side, after: Side, shape: Shape) -> bool:
    """Whether a message more is a reminder, or one less was, whatever else changed right behind it."""
    if shape.dropped not in (-1, 1) or before.head or after.head:
        return False
    more, less = (after, before) if shape.dropped < 0 else (before, after)
    if more.role == "unknown":
        said, other = message_of(more), message_of(less)
        return not _answers(more) and (is_block(said) or (is_reminder(said) and not is_reminder(other)))
    if more.role not in ("user", "system") or is_reminder(less.line):
        return False
    return is_reminder(more.line) or (begins_with_block(more.ahead) and not begins_with_block(less.ahead))


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


def _tool_lines(before: Side, after: Side) -> bool:
    """Whether both first lines are schemas of tools, changed or not, or the one that was put in or taken out is."""
    lines = [side.line or side.ahead.split("\n", 1)[0] for side in (before, after)]
    told = [bool(SCHEMA.search(line)) for line in lines]
    within = bool(SCHEMA.search(before.head.rstrip().rsplit("\n", 1)[-1]))
    return all(told) or any(
        there and (within or other.text == "") for there, other in zip(told, (after, before), strict=True)
    )


def _blank_end(before: Side, after: Side) -> bool:
    """Whether all that the earlier prompt has there is blank, and the later one goes on behind other blanks."""
    return not before.ahead.strip() and after.ahead[:1].isspace() and before.ahead != ""
