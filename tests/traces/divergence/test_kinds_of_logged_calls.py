"""What parts the prompts of logged calls is named, though the provider's counts are their lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from traces.dataset.layout import Dataset
from traces.intake.ingest import Options, ingest

RULES = "\n".join(f"Rule {n}: keep the tests of module {n} green and name what was measured there." for n in range(40))

USER = "user_1_account__session_0f8fad5b-d9cb-469f-a165-70867728950e"


def _call(n: int, system: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    written = 40 + len(system) // 4 + sum(len(str(m["content"])) // 4 for m in messages)
    return {
        "request": {"model": "claude-x", "system": system, "messages": messages, "metadata": {"user_id": USER}},
        "response": {
            "id": f"msg_{n}", "type": "message", "role": "assistant", "model": "claude-x", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": f"Answer {n}. " * 20}],
            "usage": {"input_tokens": written, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0,
                      "output_tokens": 60},
        },
        "timestamp": f"2026-03-01T10:00:{n:02d}Z",
    }  # fmt: skip


def _session(line: str, change: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    calls = []
    for n in range(4):
        messages.append({"role": "user", "content": f"Question {n}: what is the state of module {n}? " * 10})
        told = change if n >= 2 else line
        calls.append(_call(n, f"You are a careful engineer.\n{told}\n{RULES}", list(messages)))
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"Answer {n}. " * 20}]})
    return calls


CHANGES = {
    "clock": ("Current time: 2026-03-01 10:00:01", "Current time: 2026-03-01 10:07:45"),
    "nonce": ("Request id: 5f0c1e9a7b3d4c21", "Request id: 91be77ac04f6de33"),
    "working_directory": ("Working directory: /home/ann/app", "Working directory: /home/ann/app/service"),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_of_the_system_prompt_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, _session(*CHANGES[kind]))))
    ingest([str(file)], tmp_path / "ds", Options())
    found = Dataset(tmp_path / "ds").read("divergences")
    assert found["kind"].to_list() == [kind]
    assert found["role"].to_list() == ["system"]
    for path in (tmp_path / "ds").rglob("*"):
        if path.is_file():
            assert b"Working directory" not in path.read_bytes()
    other = tmp_path / "more.jsonl"
    other.write_bytes(orjson.dumps(_call(9, "Something else entirely.", [{"role": "user", "content": "Hello " * 50}])))
    ingest([str(other)], tmp_path / "ds", Options())
    kept = Dataset(tmp_path / "ds").read("divergences")
    assert kind in kept["kind"].to_list()


def test_a_text_that_goes_on_shares_all_of_what_it_was(tmp_path: Path) -> None:
    text, calls = f"System: be careful.\n{RULES}\nUser: first question, without a line end", []
    for n in range(4):
        call = _call(n, "", [])
        usage = call["response"]["usage"] | {"input_tokens": len(text) // 4}
        sent = {"model": "m", "prompt": text, "metadata": {"user_id": USER}}
        calls.append({**call, "request": sent, "response": call["response"] | {"usage": usage}})
        text += f" and more of question {n}. " * 9
    file = tmp_path / "calls.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, calls)))
    ingest([str(file)], tmp_path / "ds", Options())
    dataset = Dataset(tmp_path / "ds")
    assert dataset.read("divergences").is_empty()
    requests = dataset.read("requests")
    assert requests["prefix_tokens"].to_list() == [call["response"]["usage"]["input_tokens"] for call in calls]
