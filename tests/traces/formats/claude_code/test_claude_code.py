from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.reading.claude_code import prompt_paths, shared_tokens, warm_pairs
from tests.places import SAMPLES, SHARED
from traces.digests import KeyedDigest
from traces.formats.claude_code import transcript as claude_code
from traces.records import Context, Record, Reject, Request, Session, Skipped
from traces.source.sources import Source
from traces.text.lengths import output_estimate, split, spread
from traces.text.tokens import load_tokenizer
from traces.text.tools import CLASSES, classify

CLAUDE_SAMPLES = SAMPLES / "claude_code"
ORACLES = SHARED / "traces" / "ORACLES.tsv"


def read(path: Path, key: bytes = b"k" * 32, name: str | None = None) -> list[Record]:
    context = Context(load_tokenizer(), KeyedDigest(key))
    return list(claude_code.read(Source(name or path.name, path), context))


def requests_of(records: Iterable[Record]) -> list[Request]:
    return [record for record in records if isinstance(record, Request)]


def sessions_of(records: Iterable[Record]) -> dict[str, Session]:
    return {record.key: record for record in records if isinstance(record, Session)}


def counts_of(records: Iterable[Record]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for record in records:
        if isinstance(record, Request):
            counts["used"] += 1
        elif isinstance(record, Skipped):
            counts["ignored" if record.kind == "failed_attempt" else record.kind] += record.count
        elif isinstance(record, Reject):
            counts["rejected"] += 1
    return counts


def owned(inputs: dict[str, list[Record]]) -> list[Request]:
    """The requests of several inputs, each call once: the smallest rank owns it, ties go to the input's name."""
    best: dict[str, tuple[Any, Request]] = {}
    for name, records in inputs.items():
        for request in requests_of(records):
            rank = (request.copy_rank, name)
            key = request.dedupe_key or f"{name}:{request.key}"
            if key not in best or rank < best[key][0]:
                best[key] = (rank, request)
    return [request for _, request in best.values()]


def totals(requests: list[Request]) -> tuple[int, int, int, int]:
    return (
        len(requests),
        sum(request.input_tokens or 0 for request in requests),
        sum(request.cache_read_tokens or 0 for request in requests),
        sum(request.output_tokens or 0 for request in requests),
    )


def write(path: Path, *lines: object) -> Path:
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def user(uuid: str, parent: str | None, content: object, at: str = "00", **more: object) -> dict[str, object]:
    return {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:{at}Z",
        "message": {"role": "user", "content": content},
        **more,
    }


def answer(
    uuid: str, parent: str | None, call: str, usage: object, *blocks: object, at: str = "01", **more: object
) -> dict[str, object]:
    return {
        "type": "assistant",
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "s",
        "timestamp": f"2026-01-01T00:00:{at}Z",
        "message": {
            "id": call,
            "model": "m",
            "role": "assistant",
            "content": list(blocks) or [{"type": "text", "text": "ok"}],
            "stop_reason": more.pop("stop", "end_turn"),
            "usage": usage,
        },
        **more,
    }


def usage(fresh: int, read: int = 0, written: int = 0, output: int = 5) -> dict[str, int]:
    return {
        "input_tokens": fresh,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": written,
        "output_tokens": output,
    }


def tool(call: str, name: str = "Read", **given: object) -> dict[str, object]:
    return {"type": "tool_use", "id": call, "name": name, "input": given}


def result(call: str, content: object = "done") -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": content}


def prompt_tokens(requests: list[Request]) -> None:
    """Every prompt is exactly as long as the provider says."""
    paths = prompt_paths(requests)
    for request in requests:
        assert (request.prompt is None) == (request.input_tokens is None)
        if request.key in paths:
            assert all(tokens > 0 for _, tokens in paths[request.key])
            assert sum(tokens for _, tokens in paths[request.key]) == request.input_tokens


# cases ---------------------------------------------------------------------------------------------------------------


def test_case_05_stream_duplicates() -> None:
    records = read(CLAUDE_SAMPLES / "05.jsonl")
    requests = requests_of(records)
    assert totals(requests) == (3, 6996, 4427, 268)
    assert counts_of(records) == {"used": 4, "duplicate": 3}
    assert [request.output_complete for request in requests] == [True, True, True]
    prompt_tokens(requests)


def test_case_06_no_request_id() -> None:
    assert totals(requests_of(read(CLAUDE_SAMPLES / "06.jsonl"))) == (4, 2310, 0, 102)


@pytest.mark.parametrize("order", [["07a", "07b"], ["07b", "07a"]])
def test_case_07_resume_fork(order: list[str]) -> None:
    requests = owned({name: read(CLAUDE_SAMPLES / f"{name}.jsonl") for name in order})
    assert totals(requests) == (5, 5901, 4591, 150)
    assert Counter(request.session_key for request in requests) == {"S1": 3, "S2": 2}


def test_case_08_sidechains() -> None:
    files = {str(path): read(path) for path in sorted((CLAUDE_SAMPLES / "08").rglob("*.jsonl"))}
    requests = owned(files)
    assert totals(requests) == (7, 10250, 6150, 220)
    sessions = {key: session for records in files.values() for key, session in sessions_of(records).items()}
    main = [request for request in requests if sessions[request.session_key or ""].role == "main"]
    assert totals(main)[:2] == (2, 4400)
    assert max(request.input_tokens or 0 for request in main) == 2400
    assert len({request.session_key for request in requests}) == 4
    assert {session.parent_key for session in sessions.values() if session.role != "main"} == {"s-08"}


def test_case_09_synthetic_and_null_usage() -> None:
    records = read(CLAUDE_SAMPLES / "09.jsonl")
    requests = requests_of(records)
    assert totals(requests) == (3, 2000, 600, 50)
    unknown = [request for request in requests if request.input_tokens is None]
    assert [(r.output_tokens, r.output_complete, r.cache_read_tokens, r.prompt) for r in unknown] == [(None,) * 4]
    assert counts_of(records) == {"used": 3, "ignored": 2}
    assert Counter(request.model for request in requests) == {"claude-sonnet-4-5": 2, None: 1}


def test_case_15_lone_surrogate() -> None:
    records = read(CLAUDE_SAMPLES / "15.jsonl")
    assert totals(requests_of(records)) == (2, 1600, 700, 70)
    assert counts_of(records)["rejected"] == 0


def test_case_21_no_text_in_records() -> None:
    records = read(CLAUDE_SAMPLES / "21.jsonl", name="-home-mwitek-acme-orbit-payments.jsonl")
    assert totals(requests_of(records)) == (2, 3000, 1000, 50)
    told = repr(records)
    for canary in ("mwitek", "acme-orbit", "CANARY", "canary@", "build-box-17", "payments", "keys.py"):
        assert canary not in told
    other = read(CLAUDE_SAMPLES / "21.jsonl", key=b"x" * 32)
    keys = [{p.key for r in requests_of(rs) for p in (*r.prompt.pieces, *(r.reply or ()))} for rs in (records, other)]  # type: ignore[union-attr]
    assert keys[0]
    assert not keys[0] & keys[1]


# structure -----------------------------------------------------------------------------------------------------------


def test_growth_is_spread_over_the_answer_and_the_new_messages(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello there"),
        answer("a1", "u1", "m1", usage(3, 0, 997, 100), tool("t1")),
        user("u2", "a1", [result("t1", "word " * 100)], at="02"),
        answer("a2", "u2", "m2", usage(3, 997, 300, 7), at="05"),
    )
    first, second = requests_of(read(path))
    assert first.prompt is not None
    assert second.prompt is not None
    assert first.prompt.completeness == "no_head"
    assert [piece.role for piece in first.prompt.pieces] == ["unobserved", "user"]
    assert second.prompt.base is not None
    assert second.prompt.base.request_key == "m1"
    assert [piece.role for piece in second.prompt.pieces] == ["tool_result"]
    assert sum(piece.tokens for piece in first.reply or ()) + second.prompt.pieces[0].tokens == 300
    assert (first.trigger, second.trigger) == ("user", "tool")
    assert (first.work, first.tool_classes) == ("explore", ("explore",))
    assert second.arrival_s is not None
    assert first.arrival_s is not None
    assert (second.arrival_s - first.arrival_s, second.duration_s) == (2.0, 3.0)
    prompt_tokens([first, second])


def test_a_large_excess_is_unobserved_and_images_stretch(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400_000}}
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", usage(1000)),
        user("u2", "a1", "short"),
        answer("a2", "u2", "m2", usage(21_000)),
        user("u3", "a2", [image, {"type": "text", "text": "see"}]),
        answer("a3", "u3", "m3", usage(45_000)),
    )
    requests = requests_of(read(path))
    roles = [{piece.role: piece.tokens for piece in request.prompt.pieces} for request in requests if request.prompt]
    assert roles[1]["unobserved"] > 19_900
    assert "unobserved" not in roles[2]
    assert roles[2]["image"] > 23_900
    prompt_tokens(requests)


def test_parallel_results_are_all_in_the_next_prompt(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", usage(1000), tool("t1"), stop=None),
        answer("a2", "a1", "m1", usage(1000), tool("t2")),
        user("u2", "a2", [result("t1", "first")]),
        user("u3", "a2", [result("t2", "second")]),
        answer("a3", "u2", "m2", usage(1400)),
    )
    records = read(path)
    second = requests_of(records)[1]
    assert second.prompt is not None
    assert [piece.role for piece in second.prompt.pieces] == ["tool_result", "tool_result"]
    assert counts_of(records) == {"used": 6}


def test_compaction_starts_from_the_head(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", usage(10_000)),
        user("u2", "a1", "more"),
        answer("a2", "u2", "m2", usage(50_000)),
        {"type": "system", "subtype": "compact_boundary", "uuid": "b", "parentUuid": None, "sessionId": "s"},
        user("u3", "b", "the story so far", isCompactSummary=True),
        answer("a3", "u3", "m3", usage(12_000)),
    )
    requests = requests_of(read(path))
    assert [request.compaction for request in requests] == [False, False, True]
    third = requests[2].prompt
    assert third is not None
    assert "summary" in {piece.role for piece in third.pieces}
    paths = prompt_paths(requests)
    head = requests[0].prompt.pieces[0].tokens if requests[0].prompt else 0
    assert shared_tokens(paths["m3"], paths["m1"]) == head > 9_900
    prompt_tokens(requests)


def test_shorter_prompts_are_never_appended(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer(
            "a1", "u1", "m1", usage(1000), {"type": "thinking", "thinking": "hm " * 300, "signature": "x"}, tool("t1")
        ),
        user("u2", "a1", [result("t1")]),
        answer("a2", "u2", "m2", usage(2000)),
        user("u3", "a2", "next"),
        answer("a3", "u3", "m3", usage(1600)),
    )
    requests = requests_of(read(path))
    third = requests[2].prompt
    assert third is not None
    assert third.base is not None
    assert (third.base.with_reply, third.base.keep_tokens) == (False, 1000)
    prompt_tokens(requests)


def test_the_cache_tells_the_true_parent(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", usage(10, 0, 1000)),
        user("u2", "a1", "one"),
        answer("a2", "u2", "m2", usage(10, 1000, 500)),
        user("u3", "a2", "two"),
        answer("a3", "u3", "m3", usage(10, 1000, 700)),
    )
    third = requests_of(read(path))[2].prompt
    assert third is not None
    assert third.base is not None
    assert third.base.request_key == "m1"


def test_side_chains_are_sessions_of_the_call_that_started_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer(
            "a1", "u1", "m1", usage(900), tool("t1", "Task", prompt="find it"), tool("t2", "Agent", prompt="fix it")
        ),
        user("s1", None, "fix it", isSidechain=True),
        user("s2", None, [{"type": "text", "text": "find it"}], isSidechain=True),
        answer("s3", "s1", "m2", usage(500), isSidechain=True),
        answer("s4", "s2", "m3", usage(600), isSidechain=True),
        user("u2", "a1", [result("t1")], toolUseResult={"agentId": "a77", "status": "completed"}),
        answer("a2", "u2", "m4", usage(1200)),
    )
    records = read(path)
    requests = {request.key: request for request in requests_of(records)}
    sessions = sessions_of(records)
    assert {requests["m1"].session_key, requests["m4"].session_key} == {"s"}
    for key in ("m2", "m3"):
        session = sessions[requests[key].session_key or ""]
        assert (session.role, session.parent_key, session.spawn_request_key) == ("subagent", "s", "m1")
    assert requests["m2"].session_key != requests["m3"].session_key
    assert requests["m4"].prompt is not None
    assert requests["m4"].prompt.base is not None
    assert requests["m4"].prompt.base.request_key == "m1"
    assert sessions["s/a77"].spawn_request_key == "m1"
    assert requests["m1"].work == "plan"


def test_a_subagent_file_names_its_parent_by_its_folder(tmp_path: Path) -> None:
    line = user("u1", None, "go", isSidechain=True, agentId="a1", sessionId="agent-a1")
    path = write(tmp_path / "x.jsonl", line, answer("a", "u1", "m1", usage(9), sessionId="agent-a1", agentId="a1"))
    parent = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f"
    session = sessions_of(read(path, name=f"p/{parent}/subagents/agent-a1.jsonl"))["agent-a1/a1"]
    assert (session.role, session.parent_key) == ("subagent", parent)


def test_the_head_is_shared_as_far_as_cold_starts_read_it(tmp_path: Path) -> None:
    chains: list[object] = []
    for n, read_tokens in enumerate((0, 8000, 8000, 9100)):
        chains.append(user(f"u{n}", None, f"task {n}", isSidechain=True, agentId=f"a{n}", version="2.1.0"))
        cached = usage(5, read_tokens, 10_000 - read_tokens)
        chains.append(answer(f"x{n}", f"u{n}", f"m{n}", cached, isSidechain=True, agentId=f"a{n}", version="2.1.0"))
    requests = requests_of(read(write(tmp_path / "a.jsonl", *chains)))
    paths = prompt_paths(requests)
    assert [shared_tokens(paths["m0"], paths[key]) for key in ("m1", "m2", "m3")] == [8000] * 3


def test_unknown_usage_leaves_a_gap_that_the_next_prompt_closes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u1", None, "hello"),
        answer("a1", "u1", "m1", usage(1000)),
        user("u2", "a1", "more"),
        answer("a2", "u2", "m2", None, stop=None),
        user("u3", "a2", "and more"),
        answer("a3", "u3", "m3", usage(1100)),
    )
    requests = requests_of(read(path))
    assert requests[1].prompt is None
    third = requests[2].prompt
    assert third is not None
    assert third.base is not None
    assert third.base.request_key == "m1"
    assert [piece.role for piece in third.pieces] == ["user", "assistant", "user"]
    prompt_tokens(requests)


def test_incomplete_output_is_flagged_and_estimated(tmp_path: Path) -> None:
    text = {"type": "text", "text": "hello world " * 50}
    path = write(tmp_path / "a.jsonl", user("u", None, "x"), answer("a", "u", "m", usage(9, output=1), text, stop=None))
    (request,) = requests_of(read(path))
    counted = load_tokenizer().count(text["text"])
    assert (request.output_tokens, request.output_complete) == (1, False)
    assert request.output_tokens_estimate == round(1.15 * counted)


def test_names_of_custom_tools_stay_inside(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        user("u", None, "x"),
        answer("a", "u", "m", usage(9), tool("1", "mcp__secret__x"), tool("2", "OurThing"), stop="because of secret"),
    )
    (request,) = requests_of(read(path))
    assert request.tool_classes == ("custom", "mcp")
    assert (request.work, request.stop_reason) == ("other", "other")
    assert set(request.tool_classes) <= set(CLASSES)
    assert classify(["Bash", "Edit", "Read"]) == ("edit", ("edit", "execute", "explore"))


def test_bad_lines_are_rejected_or_passed_over(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        '"text"',
        "null",
        "42",
        "[1]",
        '{"type": "user", "uuid": "u", "mess',
        {"type": "user", "uuid": "u0", "message": "no object"},
        {"type": "never seen", "uuid": "n", "parentUuid": "n"},
        {"silly": True},
        "",
        answer("a0", "gone", "m0", {"input_tokens": -3}),
        user("u1", "gone", "hello", at="99"),
        answer("a1", "u1", "m1", usage(1000), at="00"),
        answer("a1", "u1", "m1", usage(1000)),
        {"type": "system", "subtype": "api_error", "uuid": "e", "parentUuid": "a1", "sessionId": "s"},
    )
    records = read(path)
    assert counts_of(records) == {"rejected": 7, "ignored": 3, "used": 2, "duplicate": 1}
    assert [record.kind for record in records if isinstance(record, Skipped) and record.kind == "failed_attempt"]
    reasons = [record.reason for record in records if isinstance(record, Reject)]
    assert all("no object" not in reason and "gone" not in reason for reason in reasons)
    assert "input_tokens is negative" in reasons


def test_lines_without_a_session_do_not_meet_those_of_other_files(tmp_path: Path) -> None:
    keys = []
    for name in ("a", "b"):
        line = answer(name, None, name, usage(10))
        del line["sessionId"]
        keys += [request.session_key for request in requests_of(read(write(tmp_path / name, line)))]
    assert len(set(keys)) == 2
    assert all(keys)


def test_sniff() -> None:
    for path in CLAUDE_SAMPLES.rglob("*.jsonl"):
        assert claude_code.sniff(Source(path.name, path).head(), path.name) >= 0.9


# real transcripts ----------------------------------------------------------------------------------------------------


def test_bundled_transcripts_predict_the_cache() -> None:
    for name, calls in (("linear", 7), ("thinking", 6), ("tiny", 3)):
        requests = requests_of(read(CLAUDE_SAMPLES / f"{name}.jsonl"))
        assert len(requests) == calls
        prompt_tokens(requests)
        for prompt, predicted, cached in warm_pairs(requests):
            assert cached - 20 <= predicted <= prompt
            assert abs(predicted - cached) / cached < 0.02


def _oracles() -> Iterator[tuple[str, dict[str, str]]]:
    if not ORACLES.is_file():
        return
    files: dict[str, dict[str, str]] = {}
    for line in ORACLES.read_text().splitlines()[1:]:
        path, metric, value, kind, *_ = line.split("\t")
        if path.startswith("claude_code/") and path.endswith(".jsonl"):
            files.setdefault(path, {})["trap" if kind == "trap" else metric] = value
    yield from sorted(files.items())


@pytest.mark.parametrize(("path", "oracle"), list(_oracles()))
def test_oracles(path: str, oracle: dict[str, str]) -> None:
    file = SHARED / "traces" / path
    records = read(file)
    requests = requests_of(records)
    known = [request for request in requests if request.input_tokens is not None]
    cached = sum(request.cache_read_tokens or 0 for request in known)
    written = sum(request.cache_write_tokens or 0 for request in known)
    figures = {
        "usage_msgs": len(known),
        "input": sum(request.input_tokens or 0 for request in known) - cached - written,
        "cache_creation": written,
        "cache_read": cached,
        "output": sum(request.output_tokens or 0 for request in known),
    }
    assert {metric: str(figures[metric]) for metric in figures if metric in oracle} == {
        metric: oracle[metric] for metric in figures if metric in oracle
    }
    assert "/".join(str(figures[m]) for m in ("input", "cache_creation", "cache_read", "output")) != oracle.get("trap")
    assert sum(counts_of(records).values()) == sum(bool(line.strip()) for line in file.read_bytes().splitlines())
    prompt_tokens(requests)


def test_warm_reads_are_predicted_to_a_thousandth() -> None:
    pairs: list[tuple[int, int, int]] = []
    for path, _ in _oracles():
        requests = requests_of(read(SHARED / "traces" / path))
        if len(requests) > 20:
            pairs += warm_pairs(requests)
    prompt, predicted, cached = (np.array(column) for column in zip(*pairs, strict=True))
    assert len(pairs) > 200
    assert np.percentile(np.abs(predicted - cached) / cached, 90) <= 0.001
    assert abs(predicted.sum() - cached.sum()) / prompt.sum() <= 0.001


def test_five_parallel_side_chains_find_their_task() -> None:
    path = next(SHARED.glob("traces/claude_code/dk/fe5e1c67*.jsonl"))
    sessions = sessions_of(read(path)).values()
    assert Counter(session.role for session in sessions) == {"main": 1, "subagent": 5}
    assert all(session.spawn_request_key for session in sessions if session.role == "subagent")


# lengths -------------------------------------------------------------------------------------------------------------


def test_split_adds_up() -> None:
    assert split(10, [1, 1, 1]) == [3, 4, 3]
    assert split(0, [5.0, 2.0]) == [0, 0]
    assert split(7, [0.0, 0.0]) == [0, 7]
    assert split(5, []) == []


def test_spread_separates_what_is_not_in_the_transcript() -> None:
    assert spread(300, [100.0, 50.0], [False, False]) == ([200, 100], 0)
    assert spread(15_000, [100.0, 50.0], [False, False]) == ([100, 50], 14_850)
    assert spread(15_000, [100.0, 1500.0], [False, True]) == ([100, 14_900], 0)
    assert spread(40, [], []) == ([], 40)
    assert output_estimate(0) is None
    assert output_estimate(100, 1) == 195
