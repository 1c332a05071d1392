"""How fast: prefill after hits, time to first token, decode steps, speculation; every estimate as a band."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.views.replica import measured, pieces
from app.views.replica.choices import Chosen
from app.visit import question
from app.visit.link import link
from app.widgets import figures, formats
from app.widgets.charts.points import speed_lines
from app.widgets.plain_text import markdown
from app.widgets.table import texts

if TYPE_CHECKING:
    from analysis.replica.interactivity import Service
    from analysis.replica.speculation import Speculation
    from analysis.replica.workload import Workload

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
ESTIMATE = "Estimate, not a measurement: a roofline over the assumptions below."


class Load(NamedTuple):
    """What is served: the lengths of a request, how many run at once, a drafter or none, and the speed assumptions."""

    service: Service
    context: int
    output: int
    hit_rate: float
    batch: int
    draft: Speculation | None

    @property
    def live(self) -> float:
        """Mean tokens of a running sequence."""
        return self.context + self.output / 2


def draw(chosen: Chosen, asked: question.Asked | None, workload: Workload | None, rate: float | None) -> Load | None:
    """Inputs, bands, the concurrency chart and the closed loop; what was asked, for the changes below."""
    st.subheader("How fast?", anchor=False)
    st.caption(f"{ESTIMATE} Ratios are sturdier than seconds.")
    load = _load(chosen, asked, workload, rate)
    if load is None:
        return None
    try:
        _bands(chosen, load)
        _concurrency(chosen, load)
        _closed_loop(chosen, load, workload)
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return None
    return load


def _load(chosen: Chosen, asked: question.Asked | None, workload: Workload | None, rate: float | None) -> Load | None:
    from analysis.replica.interactivity import Service
    from analysis.replica.speculation import Speculation

    typical = workload.contexts["p50"] if workload is not None else None
    reply = workload.output_tokens if workload is not None else None
    scope = asked.known.name if asked is not None else ""  # another dataset starts at its own figures
    one, two, three, four = st.columns(4)
    context = one.number_input(
        "Prompt tokens", **link.at("context", default=max(1, round(typical or 100_000)), scope=scope), step=1000,
        help="Median of the dataset unless changed." if typical else None,
    )  # fmt: skip
    output = two.number_input(
        "Reply tokens", **link.at("output", default=max(1, round(reply or 500)), scope=scope), step=50,
        help="Mean of the dataset unless changed." if reply else None,
    )  # fmt: skip
    percent = three.number_input(
        "Hit rate of a request, %", step=1.0,
        **link.at("hits", default=round(100 * (rate if rate is not None else 0.95), 1), scope=scope),
        help="Share of the prompt found in the cache. A request's own rate: the pooled rate of a trace hides that "
        "misses "
        "sit on the longest contexts." + (" Starts at this replica's rate on the dataset." if rate is not None else ""),
    )  # fmt: skip
    batch = four.number_input("Requests at once", **link.at("batch"))
    one, two, three = st.columns(3)
    accept = one.number_input(
        "Accept length", **link.at("accept"), step=0.1,
        help="Tokens gained per verification, including the target's own; 1 is no speculation. Measured per kind of "
        "content: code "
        "accepts about twice as many as prose, and a mix is the harmonic mean.",
    )  # fmt: skip
    cost = two.number_input(
        "Cost of drafting, plain steps", **link.at("draft-cost"), step=0.05,
        help="All draft passes of a step over one plain decode step.",
    )  # fmt: skip
    verify = three.number_input(
        "Tokens verified a step", **link.at("verify"), placeholder="8, or enough",
    )  # fmt: skip
    r = chosen.replica
    try:
        service = Service(r.model, r.gpu, r.shards, r.kv_dtype, r.engine, r.weights_scheme)
        draft = Speculation(accept, cost, None if verify is None else int(verify)) if accept > 1 else None
        found = measured.assumptions(service, asked)
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return None
    service = dataclasses.replace(service, assumptions=found)
    return Load(service, int(context), int(output), percent / 100, int(batch), draft)


def _bands(chosen: Chosen, load: Load) -> None:
    from analysis.replica.answers import interactivity_json

    out: dict[str, Any] = interactivity_json(
        load.service, load.context, load.output, load.batch, load.hit_rate, load.draft
    )
    left = out["prefill_remaining"]
    a = load.service.assumptions
    columns = st.columns(4)
    with columns[0]:
        naive = f"not {1 / (1 - load.hit_rate):.3g} ×" if load.hit_rate < 1 else ""
        figures.metric(
            "Prefill left to compute", formats.rate(left),
            "FLOPs of the prompt's new tokens and their attention on all that is cached, over those of a cold "
            "prompt. Never "
            "1 − hit rate: new tokens attend to the cached ones.",
            f"{formats.factor(1 / left) if left else '∞'} less work"
            + (f", {naive}" if left and load.hit_rate > 0 and naive else ""),
        )  # fmt: skip
    with columns[1]:
        figures.metric(
            "Time to first token", pieces.band(out["ttft_s"], formats.seconds),
            "FLOPs left / (peak × MFU). Without queueing behind other requests.",
            f"estimate at MFU {pieces.band(a.mfu, lambda v: f'{v:.2g}')}",
        )  # fmt: skip
    with columns[2]:
        figures.metric(
            "Tokens/s of one user", pieces.band(out["tokens_per_s_per_user"], pieces.speed),
            "Tokens of a step / its time: (weights touched + KV read) on a GPU / reached bandwidth, or compute if "
            "that is slower, "
            "plus communication.",
            f"estimate · a step {pieces.band(out['decode_step_s'], _step)}",
        )  # fmt: skip
    with columns[3]:
        figures.metric(
            "Tokens/s of one GPU", pieces.band(out["tokens_per_s_per_gpu"], pieces.speed),
            "All requests at once, over the GPUs. Decode alone.", f"estimate at {load.batch} requests at once",
        )  # fmt: skip
    fits = chosen.budget.sessions(load.context + load.output)
    if not chosen.budget.fits:
        st.warning("This replica does not fit: the speeds are what it would do if it did.", icon=":material/warning:")
    elif load.batch > fits:
        st.warning(
            f"{load.batch} requests of {formats.tokens(load.context + load.output)} tokens are more than the cache "
            "holds "
            f"({pieces.sessions(fits)}): the rest would wait.", icon=":material/warning:",
        )  # fmt: skip
    said = []
    if out["speculative_speedup"] is not None and load.draft is not None:
        said.append(
            f"Drafting makes decoding {formats.factor(out['speculative_speedup'])} as fast, not "
            f"{load.draft.accept_length:g} ×: verifying {load.draft.verified} tokens costs more than a plain step."
        )
    if load.hit_rate > 0:
        said.append(
            f"If the cached {formats.tokens(load.context * load.hit_rate)} tokens lay in host memory: back in "
            f"{formats.seconds(out['reload_s'])}, computed anew in {formats.seconds(out['recompute_s'])}."
        )
    if said:
        st.markdown(" ".join(said))
    flags = [f"--context {load.context} --output {load.output} --batch {load.batch} --hit-rate {load.hit_rate:g}"]
    flags += [f"--mfu {a.mfu[0]:g},{a.mfu[1]:g} --bandwidth-efficiency {a.bandwidth_efficiency[0]:g},"
              f"{a.bandwidth_efficiency[1]:g} --link-gbps {a.link_bytes_per_s / 1e9:g}"]  # fmt: skip
    if load.draft is not None:
        flags.append(f"--accept-length {load.draft.accept_length:g} --draft-cost {load.draft.draft_cost:g}")
        flags += [f"--verify-tokens {load.draft.verify_tokens}"] if load.draft.verify_tokens else []
    gpu = load.service.gpu
    pieces.behind(
        "How is this computed?",
        [
            ("F = 2 × active parameters × n + Σ layers 2 × heads × (d_qk + d_v) × (n × cached + n² / 2), n = new "
            "tokens",
             "closed form; equals Mooncake FAST'25 fig. 14 (Llama-3-70B, 128k, 95 % cached: −92 %)"),
            ("time to first token = F / (GPUs × peak × MFU)",
             f"peak {formats.count(out['assumptions']['peak_flops_per_gpu'] / 1e12)}e12 FLOP/s "
             f"{out['assumptions']['peak_flops_unit']}: "
             f"{gpu.source}"),
            ("step = (weights touched / GPUs + Σ KV bytes on the GPU) / (efficiency × bandwidth) + layers × overhead\n"
             "weights touched = rest + routed × (1 − (1 − k/E)^(requests × verified tokens))",
             f"roofline; {gpu.hbm_bytes_per_s / 1e12:.2f}e12 B/s: {gpu.source}; independent uniform routing is an "
             "upper bound"),
            ("speed-up of drafting = τ / (t_verify / t_step + draft cost)", "arXiv 2211.17192; experts: arXiv "
            "2506.20675"),
        ],
        chosen.command("interactivity", *flags, "--json"),
        computed="speed",
    )  # fmt: skip


def _step(value: float) -> str:
    return f"{value * 1000:.3g}{formats.SPACE}ms"


def _concurrency(chosen: Chosen, load: Load) -> None:
    from analysis.replica.interactivity import concurrency_curve

    fits = chosen.budget.sessions(load.context + load.output)
    points = concurrency_curve(load.service, load.live, BATCHES, load.draft)
    st.altair_chart(
        speed_lines(points, fits), width="stretch", key="chart-speed",
        alt="Tokens a second of one user against tokens a second of one GPU as more requests run at once",
    )  # fmt: skip
    st.caption(
        f"Estimate. Numbers at the points: requests at once. Hollow: more than the cache holds "
        f"({pieces.sessions(fits)} of {formats.tokens(load.context + load.output)} tokens). Decode alone; prefills "
        "take their "
        "share below."
    )


def _closed_loop(chosen: Chosen, load: Load, workload: Workload | None) -> None:
    from analysis.replica.interactivity import closed_loop

    think = workload.think_s if workload is not None else None
    with st.expander("Sessions that pause between requests (closed loop)", icon=":material/sync:"):
        pause = st.number_input(
            "Pause between a session's requests, s (mean)",
            **link.at("think", default=round(think if think is not None else 10.0, 1)),
            help="Tool calls and people. Mean of the dataset's own gaps unless changed." if think is not None else None,
        )  # fmt: skip
        rows = [
            (n, closed_loop(load.service, n, pause, load.context, load.output, load.hit_rate, load.draft))
            for n in BATCHES
        ]
        fits = chosen.budget.sessions(load.context + load.output)
        texts(
            {
                "Sessions": [formats.count(n) for n, _ in rows],
                "Requests a second": [f"{p.requests_per_s:.3g}" for _, p in rows],
                "Running at once": [formats.plain(p.running, 2) for _, p in rows],
                "A response takes": [formats.seconds(p.response_s) for _, p in rows],
                "Time spent on prefill": [formats.rate(p.prefill_share) for _, p in rows],
                "Running ones fit": ["yes" if p.running <= fits else "no" for _, p in rows],
            },
            "A closed loop of sessions", ("Sessions", "Requests a second", "Running at once", "A response takes",
                                          "Time spent on prefill"),
        )  # fmt: skip
        st.caption(
            "Estimate at the middle of the assumptions. Requests a second = sessions / (response + pause), Little's "
            "law."
        )
