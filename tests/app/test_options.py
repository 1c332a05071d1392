"""No option is dropped without a word: every pair of options of a command is answered, refused, or noted.

For each pair: with both, the command either exits 2, or says something else than with each of them alone.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import group

DAY_S = 86_400
ROWS = [
    {
        "timestamp": 1_700_000_000 + t, "end": 1_700_000_000 + t + 40, "session_id": s, "model": m, "block_size": 4,
        "input_length": 4 * len(ids), "output_length": 2 + len(ids), "hash_ids": ids, "cached_tokens": c,
    }
    for t, s, m, ids, c in (
        (0, "a", "one", [1, 2], 0), (10, "b", "two", [1, 5], 4), (90, "a", "one", [1, 2, 3], 4),
        (200, "c", "one", [7, 8, 9, 10], 0), (9000, "b", "two", [1, 5, 6], 8), (9100, "a", "one", [1, 4, 3, 8], 4),
        (9150, "c", "one", [7, 20, 9, 10, 11], 4), (20, "d", "one", [30, 31, 32], 0), (9200, "d", "one", [30, 33,
        34, 35], 4), (DAY_S, "a", "two", [1, 2, 3, 4], 4),
    )
]  # fmt: skip
QUESTION = {
    "block-size": "8", "arrivals": "staggered:20", "window": "last:0.5", "where": "model=one", "definition": "vllm",
}  # fmt: skip
KV = {"gpu": "h200", "tp": "2", "kv-dtype": "fp8"}

COMMANDS: dict[str, tuple[str, dict[str, str | None]]] = {
    "report": ("report {d} --json", {**QUESTION, "by": "model", "html": "{t}/r.html"}),
    "curve": (
        "curve {d} --json",
        {**QUESTION, "capacity-blocks": "3", "capacity-tokens": "8", "ttl": "100", "tiers": "2,2", "by": "model",
         "cross": None, "capacity-bytes": "4MiB", "model": "llama-3.1-8b", "kv-dtype": "fp8", "tp": "16"},
    ),
    "misses": (
        "misses {d} --json",
        {"definition": "vllm", "capacity-tokens": "12", "ttl": "50", "replicas": "2", "policy": "round_robin",
         "insert": "finish",
         "by": "model", "show": "sessions", "most": "1", "remedy": "keep_history", "per-request": None,
         "out": "{t}/m.csv"},
    ),
    "query": ("query {d} hit_rate_over_time bins=3 --json", {**QUESTION, "sql": "SELECT * FROM selected",
    "list": None}),
    "profile": ("profile {d}", {"block-size": "8", "arrivals": "staggered:20", "output": "{t}/p.json",
    "schema": None}),
    "export": (
        "export {d} --to mooncake -o {t}/e.jsonl --json",
        {"block-size": "8", "arrivals": "staggered:20", "window": "last:0.5", "where": "model=one", "rate": "2",
         "sessions": "2", "context-cap": "12", "seed": "3", "list": None},
    ),
    "kv-budget": (
        "kv-budget --model llama-3.1-8b --gpu h200 --json",
        {"tp": "2", "dp": "2", "dcp": "2", "kv-dtype": "fp8", "engine": "vllm", "gpu-bytes": "100GiB",
         "weights-bytes": "9GB",
         "weights": "fp8", "utilization": "0.5", "reserve-bytes": "3GB", "dataset": "{d}", "block-size": "8",
         "arrivals": "staggered:20", "list": None},
    ),
    "interactivity": (
        "interactivity --model deepseek-v3.2 --gpu h200 --kv-dtype fp8 --context 10k --json",
        {"tp": "2", "dp": "2", "dcp": "2", "engine": "vllm", "weights": "bf16", "output": "100", "batch": "3",
         "hit-rate": "0.5", "accept-length": "2", "draft-cost": "0.2", "verify-tokens": "3", "mfu": "0.1,0.2",
         "bandwidth-efficiency": "0.3,0.4", "link-gbps": "7", "sessions": "4", "think": "3"},
    ),
    "route": (
        "route {d} --replicas 2 --policy random --json",
        {"block-size": "8", "arrivals": "staggered:20", "window": "last:0.5", "where": "model=one",
         "definition": "vllm", "capacity-tokens": "8", "seeds": "2", "service": "recorded", "insert": "finish",
         "param": "c=2",
         "event": "lose:60", "max-running": "1", "queue-limit": "0", "model": "llama-3.1-8b", **KV},
    ),
}  # fmt: skip
"""Command -> (the least that it takes, its options with a value that changes what it says of the rows above)."""


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from traces.intake.ingest import ingest

    folder = tmp_path_factory.mktemp("options")
    source = folder / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ingest([str(source)], folder / "ds")
    return folder / "ds"


class Said:
    """What a command says with some options, each combination once."""

    def __init__(self, name: str, dataset: Path, folder: Path) -> None:
        self.base, self.options = COMMANDS[name]
        self.places = {"d": str(dataset), "t": str(folder)}
        self.folder = folder
        self.known: dict[tuple[str, ...], tuple[int, str]] = {}

    def __call__(self, *names: str) -> tuple[int, str]:
        if names not in self.known:
            words = self.base.format(**self.places).split()
            for name in names:
                value = self.options[name]
                words += [f"--{name}"] if value is None else [f"--{name}", value.format(**self.places)]
            result = CliRunner().invoke(group, words)
            assert result.exit_code in (0, 1, 2), (words, result.output)
            assert "unexpected" not in result.stderr, (words, result.stderr)
            files = "".join(path.read_text("utf-8") for path in sorted(self.folder.glob("*.*")))
            for path in self.folder.glob("*.*"):
                path.unlink()
            self.known[names] = result.exit_code, result.stdout + result.stderr + files
        return self.known[names]


@pytest.mark.parametrize("command", COMMANDS)
def test_no_pair_of_options_drops_one(command: str, dataset: Path, tmp_path: Path) -> None:
    said = Said(command, dataset, tmp_path)
    alone = said()
    dropped = [(name,) for name in said.options if said(name) == alone]
    for pair in itertools.combinations(said.options, 2):
        code, text = said(*pair)
        if code == 2:
            continue
        dropped += [(*pair, "says what is said with", name) for name in pair if said(name) == (code, text)]
    assert not dropped


def test_every_option_of_the_commands_is_tried() -> None:
    free = {"json", "debug", "help", "h", "workers", "executor", "timezone", "output"}
    shared = set(QUESTION)  # `report` tries all pairs of them
    for name, (base, options) in COMMANDS.items():
        known = {o.lstrip("-") for p in group.get_command(None, name).params for o in p.opts if o.startswith("--")}  # type: ignore[arg-type, union-attr]
        named = {word.lstrip("-") for word in base.split() if word.startswith("--")}
        assert known - free - named - shared == set(options) - free - shared, name


def test_a_zone_that_changes_nothing_is_noted(dataset: Path) -> None:
    result = CliRunner().invoke(group, ["report", str(dataset), "--timezone", "Asia/Tokyo", "--json"])
    assert "--timezone changes nothing here" in result.stderr
    result = CliRunner().invoke(group, ["report", str(dataset), "--timezone", "Asia/Tokyo", "--by", "day", "--json"])
    assert result.stderr == ""
