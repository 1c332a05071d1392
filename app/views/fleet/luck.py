"""What uniform placement does by itself, so that a policy is not praised or blamed for luck."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.replica import pieces
from app.visit import guard
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.fleet.placement import Placement

MOST_SESSIONS = 5000


@st.cache_data(show_spinner=False, max_entries=64)
def _placed(replicas: int, sessions: int, low: int, high: int) -> Placement:
    from analysis.fleet.placement import uniform_placement

    return uniform_placement(replicas, sessions, low, high)


@link.fragment
def draw(replicas: int, each: int, rows: Sequence[dict[str, Any]] = ()) -> None:
    """The panel: n replicas and s sessions each placed at random, exactly; and which policies differ from that.

    Args:
        replicas, each: where the inputs start.
        rows: policies with their vmr_running_requests, for the verdict.
    """
    st.subheader("What luck alone does", anchor=False)
    st.caption(
        "Sessions placed uniformly at random, exactly: no trace, no policy. A policy that is no more even than this "
        "adds nothing to luck."
    )
    with guard.guarded():
        a, b = st.columns(2)
        c, d = st.columns(2)
        n = int(a.number_input("Replicas", **link.at("luck-n", default=replicas)))
        s = int(
            b.number_input(
                "Sessions each", **link.at("luck-s", default=each),
                help="On average. Of running requests, if each is placed for itself.",
            )
        )  # fmt: skip
        low = int(c.number_input("At most", **link.at("luck-low")))
        high = int(d.number_input("At least", **link.at("luck-high", default=max(2, round(2.4 * each)))))
        if n * s > MOST_SESSIONS:
            st.info(
                f"{formats.count(n * s)} sessions are more than this panel counts exactly "
                f"({formats.count(MOST_SESSIONS)}). The chance of one given replica hardly depends on their number: "
                "ask for fewer replicas.", icon=":material/info:",
            )  # fmt: skip
            return
        _figures(_placed(n, n * s, low, high))
        if rows:
            _verdict(rows)


def _figures(p: Placement) -> None:
    one, two = st.columns(2)
    with one:
        figures.metric(
            f"One given: ≤ {p.low}", formats.rate(p.one_at_most_low, 2),
            "Chance that one given replica has at most this many. Binomial: also the long-run share of replicas. It "
            "does not depend on how many replicas there are.",
            f"Poisson {formats.rate(p.poisson_at_most_low, 2)} · expected {formats.plain(p.expected_at_most_low, 2)} "
            f"of {p.replicas}",
        )  # fmt: skip
        figures.metric(
            f"One given: ≥ {p.high}", formats.rate(p.one_at_least_high, 2),
            "Chance that one given replica has at least this many: binomial.",
            f"Poisson {formats.rate(p.poisson_at_least_high, 2)} · expected "
            f"{formats.plain(p.expected_at_least_high, 2)} of {p.replicas}",
        )  # fmt: skip
    with two:
        figures.metric(
            f"Any of {p.replicas}: ≤ {p.low}", formats.rate(p.any_at_most_low),
            "Chance that some replica has at most this many. Multinomial, exact. It tends to certainty as "
            "replicas are added.",
        )  # fmt: skip
        figures.metric(
            f"Any of {p.replicas}: ≥ {p.high}", formats.rate(p.any_at_least_high),
            "Chance that some replica has at least this many. Multinomial, exact.",
            f"the fullest: {formats.plain(p.max_mean)} on average, median {p.max_p50}",
        )  # fmt: skip
    band = p.vmr_band
    said = (
        "One replica has no spread."
        if band is None
        else f"One look at {p.replicas} such loads shows a variance of {band[0]:.2f} to {band[1]:.2f} times the mean "
        f"(95 %), {p.vmr:.2f} in the long run."
    )
    st.caption(said)
    pieces.behind(
        "How is this computed?",
        [
            ("P(one has k of S) = C(S, k) (1/n)^k (1 − 1/n)^(S − k)", "binomial"),
            ("P(all within [a, b]) = P(n Poissons cut to [a, b] sum to S) / P(Poisson(S) = S)",
             "a multinomial is independent Poissons given their sum"),
            ("band of the sample variance over the mean = χ²(n − 1) / (n − 1)", "Fisher's dispersion test"),
        ],
        notes=[
            "Placement balances sessions. Requests: variance/mean = q × that of sessions + (1 − q) at duty cycle q, so "
            "placing sessions alone cannot go below 1 − q.",
        ],
        computed="placement",
    )  # fmt: skip


def _verdict(rows: Sequence[dict[str, Any]]) -> None:
    """Which policies are more even than luck, like it, or worse: against the band of one look at the fleet."""
    known = [row for row in rows if row["vmr_running_requests"] is not None and row["vmr_band"] is not None]
    if not known:
        return
    low, high = known[0]["vmr_band"]
    sides: dict[str, list[str]] = {"More even than luck": [], "Like luck": [], "Less even than luck": []}
    for row in sorted(known, key=lambda row: row["vmr_running_requests"]):
        value = row["vmr_running_requests"]
        side = "More even than luck" if value < low else "Like luck" if value <= high else "Less even than luck"
        sides[side].append(f"{row['policy']} {value:.2f}")
    lines = [f"- **{side}**: {markdown(', '.join(names))}" for side, names in sides.items() if names]
    st.markdown("\n".join(lines))
    st.caption(
        f"Against the band of one look at {known[0]['replicas']:.0f} replicas, {low:.2f} to {high:.2f}. The policies' "
        "figures are averages over time, which scatter less: outside the band is no luck, inside it may still be skill."
    )
