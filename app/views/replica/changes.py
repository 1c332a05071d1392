"""What a change buys: precision, GPUs, a drafter, a host tier; each with its formula, its source and its price."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.replica import evaluations, pieces
from app.views.replica.choices import Chosen
from app.views.replica.speed import Load
from app.visit.link import link
from app.visit.link.schema import KV_DTYPES
from app.widgets import formats
from app.widgets.plain_text import markdown
from app.widgets.table import texts

if TYPE_CHECKING:
    from analysis.replica.changes import Change
    from analysis.replica.workload import Workload

NOT_EVALUATED = "not evaluated"
WRITTEN: dict[str, Callable[[float], str]] = {
    "tokens": formats.tokens,
    "tokens/s": pieces.speed,
    "rate": formats.rate,
    "s": formats.seconds,
    "": lambda v: f"{v:.2f}",
}


def draw(chosen: Chosen, load: Load, workload: Workload | None) -> None:
    """Four changes, each on its own: tables of before and after, their formulas."""
    st.subheader("What does a change buy?", anchor=False)
    st.caption(f"Each change alone, from {chosen.short}. Speeds are estimates, at {load.batch} requests at once.")
    runs = workload.runs if workload is not None else None
    left, right = st.columns(2, gap="medium")
    with left:
        _precision(chosen, load, runs)
        _drafter(load)
    with right:
        _gpus(chosen, load, runs)
        _tier(chosen, load, runs)


def _table(rows: list[Change], measured: bool = False) -> None:
    written = [WRITTEN[r.unit] for r in rows]
    texts(
        {
            "": [r.quantity[:1].upper() + r.quantity[1:] for r in rows],
            "Before": [w(r.before) for r, w in zip(rows, written, strict=True)],
            "After": [w(r.after) for r, w in zip(rows, written, strict=True)],
            "Change": [_difference(r) for r in rows],
        },
        f"What changes with {rows[0].change}", ("Before", "After", "Change"),
    )  # fmt: skip
    pieces.behind("Formulas and sources", [(f"{r.quantity}: {r.formula}", r.source) for r in rows])


def _difference(row: Change) -> str:
    if row.unit == "rate":
        return formats.points(row.after - row.before)
    if row.unit == "s" and row.ratio:
        return f"{1 / row.ratio:.3g}{formats.SPACE}× sooner"
    return f"{row.ratio:.3g}{formats.SPACE}×" if row.ratio is not None else formats.UNKNOWN


def _shown(make: Callable[[], list[Change]]) -> list[Change] | None:
    try:
        return make()
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return None


def _precision(chosen: Chosen, load: Load, runs: Any) -> None:
    from analysis.replica.changes import precision_change

    now = chosen.replica.kv_dtype
    with st.container(border=True):
        st.markdown("**KV precision**")
        options = [d for d in KV_DTYPES if d != now]
        to = st.selectbox(f"From {now} to", **link.at("to-kv", options))
        pairs = evaluations.evaluation(f"{now} → {to}")
        rows = _shown(
            lambda: precision_change(
                chosen.replica, load.service, str(to), load.batch, load.live, pairs[0] if pairs else None, runs
            )
        )
        if rows is None:
            return
        _table(rows)
        if rows[0].evaluation is None:
            return
        if pairs:
            for pair in pairs:
                st.success(f"Evaluation: {markdown(pair.sentence())}", icon=":material/fact_check:")
        else:
            st.warning(
                f"Quality of {now} → {to}: **{NOT_EVALUATED}**."
                + (" The capacity is not free until an evaluation says so." if rows[0].after > rows[0].before else ""),
                icon=":material/rule:",
            )


def _gpus(chosen: Chosen, load: Load, runs: Any) -> None:
    from analysis.replica.changes import tp_change

    now = chosen.replica.shards.tp
    with st.container(border=True):
        st.markdown("**More or fewer GPUs**")
        options = [n for n in (1, 2, 4, 8, 16, 32) if n != now]
        to = st.selectbox(
            f"From TP{now} to", **link.at("to-tp", options, 2 * now if 2 * now in options else options[0]),
            format_func=lambda n: f"TP{n}",
        )  # fmt: skip
        rows = _shown(lambda: tp_change(chosen.replica, load.service, int(to or now), load.batch, load.live, runs))
        if rows is None:
            return
        _table(rows)
        st.caption(
            "Capacity is not the aim by itself: look at tokens a second of one GPU. Whether a wider replica pays is "
            "a matter of "
            "measuring; here communication is only a band."
        )


def _drafter(load: Load) -> None:
    from analysis.replica.changes import draft_change, draft_speedup
    from analysis.replica.speculation import RATIO_NOTE, Speculation

    with st.container(border=True):
        st.markdown("**A better drafter**")
        one, two = st.columns(2)
        before = one.number_input("Accept length before", **link.at("accept-0"), step=0.1)
        after = two.number_input("Accept length after", **link.at("accept-1"), step=0.1)
        cost = load.draft.draft_cost if load.draft is not None else 0.0
        verify = load.draft.verify_tokens if load.draft is not None else None

        def rows() -> list[Change]:
            # both drafters propose the same number of tokens, so that only the accept length differs
            same = verify or max(Speculation(before).verified, Speculation(after).verified)
            old, new = Speculation(before, cost, same), Speculation(after, cost, same)
            return [draft_change(old, new), draft_speedup(load.service, old, new, load.batch, load.live)]

        found = _shown(rows)
        if found is None:
            return
        _table(found)
        if (before, after) == (5.0, 5.84):
            st.caption(RATIO_NOTE[:1].upper() + RATIO_NOTE[1:] + ".")
        _mix()
        st.caption(
            "Accept lengths hold for one kind of content: never carry one from prose to code or to another model."
        )


def _mix() -> None:
    from analysis.replica.speculation import mixed_accept_length

    with st.expander("Accept length of a mix of contents", icon=":material/blender:"):
        one, two, three = st.columns(3)
        share = one.number_input("Code, % of tokens", **link.at("code-share"), step=5.0)
        code = two.number_input("On code", **link.at("accept-code"), step=0.1)
        prose = three.number_input("On prose", **link.at("accept-prose"), step=0.1)
        found = mixed_accept_length({"code": (share, code), "prose": (100 - share, prose)})
        mean = (share * code + (100 - share) * prose) / 100
        st.markdown(
            f"Together **{found:.2f}**: the harmonic mean, since time a token is Σ share / accept length; the "
            f"arithmetic mean of {mean:.2f} would promise too much."
        )


def _tier(chosen: Chosen, load: Load, runs: Any) -> None:
    from analysis.replica.changes import tier_change, tier_traffic

    with st.container(border=True):
        st.markdown("**Host memory as a second tier (L2)**")
        ratio = st.number_input(
            "Host pool, × the device pool", **link.at("host-ratio"), step=0.5,
            help="HiCache's hicache_ratio; its default is 2.0.",
        )  # fmt: skip
        if not chosen.budget.fits:
            st.caption("There is no device pool: the weights do not fit.")
            return
        rows = _shown(
            lambda: tier_change(chosen.budget, load.service, load.context * (load.hit_rate or 1.0), ratio, runs)
        )
        if rows is None:
            return
        _table(rows)
        if runs is not None:
            first, cost = tier_traffic(chosen.budget, load.service, runs, load.context, ratio)
            a = load.service.assumptions
            st.caption(
                f"Over the dataset the GPUs serve {formats.tokens(first)} prompt tokens from their own cache and L2 "
                f"{formats.tokens(cost.hit_tokens)}: {formats.size(cost.moved_bytes)} moved over all GPUs, "
                f"{formats.seconds(cost.reload_s)} in all at {a.link_bytes_per_s / 1e9:g} GB/s a GPU, against "
                f"{formats.seconds(cost.recompute_s)} to compute them at MFU {a.mid_mfu:.2g} (estimates)."
            )
        st.caption(
            rows[0].change.split("(", 1)[1].rstrip(")").capitalize().replace("gib", "GiB")
            + ", one copy a rank. What it is worth shows when load rises: "
            + ("other sessions' blocks then push a session's own out sooner." if runs is not None
               else "open a dataset to see its hit rates with and without.")
        )  # fmt: skip
