"""The requests of one logged answer: one, or one for each pass that the provider made for it (traces.usage.passes)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from traces.calls.entries import Entry, block_kind
from traces.calls.model_calls import Call, Calls, usage_object
from traces.records import Piece, Request
from traces.usage.passes import APART, Pass, passes


def requests(
    calls: Calls, call: Call, extra: list[Entry] | None = None, hidden: Piece | None = None
) -> Iterator[Request]:
    """Yield the requests of `call`. The one that ended the answer comes last and has the call's own key.

    The prompt of a pass is the body and the output of the earlier passes; after a compaction, only what that left
    (traces.calls.entries). Arguments and errors are those of `Calls.request`.
    """
    answer = call.answer if isinstance(call.answer, dict) else None
    logged = passes(usage_object(call, answer))
    if not logged and answer is not None:
        call = call._replace(rounds=rounds(answer.get("content")))
    for one in _calls(call, logged) if logged else (call,):
        yield calls.request(one, extra, hidden)


def rounds(content: Any) -> int:
    """How often the prompt was read for an answer: once, and again after each result of a server-side tool in it."""
    if not isinstance(content, list):
        return 1
    results = [block_kind(block) == "result" for block in content]
    return 1 + sum(now and not before for before, now in pairwise([False, *results]))


class _Span(NamedTuple):
    """The blocks of an answer that one pass wrote, and where the next one starts."""

    start: int
    stop: int
    next: int


def _calls(call: Call, logged: list[Pass]) -> Iterator[Call]:
    body = call.request if isinstance(call.request, dict) else None
    answer = call.answer if isinstance(call.answer, dict) else {}
    content = answer.get("content")
    blocks: list[Any] = content if isinstance(content, list) else []
    fallback = any(one.kind == "fallback_message" for one in logged)
    at = 0
    for place, one in enumerate(logged):
        final = place == len(logged) - 1
        wrote = _wrote(blocks, at, "" if one.kind == "message" and fallback else one.kind, final)
        stopped = answer.get("stop_reason") if final else "tool_use" if one.kind == "message" else one.kind
        yield call._replace(
            key=call.key if final else f"{call.key}|{place}",
            request=None if body is None else _sent(body, blocks[: wrote.start], one.model),
            answer={**answer, "content": blocks[wrote.start : wrote.stop], "stop_reason": stopped},
            counts=one.usage,
            model=one.model or call.model,
            ttft_s=None,  # the answer's is that of its first pass or of its last
            duration_s=None,  # only that of all passes together is known
            identity=call.identity if final or call.identity is None else f"{call.identity}|{place}",
            compaction=place > 0 and logged[place - 1].kind == "compaction",
        )
        at = wrote.next


def _wrote(blocks: list[Any], at: int, kind: str, final: bool) -> _Span:
    """The blocks that a pass wrote, from block `at`: up to a compaction or a server-side tool's results, or all blocks
    if it is the last pass.

    The output of an advisor is a result in the answer; a declined attempt left no blocks.
    """
    if final:
        return _Span(at, len(blocks), len(blocks))
    if kind == "compaction":
        stop = _first(blocks, at, lambda found: found == "compaction")
        return _Span(at, stop + 1, stop + 1) if stop < len(blocks) else _Span(at, at, at)
    if kind in APART or not kind:
        return _Span(at, at, at)
    stop = _first(blocks, at, lambda found: found == "result")
    if stop == len(blocks):
        return _Span(at, at, at)
    return _Span(at, stop, _first(blocks, stop, lambda found: found != "result"))


def _first(blocks: list[Any], at: int, fits: Callable[[str], bool]) -> int:
    return next((place for place in range(at, len(blocks)) if fits(block_kind(blocks[place]))), len(blocks))


def _sent(body: Mapping[str, Any], before: list[Any], model: str | None) -> dict[str, Any]:
    messages = body.get("messages")
    sent = dict(body)
    if isinstance(messages, list) and before:
        sent["messages"] = [*messages, {"role": "assistant", "content": before}]
    if model is not None:
        sent["model"] = model
    return sent
