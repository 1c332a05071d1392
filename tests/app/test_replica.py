"""The page Hardware without a dataset, with one, and with what is no replica."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.views.replica import evaluations
from app.visit import known
from tests.places import ROOT
from traces.intake.ingest import ingest

APP = str(ROOT / "app" / "streamlit_app.py")


def page() -> AppTest:
    at = AppTest.from_file(APP, default_timeout=300).run()  # pages are known once the entry script has run
    at.switch_page("views/replica/replica.py")
    return at


def metrics(at: AppTest) -> dict[str, str]:
    return {m.label.replace("\u00a0", " "): m.value.replace("\u00a0", " ").replace("\u202f", " ") for m in at.metric}


def said(at: AppTest) -> str:
    return "\n".join(e.value for kind in ("caption", "info", "warning", "error", "markdown") for e in at.get(kind))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four sessions over one head of 2 blocks of 512 that grow by a block a request, taking turns."""
    folder = tmp_path_factory.mktemp("traces")
    rows: list[dict[str, Any]] = []
    for turn in range(8):
        for session in range(4):
            ids = [1, 2, *range(100 * (session + 1), 100 * (session + 1) + turn + 1)]
            time = 1000 * (4 * turn + session)
            rows.append({"timestamp": time, "hash_ids": ids, "input_length": 512 * len(ids), "output_length": 100})
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ingest([str(folder / "trace.jsonl")], folder / "dataset")
    return folder / "dataset"


def test_without_a_dataset() -> None:
    at = page().run()
    assert not at.exception
    assert not at.error
    found = metrics(at)
    assert found["A token on each GPU"] == "70 272 B"
    assert found["Fits"] == "23.6 GiB"  # 0.92 × 183,359 MiB − 593.8e9 / 4 − 3e9
    assert found["At 100 k tokens"] == "3.6"
    assert found["Prefill left to compute"] == "8.2 %"  # 12.3 × less, not 20 ×
    assert "12.3 × less work, not 20 ×" in said(at).replace("\u00a0", " ")
    assert "No dataset is open" in said(at)
    assert "**not evaluated**" in said(at)
    assert "Together **4.62**" in said(at)  # 1 / (0.7 / 6 + 0.3 / 3) = 4.615
    assert [s.value for s in at.subheader] == [
        "Does it fit?", "How many sessions?", "How fast?", "What does a change buy?",
    ]  # fmt: skip


def test_published_case() -> None:
    """180e9 B GPUs, 595e9 B weights, all of the memory: TP4 444,700 tokens; TP2 is 117.5e9 B a GPU short."""
    at = page().run()
    at.number_input(key="utilization").set_value(1.0)
    at.text_input(key="gpu_bytes").set_value("180GB")
    at.text_input(key="weight_bytes").set_value("595GB")
    at.text_input(key="reserve_bytes").set_value("0")
    at.run()
    assert metrics(at)["Tokens in the replica"] == "445 k"
    at.selectbox(key="tp").set_value(2).run()
    assert not at.exception
    assert metrics(at)["Does not fit"] == "109 GiB"
    assert "nothing for a KV cache" in said(at)


def test_a_score_stands_beside_the_precision() -> None:
    at = page().run()
    at.number_input(key="score-before").set_value(0.70)
    at.number_input(key="score-after").set_value(0.69)
    at.text_input(key="score-task").set_value("SWE-bench")
    at.run()
    assert "SWE-bench entered by hand: 0.7 → 0.69 (-0.01)" in "\n".join(s.value for s in at.success).replace("\\", "")
    assert "**not evaluated**" not in said(at)


def test_inspect_logs_are_compared(tmp_path: Path) -> None:
    class Sent:
        name = "before.json"

        def __init__(self, value: float) -> None:
            self.value = value

        def getvalue(self) -> bytes:
            metric = {"accuracy": {"name": "accuracy", "value": self.value}}
            scores = [{"name": "match", "metrics": metric}]
            return json.dumps({"eval": {"task": "swe"}, "results": {"scores": scores}}).encode()

    (score,) = evaluations.read_scores(Sent(0.7))
    assert (score.task, score.metric, score.value) == ("swe", "match accuracy", 0.7)


def test_measured_points_replace_the_band() -> None:
    at = page().run()
    for i, value in enumerate((20_000.0, 1.0, 100_000.0, 9.0)):
        at.number_input(key=f"prefill-{i}").set_value(value)
    at.run()
    assert not at.exception
    first = metrics(at)["Time to first token"]
    assert " to " not in first
    at.number_input(key="prefill-3").set_value(0.5)
    at.run()
    assert "more work took no longer" in said(at)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "cannot be read as a config"),
        ("[]", "a config.json is a JSON object"),
        ('{"num_hidden_layers": 10}', "num_attention_heads"),
        ('{"num_hidden_layers": "x", "num_attention_heads": {}}', "config.json"),
    ],
)
def test_broken_configs_say_what_is_missing(text: str, message: str) -> None:
    at = page().run()
    at.selectbox(key="serve").set_value("own").run()
    assert "Paste or send" in said(at)
    at.text_area(key="config-text").set_value(text).run()
    assert not at.exception
    assert message in "\n".join(e.value for e in at.error).replace("\\", "")
    assert not at.metric


def test_a_pasted_config() -> None:
    config = {"num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "hidden_size": 1024,
              "intermediate_size": 4096, "vocab_size": 32000}  # fmt: skip
    at = page().run()
    at.selectbox(key="serve").set_value("own").run()
    at.text_area(key="config-text").set_value(json.dumps(config)).run()
    assert not at.exception
    assert metrics(at)["A token on each GPU"] == "1 024 B"  # 2 layers × K and V × 1 of 4 heads × 128 × 2 B


def test_impossible_parallelism() -> None:
    at = page().run()
    at.selectbox(key="serve").set_value("qwen3-coder-480b")
    at.number_input(key="dp").set_value(3)
    at.run()
    assert not at.exception
    assert "impossible DP-attention" in said(at)


def test_with_a_dataset(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(known.DATASET_VARIABLE, str(dataset))
    at = page().run()
    assert not at.exception
    assert not at.error
    found = metrics(at)
    # all of the trace fits in this replica
    assert found["Hit rate in this replica"] == "83.7 %"  # 174 of 208 blocks
    assert "4×B200 TP4, bf16 KV: 94.4 GiB over the replica, 361 k tokens, 704 blocks of 512" in said(at).replace(
        "\u00a0", " "
    )
    assert at.session_state["replica-mark"][0] == "4×B200 TP4, bf16 KV"
    assert at.number_input(key="context").value == 3328
    at.switch_page("views/cache/cache.py").run()
    assert not at.exception
    assert "Marked: 4×B200 TP4, bf16 KV" in said(at)


def test_with_the_demo_sessions_need_arrivals() -> None:
    at = AppTest.from_file(APP, default_timeout=300).run()
    at.button(key="open-demo").click().run()
    at.switch_page("views/replica/replica.py").run()
    assert not at.exception
    assert "At once, median context" in metrics(at)
