"""What leaves with a bundle, and what does not."""

from __future__ import annotations

import zipfile
from pathlib import Path

import polars as pl
import pytest

from tests.traces.dataset.mutations import tiny
from traces.dataset.bundle import bundle
from traces.dataset.layout import Dataset
from traces.dataset.published_names import is_public_model, is_public_version


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("claude-opus-4-20250514", True),
        ("claude-3-5@20240620", True),
        ("us.anthropic.claude-3-5-sonnet-20240620-v1:0", True),
        ("Qwen/Qwen3-32B", True),
        ("openrouter/anthropic/claude", True),
        ("ft:gpt-4o:ORG::abc", False),
        ("gpt-4.1-mini-ft-abc", False),
        ("arn:aws:bedrock:us-east-1:123456789012:x", False),
        ("/home/ann/m", False),
        ("C:\\models\\m", False),
        ("jo@acme.com", False),
        ("projects/acme/locations/x", False),
        ("https://acme.example/m", False),
        ("a model", False),
    ],
)
def test_models_that_a_customer_has_a_part_in(name: str, public: bool) -> None:
    assert is_public_model(name) == public


@pytest.mark.parametrize(("name", "public"), [("1.2.3", True), ("2.0.1-beta.1", True), ("1.0.3-acmecorp", False)])
def test_versions_made_by_customers(name: str, public: bool) -> None:
    assert is_public_version(name) == public


@pytest.mark.parametrize("hide_models", [False, True])
def test_no_canary_is_in_a_bundle(tmp_path: Path, hide_models: bool) -> None:
    ds = tiny(tmp_path / "made")
    canary = "jo@canary.example/home/canary"
    for table, columns in (
        ("requests", ["model", "stop_reason", "status"]),
        ("sessions", ["agent", "agent_version"]),
        ("sources", ["tokenizer"]),
    ):
        path = next(ds.glob(f"tables-*/{table}.parquet"))
        frame = pl.read_parquet(path).with_columns(pl.lit(canary).alias(name) for name in columns)
        if table == "requests":
            frame = frame.with_columns(tool_classes=pl.lit([canary], pl.List(pl.String)))
        frame.write_parquet(path)
    bundle(Dataset(ds), tmp_path / "b.zip", hide_models)
    with zipfile.ZipFile(tmp_path / "b.zip") as out:
        for name in out.namelist():
            assert b"canary" not in out.read(name)
            if name.endswith(".parquet"):
                assert "canary" not in str(pl.read_parquet(out.read(name)).to_dicts())
    requests = Dataset(tmp_path / "b.zip").read("requests")
    assert requests["model"].unique().to_list() == ["model-1"]
    assert requests["tool_classes"].to_list() == [["custom"]] * 4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.zip", "made"]
