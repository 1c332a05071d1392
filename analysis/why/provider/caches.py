"""The rules of providers' prompt caches: the shortest prefix they cache, the step in which they match, cache marks.

Minima are the documented ones; if a provider's pages differ, the lower. The steps of Kimi, GPT and Mistral are those
that logged prompts show exactly (README, "Logged prompts against the provider's cached tokens"); if no minimum is
documented, it is one step. DeepSeek's step is its documented unit. Gemini documents no step and gets that of `UNKNOWN`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import polars as pl


class Rule(NamedTuple):
    """How a provider caches prompts of the models whose name contains `pattern`.

    Attributes:
        pattern: a part of the lower-case model name.
        minimum_tokens: the shortest prefix that it caches.
        step_tokens: a match is rounded down to a multiple of this; 1: exact to the token.
        marks: whether it caches only up to marks in the prompt (breakpoints), not up to where prompts differ.
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
"""Rules in order: the first whose pattern fits applies."""

UNKNOWN = Rule("", 1024, 128, True)
"""The rule for any other model: the most common minimum, and the step of the provider that documents one."""


def rule_of(model: str | None) -> Rule:
    """The rule for a model's name; `UNKNOWN` if none fits."""
    name = (model or "").lower()
    return next((rule for rule in RULES if re.search(rule.pattern, name)), UNKNOWN)


def rules_frame(model: pl.Series) -> pl.DataFrame:
    """minimum, step and marks for each of the models, one row per model."""
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
