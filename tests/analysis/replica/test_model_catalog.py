"""Models and GPUs: derived parameters and weights, any config.json, errors that name the missing key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.replica.models.catalog import gpu_names, load_gpu, load_model, model_aliases, model_names
from analysis.replica.models.config import ConfigError, model_from_config
from analysis.replica.models.kv_layout import token_bytes

QWEN = {
    "num_hidden_layers": 62,
    "hidden_size": 6144,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "intermediate_size": 8192,
    "num_experts": 160,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2560,
}

# model, total and active parameters in 1e9 as published or derived
PARAMETERS = [
    ("kimi-k2.6", 1026.4, 31.7),
    ("deepseek-v3", 671.0, 36.6),
    ("qwen3-coder-480b", 480.2, 34.5),
    ("minimax-m2", 228.7, 10.4),
    ("gpt-oss-120b", 116.8, 5.1),
    ("glm-5", 743.9, 40.8),
    ("llama-3.1-70b", 70.6, 69.5),
    ("llama-3.1-405b", 405.8, 403.7),
    ("qwen3-235b", 235.1, 21.6),
]

# model, precision, published bytes in 1e9, tolerance
WEIGHTS = [
    ("kimi-k2.6", "int4", 594, 0.001),
    ("kimi-k2", "fp8", 1026, 0.003),
    ("deepseek-v3", "fp8", 671, 0.003),
    ("qwen3-coder-480b", "fp8", 480, 0.005),
    ("minimax-m2", "fp8", 230, 0.005),
    ("llama-3.1-70b", "bf16", 141, 0.002),
    ("llama-3.1-405b", "fp8", 406, 0.012),
    ("glm-5", "nvfp4", 444, 0.04),
    ("gpt-oss-120b", "mxfp4", 63, 0.04),
]


@pytest.mark.parametrize(("name", "total", "active"), PARAMETERS)
def test_parameters_are_derived(name: str, total: float, active: float) -> None:
    p = load_model(name).parameters
    assert p.total / 1e9 == pytest.approx(total, abs=0.06)
    assert p.active / 1e9 == pytest.approx(active, abs=0.06)


@pytest.mark.parametrize(("name", "scheme", "published", "tolerance"), WEIGHTS)
def test_weights_are_derived(name: str, scheme: str, published: float, tolerance: float) -> None:
    assert load_model(name).weight_bytes(scheme) / 1e9 == pytest.approx(published, rel=tolerance)


def test_routed_experts_of_v4_pro() -> None:
    assert load_model("deepseek-v4-pro").parameters.routed == pytest.approx(1.55e12, rel=0.005)


def test_every_row_has_a_source_and_a_use() -> None:
    for name in model_names():
        model = load_model(name)
        assert model.source.startswith(("http", "model_configs of", "transformers"))
        assert token_bytes(model.groups, "bf16").per_token > 0
        assert all(load_model(alias).groups == model.groups for alias in model_aliases(name))
    for name in gpu_names():
        gpu = load_gpu(name)
        assert gpu.source
        assert gpu.memory_bytes > 80_000_000_000


# GPU, bytes the engine sees
MEMORY = [
    ("a100", 80 << 30),
    ("h100", 80 << 30),
    ("h200", 143_771 << 20),
    ("b200", 183_359 << 20),
    ("b300", 275_040 << 20),
    ("gb200", 189_471 << 20),
    ("gb300", 284_208 << 20),
    ("mi300x", 192_000_000_000),
    ("mi325x", 256_000_000_000),
    ("mi355x", 288_000_000_000),
]


@pytest.mark.parametrize(("name", "memory"), MEMORY)
def test_gpu_memory_is_bytes(name: str, memory: int) -> None:
    assert load_gpu(name).memory_bytes == memory


def test_a_config_file_equals_its_row(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(QWEN))
    model, row = load_model(str(path)), load_model("qwen3-coder-480b")
    assert model.groups == row.groups
    assert model.parameters == row.parameters
    path.write_text(json.dumps({"text_config": QWEN, "vision_config": {}}))
    assert load_model(str(path)).groups == row.groups


@pytest.mark.parametrize(
    "missing", ["num_hidden_layers", "num_attention_heads", "hidden_size", "vocab_size", "moe_intermediate_size"]
)
def test_a_config_without_a_needed_key(missing: str) -> None:
    config = {k: v for k, v in QWEN.items() if k not in (missing, "intermediate_size")}
    with pytest.raises(ConfigError, match=missing):
        model_from_config(config)


def test_latent_configs_name_what_they_lack() -> None:
    config = QWEN | {"kv_lora_rank": 512, "v_head_dim": 128, "qk_nope_head_dim": 128}
    with pytest.raises(ConfigError, match=r"qk_rope_head_dim, which is missing"):
        model_from_config(config)
    with pytest.raises(ConfigError, match=r"index_topk"):
        model_from_config(config | {"qk_rope_head_dim": 64, "index_head_dim": 128, "index_n_heads": 4})
    with pytest.raises(ConfigError, match=r"must be a whole number"):
        model_from_config(QWEN | {"head_dim": "128"})
    with pytest.raises(ConfigError, match=r"layer_types must list all 62 layers"):
        model_from_config(QWEN | {"layer_types": ["full_attention"]})


def test_defaults_of_older_configs() -> None:
    """Without KV heads every head has its own; without head_dim it is hidden / heads."""
    old = {
        "num_hidden_layers": 2,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "vocab_size": 10,
        "intermediate_size": 128,
    }
    assert token_bytes(model_from_config(old).groups, "bf16").per_token == 2 * 2 * 4 * 16 * 2
    mixed = old | {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8}
    per = token_bytes(model_from_config(mixed).groups, "bf16")
    assert (per.per_token, per.per_sequence) == (256, 8 * 256)


def test_checkpoint_precision() -> None:
    def scheme(quantization: dict[str, object]) -> str:
        return model_from_config(QWEN | {"quantization_config": quantization}).weights

    assert model_from_config(QWEN).weights == "bf16"
    assert scheme({"quant_method": "fp8", "fmt": "e4m3"}) == "fp8"
    assert scheme({"quant_method": "mxfp4"}) == "mxfp4"
    assert scheme({"config_groups": {"g": {"weights": {"num_bits": 4, "type": "int"}}}}) == "int4"


def test_unknown_names_list_the_known() -> None:
    with pytest.raises(
        ValueError, match=r"unknown model 'kimi-k26': did you mean kimi-k2.* known: .*llama-3.1-70b.*config.json"
    ):
        load_model("kimi-k26")
    with pytest.raises(ValueError, match=r"unknown GPU 'b100'.*known: a100"):
        load_gpu("b100")
    with pytest.raises(ValueError, match=r"no such file: nowhere.json"):
        load_model("nowhere.json")


def test_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{")
    with pytest.raises(ValueError, match=r"cannot be read as a config.json"):
        load_model(str(path))
    path.write_text("[1]")
    with pytest.raises(ConfigError, match=r"a config.json is a JSON object, found list"):
        load_model(str(path))


def test_mamba_hybrids() -> None:
    """One attention, two Mamba and one expert layer: state 4 x 8 x 16 at 4 bytes and 3 x (32 + 2 x 16) at 2."""
    config = {
        "hybrid_override_pattern": "ME*M",
        "num_hidden_layers": 4,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 100,
        "mamba_num_heads": 4,
        "mamba_head_dim": 8,
        "ssm_state_size": 16,
        "n_groups": 1,
        "conv_kernel": 4,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "mlp_hidden_act": "relu2",
    }
    model = model_from_config(config)
    per = token_bytes(model.groups, "bf16")
    assert (per.per_token, per.per_sequence) == (2 * 2 * 16 * 2, 2 * (4 * 8 * 16 * 4 + 3 * (32 + 2 * 16) * 2))
    assert model.parameters.routed == 8 * 2 * 64 * 32
    words = ["mamba", "moe", "attention", "mamba"]
    listed = {k: v for k, v in config.items() if k not in ("hybrid_override_pattern", "num_hidden_layers")}
    assert model_from_config(listed | {"layers_block_type": words}).groups == model.groups
    with pytest.raises(ConfigError, match="unknown kinds of layers X"):
        model_from_config(config | {"hybrid_override_pattern": "MX"})


def test_blocks_with_their_own_heads() -> None:
    """DeciLM: a block with 2 KV heads, one without attention."""
    old = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 10}
    blocks = [
        {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 6.0}},
        {"attention": {"no_op": True}, "ffn": {"no_op": True}},
    ]
    model = model_from_config(old | {"block_configs": blocks})
    assert token_bytes(model.groups, "bf16").per_token == 2 * 2 * 16 * 2
    assert model.parameters.other == 64 * 16 * 2 * (4 + 2) + 3 * 64 * 256


def test_chunked_attention_of_llama_4() -> None:
    config = {
        "num_hidden_layers": 8,
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 10,
        "intermediate_size": 32,
        "intermediate_size_mlp": 64,
        "attention_chunk_size": 128,
        "num_local_experts": 4,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
    }
    model = model_from_config(config)
    per = token_bytes(model.groups, "bf16")
    assert (per.per_token, per.per_sequence) == (2 * 128, 6 * 128 * 128)
    assert model.parameters.routed == 4 * 4 * 3 * 64 * 32


@pytest.mark.parametrize("key", ["attn_type_list", "mamba_d_state", "attn_layer_period"])
def test_layers_that_are_not_known_are_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"{key} says .* not known here"):
        model_from_config(QWEN | {key: [0]})
