"""`--definition vllm | sglang` from files to figures: what the command line prints equals the recorded managers."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from analysis.peers.engine_curve import engine_grid, engine_paths, engine_points
from analysis.peers.engines.paths import block_paths
from analysis.store.question import BadQuestion, Question
from analysis.store.warehouse import open_dataset
from app.cli import group
from tests.places import SAMPLES, SHARED
from traces.intake.ingest import Options, ingest

ENGINES = SAMPLES / "engines"
RECORDED = SHARED / "engines"
EXPECTED = json.loads((ENGINES / "expected.json").read_text())


def run(*words: str, code: int = 0) -> Any:
    """A command's JSON, or its message where it is refused."""
    result = CliRunner().invoke(group, list(words))
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 and "--json" in words else result.output


def rows_of(*words: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = run("curve", *words, "--json")["rows"]
    return rows


def block_rows(block: int) -> Iterator[str]:
    """The recorded trace as lines of block ids, its answers left out; the tree is in samples/engines/agents.npz."""
    with np.load(ENGINES / "agents.npz") as data:
        a = {k: v.astype(np.int64) for k, v in data.items()}
    order = np.arange(len(a["leaf"]))
    paths = block_paths(a["parent"], a["start"], a["end"], a["leaf"], order, np.ones_like(order), block)
    first_block = np.cumsum(paths.blocks) - paths.blocks
    ids: dict[int, list[int]] = {-1: []}

    def ids_to(atom: int) -> list[int]:
        if atom not in ids:
            first = int(first_block[atom])
            ids[atom] = [*ids_to(int(paths.parent[atom])), *range(first, first + int(paths.blocks[atom]))]
        return ids[atom]

    for row, leaf in enumerate(paths.leaf.tolist()):
        blocks = ids_to(leaf)
        tail = [10**9 + row] if int(paths.prompt_tokens[row]) % block else []
        line = {
            "timestamp": row * 1000,
            "hash_ids": blocks + tail,
            "block_size": block,
            "input_length": int(paths.prompt_tokens[row]),
            "output_length": int(a["output_tokens"][row]),
        }
        yield json.dumps(line) + "\n"


@pytest.fixture(scope="module")
def hashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hashed")
    with (folder / "trace.jsonl").open("w") as file:
        file.writelines(block_rows(64))
    ingest([str(folder / "trace.jsonl")], folder / "dataset")
    return folder / "dataset"


def test_recorded_trace_without_answers(hashed: Path) -> None:
    """Dynamo's mocker keeps blocks as vLLM does; it was given the block ids of the prompts alone."""
    expected = {int(k): n for k, n in EXPECTED["dynamo_mocker_sequential_b64"]["hits"].items()}
    out = run("curve", str(hashed), "--definition", "vllm", "--capacity-blocks", ",".join(map(str, expected)), "--json")
    assert {r["capacity_blocks"]: r["hit_tokens"] for r in out["rows"]} == expected
    assert {r["method"] for r in out["rows"]} == {"one_pass"}
    assert {r["prefix_tokens"] for r in out["rows"]} == {83_720_269}
    means = out["definition"]
    assert means["engine"].startswith("vLLM 0.33.0")
    assert means["replies_unknown"] == 10_628
    older = rows_of(str(hashed), "--definition", "vllm:0.20", "--capacity-blocks", "1024")
    assert older[0]["hit_tokens"] < expected[1024]


def test_requests_that_cannot_run_are_counted(hashed: Path) -> None:
    (row,) = rows_of(str(hashed), "--definition", "vllm", "--capacity-tokens", "16384")
    assert (row["unschedulable_requests"], row["decode_oom_requests"]) == (315, 16)
    assert row["method"] == "replay"
    (last,) = rows_of(str(hashed), "--definition", "vllm", "--capacity-tokens", "16384", "--window", "last:0.1")
    assert 0 < last["unschedulable_requests"] < 315


def test_default_grid_ends_where_nothing_more_is_hit(hashed: Path) -> None:
    warehouse, question = open_dataset(hashed), Question(definition="vllm")
    grid = engine_grid(engine_paths(warehouse, question))
    frame = engine_points(warehouse, question, "all", [*grid, 2 * grid[-1]])
    hits = frame["hit_tokens"].to_list()
    assert hits == sorted(hits)
    assert hits[-3] < hits[-2] == hits[-1]


def test_the_report_has_the_engines_ceiling(hashed: Path) -> None:
    out = run("report", str(hashed), "--definition", "sglang", "--by", "role", "--json")
    found = out["hit_rate"]
    prefix = out["overlap"]["prefix_tokens"]
    (ample,) = rows_of(str(hashed), "--definition", "sglang", "--capacity-tokens", "1G")
    assert found["ceiling_hit_tokens"] == ample["hit_tokens"]
    assert found["ceiling"] == ample["hit_tokens"] / prefix
    assert found["nines"] == pytest.approx(-math.log10(1 - found["ceiling"]))
    assert (found["gap"], found["ceiling_low"]) == (None, None)
    assert [r["ceiling_hit_tokens"] for r in out["by"]["role"]] == [ample["hit_tokens"]]
    own = run("report", str(hashed), "--json")["hit_rate"]
    assert own["ceiling_hit_tokens"] >= found["ceiling_hit_tokens"]


def test_groups_sum_to_the_whole(hashed: Path) -> None:
    words = [str(hashed), "--definition", "sglang", "--capacity-blocks", "1024"]
    (whole,) = rows_of(*words)
    parts = rows_of(*words, "--by", "prompt_length")
    assert sum(r["hit_tokens"] for r in parts) == whole["hit_tokens"]
    assert sum(r["unschedulable_requests"] for r in parts) == whole["unschedulable_requests"]


def test_what_an_engine_has_not(hashed: Path) -> None:
    for words, message in (
        (("curve", "--ttl", "60"), "has capacities only"),
        (("curve", "--tiers", "100,200"), "has capacities only"),
        (("curve", "--capacity-blocks", "0"), "at least one usable block"),
        (("query", "sessions"), "query knows the definition tracetower only"),
    ):
        assert message in run(words[0], str(hashed), *words[1:], "--definition", "vllm", code=2)
    assert "Known: tracetower" in run("curve", str(hashed), "--definition", "trt", code=2)
    with pytest.raises(BadQuestion, match="is no engine"):
        engine_points(open_dataset(hashed), Question(), "all", [10])


def test_people_read_version_and_method(hashed: Path) -> None:
    said = run("curve", str(hashed), "--definition", "vllm", "--capacity-blocks", "256,1024")
    for words in ("free queue as from 0.23 on", "the largest request needs", "one_pass", "null block"):
        assert words in said


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("gen_trace", RECORDED / "gen_trace.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_answers_known_by_their_token_ids(tmp_path: Path) -> None:
    """The first requests of the recorded trace with every token: ingested, they give what the recorded tree gives."""
    gen, count = generator(), 250
    lines = [
        {
            "timestamp": t,
            "session_id": session,
            "token_ids": gen.expand(prompt),
            "output_token_ids": gen.expand(answer),
            "output_length": sum(n for _, n in answer),
        }
        for t, session, _, prompt, answer in gen.build()[:count]
    ]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    ingest([str(tmp_path / "trace.jsonl")], tmp_path / "dataset", Options(format="table"))
    with np.load(ENGINES / "agents.npz") as data:
        a = {k: v.astype(np.int64) for k, v in data.items()}
    first = {k: a[k][:count] for k in ("leaf", "output_tokens", "reply_leaf")}
    from analysis.peers.engines import sglang, vllm

    for block in (16, 64):
        tree = (a["parent"], a["start"], a["end"])
        paths = block_paths(*tree, first["leaf"], np.arange(count), first["output_tokens"], block, first["reply_leaf"])
        sizes = [n // block for n in (12_800, 64_000, 640_000)]
        words = [str(tmp_path / "dataset"), "--block-size", str(block), "--capacity-blocks", ",".join(map(str, sizes))]
        for name, replays in (
            ("vllm", vllm.replay(paths, [n + 1 for n in sizes])),
            ("sglang", sglang.replay(paths, [n * block for n in sizes])),
        ):
            out = run("curve", *words, "--definition", name, "--json")
            assert [r["hit_tokens"] for r in out["rows"]] == [r.hit_tokens for r in replays]
            assert [r["unschedulable_requests"] for r in out["rows"]] == [r.unschedulable for r in replays]
            assert out["definition"]["replies_unknown"] == 0
