"""Texts that repeat what patterns look for are named in time that grows with their length: else this never ends."""

from __future__ import annotations

import pytest

from traces.divergence.kinds import name_kind
from traces.divergence.shapes import Shape, Side

REPEATED = [
    "<think>", "</think>", "<reminder", "<a-reminder>", "reminder_", "____", "</a>   ", "these tools ", "<tool_tools",
    "![", "[a ", '"description": "', "@a:", "dir>>", "id    ", "Mon   ", "todo ", "# x\n", "- [ ] ", "&lt;", "\\u0041",
    "1499999999.", "/a", "2025-01-01 ", "\n\n", "   ", "commit ", "<|a", "branch  ", "<function ", "summary ",
]  # fmt: skip
LENGTH = 40_000


@pytest.mark.parametrize("unit", REPEATED)
def test_repeated_texts_are_named_at_all(unit: str) -> None:
    text = (unit * LENGTH)[:LENGTH]
    half = LENGTH // 2
    for role, before, after, shape in (
        ("user", text, f"{text[:half]}X{text[half:]}", Shape(True, whole=True, dropped=-1)),
        ("unknown", f"{text}a\n", f"{text}b\n", Shape(False, kept=True)),
        ("system", "", text, Shape(True)),
        ("unknown", text, "", Shape(False, dropped=4, kept=True)),
    ):
        sides = (Side(role, one, one, f"{one}\nmore\n", head=text) for one in (before, after))
        assert name_kind(*sides, shape) != "image"
