"""What the prompt caches of providers take: the shortest prefix, the step in which they match, marks.

Minima are the providers' documented ones; where their pages differ, the lower. Steps of Kimi, GPT and Mistral are those
that logged prompts show exactly (README, "Logged prompts against the provider's cached tokens"), with their step as the
minimum of those that name none; DeepSeek's is its documented unit. Gemini names no step: it has that of `UNKNOWN`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl


class Rule(NamedTuple):
    """How a provider caches prompts of the models whose name holds `pattern`.

    Attributes:
        pattern: of the lower-case model name.
        minimum_tokens: the shortest prefix that it caches.
        step_tokens: a match is rounded down to multiples of it; 1: to the token.
        marks: it caches up to marks in the prompt (breakpoints), not wherever prompts part.
    """

    pattern: str
    minimum_tokens: int
    step_tokens: int
    marks: bool


RULES = (
    Rule(r"claude-?(opus-4[-.][56]|haiku-4[-.]5)", 4096, 1, True),
    Rule(r"claude.*haiku", 2048, 1, True),
    Rule(r"claude", 1024, 1, True),
    Rule(r"kimi|moonshot", 256, 256, False),
    Rule(r"mistral|ministral|codestral|devstral|magistral|pixtral", 32, 32, False),
    Rule(r"deepseek", 64, 64, False),
    Rule(r"gemini.*pro", 2048, 128, False),
    Rule(r"gemini", 1024, 128, False),
    Rule(r"gpt|codex|\bo[134]\b", 1024, 128, False),
)
"""The first that fits counts."""

UNKNOWN = Rule("", 1024, 128, True)
"""Of any other model: the commonest minimum, and the step of the provider that names one."""


def rule_of(model: str | None) -> Rule:
    """The rule for a model's name; `UNKNOWN` where none fits."""
    name = (model or "").lower()
    return next((rule for rule in RULES if re.search(rule.pattern, name)), UNKNOWN)


def rules_frame(model: pl.Series) -> pl.DataFrame:
    """minimum, step, marks for each of the models, a row a row."""
    names = model.unique().to_list()
    rules = [rule_of(name) for name in names]
    table = pl.DataFrame(
        {
            "model": pl.Series(names, dtype=pl.String),
            "minimum": [rule.minimum_tokens for rule in rules],
            "step": [rule.step_tokens for rule in rules],
            "marks": [rule.marks for rule in rules],
        }
    )
    given = pl.DataFrame({"model": model.cast(pl.String)})
    return given.join(table, on="model", how="left", nulls_equal=True, maintain_order="left").drop("model")
