"""What happened between prompts, in words."""

from __future__ import annotations

from app.widgets import formats

TRANSITIONS = {
    "cold_start": ("cold start", "the session begins, and nothing of its prompt was seen before"),
    "warm_start": ("warm start", "the session begins with a prefix that was seen before"),
    "subagent_start": ("sub-agent start", "a sub-agent begins"),
    "side_request": ("side request", "a short request beside the conversation, such as a title"),
    "first": ("first", "the session begins"),
    "append": ("append", "the prompt extends the one before it"),
    "retry": ("retry", "the same prompt was sent again"),
    "fork": ("fork", "it continues an earlier prompt while another request still extends that one"),
    "rewind": ("rewind", "it goes back to an earlier prompt and continues there"),
    "parallel_chain": ("parallel chain", "it continues a second conversation of the same session"),
    "tail": ("end replaced", "only the end of the prompt before it was replaced"),
    "unrelated": ("unrelated", "it shares nothing with any earlier prompt of the session"),
    "compaction": ("compaction", "the history was replaced by something shorter"),
    "system_change": ("head changed", "the system prompt or the tools changed, so everything after them did"),
    "edit": ("history edited", "text in the middle of the history changed, and so did all that follows it"),
    "model_switch": ("model switch", "another model answers, and models share no cache"),
}
"""Transition in detail -> its name, and what it means."""


def transition_name(transition: str | None) -> str:
    """A transition's name."""
    return "not known" if transition is None else TRANSITIONS.get(transition, (transition.replace("_", " "), ""))[0]


def transition_means(transition: str | None) -> str:
    """A transition in words."""
    if transition is None:
        return "how it relates to the earlier prompts is not known"
    return TRANSITIONS.get(transition, ("", transition.replace("_", " ")))[1]


def lower(name: str) -> str:
    """A name inside a sentence: TTL and other abbreviations stay as they are."""
    return name[:1].lower() + name[1:]


def plural(number: int, noun: str) -> str:
    """A number and its noun."""
    return f"{formats.count(number)} {noun}{'' if number == 1 else 's'}"
