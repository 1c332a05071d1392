"""A question to a dataset: block size, arrivals, window, definition, groups and filters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

DEFINITIONS = ("tracetower", "kvcache-simulator", "aiperf", "vllm", "vllm:0.20", "sglang")
"""Whose definition of a hit: Tracetower's, another tool's, or an engine's (vllm:0.20 has the older free-queue
order)."""
ENGINES = ("vllm", "sglang")
TEXT_BLOCK_TOKENS = 64


class BadQuestion(ValueError):
    """The dataset cannot answer this question. The message says why and what it could answer.

    Args:
        message: what is wrong, in the library's terms: it names parameters, never flags of the command line.
        parameter: the wrong parameter, as the function or `Question` spells it; None if it is not a single one.
        choices: values of that parameter that can be answered, the best first. The command line prints the first as a
            flag; a page shows each as a button.
    """

    def __init__(self, message: str, parameter: str | None = None, choices: Iterable[object] = ()) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.choices = tuple(str(choice) for choice in choices)


class NeedsArrivals(BadQuestion):
    """Times are relative, so all sessions would start at 0: the question has to name an arrival model."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} depends on when sessions start, and this dataset only knows times inside a session. Name an "
            "arrival model: staggered:600 (a session every 600 s), poisson:60 (60 an hour) or closed:8 (8 at a time)",
            "arrivals",
            ("staggered:600", "poisson:60", "closed:8"),
        )


class Question(NamedTuple):
    """The parameters of one question. `where` holds (axis, value) pairs; values of one axis are alternatives."""

    block_size: int | None = None
    arrivals: str = "recorded"
    window: str = "all"
    definition: str = "tracetower"
    where: tuple[tuple[str, str], ...] = ()
    timezone: str = "UTC"


class Window(NamedTuple):
    """Which requests count: all, the last fraction of them, or those that arrive in [from_s, to_s)."""

    last: float | None = None
    from_s: float | None = None
    to_s: float | None = None


def parse_window(text: str) -> Window:
    """Read "all", "last:F" or "from:T,to:T" (seconds from the trace's start).

    Raises:
        BadQuestion: for anything else.
    """
    if text == "all":
        return Window()
    number = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
    if last := re.fullmatch(rf"last:{number}", text):
        share = float(last[1])
        if 0 < share <= 1:
            return Window(last=share)
        raise BadQuestion(f"last:F takes a fraction above 0 and up to 1, not {last[1]}", "window", ["last:0.5"])
    either = re.fullmatch(rf"from:{number}(?:,to:{number})?|to:{number}", text)
    if either is None:
        raise BadQuestion(f"{text!r} is none of: all, last:0.5, from:0,to:3600", "window", ["all", "last:0.5"])
    start, end, only_end = (None if value is None else float(value) for value in either.groups())
    end = only_end if end is None else end
    if start is not None and end is not None and not start < end:
        raise BadQuestion(f"{text!r} ends before it starts", "window", [f"from:{end:g},to:{start:g}", "all"])
    return Window(from_s=start, to_s=end)


def engine_of(definition: str) -> tuple[str, str | None] | None:
    """(engine, version) if the definition is an engine's, else None; version None means the engine's newest."""
    engine, _, version = definition.partition(":")
    return (engine, version or None) if engine in ENGINES else None


def own_definition(question: Question, what: str) -> None:
    """Raise BadQuestion if `what` supports only Tracetower's own definition and the question names another."""
    if question.definition != "tracetower":
        raise BadQuestion(
            f"{question.definition} answers `curve` and `report`; {what} knows the definition tracetower only",
            "definition",
            ["tracetower"],
        )


def block_choice(asked: int | None, native: list[int]) -> int:
    """The block size to use: the requested one, else the largest native block, 64 for text.

    Raises:
        BadQuestion: the size is not a multiple of every native block.
    """
    whole = [n for n in native if n > 1]
    size = asked if asked is not None else (max(whole) if whole else TEXT_BLOCK_TOKENS)
    if size < 1:
        raise BadQuestion("a block holds at least 1 token", "block_size", [_multiple(native)])
    bad = sorted({n for n in native if size % n})
    if bad:
        least = _multiple(native)
        raise BadQuestion(
            f"block size {size} is no multiple of the native block of {', '.join(map(str, bad))} tokens in this "
            f"dataset. Choices: {least}, {2 * least}, {4 * least}, … (multiples of {least})",
            "block_size",
            [least, 2 * least, 4 * least],
        )
    return size


def _multiple(sizes: list[int]) -> int:
    import math

    return math.lcm(*sizes) if sizes else 1
