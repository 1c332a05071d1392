"""The findings of a workload: what could hit, what is lost to what, how much cache it takes, what cannot be known."""

from __future__ import annotations

from typing import Any

import polars as pl

from analysis.findings.finding import Finding, Stated
from analysis.findings.frames import Frames
from analysis.findings.thresholds import FIRST, MOST, THRESHOLDS, at_least


def _answer(frames: Frames) -> Finding | None:
    row = frames.hit_rate
    if row["ceiling"] is None:
        return Finding(
            "no_identity",
            "No hit rate can be known: this trace says how long prompts are, not what they share. That needs block "
            "hashes, token ids or the text of the prompts.",
            {}, FIRST["unknown"], "data", {},
        )  # fmt: skip
    figures = {"ceiling": Stated(row["ceiling"], "rate"), "block": Stated(frames.block_size, "count")}
    words = "{ceiling} of the prompt tokens could hit in one cache that never evicts (blocks of {block} tokens)"
    low, high = row["ceiling_low"], row["ceiling_high"]
    if low is not None and high is not None and at_least(high - low, "head_range"):
        figures |= {"low": Stated(low, "rate"), "high": Stated(high, "rate")}
        words += "; {low} to {high}, as the system prompt and tools are not in the trace"
    coverage = row["ceiling_coverage"]
    if coverage is not None and not at_least(coverage, "whole_coverage"):
        figures["coverage"] = Stated(coverage, "rate")
        words += "; prompts are known for {coverage} of the input tokens, and nothing can be said of the rest"
    return Finding("ceiling", words + ".", figures, FIRST["answer"], "cache", {})


LOST = {
    "longer_ttl": "{tokens} tokens ({share} of the prompt tokens) were dropped for their age before they were needed "
    "again: a longer TTL keeps them",
    "more_capacity": "{tokens} tokens ({share} of the prompt tokens) were evicted before they were needed again: a "
    "larger cache keeps them",
    "same_replica": "{tokens} tokens ({share} of the prompt tokens) were cached on another replica than the one that "
    "was chosen",
    "wait": "{tokens} tokens ({share} of the prompt tokens) were computed twice, because a request with the same "
    "prefix was still running",
    "keep_history": "{tokens} tokens of history (as many as {share} of the prompt tokens) can no longer hit, because "
    "the next prompt changed or dropped earlier text",
    "go_on_from_last": "{tokens} tokens of history (as many as {share} of the prompt tokens) were left by prompts "
    "that continue from an earlier point of their session",
    "cache_marks": "{tokens} tokens ({share} of the prompt tokens) were shared and not read, because the cache marks "
    "ended before them",
    "unexplained": "{tokens} tokens ({share} of the prompt tokens) were shared with an earlier prompt and not read, "
    "for a reason that the trace does not show",
}
"""Remedy (`analysis.why.session_losses.REMEDIES`) -> what is said of the tokens that it would bring back."""


def _losses(frames: Frames) -> list[Finding]:
    found = []
    for row in frames.remedies or []:
        remedy, prefix = row["remedy"], frames.causes["prefix_tokens"] if frames.causes else 0
        share = row["lost_tokens"] / prefix if prefix else None
        if remedy not in LOST or not at_least(share, "lost_share") or share is None:
            continue
        figures = {"tokens": Stated(row["lost_tokens"], "tokens"), "share": Stated(share, "rate")}
        words, page, settings = LOST[remedy], "why", {"why-part": "sessions", "why-remedy": remedy}
        worst = _worst(frames.sessions, remedy)
        if worst is not None:
            figures["worst"] = Stated(worst["session_id"], "text")
            if row["sessions"] == 1:
                words += "; all in session {worst}"
            else:
                figures["sessions"] = Stated(row["sessions"], "count")
                figures["worst_tokens"] = Stated(worst[remedy], "tokens")
                words += "; in {sessions} sessions, most in session {worst} ({worst_tokens})"
            page, settings = "sessions", {"session": worst["session_id"]}
        found.append(Finding(remedy, words + ".", figures, 100 * share, page, settings))
    return found


def _worst(sessions: pl.DataFrame | None, remedy: str) -> dict[str, Any] | None:
    """The session that loses most to one remedy."""
    if sessions is None or sessions.is_empty():
        return None
    row = sessions.sort(remedy, descending=True, maintain_order=True).row(0, named=True)
    return row if row[remedy] else None


def _reported(frames: Frames) -> Finding | None:
    row = frames.provider
    if row is None or not row["prefix_tokens"]:
        return None
    lost, above = (part / row["prefix_tokens"] for part in (sum(row["lost_by_cause"].values()), row["above_tokens"]))
    if not at_least(max(lost, above), "provider_share"):
        return None
    figures = {
        "reported": Stated(row["reported_rate"], "rate"), "achievable": Stated(row["achievable_rate"], "rate"),
        "lost": Stated(lost, "rate"),
    }  # fmt: skip
    words = "The provider reports {reported} where {achievable} could hit: {lost} of the prompt tokens were lost"
    if above:
        figures["above"] = Stated(above, "rate")
        words += ", and {above} were read although the trace does not show that an earlier prompt had them"
    coverage = frames.hit_rate["reported_token_coverage"]
    if coverage is not None and not at_least(coverage, "whole_coverage"):
        figures["coverage"] = Stated(coverage, "rate")
        words += ". Reads are reported for {coverage} of the input"
    return Finding(
        "reported",
        words + ".",
        figures,
        100 * max(lost, above),
        "why",
        {"why-part": "provider", "why-reported": "session"},
    )


def _rounding(frames: Frames) -> Finding | None:
    row = frames.causes
    share = row["block_rounding"] / row["prefix_tokens"] if row and row["prefix_tokens"] else None
    if row is None or share is None or not at_least(share, "rounding_share"):
        return None
    return Finding(
        "block_rounding",
        "{tokens} tokens ({share} of the prompt tokens) are shared but end inside a block of {block}, so they do not "
        "hit: smaller blocks bring them back.",
        {"tokens": Stated(row["block_rounding"], "tokens"), "share": Stated(share, "rate"),
         "block": Stated(frames.block_size, "count")},
        100 * share, "why", {"why-part": "causes"},
    )  # fmt: skip


def _unrelated(frames: Frames) -> Finding | None:
    rows = frames.transitions.to_dicts()
    known: int = sum(row["prefix_tokens"] or 0 for row in rows)
    unrelated = [row for row in rows if row["transition"] == "unrelated"]
    share = (unrelated[0]["prefix_tokens"] or 0) / known if unrelated and known else None
    if share is None or not at_least(share, "unrelated_share"):
        return None
    return Finding(
        "unrelated",
        "{requests} requests ({share} of the prompt tokens) share nothing with the earlier prompts of their session: "
        "look for something at the front of the prompt that changes, such as a time or a random id.",
        {"requests": Stated(unrelated[0]["requests"], "count"), "share": Stated(share, "rate")},
        100 * share, "why", {"why-part": "causes", "why-by": "transition"},
    )  # fmt: skip


def _size(frames: Frames) -> Finding | None:
    ceiling = frames.hit_rate["ceiling"]
    if not ceiling:
        return None
    if not frames.ordered:
        return Finding(
            "no_order",
            "How large the cache has to be cannot be known: times are known inside a session only. Choose an arrival "
            "model to say when sessions start.",
            {}, FIRST["limit"], "cache", {},
        )  # fmt: skip
    if frames.curve is None:
        return None
    near = frames.curve.filter(pl.col("hit_rate") >= ceiling - THRESHOLDS["near_ceiling"].value)
    if near.is_empty():
        return None
    row = near.sort("capacity_blocks").row(0, named=True)
    return Finding(
        "size",
        "A cache of {capacity} tokens on one replica hits {rate}, within one point of the {ceiling} that could hit.",
        {"capacity": Stated(row["capacity_tokens"], "tokens"), "rate": Stated(row["hit_rate"], "rate"),
         "ceiling": Stated(ceiling, "rate")},
        FIRST["size"], "cache", {"cache-part": "sizes", "capacity": row["capacity_blocks"]},
    )  # fmt: skip


def _shape(frames: Frames) -> Finding | None:
    row = frames.workload
    if row["input_tokens_p50"] is None:
        return None
    figures = {name: Stated(row[f"input_tokens_{name}"], "tokens") for name in ("p50", "p90")}
    words = "Half of the prompts are longer than {p50} tokens, a tenth longer than {p90}"
    if row["input_output_ratio"] is not None:
        figures["ratio"] = Stated(row["input_output_ratio"], "ratio")
        words += "; input to output is {ratio}"
    return Finding("shape", words + ".", figures, FIRST["shape"], "overview", {})


def _nothing(frames: Frames, found: list[Finding]) -> Finding | None:
    if frames.remedies is None or any(0 < f.weight < FIRST["one_replica"] for f in found):
        return None
    return Finding(
        "nothing",
        "Nothing stands out: no cause loses as much as {bound} of the prompt tokens that could be brought back.",
        {"bound": Stated(THRESHOLDS["lost_share"].value, "rate")}, FIRST["nothing"], "why", {},
    )  # fmt: skip


def findings(frames: Frames) -> list[Finding]:
    """What stands out, most important first."""
    found = [f for f in (_answer(frames), _reported(frames), _rounding(frames), _unrelated(frames)) if f is not None]
    found += _losses(frames)
    more = (_nothing(frames, found), _size(frames), _shape(frames))
    return sorted([*found, *(f for f in more if f is not None)], key=lambda f: -f.weight)


ALWAYS = ("ceiling", "no_identity")
ABOUT: dict[str, tuple[str, ...]] = {
    "data": (*ALWAYS, *LOST, "reported", "unrelated", "block_rounding", "nothing"),
    "overview": (*ALWAYS, *LOST, "reported", "unrelated", "block_rounding", "nothing", "size", "no_order"),
    "cache": (*ALWAYS, "size", "no_order", "block_rounding", "more_capacity", "longer_ttl"),
    "why": ("no_identity", *LOST, "reported", "unrelated", "block_rounding", "nothing"),
    "hardware": (*ALWAYS, "size", "no_order", "shape"),
    "routing": (*ALWAYS, "same_replica", "size", "no_order"),
    "export": (*ALWAYS, "no_order", "shape"),
}
"""Page -> the kinds of findings that it is about."""
LAST = {"overview": ("size", "no_order")}
"""Page -> kinds of which one is kept although others weigh more."""


def of_page(found: list[Finding], page: str) -> list[Finding]:
    """The findings that a page begins with, at most `MOST`."""
    about = [f for f in found if f.kind in ABOUT[page]]
    last = [f for f in about if f.kind in LAST.get(page, ())]
    return [f for f in about if f not in last][: MOST - len(last)] + last
