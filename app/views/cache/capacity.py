"""Hit rate over capacity, TTL and tiers, on the page Cache: sliders that answer at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from app.visit import guard, question
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    import polars as pl

MOST_GROUPS = 8
MODES = {"exclusive": "Takes over what leaves", "inclusive": "Keeps copies of all"}
"""Tier mode -> its name."""
NO_MODEL = "none"
TTLS_S = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0,
          43_200.0, 86_400.0)  # fmt: skip
MARKED_TTLS_S = (300.0, 3600.0)


def _curve(asked: question.Asked, axis: str, **points: Any) -> pl.DataFrame:
    from analysis.headline.curves import curve

    key = f"curve {asked.question!r} {axis} {sorted(points.items())!r}"
    return asked.desk.answer(key, lambda: curve(asked.desk.warehouse, asked.question, axis, **points))


def _largest(frame: pl.DataFrame) -> pl.DataFrame:
    """The groups with most prompt tokens, at most `MOST_GROUPS`."""
    import polars as pl

    sizes = frame.group_by("group").agg(pl.col("prefix_tokens").first()).filter(pl.col("prefix_tokens") > 0)
    kept = sizes.sort("prefix_tokens", "group", descending=[True, False])["group"].head(MOST_GROUPS).to_list()
    return frame.filter(pl.col("group").is_in(kept))


def _whole(asked: question.Asked) -> pl.DataFrame:
    """The curve of all together from where it leaves zero, two points at least.

    Below, a cache is too small to matter and the axis would be mostly empty.
    """
    import polars as pl

    frame = _curve(asked, "all")
    if frame.height < 2:
        only = int(frame["capacity_blocks"][0])
        return _curve(asked, "all", capacity_blocks=[only, 2 * only])
    kept = frame.filter(pl.col("hit_tokens") >= 0.01 * pl.col("hit_tokens").max())
    return kept if kept.height >= 2 else frame


def _controls() -> tuple[str, float | None, str]:
    """(axis, KV bytes per token or None, the model in words)."""
    from analysis.replica.models.catalog import load_model
    from analysis.replica.models.kv_layout import token_bytes
    from analysis.replica.states import ATTENTION_ONLY, has_states

    by, which, kind = st.columns([2, 2, 1])
    axis = by.selectbox(
        "Curves by", **link.at("by"), format_func=lambda a: a.replace("_", " "),
        help="All groups share one cache; each curve is the hit rate of that group's own prompt tokens.",
    )  # fmt: skip
    name = which.selectbox(
        "Show sizes for the model", **link.at("kv"), format_func=lambda m: "tokens only" if m == NO_MODEL else m,
        help="Turns tokens into GiB by the model's KV bytes a token: one copy, without those on tensor-parallel ranks.",
    )  # fmt: skip
    dtype = kind.selectbox("KV precision", **link.at("kv_dtype"), disabled=name == NO_MODEL)
    if name == NO_MODEL:
        return axis, None, ""
    model = load_model(name)
    size = token_bytes(model.groups, dtype, state_bytes=model.state_bytes).per_token
    words = f"{name}, {dtype}: {formats.count(size)} bytes a token."
    if has_states(model):
        words += f" {markdown(ATTENTION_ONLY.format(model=name))}."
    return axis, size, words


def _marked() -> str:
    mark: tuple[str, int, float | None] | None = st.session_state.get("replica-mark")
    return f" Marked: {mark[0]}, as chosen on the page Hardware." if mark else ""


@link.fragment
def _capacity(
    asked: question.Asked, axis: str, bytes_per_token: float | None, model: str, ceiling: float | None
) -> None:
    """The slider, what it says at once, and the curve. Moving the slider runs only this."""
    with guard.guarded():
        _at_capacity(asked, axis, bytes_per_token, model, ceiling)


def _at_capacity(
    asked: question.Asked, axis: str, bytes_per_token: float | None, model: str, ceiling: float | None
) -> None:
    import polars as pl

    from analysis.headline.curves import hit_tokens_at
    from app.widgets.charts import lines

    whole = _whole(asked)
    sizes = whole["capacity_blocks"].to_list()
    block = asked.block_size

    def written(blocks: int) -> str:
        text = f"{formats.tokens(blocks * block)} tokens"
        return text if bytes_per_token is None else f"{text} · {formats.size(blocks * block * bytes_per_token)}"

    start = min(sizes, key=lambda c: abs(c - sizes[-1] / 4))
    chosen = st.select_slider(
        "Capacity of one replica, tokens", **link.at("capacity", sizes, start),
        format_func=lambda b: formats.short(b * block),
        help="Log-spaced up to the capacity from which nothing more is hit.",
    )  # fmt: skip
    hits, prefix = hit_tokens_at(asked.desk.warehouse, asked.question, int(chosen))
    rate = hits / prefix if prefix else None
    too_long = whole.filter(whole["capacity_blocks"] == chosen)["unschedulable_requests"][0]
    columns = st.columns(4)
    with columns[0]:
        figures.metric(
            f"Hit rate at {written(chosen).split(' · ')[-1]}", formats.rate(rate),
            f"One LRU cache of {written(chosen)}. {figures.definition('lru_curve')}",
            f"{formats.points(rate - ceiling)} to the ceiling" if rate is not None and ceiling is not None else "",
        )  # fmt: skip
    with columns[1]:
        figures.metric(
            "Ceiling", formats.rate(ceiling), figures.definition("hit_rate", "The achievable hit rate"),
            f"reached at {formats.tokens(sizes[-1] * block)} tokens",
        )  # fmt: skip
    with columns[2]:
        figures.metric(
            "Prompt tokens to compute", formats.tokens(prefix - hits),
            "Prompt tokens that are not hit and have to be prefilled.", f"of {formats.tokens(prefix)}",
        )  # fmt: skip
    with columns[3]:
        figures.metric(
            "Prompts too long for it", formats.count(too_long),
            "Requests whose prompt alone takes more blocks than the cache holds. A real replica could not run them; "
            "here they pass through and evict all.",
            f"of {formats.count(asked.selected)} requests",
        )  # fmt: skip
    frame = whole
    if axis != "all":
        frame = pl.concat([_largest(_curve(asked, axis, capacity_blocks=sizes)), whole])
    figures.figure(
        "capacity", "Hit rate over capacity",
        lines.capacity_lines(
            frame, ceiling, (chosen * block, rate), bytes_per_token, st.session_state.get("replica-mark")
        ), frame,
        f"Hit rate over capacity; {formats.rate(rate)} at {written(chosen)}, ceiling {formats.rate(ceiling)}",
        asked.source("lru_curve", "curve", *_by(axis), "--json", computed="capacity",
                     values={"axis": axis, "capacities": sizes}),
        f"Exact at every point. The dashed line is the ceiling of all together. {model}{_marked()}",
    )  # fmt: skip


def _by(axis: str) -> list[str]:
    return [] if axis == "all" else ["--by", axis]


def _ttl(asked: question.Asked, axis: str, ceiling: float | None) -> None:
    import polars as pl

    from app.widgets.charts import lines

    st.subheader("Hit rate over time to live", anchor=False)
    with guard.guarded():
        frame = _curve(asked, "all", ttl_s=list(TTLS_S))
        if axis != "all":
            frame = pl.concat([_largest(_curve(asked, axis, ttl_s=list(TTLS_S))), frame])
        source = asked.source(
            "ttl_curve", "curve", "--ttl", ",".join(f"{t:g}" for t in TTLS_S), *_by(axis), "--json", computed="ttl",
            values={"axis": axis, "ttls": list(TTLS_S)},
        )  # fmt: skip
        figures.figure(
            "ttl", "", lines.ttl_lines(frame, ceiling, MARKED_TTLS_S), frame,
            "Hit rate of an unbounded cache over its time to live", source,
            "An unbounded cache that forgets what was not used for so long. The marks are 5 minutes and 1 hour, which "
            "providers offer.",
        )  # fmt: skip


@link.fragment
def _tiers(asked: question.Asked, axis: str, bytes_per_token: float | None) -> None:
    """Two sliders and where tokens are found. Moving one runs only this."""
    st.subheader("Hit rate of two tiers", anchor=False)
    with guard.guarded():
        _at_tiers(asked, axis, bytes_per_token)


def _at_tiers(asked: question.Asked, axis: str, bytes_per_token: float | None) -> None:
    import polars as pl

    from analysis.headline.curves import TIER_MODES
    from app.widgets.charts import bars

    sizes = _whole(asked)["capacity_blocks"].to_list()
    block = asked.block_size

    def written(blocks: int) -> str:
        if bytes_per_token is None:
            return f"{formats.tokens(blocks * block)} tokens"
        return formats.size(blocks * block * bytes_per_token)

    mode = st.segmented_control(
        "A lower tier", **link.at("tier-mode"), required=True, format_func=MODES.__getitem__,
        help=" ".join(f"{MODES[name]}: {says}." for name, says in TIER_MODES.items()),
    )  # fmt: skip
    one, two = st.columns(2)
    chosen = []
    for column, label, key, share in (
        (one, "Tier 1, GPU memory", "tier1", 8),
        (two, "Tier 2, host memory", "tier2", 2),
    ):
        with column:
            start = min(sizes, key=lambda c: abs(c - sizes[-1] / share))
            picked = st.select_slider(
                f"{label}, tokens", **link.at(key, sizes, start), format_func=lambda b: formats.short(b * block)
            )
            chosen.append(int(picked))
            if bytes_per_token is not None:
                st.caption(written(picked))
    first, second = chosen
    found = _largest(_curve(asked, axis, tiers_blocks=[first, second], tier_mode=mode))
    unbounded = asked.desk.query("by_axis", asked.question, axis=axis).select("group", "ceiling_hit_tokens")
    names = {1: "GPU memory", 2: "host memory"}
    tiers = found.select(
        "group", part=pl.col("tier").replace_strict(names, return_dtype=pl.String), rate="hit_rate", order="tier"
    )
    rest = (
        found.group_by("group", maintain_order=True)
        .agg(hit=pl.col("hit_tokens").sum(), prefix=pl.col("prefix_tokens").first())
        .join(unbounded, on="group", how="left", maintain_order="left")
    )
    beyond = rest.select(
        "group", part=pl.lit("beyond both"), rate=(pl.col("ceiling_hit_tokens") - pl.col("hit")) / pl.col("prefix"),
        order=pl.lit(3, pl.Int64),
    )  # fmt: skip
    new = rest.select(
        "group", part=pl.lit("new"), rate=1 - pl.col("ceiling_hit_tokens") / pl.col("prefix"),
        order=pl.lit(4, pl.Int64),
    )  # fmt: skip
    frame = pl.concat([tiers, beyond, new])
    figures.figure(
        "tiers", "", bars.tier_bars(frame), frame, "Share of prompt tokens found in each tier",
        asked.source(
            "tiers",
            "curve",
            "--tiers",
            f"{first},{second}",
            *(["--tier-mode", mode] if mode != "exclusive" else []),
            *_by(axis),
            "--json",
            computed="tiers",
            values={"axis": axis, "capacities": [first, second]} if mode == "exclusive" else None,
        ),
        f"Where a prompt's tokens are found, with GPU memory of {written(first)} and host memory of {written(second)}. "
        f"New: never seen before. {MODES[mode]}: {TIER_MODES[mode]}.",
    )  # fmt: skip


def sizes(asked: question.Asked, ceiling: float) -> None:
    """The controls, and the hit rate over capacity, TTL and two tiers."""
    axis, bytes_per_token, model = _controls()
    _capacity(asked, axis, bytes_per_token, model, ceiling)
    _ttl(asked, axis, ceiling)
    _tiers(asked, axis, bytes_per_token)
