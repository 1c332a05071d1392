"""Parameters of a config.json, counted from its matrices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.replica.models.config_keys import Keys


@dataclass(frozen=True)
class Parameters:
    """Parameter counts. `other` is everything but routed experts and the embeddings; `embedding` is both of these.

    `head` is the output embedding (the only one a step reads in full), `active` what one token multiplies with.
    """

    routed: float
    attention: float
    other: float
    embedding: float
    head: float
    active: float

    @property
    def total(self) -> float:
        """All parameters of the language model, without draft layers and vision towers."""
        return self.routed + self.other + self.embedding


def count_parameters(keys: Keys, layers: int, experts: int, top: int, attention: float) -> Parameters:
    """Counts as the matrices imply them; norms and biases are left out (below 0.01 %).

    The active count is what one token multiplies with: the chosen experts and the output head, not the input embedding.
    """
    config = keys.config
    hidden, vocab = keys.get("hidden_size", "n_embd"), keys.get("vocab_size")
    tied = bool(config.get("tie_word_embeddings"))
    head = float(vocab * hidden)
    embedding = head if tied else 2 * head
    matrices = 2.0 if config.get("mlp_hidden_act") == "relu2" else 3.0
    moe_layers, dense = _mlps(keys, layers, bool(experts), matrices * hidden)
    if not experts:
        return Parameters(0.0, attention, attention + dense, embedding, head, attention + dense + head)
    size = keys.get("moe_intermediate_size", "intermediate_size")
    inner = keys.get("routed_expert_hidden_size", "moe_latent_size", default=hidden)
    expert = matrices * inner * size
    named = ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size")
    # Llama 4 always has one shared expert and does not say so.
    count = keys.get("n_shared_experts", "num_shared_experts", default=int("interleave_moe_layer_step" in config))
    shared = matrices * hidden * (keys.get(*named, default=0) or size * count)
    down_up = 2.0 * hidden * inner if inner != hidden else 0.0
    other = attention + dense + moe_layers * (shared + hidden * experts + down_up)
    active = moe_layers * top * expert + other + head
    return Parameters(moe_layers * experts * expert, attention, other, embedding, head, active)


def _mlps(keys: Keys, layers: int, mixture: bool, per_column: float) -> tuple[int, float]:
    """(layers with experts, parameters of the dense MLPs); `per_column` is parameters per intermediate column."""
    config = keys.config
    hidden = keys.get("hidden_size", "n_embd")
    if config.get("block_configs"):
        return 0, sum(_block_mlp(block.get("ffn") or {}, hidden) for block in config["block_configs"])
    names = ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "n_inner")
    size = keys.get(*names, default=0 if mixture else 4 * hidden)
    hybrid = keys.hybrid_layers()
    if hybrid is not None:
        return hybrid["moe"], hybrid["mlp"] * per_column * size
    dense_layers = _dense_layers(keys, layers) if mixture else layers
    return layers - dense_layers, dense_layers * per_column * size


def _block_mlp(ffn: Mapping[str, Any], hidden: int) -> float:
    """DeciLM: the width is 2/3 of ffn_mult x hidden, rounded up to 256."""
    if ffn.get("no_op"):
        return 0.0
    if ffn.get("replace_with_linear"):
        return float(hidden * hidden)
    width = -(-int(2 * (ffn.get("ffn_mult") or 0) * hidden / 3) // 256) * 256
    return 3.0 * hidden * width


def _dense_layers(keys: Keys, layers: int) -> int:
    every = keys.config.get("moe_layer_freq")
    if isinstance(every, list):
        return layers - sum(1 for flag in every[:layers] if flag)
    step = keys.get("interleave_moe_layer_step", "decoder_sparse_step", default=1)
    sparse = (layers - min(layers, keys.get("first_k_dense_replace", default=0))) // max(1, step)
    return layers - sparse + len(keys.config.get("mlp_only_layers") or [])
