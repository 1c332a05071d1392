"""One setting of a page: its name in the link, type, default, and what it may be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from app.widgets import formats

NONE = "none"
"""A value that is not set, where that is not the default."""
LONGEST_TEXT = 2000
SHOWN_CHARACTERS = 40


class Setting(NamedTuple):
    """A setting; its name is the key of its widget and its parameter in the link."""

    name: str
    page: str
    """The page's path; "" where all pages share it."""
    kind: type
    """Of a value, or of each of several: str, int, float or bool."""
    default: Any = None
    """A list or a pair where there are several values; None where the page derives it from what is open."""
    choices: Callable[[], Sequence[Any]] | None = None
    """What it may be; None where that depends on what is open, and the page says it as the widget is drawn."""
    low: float | None = None
    high: float | None = None
    optional: bool = False
    """A number that may be left empty."""
    many: bool = False
    linked: bool = True
    """Whether it is part of the link; what is too long for one is kept for the visit alone."""
    always: bool = False
    """Whether it is in the link even at its default."""

    def write(self, value: Any) -> list[str]:
        """A value as texts of the link."""
        if self.many:
            return [_text(v) for v in value] or [""]
        return [_text(value)]

    def read(self, texts: list[str]) -> Any:
        """The value that texts of a link name.

        Raises:
            ValueError: it is none of this setting; the message says what would be.
        """
        if self.many:
            values = [self._one(text) for text in texts if text != ""]
            if isinstance(self.default, tuple):
                if len(values) != len(self.default) or values != sorted(values):
                    raise ValueError(f"must be {len(self.default)} numbers, the smaller first")
                return tuple(values)
            return list(dict.fromkeys(values))
        return self._one(texts[-1])

    def _one(self, text: str) -> Any:
        if self.choices is not None:
            choices = {_text(choice): choice for choice in self.choices()}
            if text not in choices:
                raise ValueError(f"must be one of {listed(list(choices))}")
            return choices[text]
        if text == NONE and self.optional:
            return None
        if self.kind is str:
            if len(text) > LONGEST_TEXT and self.linked:
                raise ValueError(f"must be a text of at most {formats.count(LONGEST_TEXT)} characters")
            return text
        if self.kind is bool:
            if text not in ("true", "false"):
                raise ValueError("must be true or false")
            return text == "true"
        try:
            value = self.kind(text)
        except ValueError:
            value = math.nan
        in_range = (self.low is None or value >= self.low) and (self.high is None or value <= self.high)
        if not math.isfinite(value) or not in_range:
            raise ValueError(f"must be {'a whole number' if self.kind is int else 'a number'}{self._range()}")
        return value

    def _range(self) -> str:
        if self.low is None:
            return ""
        return f" from {self.low:g}" + ("" if self.high is None else f" to {self.high:g}")


def _text(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


def listed(choices: Sequence[str]) -> str:
    """The first choices, and how many more there are."""
    shown = ", ".join(choices[:8])
    return shown if len(choices) <= 8 else f"{shown} and {len(choices) - 8} more"


def short(text: str) -> str:
    """A text of a link as a message shows it."""
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 2] + " …"
