"""Does it fit: the memory of one GPU step by step, and what a token takes."""

from __future__ import annotations

import streamlit as st

from app.views.replica import pieces
from app.views.replica.choices import Chosen
from app.widgets import figures, formats
from app.widgets.charts import bars
from app.widgets.plain_text import markdown
from app.widgets.table import texts


def draw(chosen: Chosen) -> None:
    """The answer in one line, the memory as a bar, its steps and formulas."""
    from analysis.replica.answers import budget_notes, row_formulas

    b, r = chosen.budget, chosen.replica
    st.subheader("Does it fit?", anchor=False)
    low, high = b.range_utilization
    columns = st.columns(4)
    with columns[0]:
        figures.metric(
            "Fits" if b.fits else "Does not fit",
            formats.size(b.free_bytes_per_gpu if b.fits else b.short_bytes_per_gpu),
            "What is left of each GPU for the KV cache after weights and reserve; or how much is missing.",
            "free on each GPU for the KV cache" if b.fits else "missing on each GPU",
        )
    with columns[1]:
        figures.metric(
            "Tokens in the replica",
            formats.tokens(b.replica_tokens),
            "Free bytes of a GPU / bytes a token takes there × DP-attention groups. The range: utilisation and "
            "reserve at the "
            "careful and the bold end.",
            f"{formats.tokens(b.low_tokens)} to {formats.tokens(b.high_tokens)} at {low:.3g} to {high:.3g} of the GPU",
        )
    per = b.token_bytes
    with columns[2]:
        copies = per.per_token_per_gpu * r.shards.tp / r.shards.dp / per.per_token if per.per_token else 1.0
        figures.metric(
            "A token on each GPU",
            f"{formats.count(per.per_token_per_gpu)}{formats.SPACE}B",
            "KV bytes of one token on a GPU that holds it. One copy of the model's cache, divided over the GPUs or "
            "copied.",
            f"{formats.count(per.per_token)} B in one copy"
            + (f", held {copies:.3g} times" if copies > 1.001 else ", divided over the GPUs" if r.shards.tp > 1 else "")
            + (f", + {formats.size(per.per_sequence_per_gpu)} a sequence" if per.per_sequence_per_gpu else ""),
        )
    with columns[3]:
        figures.metric(
            "Weights",
            formats.size(b.weights_bytes_per_gpu),
            f"On each of {r.shards.tp} GPUs. Derived from the config, about ± 2 %: "
            f"{r.model.parameters.total / 1e9:,.1f} e9 "
            f"parameters, {r.model.parameters.active / 1e9:,.1f} e9 active a token.",
            f"{formats.size(b.weights_bytes)} in all, "
            + ("as given" if r.weights_bytes is not None else f"estimate at {r.weights_scheme or r.model.weights}"),
        )
    st.altair_chart(
        bars.memory_bar(b), width="stretch", key="chart-memory",
        alt=f"Memory of one GPU: {formats.size(b.gpu_bytes)}, weights {formats.size(b.weights_bytes_per_gpu)}, "
        f"free for the KV cache {formats.size(b.free_bytes_per_gpu)}",
    )  # fmt: skip
    for note in budget_notes(b):
        st.caption(f":material/info: {markdown(note)}")
    with st.expander("Every step, in bytes", icon=":material/format_list_numbered:"):
        texts(
            {
                "Step, each GPU": [s.name for s in b.steps],
                "Bytes": [formats.count(s.bytes).replace("-", "−") for s in b.steps],
                "": [formats.size(s.bytes).replace("-", "−") for s in b.steps],
                "Where it comes from": [s.note for s in b.steps],
            },
            "Memory of a GPU, step by step", ("Bytes", ""),
        )  # fmt: skip
    rows = row_formulas(b)
    pieces.behind(
        "How is this computed?",
        [
            (f"{row['kind']}, a {row['per']}: {row['gpu']} = {formats.count(float(str(row['gpu_bytes'])))} B on "
            "each GPU"
             f"\n{row['whole']} = {formats.count(float(str(row['whole_bytes'])))} B in one copy", r.model.source)
            for row in rows
        ]
        + [
            ("tokens = ⌊(utilisation × GPU − weights − reserve) / bytes a token on each GPU⌋ × DP groups",
             "vLLM 0.33 gpu_memory_utilization; SGLang 0.5.23 arg_groups/memory_hook.py; sharding: vLLM "
             "ModelConfig.get_num_kv_heads"),
            (f"{r.gpu.name}: {formats.count(b.gpu_bytes)} B", r.gpu.source if r.gpu_bytes is None else "given"),
        ],
        chosen.command("kv-budget", "--json"),
        computed="fits",
    )  # fmt: skip
