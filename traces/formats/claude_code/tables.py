"""The columns of a transcript: content parts, lines, calls and names, some hundred bytes a line."""

from __future__ import annotations

from array import array
from typing import NamedTuple

from traces.formats.claude_code.parts import CALL, ELASTIC, Part
from traces.records import ROLES
from traces.text.blocks import IMAGE_TOKENS
from traces.text.lengths import prompt_estimate
from traces.text.text_counts import TextCounts
from traces.usage.rules import Usage

UNKNOWN_FIGURES = (-1,) * 5


class PartTable:
    """Content parts. `share`: the provider tokens allotted to a part of an answer, -1 while nobody has."""

    def __init__(self) -> None:
        self.key = array("Q")
        self.text = array("i")  # the number of its text, -1: none
        self.counted = array("I")  # by the tokenizer, once `count` was called
        self.code = array("B")
        self.share = array("q")

    def append(self, part: Part) -> None:
        """Add a part at the end."""
        self.key.append(part.key)
        self.text.append(part.text)
        self.code.append(part.code)
        self.share.append(-1)

    def count(self, counts: TextCounts) -> None:
        """Take the counts of the texts, waiting for them."""
        counts.settle(max(self.text, default=-1) + 1)
        tokens = counts.tokens
        self.counted = array("I", [tokens[text] if text >= 0 else 0 for text in self.text])
        self.text = array("i")

    def __len__(self) -> int:
        return len(self.key)

    def role(self, at: int) -> str:
        """The node role of a part."""
        return ROLES[self.code[at] & (CALL - 1)]

    def calls(self, at: int) -> int:
        """Tool calls in a part, 0 or 1."""
        return int(self.code[at] & CALL != 0)

    def elastic(self, at: int) -> bool:
        """Whether the transcript does not show the size of a part (an image, a document)."""
        return self.code[at] & ELASTIC != 0

    def estimate(self, at: int) -> float:
        """Provider tokens expected of a part in a prompt."""
        code = self.code[at]
        return IMAGE_TOKENS if code & ELASTIC else prompt_estimate(self.counted[at], int(code & CALL != 0))


class Stream(NamedTuple):
    """What lines of one agent of one session have in common."""

    session: str
    agent: str | None
    side: bool


class LineTable:
    """Lines by position in the file. Times are seconds or NaN; -1 stands for no line and no call."""

    def __init__(self) -> None:
        self.ordinal = array("q")
        self.flags = array("B")
        self.parent = array("i")
        self.stream = array("i")
        self.at_s = array("d")
        self.version = array("i")
        self.first_part = array("I")
        self.call = array("i")
        self.next_block = array("i")  # the next line of the same call
        self.result = array("Q")  # digest of the first tool call that the line answers, 0: none
        self.next_result = array("i")  # the next line that answers the same call

    def __len__(self) -> int:
        return len(self.ordinal)


class CallTable:
    """Calls in the order of their first lines. `figures`: five counts a call, -1 unknown, as in `Usage`."""

    def __init__(self) -> None:
        self.key: list[str] = []
        self.first = array("q")
        self.last = array("q")
        self.lines = array("q")
        self.last_s = array("d")
        self.model = array("i")
        self.stop = array("i")
        self.classes = array("B")  # bit i: a tool of CLASSES[i] was called
        self.copied = array("B")
        self.results = array("q")  # the first line that answers one of its tools
        self.figures = array("q")

    def __len__(self) -> int:
        return len(self.key)

    def add(self, key: str, at: int) -> int:
        """A new call, whose first line is `at`; return its number."""
        self.key.append(key)
        self.first.append(at)
        self.last.append(at)
        self.lines.append(1)
        self.model.append(0)
        self.stop.append(0)
        self.classes.append(0)
        self.copied.append(0)
        self.results.append(-1)
        self.last_s.append(float("nan"))
        self.figures.extend(UNKNOWN_FIGURES)
        return len(self.key) - 1

    def output_tokens(self, call: int) -> int | None:
        """Output tokens as the provider counted them, to the end or not."""
        figure = self.figures[5 * call + 3]
        return None if figure < 0 else figure

    def reasoning_tokens(self, call: int) -> int | None:
        """Output tokens that are reasoning."""
        figure = self.figures[5 * call + 4]
        return None if figure < 0 else figure

    def usage(self, call: int) -> Usage | None:
        """The usage of a call, None where none came."""
        total, read, written, output, reasoning = figures = self.figures[5 * call : 5 * call + 5]
        if max(figures) < 0:
            return None
        return Usage(
            total if total >= 0 else None,
            read if read >= 0 else None,
            written if written >= 0 else None,
            output if output >= 0 else None,
            reasoning if reasoning >= 0 else None,
        )

    def input_tokens(self, call: int) -> int | None:
        """All prompt tokens, as the provider counted them."""
        figure = self.figures[5 * call]
        return None if figure < 0 else figure

    def read_tokens(self, call: int) -> int:
        """Prompt tokens found in the provider's cache; 0 also where that is unknown."""
        return max(0, self.figures[5 * call + 1])

    def cached_total(self, call: int) -> int:
        """Prompt tokens in the provider's cache once the call was made, read or written; 0 where unknown."""
        return self.read_tokens(call) + max(0, self.figures[5 * call + 2])


class Names:
    """Distinct strings and their positions; position 0 is None."""

    def __init__(self) -> None:
        self.values: list[str | None] = [None]
        self._at: dict[str | None, int] = {None: 0}

    def position(self, value: str | None) -> int:
        """Return the position of `value`, a new one for a new value."""
        found = self._at.get(value)
        if found is None:
            found = self._at[value] = len(self.values)
            self.values.append(value)
        return found
