"""Messages as parts, and prompts as what they add to earlier ones."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.calls import sse
from traces.calls.entries import Entries, runs
from traces.calls.history import History
from traces.calls.session_headers import caller
from traces.digests import KeyedDigest
from traces.records import Context, Prompt
from traces.text.blocks import is_binary
from traces.text.messages import parts, serialise
from traces.text.tokens import load_tokenizer


def _context() -> Context:
    return Context(tokenizer=load_tokenizer("bytes"), digest=KeyedDigest(b"k" * 32))


PNG = "iVBORw0KGgo" + "A1b2" * 1000


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "user", "content": "hi"}, [("user", "hi", "")]),
        ({"role": "developer", "content": [{"type": "input_text", "text": "be kind"}]}, [("system", "be kind", "")]),
        (
            {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "ls", "arguments": "{}"}}]},
            [("assistant", "ls\n{}", "ls")],
        ),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "x", "content": [{"type": "text", "text": "a"}]}],
            },
            [("tool_result", "a", "")],
        ),
        (
            {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"a": 1}}}]},
            [("assistant", 'ls\n{"a":1}', "ls")],
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"a": 1}}}]},
            [("tool_result", '{"a":1}', "")],
        ),
        (
            {"role": "user", "content": [{"toolResult": {"toolUseId": "1", "content": [{"text": "out"}]}}]},
            [("tool_result", "out", "")],
        ),
        ({"role": "assistant", "content": [{"toolUse": {"name": "f", "input": {}}}]}, [("assistant", "f\n{}", "f")]),
        ({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}, [("assistant", "f\n{}", "f")]),
        ({"type": "function_call_output", "call_id": "1", "output": "done"}, [("tool_result", "done", "")]),
        (
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
            [("reasoning", "hm", "")],
        ),
        (
            {"role": "assistant", "content": "b", "reasoning_content": "a"},
            [("reasoning", "a", ""), ("assistant", "b", "")],
        ),
        ({"role": "tool", "content": "x", "tool_call_id": "1"}, [("tool_result", "x", "")]),
        ({"role": "assistant", "content": [{"type": "compaction", "content": "so far"}]}, [("summary", "so far", "")]),
        ({"id": ["langchain", "schema", "HumanMessage"], "kwargs": {"content": "hi"}}, [("user", "hi", "")]),
        ({"role": "user", "content": [{"text": "a"}, {"cachePoint": {"type": "default"}}]}, [("user", "a", "")]),
        ("plain", [("user", "plain", "")]),
        (7, []),
    ],
)
def test_parts(message: Any, expected: list[tuple[str, str, str]]) -> None:
    assert [(part.role, part.text, part.name) for part in parts(message)] == expected


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "data": PNG}},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PNG}},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"image": {"format": "png", "source": {"bytes": PNG}}},
        {"type": "text", "text": "data:image/png;base64," + PNG},
        {"type": "text", "text": PNG},
    ],
)
def test_binary_is_never_text(block: dict[str, Any]) -> None:
    (part,) = parts({"role": "user", "content": [block]})
    assert part.role == "image"
    assert part.text == ""
    assert part.guess > 0


def test_what_is_binary() -> None:
    assert is_binary(PNG)
    assert not is_binary("a" * 5000)
    assert not is_binary("words and words " * 400)
    assert PNG not in serialise({"file": PNG, "name": "x"})


def test_serialisation_keeps_order_and_drops_marks() -> None:
    assert serialise({"b": 1, "a": [{"cache_control": {"type": "ephemeral"}, "x": 1 << 70}]}) == (
        '{"b": 1, "a": [{"x": 1180591620717411303424}]}'
    )


@given(st.text(alphabet="ab \n", max_size=3000), st.text(alphabet="ab \n", max_size=1500))
@settings(deadline=None, max_examples=60)
def test_runs_are_the_text_and_depend_on_what_is_before_them(text: str, tail: str) -> None:
    assert "".join(runs(text, 256)) == text
    if len(text) >= 512:
        first, second = list(runs(text, 256)), list(runs(text + "x" + tail, 256))
        assert first[:-1] == second[: len(first) - 1]


def _tokens(prompt: Prompt | None) -> int:
    assert prompt is not None
    kept = prompt.base.keep_tokens if prompt.base is not None else 0
    return (kept or 0) + sum(piece.tokens for piece in prompt.pieces)


def test_history_is_told_once() -> None:
    context = _context()
    entries, history = Entries(context), History(context)
    messages = [{"role": "user", "content": "first"}, {"role": "assistant", "content": "second"}]
    first = history.add("1", [entries.message(m) for m in messages], None)
    longer = [*messages, {"role": "user", "content": "third"}]
    second = history.add("2", [entries.message(m) for m in longer], None)
    assert first.tokens == 4 + 5 + 4 + 6
    assert second.tokens == first.tokens + 4 + 5
    assert second.prompt is not None
    assert second.prompt.base is not None
    assert second.prompt.base.request_key == "1"
    assert [piece.role for piece in second.prompt.pieces] == ["template", "user"]
    edited = [messages[0], {"role": "user", "content": "else"}]
    third = history.add("3", [entries.message(m) for m in edited], None)
    assert third.prompt is not None
    assert third.prompt.base is not None
    assert third.prompt.base.keep_tokens == 4 + 5


def test_growth_is_the_providers_and_the_repeated_answer_keeps_its_size() -> None:
    context = _context()
    entries, history = Entries(context), History(context)
    user = {"role": "user", "content": "x" * 100}
    answer = {"role": "assistant", "content": "y" * 10}
    head = entries.system("s" * 50)
    logged = history.add("1", [head, entries.message(user)], 300, [entries.message(answer)], 40)
    assert _tokens(logged.prompt) == 300
    assert logged.reply is not None
    assert sum(piece.tokens for piece in logged.reply) == 40
    again = [head, *map(entries.message, [user, answer, {"role": "user", "content": "z" * 100}])]
    logged = history.add("2", again, 460)
    assert logged.prompt is not None
    assert logged.prompt.base == ("1", False, 300)
    by_role: dict[str, int] = {}
    for piece in logged.prompt.pieces:
        by_role[piece.role] = by_role.get(piece.role, 0) + piece.tokens
    assert sum(by_role.values()) == 160
    assert logged.prompt.pieces[0].tokens + logged.prompt.pieces[1].tokens == 40


def test_an_excess_is_unobserved_and_a_head_has_one_size() -> None:
    context = _context()
    entries, history = Entries(context), History(context)
    head = entries.system("s" * 1000)
    for key, total in (("1", 1100), ("2", 1150), ("3", 9000)):
        logged = history.add(key, [head, entries.message({"role": "user", "content": f"{key}" * 60})], total)
        assert _tokens(logged.prompt) == total
        assert logged.prompt is not None
        if logged.prompt.base is None:
            assert key == "1"
        else:
            assert logged.prompt.base.keep_tokens == 1004
        hidden = [piece for piece in logged.prompt.pieces if piece.role == "unobserved"]
        assert bool(hidden) == (key == "3")


message_lists = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(alphabet="ab\n", min_size=1, max_size=12)),
    min_size=1,
    max_size=6,
)


@given(st.lists(st.tuples(message_lists, st.none() | st.integers(0, 5000)), min_size=1, max_size=8))
@settings(deadline=None, max_examples=80)
def test_prompts_are_as_long_as_counted_and_keep_no_more_than_their_base(calls: list[Any]) -> None:
    context = _context()
    entries, history = Entries(context), History(context)
    lengths: dict[str, int] = {}
    for at, (messages, total) in enumerate(calls):
        listed = [entries.message({"role": role, "content": text}) for role, text in messages]
        logged = history.add(str(at), listed, total)
        if logged.prompt is None:
            assert total == 0
            continue
        assert _tokens(logged.prompt) == (total if total is not None else sum(entry.tokens for entry in listed))
        assert all(piece.tokens > 0 for piece in logged.prompt.pieces)
        if logged.prompt.base is not None:
            assert (logged.prompt.base.keep_tokens or 0) <= lengths[logged.prompt.base.request_key]
        lengths[str(at)] = _tokens(logged.prompt)


def test_streams_cut_anywhere_read_the_same() -> None:
    start = {"index": 0, "function": {"name": "f", "arguments": "{"}}
    end = {"index": 0, "function": {"arguments": "}"}}
    chunks = [
        {"choices": [{"index": 0, "delta": {"content": "a"}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [start]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [end]}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 5}},
    ]
    body = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n"
    answer = sse.assemble(sse.events(body))
    assert answer is not None
    message = answer["choices"][0]["message"]
    assert (message["content"], message["tool_calls"][0]["function"]["arguments"]) == ("a", "{}")
    assert answer["usage"] == {"prompt_tokens": 5}
    for cut in random.Random(1).sample(range(len(body)), 40):
        partial = sse.assemble(sse.events(body[:cut]))
        assert partial is None or "choices" in partial


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"Modal-Session-Id": "m"}, None, ("m", None)),
        ([["X-Session-Id", "x"]], None, ("x", None)),
        ({"x-dynamo-session-id": ["d"], "x-dynamo-parent-session-id": ["p"]}, None, ("d", "p")),
        ({"X-Claude-Code-Session-Id": "s", "X-Claude-Code-Agent-Id": "a"}, None, ("s/a", "s")),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "b", "x-claude-code-parent-agent-id": "a"},
            None,
            ("s/b", "s/a"),
        ),
        ({}, {"metadata": {"user_id": "user_ab_account_cd_session_0123abcd-ef"}}, ("0123abcd-ef", None)),
        ({}, {"metadata": {"user_id": '{"session_id": "j"}'}}, ("j", None)),
        (None, {"conversation": {"id": "conv"}}, ("conv", None)),
        (5, [], (None, None)),
        # Dynamo's own headers stand for whatever the agent sends beside them
        (
            {
                "X-Dynamo-Session-ID": "run:worker",
                "X-Dynamo-Parent-Session-ID": "run:planner",
                "x-claude-code-session-id": "s",
                "x-claude-code-agent-id": "a",
            },
            None,
            ("run:worker", "run:planner"),
        ),
        ({"session-id": "codex-1", "user-agent": "codex_cli_rs/0.50.0"}, None, ("codex-1", None)),
    ],
)
def test_session_headers(headers: Any, body: Any, expected: tuple[str | None, str | None]) -> None:
    who = caller(headers, body)
    assert (who.session, who.parent) == expected
