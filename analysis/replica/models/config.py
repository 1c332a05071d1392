"""Reads from a Hugging Face `config.json` what serving needs: cache groups, parameters, attention work per token."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis.replica.models.attention_config import AttentionWork, attention_shape
from analysis.replica.models.config_keys import ConfigError, Keys
from analysis.replica.models.kv_layout import CacheGroup
from analysis.replica.models.parameter_count import Parameters, count_parameters

__all__ = ["WEIGHT_BITS", "AttentionWork", "ConfigError", "Model", "Parameters", "model_from_config"]

WEIGHT_BITS: dict[str, tuple[float, float]] = {
    "bf16": (16.0, 16.0),
    "fp8": (8.0, 8.0),
    "int4": (4.5, 16.0),
    "nvfp4": (4.5, 8.0),
    "mxfp4": (4.25, 16.0),
    "mxfp4_fp8": (4.25, 8.0),
}
"""Bits of a routed expert weight and of the other matrices. int4: groups of 32 with a 16-bit scale; nvfp4: groups of
16 with an 8-bit scale; mxfp4: groups of 32 with an 8-bit scale. The embeddings and the output head stay at 16 bits."""


@dataclass(frozen=True)
class Model:
    """A language model as serving sees it. Sizes are elements and parameters; bytes come with a precision."""

    name: str
    groups: tuple[CacheGroup, ...]
    attention: tuple[AttentionWork, ...]
    parameters: Parameters
    layers: int
    attention_heads: int
    experts: int
    experts_per_token: int
    kinds: tuple[str, ...]
    state_bytes: float
    weights: str
    source: str
    max_context_tokens: int | None
    draft_layers: int
    latent_rank: int = 0
    notes: tuple[str, ...] = ()

    def weight_bytes(self, scheme: str | None = None) -> float:
        """Bytes of one copy of the weights at `scheme` (WEIGHT_BITS; None: the published checkpoint's)."""
        routed, rest = self.weight_bytes_split(scheme)
        return routed + rest

    def weight_bytes_split(self, scheme: str | None = None) -> tuple[float, float]:
        """(bytes of the routed experts, bytes of the rest) of one copy of the weights."""
        name = scheme or self.weights
        if name not in WEIGHT_BITS:
            raise ValueError(f"unknown weight precision {name!r}; known: {', '.join(WEIGHT_BITS)}")
        routed_bits, other_bits = WEIGHT_BITS[name]
        p = self.parameters
        return p.routed * routed_bits / 8, p.other * other_bits / 8 + p.embedding * 2


def model_from_config(
    config: Mapping[str, Any], name: str = "config.json", weights: str | None = None, source: str = "given by the user"
) -> Model:
    """Read a config.json (multimodal ones: their `text_config`).

    Args:
        config: the parsed JSON object.
        name: what errors call it.
        weights: precision of the checkpoint; None reads `quantization_config`.
        source: where the config came from.

    Raises:
        ConfigError: a needed key is missing or impossible; the message names it.
    """
    if not isinstance(config, Mapping):
        raise ConfigError(f"{name}: a config.json is a JSON object, found {type(config).__name__}")
    inner = config.get("text_config") or config.get("language_config") or config.get("llm_config")
    text = inner if isinstance(inner, Mapping) else config
    keys = Keys(text, name)
    if text.get("is_encoder_decoder"):
        raise ConfigError(f"{name}: an encoder-decoder keeps two caches and is not known here")
    hybrid = keys.hybrid_layers()
    layers = keys.get("num_hidden_layers", "n_layer", "num_layers", default=hybrid.total() if hybrid else None)
    heads = keys.get("num_attention_heads", "n_head")
    if layers < 1 or heads < 1:
        raise ConfigError(f"{name}: num_hidden_layers and num_attention_heads must be at least 1")
    shape = attention_shape(keys, layers, heads)
    quantization = text.get("quantization_config") or config.get("quantization_config")
    experts = keys.get("n_routed_experts", "num_experts", "num_local_experts", default=0)
    top = (
        keys.get("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts") if experts else 0
    )
    return Model(
        name=name,
        groups=tuple(g for g in shape.groups if g.layers),
        attention=tuple(a for a in shape.work if a.layers),
        parameters=count_parameters(keys, layers, experts, top, shape.parameters),
        layers=layers,
        attention_heads=heads,
        experts=experts,
        experts_per_token=top,
        kinds=tuple(dict.fromkeys(g.kind if g.window is None else "window" for g in shape.groups if g.layers)),
        state_bytes=2.0
        if (text.get("mamba_ssm_dtype") or text.get("mamba_ssm_cache_dtype")) in ("bfloat16", "float16")
        else 4.0,
        weights=weights or _checkpoint_precision(quantization, text),
        source=source,
        max_context_tokens=keys.get("max_position_embeddings", default=0) or None,
        draft_layers=keys.get("num_nextn_predict_layers", default=0),
        latent_rank=keys.get("kv_lora_rank", default=0),
        notes=tuple(shape.notes),
    )


def _checkpoint_precision(quantization: Any, text: Mapping[str, Any]) -> str:
    if not isinstance(quantization, Mapping):
        return "bf16"
    said = str(quantization).lower()
    if text.get("expert_dtype") == "fp4":
        return "mxfp4_fp8"
    if "mxfp4" in said:
        return "mxfp4"
    if "nvfp4" in said or ("'num_bits': 4" in said and "'float'" in said):
        return "nvfp4"
    if "'num_bits': 4" in said or "'bits': 4" in said:
        return "int4"
    return "fp8" if "fp8" in said or "float8" in said or "'num_bits': 8" in said else "bf16"
