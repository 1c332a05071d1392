"""A change between two prompts: its two sides, and properties of them that several tests use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

from traces.divergence import notes
from traces.divergence.notes import same_but_layout
from traces.divergence.shapes import Shape, Side
from traces.divergence.units import SPEAKER
from traces.divergence.values import Difference, difference, is_clock, is_git_lines, is_nonce, is_place

DROPPED_MESSAGES = 3
"""From this many dropped messages on no single message was taken out; two have to be a quarter of the prompt."""

LABEL_TAIL = 40
"""This many equal characters at the end of a message say that it is the same one."""

SAME_CHARS = 60
"""A message is the same one if this many of its characters besides whitespace are alike after a change of layout."""

SAME_WORDS = 300
"""How many words of two messages are compared to see whether one is the other with changes."""

SAME_SHARE = 0.75
"""A message is the same one if this share of its words are alike."""

WINDOW_CHARS = 400
"""How much of two texts is compared when only their layout may differ."""

_OBSERVED = re.compile(r"\W*(?:observation|output|(?:tool )?results?)\b", re.IGNORECASE)
CLEARED = re.compile(r"\b(?:removed|omitted|cleared|truncated|elided|pruned|masked|hidden)\b", re.IGNORECASE)
MODELS = ("assistant", "tool_result", "reasoning")
"""Roles whose texts no harness writes."""


@dataclass(frozen=True)
class Change:
    """The two sides of a place where prompts differ, and properties of them that several tests use."""

    before: Side
    after: Side
    shape: Shape

    @cached_property
    def windows(self) -> tuple[str, str]:
        """The common beginning of both texts, from the change on."""
        return self.before.ahead[:WINDOW_CHARS], self.after.ahead[:WINDOW_CHARS]

    @cached_property
    def many(self) -> bool:
        """Whether several messages were dropped."""
        return self.shape.dropped >= DROPPED_MESSAGES or (self.shape.dropped == 2 and self.shape.share >= 0.25)

    @cached_property
    def laid_out(self) -> bool:
        """Whether the layout of a message changed, and nothing else."""
        return same_but_layout(*self.windows, least=SAME_CHARS)

    @cached_property
    def ended(self) -> tuple[Side, Side] | None:
        """The sides where the earlier prompt ended, if it did and was continued otherwise."""
        return None if self.shape.resumed else _ended(self.before, self.after)

    @cached_property
    def lines(self) -> Change:
        """The change of the lines that differ."""
        return self if self.ended is None else Change(*self.ended, self.shape)

    @cached_property
    def found(self) -> Difference:
        """Where the changed lines differ."""
        return difference(self.before.text or "", self.after.text or "")

    @cached_property
    def first_line(self) -> Difference:
        """Where the first changed lines differ."""
        return difference(self.before.line, self.after.line)

    @cached_property
    def one_sided(self) -> bool:
        """Whether text was only inserted, or only removed."""
        return self.found.low in (self.found.high_before, self.found.high_after)

    @cached_property
    def side(self) -> Side:
        """The side with the text that the other side lacks."""
        return self.after if self.found.changed[1] else self.before

    @cached_property
    def extra(self) -> str:
        """The text that only one side has."""
        gone, new = self.found.changed
        return new or gone

    @cached_property
    def alone(self) -> bool:
        """Whether the whole text there changed, with no equal text around it."""
        return self.extra == (self.side.text or "")

    @cached_property
    def label(self) -> str:
        """The text before it on its lines."""
        return "" if self.alone else self.found.label

    @cached_property
    def last(self) -> bool:
        """Whether nothing follows it on its lines."""
        return not self.found.after[self.found.high_after :].strip()

    @cached_property
    def value(self) -> str | None:
        """The kind of a value that changed within its line (or its lines): a time, a place, an id."""
        lines = self.first_line
        if lines.low >= len(self.before.line):
            lines = self.found  # the first line is the same
        if is_clock(lines):
            return "clock"
        role = "tool_result" if _OBSERVED.match(self.after.head) else self.after.role
        if is_place(lines, role):
            return "working_directory"
        for a, b in ((self.before.text, self.after.text), (self.before.line, self.after.line)):
            if is_git_lines(a or "", b or "", self.after.head, role):
                return "working_directory"
        return "nonce" if is_nonce(lines) else None

    @cached_property
    def inner_value(self) -> str | None:
        """`value`, where something stands around the text that was put in or taken out."""
        return None if self.alone else self.value

    @cached_property
    def cleared(self) -> bool:
        """Whether a note that something was left out replaces a text."""
        gone, new = self.first_line.changed
        image = notes.IMAGE.search(self.before.line) or notes.IMAGE.search(self.after.line)
        return not image and bool(CLEARED.search(new)) and not CLEARED.search(gone)

    @cached_property
    def stages(self) -> frozenset[str]:
        """Which tests apply to the changed lines."""
        if self.before.text is None or self.after.text is None:
            return frozenset()
        lines = self.lines
        inserted = {"inserted"} if lines.one_sided and lines.extra else set()
        if self.shape.resumed or self.ended is not None:
            return frozenset({*({"replaced"} if not lines.one_sided else inserted), "resumed"})
        return frozenset({"parted", *(inserted if self.shape.kept and self.shape.dropped <= 0 else ())})


def _ended(before: Side, after: Side) -> tuple[Side, Side] | None:
    """The two sides where a prompt ends with lines that the later one lacks, or has others for: what was put after its
    last message, or into its end, before the next one came."""
    if not before.ends:
        return None
    if before.role == "unknown":
        mark = SPEAKER.search(after.ahead)
        if mark is None or SPEAKER.search(before.ahead):
            return None
        a, b = before.ahead.rstrip(), after.ahead[: mark.start()].rstrip()
    else:
        a, b = (before.text or "").rstrip(), (after.text or "").rstrip()
        if before.role in MODELS[:1] or a != before.ahead.rstrip() or len(b) == len(after.ahead.rstrip()):
            return None  # more than the last message changed, or nothing follows it
    if a == b:
        return None
    sides = before._replace(text=a, line=a), after._replace(text=b, line=b)
    if same_but_layout(a, b):
        return sides
    found = difference(a, b)
    label = before.head + found.label
    tail = len(a) - found.high_before
    if not label.strip() and tail == min(len(a), len(b)) > 0:  # the whole message stands after something new
        return sides if before.role == "image" or found.changed[len(b) > len(a)].endswith("\n") else None
    same = tail > LABEL_TAIL or 2 * (len(label) + tail) > len(before.head) + max(len(a), len(b))
    same = same or _mostly_alike(a, b)
    if not label.strip() or not (same or label.endswith("\n") or all(c[:1] in ("", "\n") for c in found.changed)):
        return None
    return sides


def _mostly_alike(a: str, b: str) -> bool:
    """Whether most words of two texts are the same ones in the same order, as far as `SAME_WORDS` reach."""
    words = a.split()[:SAME_WORDS], b.split()[:SAME_WORDS]
    return SequenceMatcher(None, *words, autojunk=False).ratio() >= SAME_SHARE
