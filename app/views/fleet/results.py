"""What a run showed: the table, the frontier beside luck, load over time, and which fleets keep an objective."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.views.fleet import choices, luck, table
from app.views.fleet.runs import Run
from app.visit import findings, guard
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.charts import maps, points
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    import polars as pl

    from app.visit.question import Asked

Row = dict[str, Any]


def draw(asked: Asked, run: Run) -> None:
    """Everything below the form."""
    from analysis.findings.fleet import fleet_findings
    from analysis.fleet.grid import alike, frontier
    from analysis.fleet.summary import by_policy

    rows = run.rows
    means = by_policy(rows)
    fleets = {choices.fleet_name(row): (row["replicas"], row["capacity_tokens"]) for row in means}
    fleet = next(iter(fleets))
    if len(fleets) > 1:
        _objective(asked, run, rows, list(fleets))
        st.divider()
        fleet = st.selectbox("Fleet: replicas × cache of each", **link.at("fleet-shown", list(fleets)))
    of = [row for row in means if choices.fleet_name(row) == fleet]
    edge = [row for row in frontier(rows) if choices.fleet_name(row) == fleet]
    st.subheader(f"Policies on {fleet}" + ("" if fleet.endswith(choices.UNBOUNDED) else " tokens"), anchor=False)
    findings.write(fleet_findings(of), "routing")
    _headline(edge)
    table.policies(of)
    _takeaway("policies", of, asked, run)
    if why := table.reasons(of, run.settings.service, fleets[fleet][0]):
        st.info("\n\n".join(why), icon=":material/info:")
    once = [row for cell, row in zip(run.cells, rows, strict=True) if cell == alike(cell)]
    table.events([row for row in once if choices.fleet_name(row) == fleet])
    left, right = st.columns([3, 2], gap="large")
    with left, guard.guarded():
        _frontier(asked, run, edge, of)
    with right:
        running = of[0]["mean_running_requests"]
        luck.draw(fleets[fleet][0], max(1, min(200, round(running or 5))), of)
    with guard.guarded():
        _load(asked, run, fleets[fleet])
    if len({row["policy"] for row in of}) > 1:
        with st.expander("Paired differences between policies", icon=":material/difference:"):
            from analysis.fleet.grid import paired

            table.pairs(paired([r for r in rows if choices.fleet_name(r) == fleet]), run.settings.seeds)


def _headline(edge: list[Row]) -> None:
    """Which policies no other one beats on both counts."""
    kept = [row for row in edge if row["dominated"] is False]
    if not kept or len(edge) < 2:
        return
    kept.sort(key=lambda row: row["vmr_running_requests"])
    words = [
        f"**{markdown(row['policy'])}** ({formats.rate(row['hit_rate'])}, "
        f"{formats.plain(row['vmr_running_requests'], 2)})"
        for row in kept
    ]
    st.markdown(
        "On the frontier, from the most even load to the highest hit rate (hit rate, variance over mean): "
        + ", ".join(words)
        + ". Another policy here is as good as or better than each of the rest on both counts."
        * (len(kept) < len(edge))
    )


def _frontier(asked: Asked, run: Run, edge: list[Row], of: list[Row]) -> None:
    import polars as pl

    known = [row for row in edge if row["dominated"] is not None]
    if not known:
        st.subheader("Hit rate against load", anchor=False)
        st.info(
            f"{formats.UNKNOWN} The frontier needs both the hit rate and the dispersion of running requests: several "
            "replicas, prompts with block identity, and answers that take time (recorded durations or a model).",
            icon=":material/info:",
        )
        return
    frame = pl.DataFrame(known, infer_schema_length=None)
    best = max(known, key=lambda row: row["hit_rate"])
    st.subheader("Hit rate against load", anchor=False)
    st.caption(
        "Up is fewer tokens to compute, left is a more even load; either alone can be gamed. Shaded: what one look at "
        "loads of pure luck shows, 95 %. Dashed: one shared cache of the same total size. Means over seeds."
    )
    chart = points.frontier(frame, of[0]["vmr_band"])
    words = ", ".join(
        f"{row['policy']} {formats.rate(row['hit_rate'])} at {formats.plain(row['vmr_running_requests'], 2)}"
        + (" (dominated)" if row["dominated"] else "")
        for row in known
    )
    st.altair_chart(
        chart, width="stretch", key="chart-frontier",
        alt=f"Hit rate against variance over mean of running requests; best hit rate {best['policy']}: {words}",
    )  # fmt: skip
    _takeaway("frontier", known, asked, run, chart)


@link.fragment
def _load(asked: Asked, run: Run, fleet: tuple[int, int | None]) -> None:
    """Requests in flight per replica over time, for one policy; choosing another runs only this."""
    with guard.guarded():
        _load_of(asked, run, fleet)


def _load_of(asked: Asked, run: Run, fleet: tuple[int, int | None]) -> None:
    import polars as pl

    from analysis.fleet.summary import load_cells
    from app.widgets.charts.scales import MOST_ROWS

    st.subheader("Load per replica over time", anchor=False)
    mine = {
        cell.policy: ran
        for cell, ran in reversed(list(zip(run.cells, run.ran, strict=True)))
        if (cell.replicas, cell.capacity_tokens) == fleet
    }
    if all(len(ran.seconds) == 0 for ran in mine.values()):
        st.info(
            f"{formats.UNKNOWN} Where answers take no time nothing is in flight. Choose recorded durations or a model.",
            icon=":material/info:",
        )
        return
    names = list(reversed(mine))
    name = st.segmented_control(
        "Policy", **link.at("fleet-load", names, "tower" if "tower" in names else names[0]),
        required=True, label_visibility="collapsed",
    )  # fmt: skip
    ran = mine[str(name)]
    cells = load_cells(ran, MOST_ROWS)
    if not cells:
        st.info("Nothing ran long enough to be sampled.", icon=":material/info:")
        return
    frame = pl.DataFrame(cells)
    fullest = frame.sort("running").row(-1, named=True)
    shown = frame["replica"].n_unique()
    note = "Requests in flight, waiting ones included, averaged over equal stretches of time; seed 0."
    if shown < ran.running.shape[1]:
        note += f" The {shown} fullest of {ran.running.shape[1]} replicas."
    st.caption(note)
    chart = maps.load_map(frame)
    st.altair_chart(
        chart, width="stretch", key="chart-load",
        alt=f"Requests in flight per replica over time under {name}; most on replica {fullest['replica']}, "
        f"{formats.plain(fullest['running'])} after {formats.seconds(fullest['from_s'])}",
    )  # fmt: skip
    _takeaway("load", cells, asked, run, chart)


def _objective(asked: Asked, run: Run, rows: list[Row], order: list[str]) -> None:
    import polars as pl

    from analysis.fleet.grid import Objective
    from analysis.fleet.summary import fleets, smallest

    st.subheader("Which fleet keeps the objective?", anchor=False)
    a, b, c = st.columns(3)
    p99 = a.number_input(
        "p99 of running requests, at most", **link.at("slo-p99"), step=1.0, placeholder="not asked",
    )  # fmt: skip
    ttft = b.number_input(
        "p99 of TTFT, s, at most", **link.at("slo-ttft"), step=0.5, placeholder="not asked",
        help="Met by the high end of the band.",
    )  # fmt: skip
    loss = c.number_input(
        "Hit rate lost, points, at most", **link.at("slo-loss"), step=0.5,
        help="Against one shared cache of the same total size.",
    )  # fmt: skip
    found = fleets(rows, Objective(p99, ttft, None if loss is None else loss / 100))
    least = smallest(found)
    if least:
        words = ", ".join(markdown(row["policy"]) for row in least)
        total = least[0]["total_tokens"]
        st.success(
            f"**{choices.fleet_name(least[0])}** is the smallest fleet here that keeps it, with {words}"
            + (f"; {formats.tokens(total)} tokens of cache in all." if total is not None else "."),
            icon=":material/check_circle:",
        )
    elif any(row["meets"] is False for row in found):
        st.warning("No fleet here is known to keep it.", icon=":material/block:")
    verdicts = {True: "keeps it", False: "breaks it", None: "unknown"}
    frame = pl.DataFrame(
        [
            {
                **row,
                "fleet": choices.fleet_name(row),
                "verdict": verdicts[row["meets"]],
                "said": _figures_of(row),
            }
            for row in found
        ],
        infer_schema_length=None,
    )
    chart = maps.objective_map(frame, order)
    st.caption(
        "In a cell: points of hit rate lost against one shared cache of the same total size, p99 of running requests "
        "of the worst seed. Unknown: a figure that decides it is, or nothing is asked."
    )
    st.altair_chart(
        chart, width="stretch", key="chart-objective",
        alt=f"Fleets and policies against the objective: {sum(r['meets'] is True for r in found)} of {len(found)} do",
    )  # fmt: skip
    _takeaway("fleets", found, asked, run, chart)


def _figures_of(row: Row) -> str:
    loss = formats.points(None if row["hit_rate_loss"] is None else -row["hit_rate_loss"])
    return f"{loss.replace(f'{formats.SPACE}points', '')} · p99 {formats.plain(row['p99_running_requests'], 0)}"


def _takeaway(key: str, rows: list[Row], asked: Asked, run: Run, chart: Any = None) -> None:
    """The row below a chart or table: files, definitions, and the command line that gives the same figures."""
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        figures.files(f"replicas-{key}", _flat(rows), asked.known.name, chart)
        with st.popover("How is this computed?", type="tertiary", icon=":material/function:"):
            from analysis.fleet.load_figures import DEFINITION

            st.markdown("\n".join(f"- `{name}`: {meaning}" for name, meaning in {**DEFINITION, **table.MORE}.items()))
            figures.computing(computed="fleets")
            st.markdown("The same on the command line:")
            st.code(asked.command("route", *run.settings.flags()), language="bash", wrap_lines=True)
            sizes = choices.capacities(run.settings.cache)
            if None in sizes and len(sizes) > 1:
                st.caption("Unbounded caches: the same without --capacity-tokens.")


def _flat(rows: list[Row]) -> pl.DataFrame:
    """Rows as a frame that CSV can hold: a band becomes two columns."""
    import polars as pl

    banded = {name for row in rows for name, value in row.items() if isinstance(value, (list, tuple))}
    flat = []
    for row in rows:
        line: Row = {}
        for name, value in row.items():
            if name in banded:
                line[f"{name}_low"], line[f"{name}_high"] = value if value is not None else (None, None)
            else:
                line[name] = value
        flat.append(line)
    return pl.DataFrame(flat, infer_schema_length=None)
