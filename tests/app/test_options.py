"""No option is dropped without a word: every pair of options of a command is answered, refused, or noted.

For each pair, with the options that these two need: the command either exits 2, or says something else than without one
of them. Several options are tried at once; where leaving one out changes what is said, no other one hides it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest
from click.testing import CliRunner

from analysis.store import warehouse
from app.cli import group
from app.commands.shell.rules import check

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
READING: dict[str, str | None] = {
    "format": "table", "map": "input_tokens=size", "block-size": "256", "tokenizer": "bytes", "time-unit": "ms",
    "one-trace": None, "strict": None,
}  # fmt: skip
KV = {"gpu": "h200", "tp": "2", "kv-dtype": "fp8"}

COMMANDS: dict[str, tuple[str, dict[str, str | None]]] = {
    "report": ("report {d} --json", {**QUESTION, "by": "model", "html": "{t}/r.html"}),
    "curve": (
        "curve {d} --json",
        {**QUESTION, "capacity-blocks": "3", "capacity-tokens": "8", "ttl": "100", "tiers": "2,2", "by": "model",
         "cross": None, "capacity-bytes": "4MiB", "policy": "belady", "tier-mode": "inclusive",
         "model": "llama-3.1-8b", "kv-dtype": "fp8",
         "tp": "16"},
    ),
    "misses": (
        "misses {d} --show causes --json",
        {"definition": "vllm", "capacity-tokens": "12", "ttl": "50", "replicas": "2", "policy": "round_robin",
         "insert": "finish",
         "by": "model", "show": "sessions", "most": "1", "remedy": "keep_history", "per-request": None,
         "out": "{t}/m.csv"},
    ),
    "query": (
        "query {d} hit_rate_over_time bins=3 --json", {**QUESTION, "sql": "SELECT * FROM selected", "list": None}
    ),
    "sessions": (
        "sessions {d} --model llama-3.1-8b --gpu h200 --at-once 1..3 --json",
        {"at-once": "2,3", "capacity-tokens": "24", "admission": "footprint", "block-size": "8", "where": "model=one",
         "model": "gpt-oss-120b", "gpu": "b200", "tp": "4", "kv-dtype": "fp8", "dp": "2", "dcp": "2", "engine": "vllm"},
    ),
    "cost": (
        "cost {d} --as-model claude-opus-4.5 --json",
        {**{k: v for k, v in QUESTION.items() if k != "definition"}, "by": "model", "writes": "1h",
         "prices": "{i}.toml", "model": "llama-3.1-8b", "gpu": "h200", "weights": "fp8",
         "gpu-hour-usd": "4"},
    ),
    "profile": (
        "profile {d}", {"block-size": "8", "arrivals": "staggered:20", "output": "{t}/p.json", "schema": None}
    ),
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
    "ingest": ("ingest {i} -o {t}/ds --json", {**READING, "keep-excerpts": None}),
    "validate": ("validate {i} --json", READING),
    "synth": ("synth {i}.json -o {t}/ds --json", {"sessions": "3", "seed": "7", "check": None}),
    "compare": (
        "compare {d} --measured {i}.prom --json",
        {"measured": "{i}.prom", "block-size": "8", "arrivals": "staggered:20", "capacity-tokens": "8",
         "model": "llama-3.1-8b", "gpu": "h200", "tp": "2"},
    ),
    "bundle": ("bundle {d} -o {t}/b.zip", {"models": "pseudonyms"}),
    "demo": ("demo -o {t}/ds", {}),
    "app": ("app {d}", {"port": "8502", "address": "0.0.0.0", "data-root": "{t}", "lease": "30"}),
    "formats": ("formats", {}),
}  # fmt: skip
"""Command -> (the least that it takes, its options with a value that changes what it says of the rows above)."""

NEEDED = {
    "tier-mode": ("tiers",),
    "cross": ("capacity-tokens", "ttl"), "capacity-bytes": ("model", "kv-dtype"), "tp": ("capacity-bytes",),
    "model": ("gpu", "service"), "gpu": ("model",), "gpu-hour-usd": ("model",),
    "weights": ("model",), "policy": ("replicas",), "replicas": ("policy",),
    "remedy": ("show",), "most": ("show",), "seed": ("sessions",), "think": ("sessions",), "insert": ("service",),
    "draft-cost": ("accept-length",), "verify-tokens": ("accept-length",),
    "max-running": ("service",), "queue-limit": ("max-running",),
}  # fmt: skip
"""Options that mean nothing without others, where the command has those."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """d: a dataset, i: a folder of inputs of several kinds, i.json: a profile."""
    from analysis.profile.profile import profile
    from traces.intake.ingest import ingest

    folder = tmp_path_factory.mktemp("options")
    source = folder / "rows.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    ingest([str(source)], folder / "ds")
    inputs = folder / "in"
    inputs.mkdir()
    (inputs / "a.csv").write_text("ts,engine,size,completion_tokens\n1,one,7,2\n5,two,9,x\n9,two,9,3\n")
    text = "The first line.\nThe {} line.\nThe last line.\n"
    for name, size, ids in (("b", 512, [[1, 2], [1, 2, 3]]), ("c", 4, [[1, 2]]), ("e", 4, [[1, 2, 3], [1, 2, 3, 4]])):
        stated = {} if size == 512 else {"block_size": size}
        rows = [
            {"timestamp": 9, "input_length": size * len(i), "output_length": 2, "hash_ids": i, **stated} for i in ids
        ]
        (inputs / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    turns = [{"ts": 20 + i, "session_id": "s", "prompt": text.format(word)} for i, word in enumerate(("second", "2nd"))]
    (inputs / "d.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    Path(f"{inputs}.prom").write_text("sglang:prompt_tokens_total 90\nsglang:cached_tokens_total 30\n")
    Path(f"{inputs}.toml").write_text("[[price]]\nmodels = ['claude-*']\ninput = 7.0\noutput = 8.0\n")
    Path(f"{inputs}.json").write_text(json.dumps(profile(warehouse.open_dataset(folder / "ds"))))
    return {"d": str(folder / "ds"), "i": str(inputs)}


@pytest.fixture(autouse=True)
def one_process(monkeypatch: pytest.MonkeyPatch, places: dict[str, str]) -> Iterator[None]:
    """Datasets stay open between commands, and the app only says how its server would start."""
    opened: dict[str, Any] = {}
    open_dataset, close = warehouse.open_dataset, warehouse.Warehouse.close

    def open_once(path: str) -> Any:
        if path != places["d"]:
            return open_dataset(path)
        if path not in opened:
            opened[path] = open_dataset(path)
        return opened[path]

    class Server:
        def __init__(self, line: list[str], env: dict[str, str], cwd: Path) -> None:
            click.echo([line, {k: v for k, v in env.items() if k.startswith("TRACETOWER")}])

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(warehouse, "open_dataset", open_once)
    monkeypatch.setattr(warehouse.Warehouse, "close", lambda _: None)
    monkeypatch.setattr(subprocess, "Popen", Server)
    yield
    for one in opened.values():
        close(one)


class Said:
    """What a command says with some options, each combination once."""

    def __init__(self, name: str, places: dict[str, str], folder: Path) -> None:
        self.command, (self.base, self.options) = group.get_command(None, name), COMMANDS[name]
        self.places, self.folder = {**places, "t": str(folder)}, folder
        self.known: dict[frozenset[str], tuple[int, str]] = {}

    def words(self, names: frozenset[str]) -> list[str]:
        words = self.base.split()
        for name in sorted(names):
            value = self.options[name]
            words += [f"--{name}"] if value is None else [f"--{name}", value]
        return [word.format(**self.places) if "{" in word else word for word in words]

    def with_needed(self, *names: str) -> frozenset[str]:
        """The options with those that they need."""
        every = set(names)
        while more := {n for name in every for n in NEEDED.get(name, ()) if n in self.options} - every:
            every |= more
        return frozenset(every)

    def breaks_a_rule(self, names: frozenset[str]) -> bool:
        """Whether the command refuses these options before it does anything."""
        try:
            with self.command.make_context("x", self.words(names)[1:]) as context:
                check(self.command.rules, context)
        except click.UsageError:
            return True
        return False

    def __call__(self, names: frozenset[str]) -> tuple[int, str]:
        if names not in self.known:
            words = self.words(names)
            result = CliRunner().invoke(group, words)
            assert result.exit_code in (0, 1, 2), (words, result.output)
            assert "unexpected" not in result.stderr, (words, result.stderr)
            self.known[names] = result.exit_code, result.stdout + result.stderr + "".join(map(written, self.made()))
            for path in self.folder.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return self.known[names]

    def made(self) -> list[Path]:
        return sorted(path for path in self.folder.rglob("*") if path.is_file() and "cache" not in path.parts)

    def drops(self, names: frozenset[str]) -> list[str]:
        """Those of the options without which the same is said; none where the command refuses them."""
        found = self(names)
        return [] if found[0] == 2 else [name for name in names if self(names - {name}) == found]


def written(path: Path) -> str:
    """What a written file says; of private ones and of archives the name."""
    if path.suffix == ".parquet" and "private" not in path.parts:
        return str(pl.read_parquet(path).to_dicts())
    if path.name == "manifest.json":
        return str({k: v for k, v in json.loads(path.read_text()).items() if k in ("one_trace", "tokenizers")})
    return path.name if "private" in path.parts or path.suffix == ".zip" else path.read_text("utf-8")


@pytest.mark.parametrize("command", [name for name, (_, options) in COMMANDS.items() if options])
def test_no_pair_of_options_drops_one(command: str, places: dict[str, str], tmp_path: Path) -> None:
    said = Said(command, places, tmp_path)
    dropped = [name for name in said.options if name in said.drops(said.with_needed(name))]
    pairs = {frozenset(pair): said.with_needed(*pair) for pair in itertools.combinations(said.options, 2)}
    open_pairs = {pair for pair, names in pairs.items() if not said.breaks_a_rule(names)}
    left = set(open_pairs)
    while left:
        names = frozenset(min(left, key=sorted))
        for name in said.options:
            others = [frozenset((name, other)) for other in names if other != name]
            if len(names) < AT_ONCE and open_pairs.issuperset(others) and left.intersection(others):
                names |= {name}
        inner = {frozenset(pair) for pair in itertools.combinations(names, 2)} & left
        whole = said.with_needed(*names)
        unclear = set(names) if said(whole)[0] == 2 else set(said.drops(whole))
        for pair in inner:
            if pair & unclear:
                dropped += [f"{name} of {sorted(pair)}" for name in said.drops(pairs[pair]) if name in pair]
        left -= inner
    assert not dropped


AT_ONCE = 5
"""Options that are tried together: with many more, so little of the trace is left that nothing changes an answer."""


def test_every_option_of_the_commands_is_tried() -> None:
    free = {"json", "debug", "help", "h", "workers", "executor", "timezone", "output", "no-wait"}
    shared = set(QUESTION)  # `report` tries all pairs of them
    assert set(COMMANDS) == set(group.list_commands(None))
    for name, (base, options) in COMMANDS.items():
        known = {o.lstrip("-") for p in group.get_command(None, name).params for o in p.opts if o.startswith("--")}
        named = {word.lstrip("-") for word in base.split() if word.startswith("--")}
        assert known - free - named - shared == set(options) - free - named - shared, name


def test_a_zone_that_changes_nothing_is_noted(places: dict[str, str]) -> None:
    result = CliRunner().invoke(group, ["report", places["d"], "--timezone", "Asia/Tokyo", "--json"])
    assert "--timezone changes nothing here" in result.stderr
    result = CliRunner().invoke(group, ["report", places["d"], "--timezone", "Asia/Tokyo", "--by", "day", "--json"])
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("given", "name"),
    [("--block-size=99", "block size"), ("--map=id=number", "columns"), ("--tokenizer=bytes", "tokenizer")],
)
def test_a_way_to_read_that_no_input_needs_is_noted(places: dict[str, str], given: str, name: str) -> None:
    result = CliRunner().invoke(group, ["validate", f"{places['i']}/e.jsonl", given, "--json"])
    assert any(f"the given {name} " in warning for warning in json.loads(result.stdout)["warnings"])
