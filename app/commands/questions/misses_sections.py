"""The sections of `misses`: what each answers, and how it is shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import click

from app.commands.shell.terminal import emit_rows, say

if TYPE_CHECKING:
    from analysis.store.question import Question
    from analysis.store.warehouse import Warehouse
    from analysis.why.misses import Misses

SECTIONS = ("causes", "sessions", "transitions", "reported", "divergences", "what-ifs", "ages")
"""What `--show` names, in the order in which it is shown."""

KEYS = {"causes": ("rates",), "sessions": ("remedies", "sessions"), "transitions": ("transitions",),
        "reported": ("reported",), "what-ifs": ("what_ifs",), "ages": ("eviction_age",)}  # fmt: skip
"""Section -> keys of the JSON object beside `rows` and `divergences`, which are always there."""

SMALL_NOTE = "* fewer than 20 sessions: the interval says little"


class Asked(NamedTuple):
    """What the sections answer: the dataset, the question, its misses, the axes, how many sessions by which remedy."""

    warehouse: Warehouse
    question: Question
    missed: Misses
    axes: tuple[str, ...]
    most: int
    remedy: str | None


def answers(asked: Asked, sections: tuple[str, ...]) -> dict[str, Any]:
    """The values of the JSON object's keys that these sections add."""
    values: dict[str, Any] = {}
    for section in SECTIONS:
        if section in sections and section in _MAKE:
            values |= _MAKE[section](asked)
    return values


def _rates(asked: Asked) -> dict[str, Any]:
    from analysis.why.intervals import group_rates

    rates = (
        {"axis": axis, **row}
        for axis in asked.axes
        for row in group_rates(asked.warehouse, asked.question, asked.missed, axis).to_dicts()
    )
    return {"rates": list(rates)}


def _sessions(asked: Asked) -> dict[str, Any]:
    from analysis.why.session_losses import remedy_totals, request_losses, session_losses
    from traces.dataset.input_names import input_names

    losses = request_losses(asked.warehouse, asked.question, asked.missed)
    frame = session_losses(asked.warehouse, asked.question, losses)
    if asked.remedy is not None:
        frame = frame.filter(frame[asked.remedy] > 0).sort(asked.remedy, descending=True, maintain_order=True)
    names = input_names(asked.warehouse.dataset)
    rows = [
        {"session_id": row.pop("session_id"), "input": names.get(row["input_label"]), **row}
        for row in frame.head(asked.most).to_dicts()
    ]
    return {"remedies": remedy_totals(asked.warehouse, losses), "sessions": rows}


def _transitions(asked: Asked) -> dict[str, Any]:
    from analysis.why.transition_losses import transition_losses

    rows = transition_losses(asked.warehouse, asked.question, asked.missed).to_dicts()
    for row in rows:
        row["hit_rate"] = row["hit"] / row["prefix_tokens"] if row["prefix_tokens"] else None
    return {"transitions": rows}


def _reported(asked: Asked) -> dict[str, Any]:
    from analysis.why.detailed_axis import DETAILED
    from analysis.why.intervals import provider_intervals
    from analysis.why.provider.gap import provider_gap

    values = []
    for axis in [axis for axis in asked.axes if axis not in ("all", DETAILED)] or ["model"]:
        ends = provider_intervals(asked.warehouse, asked.question, asked.missed, axis)
        by_group = {row["group"]: row for row in ends.to_dicts()}
        values += [
            {"axis": axis, **row, **by_group.get(row["group"], dict.fromkeys(ends.columns[1:])), "group": row["group"]}
            for row in provider_gap(asked.warehouse, asked.question, asked.missed, axis)
        ]
    return {"reported": values}


def _what_ifs(asked: Asked) -> dict[str, Any]:
    from analysis.why.edited.what_ifs import what_if_table
    from analysis.why.intervals import what_if_intervals

    if asked.question.definition != "tracetower":
        return {"what_ifs": None}  # they are recomputed with this program's ceiling
    table = what_if_table(asked.warehouse, asked.question, asked.missed)
    return {"what_ifs": what_if_intervals(asked.warehouse, asked.question, asked.missed, table).to_dicts()}


def _ages(asked: Asked) -> dict[str, Any]:
    from analysis.headline.eviction_age import eviction_age
    from analysis.store.question import BadQuestion, NeedsArrivals

    if asked.question.definition != "tracetower":
        return {"eviction_age": None}  # it replays this program's cache
    try:
        return {"eviction_age": eviction_age(asked.warehouse, asked.question).to_dicts()}
    except (NeedsArrivals, BadQuestion):
        return {"eviction_age": None}  # not known when requests arrive


_MAKE = {
    "causes": _rates, "sessions": _sessions, "transitions": _transitions, "reported": _reported, "what-ifs": _what_ifs,
    "ages": _ages,
}  # fmt: skip


# For people ----------------------------------------------------------------------------------------------------------


def show(values: dict[str, Any], sections: tuple[str, ...]) -> None:
    """The sections as tables on stdout."""
    first = True
    for section in SECTIONS:
        if section in sections:
            if not first:
                say()
            first = False
            _SHOW[section](values)


def _show_causes(values: dict[str, Any]) -> None:
    rows = values["rows"]
    several = len({row["axis"] for row in rows}) > 1
    say("Where the input tokens went")
    emit_rows(rows, leave_out=("first_seen_by_role",) if several else ("axis", "first_seen_by_role"))
    for row in rows[:1] if len(rows) == 1 else []:
        by_role = ", ".join(f"{role} {tokens:,}" for role, tokens in row["first_seen_by_role"].items())
        say(f"first seen by role: {by_role or '–'}")
    say("\nHit rates: token-weighted with its 95 % interval, mean of requests, weighted by attention saved")
    shown = [
        {
            "axis": row["axis"], "group": _marked(row), "sessions": row["sessions"], "hit_rate": row["rate"],
            "low_rate": row["low"], "high_rate": row["high"], "mean_request_rate": row["rate_per_request"],
            "attention_rate": row["rate_by_compute"],
        }
        for row in values["rates"]
    ]  # fmt: skip
    emit_rows(shown, leave_out=() if several else ("axis",))
    _note_small(values["rates"])


def _show_sessions(values: dict[str, Any]) -> None:
    say("What would bring lost tokens back (asked cache, changed histories, what the provider reports)")
    emit_rows(values["remedies"], leave_out=("meaning",))
    say("\nSessions to look at first")
    hidden = ("input_label", "what_brings_it_back", "role", "prefix_tokens", "provider_lost_tokens")
    none = tuple(row["remedy"] for row in values["remedies"])
    rows = values["sessions"]
    empty = tuple(name for name in rows[0] if name not in none and not any(row[name] for row in rows)) if rows else ()
    emit_rows(rows, leave_out=(*hidden, *empty))
    if rows:
        say(f"\nIts turns: tracetower query DATASET session_turns session={rows[0]['session_id']}")


def _show_transitions(values: dict[str, Any]) -> None:
    say("What happened between prompts, and what each loses")
    emit_rows(values["transitions"])


def _show_reported(values: dict[str, Any]) -> None:
    say("Reported by the provider against achievable, and what the gap was lost to")
    rows = values["reported"]
    causes = list(dict.fromkeys(cause for row in rows for cause in row["lost_by_cause"]))
    reasons = list(dict.fromkeys(reason for row in rows for reason in row["above_by_reason"]))
    shown = [
        {
            "axis": row["axis"], "group": row["group"], "requests": row["requests"],
            "achievable_rate": row["achievable_rate"], "reported_rate": row["reported_rate"],
            "gap_rate": row["gap_rate"],
            **{cause: row["lost_by_cause"].get(cause, 0) for cause in causes},
            "above": row["above_tokens"],
            **{f"above: {reason}": row["above_by_reason"].get(reason, 0) for reason in reasons},
        }
        for row in rows
    ]  # fmt: skip
    emit_rows(shown)


def _show_divergences(values: dict[str, Any]) -> None:
    say("Where consecutive prompts part")
    emit_rows(values["divergences"])


def _show_ages(values: dict[str, Any]) -> None:
    say("Age at eviction: time since the last use of what an LRU cache of that size evicts")
    if values["eviction_age"] is None:
        say("(only with --definition tracetower, and where it is known when requests arrive: see --arrivals)")
        return
    emit_rows(values["eviction_age"])


def _show_what_ifs(values: dict[str, Any]) -> None:
    say("What would change the ceiling")
    rows = values["what_ifs"]
    if rows is None:
        say("(only with --definition tracetower)")
        return
    shown = [
        {
            "what_if": row["what_if"], "value": row["value"], "hit_rate": row["hit_rate"],
            "difference_rate": row["difference"], "low_rate": row["low"], "high_rate": row["high"],
        }
        for row in rows
    ]  # fmt: skip
    emit_rows(shown)
    for name, note in {row["what_if"]: row.get("note") for row in rows}.items():
        if note:
            say(click.wrap_text(f"{name}: {note}", 110, "", "  "))


_SHOW = {
    "causes": _show_causes, "sessions": _show_sessions, "transitions": _show_transitions, "reported": _show_reported,
    "divergences": _show_divergences, "what-ifs": _show_what_ifs,
    "ages": _show_ages,
}  # fmt: skip


def _marked(row: dict[str, Any]) -> str:
    return f"{row['group']}{' *' if row['small'] else ''}"


def _note_small(rows: list[dict[str, Any]]) -> None:
    if any(row["small"] for row in rows):
        say(SMALL_NOTE)
