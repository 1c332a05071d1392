"""How well the prompts told by the Claude Code reader predict what the provider read from its cache.

Usage: python tests/benchmarks/reading/claude_code.py TRANSCRIPT.jsonl...

A pair is a call and the call before it in its session; it is warm if the call read at least 0.9 of that call's prompt.
Predicted: the tokens that the two prompts (or the prompt and the one it extends) share in the tree.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson

from traces.digests import KeyedDigest
from traces.formats.claude_code import transcript as claude_code
from traces.records import Context, Request
from traces.source.sources import Source
from traces.text.tokens import load_tokenizer

Path_ = list[tuple[int, int]]  # (key, tokens) from the root


def prompt_paths(requests: list[Request]) -> dict[str, Path_]:
    """Request key -> its whole prompt as runs."""
    replies = {request.key: [(p.key, p.tokens) for p in request.reply or ()] for request in requests}
    paths: dict[str, Path_] = {}
    for request in requests:
        prompt = request.prompt
        if prompt is None:
            continue
        path: Path_ = []
        if prompt.base is not None:
            left = prompt.base.keep_tokens
            for key, tokens in paths[prompt.base.request_key]:
                take = tokens if left is None else min(tokens, left)
                left = None if left is None else left - take
                if take:
                    path.append((key, take))
            if prompt.base.with_reply:
                path += replies[prompt.base.request_key]
        paths[request.key] = path + [(piece.key, piece.tokens) for piece in prompt.pieces]
    return paths


def shared_tokens(a: Path_, b: Path_) -> int:
    """Tokens of the common beginning of two prompts."""
    shared = 0
    for (key, tokens), (other_key, other_tokens) in zip(a, b, strict=False):
        if key != other_key:
            break
        shared += min(tokens, other_tokens)
        if tokens != other_tokens:
            break
    return shared


def warm_pairs(requests: list[Request]) -> list[tuple[int, int, int]]:
    """(prompt, predicted, read) tokens of each warm pair."""
    paths = prompt_paths(requests)
    sessions: dict[str | None, list[Request]] = defaultdict(list)
    for request in requests:
        if request.key in paths:
            sessions[request.session_key].append(request)
    pairs = []
    for calls in sessions.values():
        for before, call in pairwise(calls):
            read, total = call.cache_read_tokens, before.input_tokens
            if read is None or not total or read < 0.9 * total:
                continue
            predicted = shared_tokens(paths[call.key], paths[before.key])
            if call.prompt is not None and call.prompt.base is not None:
                predicted = max(predicted, shared_tokens(paths[call.key], paths[call.prompt.base.request_key]))
            pairs.append((call.input_tokens or 0, predicted, read))
    return pairs


def main(names: list[str]) -> None:
    """Print one line a file, and one for all pairs of files with more than 20 calls."""
    context = Context(load_tokenizer(), KeyedDigest())
    every: list[tuple[int, int, int]] = []
    columns = f"{'p50 %':>8} {'p90 %':>8} {'max %':>8} {'ceiling':>9} {'reported':>9} {'x orjson':>9}"
    print(f"{'file':32} {'calls':>5} {'warm':>5} {columns}")
    for name in names:
        started = time.perf_counter()
        records = list(claude_code.read(Source(Path(name).name, Path(name)), context))
        spent = time.perf_counter() - started
        started = time.perf_counter()
        for line in Path(name).read_bytes().splitlines():
            orjson.loads(line)
        parsed = time.perf_counter() - started
        requests = [record for record in records if isinstance(record, Request)]
        pairs = warm_pairs(requests)
        if len(requests) > 20:
            every += pairs
        _print(Path(name).stem, len(requests), pairs, spent / parsed)
    if every:
        _print("all files with over 20 calls", 0, every, 0.0)


def _print(name: str, calls: int, pairs: list[tuple[int, int, int]], ratio: float) -> None:
    if not pairs:
        print(f"{name[:32]:32} {calls:5} {0:5}")
        return
    prompt, predicted, read = (np.array(column) for column in zip(*pairs, strict=True))
    error = np.abs(predicted - read) / read * 100
    p50, p90 = np.percentile(error, [50, 90])
    ceiling, reported = predicted.sum() / prompt.sum(), read.sum() / prompt.sum()
    print(
        f"{name[:32]:32} {calls:5} {len(pairs):5} {p50:8.4f} {p90:8.4f} {error.max():8.3f} "
        f"{ceiling:9.5f} {reported:9.5f} {ratio:9.1f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
