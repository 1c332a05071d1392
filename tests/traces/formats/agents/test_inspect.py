"""Inspect AI logs."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.places import SAMPLES
from tests.traces.formats.agents.reading import Read, shared
from traces.formats.agents.harnesses.inspect import messages_of
from traces.formats.agents.harnesses.inspect_archive import samples_of
from traces.source.sources import Source
from traces.transcripts.ledger import Ledger

HERE = SAMPLES / "inspect"


@pytest.mark.parametrize("name", ["log.json", "log.eval"])
def test_pools_attachments_and_cached_answers(tmp_path: Path, name: str) -> None:
    read = Read(tmp_path, HERE / name)
    assert read.column("input_tokens") == [1910, 2110]  # input excludes cached tokens, the totals say
    assert read.column("cache_read_tokens") == [0, 1900]
    assert read.column("cache_write_tokens") == [1900, 200]
    assert read.column("prompt_completeness") == ["full", "full"]
    first, second = read.column("prefix_tokens")
    assert first > len("You are a careful agent.Fix it")
    assert second - first == len("I look.Go on")
    assert read.column("duration_s") == [1.5, 1.5]
    assert read.sessions["role"].to_list() == ["main"]


def test_samples_packed_with_zstd(tmp_path: Path) -> None:
    sample = json.dumps(json.loads((HERE / "log.json").read_text())["samples"][0]).encode()
    packed = zstandard.compress(sample)
    path = tmp_path / "log.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
        archive.writestr("samples/1_epoch_1.json", packed)
    data = bytearray(path.read_bytes())
    for signature, method, checksum, size in ((b"PK\x03\x04", 8, 14, 22), (b"PK\x01\x02", 10, 16, 24)):
        at = data.rfind(signature)
        data[at + method : at + method + 2] = struct.pack("<H", 93)
        data[at + checksum : at + checksum + 4] = struct.pack("<I", zlib.crc32(sample))
        data[at + size : at + size + 4] = struct.pack("<I", len(sample))
    path.write_bytes(bytes(data))
    assert Read(tmp_path, path).column("input_tokens") == [1910, 2110]


@pytest.mark.parametrize(
    ("name", "requests", "sessions", "total", "cached", "output"),
    [
        ("2025-05-12T20-27-36-04-00_browser.json", 5, 1, 15235, 9088, 281),
        ("2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval", 10, 10, 620, 0, 20),
        ("log_streaming.eval", 4, 4, 252, 0, 6),
        ("docent_intercode_ctf.eval", 147, 15, 395844, 0, 30038),
    ],
)
def test_the_logs_own_totals_come_out(
    tmp_path: Path, name: str, requests: int, sessions: int, total: int, cached: int, output: int
) -> None:
    read = Read(tmp_path, shared(f"inspect_eval/{name}"))
    assert (read.requests.height, read.sessions.height) == (requests, sessions)
    assert (read.total("input_tokens"), read.total("cache_read_tokens")) == (total, cached)
    assert read.total("output_tokens") == output
    assert not [w for w in read.receipt["warnings"] if "differ" in w and "inspect" in w]


def test_scorers_are_sessions_of_their_own(tmp_path: Path) -> None:
    name = "2025-09-23T08-09-58-04-00_security-guide_LuxZJVwvymC3S3SyoJczxB.eval"
    read = Read(tmp_path, shared(f"inspect_eval/{name}"))
    assert (read.total("input_tokens"), read.total("output_tokens")) == (5279, 5622)
    assert read.sessions["role"].value_counts().sort("role").rows() == [("main", 16), ("side", 16)]


def test_deduplicated_messages(tmp_path: Path) -> None:
    read = Read(tmp_path, shared("inspect_eval/log_message_deduplication.eval"))
    assert read.requests.height == 6
    lengths = read.column("prefix_tokens")
    assert lengths == sorted(lengths)
    assert lengths[0] > 0


@pytest.mark.parametrize(
    ("name", "calls", "messages", "characters"),
    [
        ("2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval", 10, 20, 2322),
        ("2025-05-12T20-27-36-04-00_browser.json", 5, 25, 33932),
        ("2025-09-23T08-09-58-04-00_security-guide_LuxZJVwvymC3S3SyoJczxB.eval", 32, 48, 24402),
        ("docent_intercode_ctf.eval", 147, 2485, 893451),
        ("log_streaming.eval", 4, 8, 906),
    ],
)
def test_prompts_are_what_inspect_ai_itself_reads(name: str, calls: int, messages: int, characters: int) -> None:
    """The figures are those of inspect_ai 0.3.285: read_eval_log(resolve_attachments=True), text of each input."""
    path, ledger = shared(f"inspect_eval/{name}"), Ledger()
    source = Source(path.name, path)
    if path.suffix == ".eval":
        samples = [sample for _, sample in samples_of(source, ledger)]
    else:
        samples = json.loads(path.read_text())["samples"]
    prompts = [messages_of(s, e) for s in samples for e in s["events"] if e["event"] == "model"]
    texts = [_text(message["content"]) for prompt in prompts for message in prompt]
    assert (len(prompts), len(texts), sum(map(len, texts))) == (calls, messages, characters)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block["text"] for block in content if block["type"] == "text")
