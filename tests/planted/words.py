"""Texts of generated coding sessions: words, code, tool results, what users ask for."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable
from typing import Any

WORDS = [
    "parser", "index", "cache", "request", "module", "handler", "buffer", "token", "schema", "client", "server",
    "retry", "timeout", "migration", "fixture", "coverage", "import", "branch", "loop", "thread", "queue", "lock",
    "stream", "frame", "packet", "header", "payload", "cursor", "offset", "widget", "render", "layout", "button",
    "dialog", "locale", "currency", "invoice", "ledger", "tenant", "quota", "billing", "webhook", "digest",
    "cipher", "salt", "vector", "matrix", "kernel", "tensor", "gradient", "batch", "epoch", "sampler", "shard",
    "replica", "leader", "follower", "quorum", "snapshot", "journal", "compile", "linker", "symbol", "macro",
    "closure", "iterator", "generator", "decorator", "descriptor", "protocol", "adapter", "facade", "registry",
    "should", "must", "cannot", "will", "does", "after", "before", "because", "while", "until", "without",
    "within", "across", "under", "over", "between", "the", "a", "this", "that", "when", "where", "fails", "works",
    "returns", "raises", "prints",
    "time", "date", "memory", "status", "note", "task", "commit",
    "reads", "writes", "opens", "closes", "checks", "skips", "merges", "splits",
]  # fmt: skip
FOLDERS = [
    "src", "lib", "core", "api", "utils", "models", "views", "tests", "config", "docs", "scripts", "tools", "db",
    "auth", "jobs", "infra", "web", "cli",
]  # fmt: skip
ENDINGS = ["py", "ts", "go", "rs", "java", "md", "toml", "yaml", "json", "sh"]
Draw = Callable[[random.Random], str]


def word(r: random.Random) -> str:
    return r.choice(WORDS)


def sentence(r: random.Random, words: int = 0) -> str:
    said = " ".join(word(r) for _ in range(words or r.randint(5, 18)))
    return said[0].upper() + said[1:] + r.choice([".", ".", ".", ";", "?"])


def paragraph(r: random.Random) -> str:
    return " ".join(sentence(r) for _ in range(r.randint(1, 5)))


def path(r: random.Random) -> str:
    folders = [r.choice(FOLDERS) for _ in range(r.randint(1, 3))]
    return "/".join([*folders, f"{word(r)}_{word(r)}.{r.choice(ENDINGS)}"])


def hexes(r: random.Random, digits: int) -> str:
    return "".join(r.choice("0123456789abcdef") for _ in range(digits))


def letters(r: random.Random, count: int, of: str = string.ascii_letters + string.digits) -> str:
    return "".join(r.choice(of) for _ in range(count))


def code(r: random.Random) -> str:
    return "\n".join(
        f"def {word(r)}_{word(r)}({word(r)}, {word(r)}={r.randint(0, 99)}):\n"
        f'    """{sentence(r)}"""\n'
        f"    if {word(r)}.{word(r)} > {r.randint(1, 500)}:\n"
        f"        raise ValueError({word(r)!r})\n"
        f"    return {word(r)}({word(r)})\n"
        for _ in range(r.randint(2, 6))
    )


def record(r: random.Random, depth: int = 2) -> dict[str, Any]:
    """A JSON object with what serialisers disagree on: accents, markup, slashes, floats, nulls."""
    made: dict[str, Any] = {}
    for _ in range(r.randint(2, 6)):
        key = word(r)
        if depth and r.random() < 0.3:
            made[key] = record(r, depth - 1)
        else:
            made[key] = r.choice([
                r.randint(0, 9999), r.random() < 0.5, None, sentence(r, 5), path(r), "café — naïve", "<b>x & y</b>",
                "a/b", [word(r), word(r), r.randint(1, 9)], round(r.random() * 100, 2),
            ])  # fmt: skip
    return made


def log(r: random.Random) -> str:
    return "\n".join(
        f"[{r.choice(['INFO', 'WARN', 'DEBUG'])}] {word(r)}.{word(r)}: {sentence(r, 6)} ({r.randint(1, 900)} ms)"
        for _ in range(r.randint(3, 14))
    )


def listing(r: random.Random) -> str:
    return "\n".join(path(r) for _ in range(r.randint(4, 16)))


def numbered(r: random.Random) -> str:
    return "\n".join(f"{i + 1:6d}\t{line}" for i, line in enumerate(code(r).split("\n")))


RESULTS: tuple[Draw, ...] = (
    lambda r: json.dumps(record(r), ensure_ascii=False),
    lambda r: json.dumps(record(r), indent=2),
    log,
    listing,
    numbered,
    lambda r: "\n".join(
        f"-rw-r--r-- 1 dev dev {r.randint(10, 99999):>6} {r.choice(['Jan', 'Mar', 'Oct'])} {r.randint(1, 28):2d} "
        f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d} {path(r)}"
        for _ in range(r.randint(4, 14))
    ),
    lambda r: "\n".join(f"{hexes(r, 7)} {sentence(r)}" for _ in range(r.randint(4, 12))),
    lambda r: f"$ pytest -q\n{'.' * r.randint(3, 40)}F\n{log(r)}\n{r.randint(1, 40)} passed, 1 failed",
)
TASKS: tuple[Draw, ...] = (
    lambda r: f"Please fix the bug in {path(r)}. {paragraph(r)}",
    lambda r: f"{paragraph(r)}\n\n{paragraph(r)}",
    sentence,
    lambda r: f"In `{path(r)}`:\n```py\n{code(r)}```\n{sentence(r)}",
    lambda _: "weiter",
    lambda _: "ok, go on",
    lambda r: f"Bitte {sentence(r)}",
    lambda r: f"次に {path(r)} を直してください。{sentence(r)}",
)


def result(r: random.Random) -> str:
    """What a tool returns."""
    return r.choice(RESULTS)(r)


def task(r: random.Random) -> str:
    """What a user asks for."""
    return r.choice(TASKS)(r)
