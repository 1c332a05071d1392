"""Results of four batch interfaces: answers and usage, failed calls counted, prompts where they are there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from traces.intake.ingest import ingest


def _answer(prompt: int, cached: int) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": cached}}
    return {"id": f"c{prompt}", "model": "m", "choices": [], "usage": usage | {"total_tokens": prompt + 5}}


def _message(fresh: int, read: int) -> dict[str, Any]:
    usage = {"input_tokens": fresh, "cache_read_input_tokens": read, "output_tokens": 5}
    return {"id": f"msg_{fresh}", "type": "message", "role": "assistant", "content": [], "usage": usage}


GEMINI = {"promptTokenCount": 100, "cachedContentTokenCount": 64, "candidatesTokenCount": 5, "totalTokenCount": 105}

FILES: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"custom_id": "a", "response": {"status_code": 200, "body": _answer(100, 64)}, "error": None},
        {"custom_id": "b", "response": {"status_code": 500, "body": {"error": {}}}, "error": None},
        {"custom_id": "c", "response": None, "error": {"code": "batch_expired"}},
    ],
    "anthropic": [
        {"custom_id": "a", "result": {"type": "succeeded", "message": _message(36, 64)}},
        {"custom_id": "b", "result": {"type": "expired"}},
        {"custom_id": "c", "result": {"type": "errored", "error": {"type": "invalid_request"}}},
    ],
    "gemini": [{"key": "a", "response": {"candidates": [], "usageMetadata": GEMINI}}],
    "bedrock": [
        {
            "recordId": "a",
            "modelInput": {"messages": [{"role": "user", "content": "go"}]},
            "modelOutput": _message(36, 64),
        },
        {"recordId": "b", "modelInput": {"messages": []}, "error": {"errorCode": 400}},
    ],
}


@pytest.mark.parametrize("shape", ["lines", "array"])
@pytest.mark.parametrize("provider", FILES)
def test_answered_calls_are_requests(provider: str, shape: str, tmp_path: Path) -> None:
    rows = FILES[provider]
    text = json.dumps(rows) if shape == "array" else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "results.jsonl").write_text(text)
    receipt = ingest([str(tmp_path / "results.jsonl")], tmp_path / "dataset")
    (table,) = (tmp_path / "dataset").glob("**/requests.parquet")
    counts = pl.read_parquet(table).select("input_tokens", "cache_read_tokens", "output_tokens").rows()
    assert (receipt["formats"], counts) == ({"batch_results": 1}, [(100, 64, 5)])
    assert receipt["failed_attempts"] == len(rows) - 1
    assert any("no prompts" in warning for warning in receipt["warnings"]) == (provider != "bedrock")
