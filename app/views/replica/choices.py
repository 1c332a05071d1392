"""What replica is asked about: model, GPUs, parallelism, precision, engine; as one `Chosen`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

import streamlit as st

from app.visit.link import link
from app.visit.link.schema import OWN_MODEL, PUBLISHED
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.replica.kv_budget import Budget, Replica
    from analysis.replica.models.config import Model

CONFIG_MB = 4

ENGINE_HELP = (
    "Whose row layouts and memory rules. Ideal: rows without an engine's scales and padding, vLLM's default share of "
    "the GPU. "
    "vLLM: its fp8 rows (656 B for MLA) and null block. SGLang: its reserve (mem_fraction_static)."
)
TP_HELP = (
    "GPUs that share the weights. Key/value heads are divided over them until each has one; an MLA latent is copied "
    "to every "
    "one of them."
)


class Chosen(NamedTuple):
    """A replica, its budget and the command that gives the same figures."""

    replica: Replica
    budget: Budget
    flags: tuple[str, ...]

    def command(self, verb: str, *extra: str) -> str:
        """The command line of kv-budget or interactivity for this replica."""
        flags = [f for f in self.flags if verb == "kv-budget" or not f.startswith(KV_ONLY)]
        return shlex.join(["tracetower", verb]) + "".join(f" {f}" for f in (*flags, *extra))

    @property
    def short(self) -> str:
        """The replica in a few words: 4×B200 TP4, fp8 KV."""
        from analysis.replica.answers import capacity_mark

        return str(capacity_mark(self.budget, 1)["label"])


KV_ONLY = ("--gpu-bytes", "--weights-bytes", "--utilization", "--reserve-bytes")


def choose() -> Chosen | None:
    """Draw the controls and return the replica they describe; None, with the reason on the page, if it is
    impossible."""
    from analysis.replica.kv_budget import Replica, kv_budget
    from analysis.replica.models.catalog import load_gpu
    from analysis.replica.models.kv_layout import Sharding

    which, gpus, count, kind, engine = st.columns([3, 2, 1.7, 1.8, 2.2])
    name = which.selectbox(
        "Model", **link.at("serve"), format_func=lambda m: "a config.json of yours" if m == OWN_MODEL else m,
        help="Configs as published; each names its source below.",
    )  # fmt: skip
    gpu = gpus.selectbox(
        "GPU", **link.at("gpu"), format_func=str.upper,
        help="Bytes as the driver reports them, not the rounded number on the box.",
    )  # fmt: skip
    tp = count.selectbox("GPUs, TP", **link.at("tp"), help=TP_HELP)
    dtype = kind.selectbox(
        "KV precision", **link.at("kv_as"),
        help="What the cache is stored in. A lower precision is not free: see what it changes at the end of this page.",
    )  # fmt: skip
    rules = engine.selectbox("Engine", **link.at("engine"), help=ENGINE_HELP)
    model = _model(str(name))
    with st.expander("More: parallelism, precision of the weights, memory", icon=":material/tune:"):
        more = _more()
    if model is None or more is None:
        return None
    try:
        replica = Replica(
            model, load_gpu(str(gpu)), Sharding(int(tp or 1), more.dp, more.dcp), str(dtype), str(rules),
            more.gpu_bytes, more.weights_bytes, more.weights, more.utilization, more.reserve_bytes,
        )  # fmt: skip
        budget = kv_budget(replica)
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return None
    flags = [f"--model {model.name if name != OWN_MODEL else 'config.json'}", f"--gpu {gpu}", f"--tp {tp}"]
    flags += [f"--kv-dtype {dtype}"] if dtype != "bf16" else []
    flags += [f"--engine {rules}"] if rules != "ideal" else []
    return Chosen(replica, budget, (*flags, *more.flags()))


class _More(NamedTuple):
    dp: int
    dcp: int
    weights: str | None
    utilization: float | None
    gpu_bytes: int | None
    weights_bytes: int | None
    reserve_bytes: int | None

    def flags(self) -> list[str]:
        """As options of the command line; what is left at its default is left out."""
        out = []
        for name, value in self._asdict().items():
            if value is not None and not (name in ("dp", "dcp") and value == 1):
                out.append(f"--{name.replace('_', '-')} {value}")
        return out


def _more() -> _More | None:
    one, two, three, four = st.columns(4)
    dp = one.number_input(
        "DP-attention groups", **link.at("dp"),
        help="Groups of the GPUs that run attention on different requests. More capacity, but a prefix hits only in "
        "the group "
        "that has it.",
    )  # fmt: skip
    dcp = two.number_input(
        "Decode context parallel", **link.at("dcp"),
        help="Ranks that share the tokens of one sequence, so that a latent is not copied.",
    )  # fmt: skip
    weights = three.selectbox(
        "Weights", **link.at("weights_as"), format_func=lambda w: "as published" if w == PUBLISHED else w,
        help="Precision that the bytes of the weights are derived from.",
    )  # fmt: skip
    share = four.number_input(
        "Share of the GPU to use", **link.at("utilization"), step=0.01,
        placeholder="the engine's default", help="gpu_memory_utilization, mem_fraction_static.",
    )  # fmt: skip
    one, two, three = st.columns(3)
    typed = (
        one.text_input("GPU memory", **link.at("gpu_bytes"), placeholder="e.g. 180GB or 179GiB"),
        two.text_input("Weights of the replica", **link.at("weight_bytes"), placeholder="e.g. 595GB"),
        three.text_input("Reserve of each GPU", **link.at("reserve_bytes"), placeholder="e.g. 3GB"),
    )
    sizes = []
    for text in typed:
        try:
            sizes.append(_size(text))
        except ValueError as error:
            st.error(markdown(str(error)), icon=":material/error:")
            return None
    chosen = None if weights == PUBLISHED else str(weights)
    return _More(int(dp), int(dcp), chosen, share, *sizes)


def _size(text: str | None) -> int | None:
    from app.widgets.sizes import parse_size

    return parse_size(text) if text and text.strip() else None


def _model(name: str) -> Model | None:
    from analysis.replica.models.catalog import load_model, model_from_text

    if name != OWN_MODEL:
        return load_model(name)
    pasted, sent = st.columns(2)
    text = pasted.text_area(
        "Paste a Hugging Face config.json", height=140, **link.at("config-text"),
        placeholder='{"num_hidden_layers": 61, "num_attention_heads": 64, "kv_lora_rank": 512, …}',
    )  # fmt: skip
    file = sent.file_uploader("or send the file", type="json", key="config-file", max_upload_size=CONFIG_MB)
    if file is not None:
        text = file.getvalue().decode("utf-8", "replace")
    if not text or not text.strip():
        st.info("Paste or send the model's config.json: its shape gives bytes a token, weights and work.",
                icon=":material/data_object:")  # fmt: skip
        return None
    try:
        return model_from_text(text)
    except ValueError as error:
        st.error(markdown(str(error)), icon=":material/error:")
        return None
