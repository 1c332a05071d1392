"""The table of a fleet: one row per policy, with hit rate and load, and why a figure is unknown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from app.views.replica import pieces
from app.widgets import formats
from app.widgets.table import texts

Row = dict[str, Any]


def _with_interval(key: str, written: Callable[[Any], str], half: Callable[[float], str]) -> Callable[[Row], str]:
    def write(row: Row) -> str:
        ends = row[f"{key}_interval"]
        value = row["hit_rate" if key == "hit_rate" else "vmr_running_requests"]
        if ends is None or value is None or ends[1] - ends[0] < 1e-12:
            return written(value)
        return f"{written(value)} ± {half((ends[1] - ends[0]) / 2)}"

    return write


def _band(key: str) -> Callable[[Row], str]:
    return lambda row: formats.UNKNOWN if row[key] is None else pieces.band(row[key], formats.seconds)


def _number(key: str, digits: int) -> Callable[[Row], str]:
    def write(row: Row) -> str:
        value = row[key]
        whole = value is not None and float(value).is_integer() and digits < 2
        return formats.count(value) if whole else formats.plain(value, digits)

    return write


def _rounded(key: str) -> Callable[[Row], str]:
    return lambda row: formats.count(None if row[key] is None else round(row[key]))


def _loss(key: str) -> Callable[[Row], str]:
    return lambda row: formats.points(row[key]).replace("+", "").replace(f"{formats.SPACE}points", "")


COLUMNS: dict[str, tuple[Callable[[Row], str], str]] = {
    "Policy": (lambda row: str(row["policy"]), ""),
    "Hit rate": (
        _with_interval("hit_rate", formats.rate, lambda v: f"{100 * v:.1f}"), "hit_rate",
    ),
    "VMR": (
        _with_interval("vmr", lambda v: formats.plain(v, 2), lambda v: f"{v:.2f}"), "vmr_running_requests",
    ),
    "p99 running": (_number("p99_running_requests", 1), "p99_running_requests"),
    "Max / mean": (_number("max_over_mean_load", 2), "max_over_mean_load"),
    "Lost: placement": (_loss("loss_placement"), "loss_placement"),
    "Lost: capacity": (_loss("loss_capacity"), "loss_capacity"),
    "Cold tokens": (lambda row: formats.tokens(row["cold_prefill_tokens"]), "cold_prefill_tokens"),
    "Duty cycle": (lambda row: formats.rate(row["duty_cycle"], 0), "duty_cycle"),
    "Moves": (_rounded("session_moves"), "session_moves"),
    "TTFT p50": (_band("ttft_s_p50"), "ttft_s"),
    "TTFT p99": (_band("ttft_s_p99"), "ttft_s"),
    "Waited": (_rounded("queued_requests"), "queued_requests"),
    "VMR of sessions": (_number("vmr_sessions", 2), "vmr_sessions"),
    "Held twice": (lambda row: formats.tokens(row["duplicate_resident_tokens"]), "duplicate_resident_tokens"),
    "Most of one session": (_rounded("max_in_flight_per_session"), "max_in_flight_per_session"),
}  # fmt: skip
"""Heading -> (how a row's cell is written, the figure it shows)."""

MORE = {
    "max_over_mean_load": "prompt tokens sent to the fullest replica over the mean",
    "session_moves": "requests that went to another replica than the session's request before",
    "queued_requests": "requests that did not start at once: no slot, or no room for their KV",
    "max_in_flight_per_session": "requests of one session in flight at once, at most: above 2 it is thicc",
}
"""Figures that `analysis.fleet.load_figures.DEFINITION` leaves to their names."""


def definition(figure: str) -> str:
    """What a figure of the table is."""
    from analysis.fleet.load_figures import DEFINITION

    return DEFINITION.get(figure) or MORE[figure]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Rows by hit rate, unknown rates as they are; what sends everything to one replica is no answer, so it is last."""
    from analysis.findings.fleet import on_one_replica

    return sorted(rows, key=lambda row: (on_one_replica(row), -(row["hit_rate"] or 0.0)))


def policies(rows: Sequence[Row]) -> None:
    """One row a policy, best hit rate first; those that use one replica of several last."""
    ordered = in_order(rows)
    shown = {heading: [write(row) for row in ordered] for heading, (write, _) in COLUMNS.items()}
    config = {
        heading: st.column_config.TextColumn(
            alignment="left" if heading == "Policy" else "right", help=definition(figure) if figure else None,
            pinned=heading == "Policy",
        )
        for heading, (_, figure) in COLUMNS.items()
    }  # fmt: skip
    st.dataframe(shown, hide_index=True, column_config=config, alt="Hit rate and load by policy")
    band = rows[0]["vmr_band"]
    luck = (
        f" One look at {rows[0]['replicas']} replicas of pure luck shows {band[0]:.2f} to {band[1]:.2f} (95 %)."
        if band is not None
        else ""
    )
    st.caption(
        f"VMR: variance over mean of the requests in flight on a replica, 0 is perfectly even.{luck} Lost: points of "
        "hit rate against one shared cache of the same total size. Cold tokens: computed though another replica "
        "held them."
    )


def reasons(rows: Sequence[Row], service: str, replicas: int) -> list[str]:
    """Why figures of the table are unknown, a sentence each."""
    row = rows[0]
    why = []
    if row["hit_rate"] is None:
        why.append(
            "**Hit rates and losses**: this trace has no block identity. It says how long prompts are, "
            "not what they share."
        )
    if service == "instant":
        why.append(
            "**VMR, p99, duty cycle, waiting**: where answers take no time nothing is in flight. "
            "Choose recorded durations or a model."
        )
    elif replicas == 1:
        why.append("**VMR**: one replica has nobody to differ from.")
    if row["ttft_s_p99"] is None and service != "instant":
        why.append(
            "**TTFT**: not every request records one. By a model and its GPUs it is estimated, as a band."
            if service == "recorded"
            else "**TTFT**: no request was served."
        )
    if row["session_moves"] is None:
        why.append("**Moves, duty cycle**: this trace names no sessions.")
    if row["estimated_duration_requests"]:
        why.append(
            f"**Estimated durations**: {formats.count(round(row['estimated_duration_requests']))} requests record "
            "none. They take their output tokens at the pace of the others, else the median."
        )
    return why


def pairs(found: Sequence[Row], seeds: int) -> None:
    """Paired differences a - b under the same seeds, with 95 % intervals."""

    def span(ends: list[float] | None, written: Callable[[float], str]) -> str:
        if ends is None:
            return formats.UNKNOWN
        first, last = (written(end).replace(f"{formats.SPACE}points", "") for end in ends)
        return first if first == last else f"{first} to {last}"

    def signed(value: float) -> str:
        return f"{value:+.2f}".replace("-", "−")

    texts(
        {
            "a": [row["a"] for row in found],
            "b": [row["b"] for row in found],
            "Hit rate, a − b in points": [span(row["hit_rate_difference"], formats.points) for row in found],
            "VMR, a − b": [span(row["vmr_difference"], signed) for row in found],
        },
        "Paired differences between policies", ("Hit rate, a − b in points", "VMR, a − b"),
    )  # fmt: skip
    st.caption(
        f"95 % interval of the mean difference over {seeds} seeds, each pair under the same seeds."
        if seeds > 1
        else "One seed: the difference itself."
    )


def events(rows: Sequence[Row]) -> None:
    """What fleet events cost: sessions moved against the least that must move, tokens recomputed."""
    lines = [(row["policy"], row["seed"], event) for row in rows for event in row["events"]]
    if not lines:
        return
    st.subheader("Events", anchor=False)
    texts(
        {
            "Policy": [name for name, _, _ in lines],
            "Seed": [str(seed) for _, seed, _ in lines],
            "Event": [f"{e['kind']} after {formats.seconds(e['at_s'])}" for _, _, e in lines],
            "Replicas": [
                formats.UNKNOWN if e["replicas_before"] is None else f"{e['replicas_before']} → {e['replicas_after']}"
                for _, _, e in lines
            ],
            "Live sessions": [formats.count(e["live_sessions"]) for _, _, e in lines],
            "Moved": [formats.count(e["moved_sessions"]) for _, _, e in lines],
            "Share": [formats.rate(e["moved_share"]) for _, _, e in lines],
            "Least share": [formats.rate(e["least_share"]) for _, _, e in lines],
            "Tokens recomputed": [formats.tokens(e["recomputed_tokens"]) for _, _, e in lines],
        },
        "Fleet events", ("Seed", "Replicas", "Live sessions", "Moved", "Share", "Least share", "Tokens recomputed"),
    )  # fmt: skip
    st.caption(
        "Moved: live sessions whose next request went elsewhere. Least share: what must move to spread them evenly, "
        "1/(n + 1) for one replica more. A dash: the event came after the last request."
    )
