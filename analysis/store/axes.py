"""The axes that requests are grouped and filtered by: one table, from which the SQL of the views is generated."""

from __future__ import annotations

from typing import NamedTuple

from analysis.store.question import BadQuestion


class Axis(NamedTuple):
    """One axis.

    Attributes:
        column: the column of the view `facts` that holds a request's group.
        meaning: what the groups are, in one sentence.
        order: an expression over a row of `facts` whose least value in each group puts the groups in order; "" for the
            order of their names.
    """

    column: str
    meaning: str
    order: str = ""


AXES = {
    "trajectory_type": Axis(
        "trajectory_type",
        "The most cache-hostile thing that happened in the session: edited, compacted, branched, append or single.",
    ),
    "role": Axis("role", "Role of the session: main, subagent, side or unknown."),
    "trigger": Axis("trigger", "What the prompt ends with: a message of the user, or the result of a tool."),
    "work": Axis("work", "What the reply does: explore, edit, execute, plan or other."),
    "transition": Axis("transition", "How the prompt relates to the session's earlier prompts."),
    "model": Axis("model", "The model that answered."),
    "agent": Axis("agent", "The coding agent that sent the prompt."),
    "source": Axis("source", "The format that the request was read from."),
    "session": Axis("session_id::VARCHAR", "The session."),
    "day": Axis("day", "The calendar day of the arrival, in the question's time zone."),
    "turn": Axis("turn_group", "The request's position in its session, from 0, in ranges.", "turn"),
    "gap": Axis("gap_group", "Time since the session's previous request ended, in ranges.", "gap_s"),
    "prompt_length": Axis("length_group", "Tokens of the prompt, in ranges.", "coalesce(prefix_tokens, input_tokens)"),
}
"""Name of each axis in a question, and where its groups come from. `all` puts every request into one group."""


def check_axis(axis: str) -> str:
    """Return `axis` if it is one.

    Raises:
        BadQuestion: the message lists the axes.
    """
    if axis not in AXES:
        raise BadQuestion(unknown_axis(axis), "axis", AXES)
    return axis


def unknown_axis(axis: str, more: tuple[str, ...] = ()) -> str:
    """The message for an unknown axis; `more` are the axes that one question has in addition to the common ones."""
    return f"unknown axis {axis!r}. Axes: {', '.join([*AXES, *more])}"


def group_sql() -> str:
    """The SQL expression for a request's group on the macro parameter `axis`."""
    names = "\n".join(f"  WHEN '{name}' THEN {axis.column}" for name, axis in AXES.items())
    message = unknown_axis("{}").replace("'{}'", "")
    return f"CASE axis\n  WHEN 'all' THEN 'all'\n{names}\n  ELSE error('{message}')\nEND"


def order_sql() -> str:
    """The SQL expression that puts the groups of the macro parameter `axis` in order, null where their names do."""
    names = " ".join(f"WHEN '{name}' THEN ({axis.order})::DOUBLE" for name, axis in AXES.items() if axis.order)
    return f"CASE axis {names} END"


def filter_sql() -> str:
    """The SQL condition for a question's filters: the session variable `where_AXIS` holds the allowed groups."""
    return "\n".join(
        f"  AND (getvariable('where_{name}') IS NULL"
        f" OR list_contains(getvariable('where_{name}'), coalesce({axis.column}, 'unknown')))"
        for name, axis in AXES.items()
    )
