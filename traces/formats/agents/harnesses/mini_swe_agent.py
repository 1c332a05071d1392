"""mini-swe-agent trajectories (.traj.json): a list of messages, or an object with info and messages.

Facts: SWE-agent/mini-swe-agent, agents/default.py. The history is linear and only ever appended to: the prompt of a
call is every message before its answer. A last message of role `exit` is never sent. Newer answers keep the provider's
own response, usage included.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import PartMaker, as_dict, as_list, seconds, text_of
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread
from traces.usage.passes import Pass, passes
from traces.usage.rules import Usage, normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "mini_swe_agent"
SUMMARY = {
    "carries": "messages, tool calls, usage and times where the responses are kept",
    "time": "wall clock where answers have it, else none",
    "computes": "achievable hit rates; reported ones, and the provider's lengths, where there is usage",
    "notes": "prompts are derived: all messages before an answer",
}

_ROLES = {"system", "user", "assistant", "tool", "exit"}
_MESSAGE_KEYS = {
    "role",
    "content",
    "extra",
    "name",
    "tool_calls",
    "tool_call_id",
    "reasoning_content",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the format's own name; fairly sure of a bare list of chat messages."""
    value = as_dict(opening(head))
    if str(value.get("trajectory_format")).startswith("mini-swe-agent"):
        return 0.97
    messages = head.records
    if len(messages) < 2 or not all(isinstance(m, dict) and m.keys() >= {"role", "content"} for m in messages):
        return 0.0
    bare = not any(m.keys() - _MESSAGE_KEYS for m in messages)
    return 0.6 if bare and {str(m["role"]) for m in messages} <= _ROLES else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the session and its requests."""
    rest = Ledger()
    loose: list[Any] = []
    for number, run in objects(source, rest):
        if isinstance(run.get("messages"), list):
            yield from _run(run, "main" if number == 1 else f"main-{number}", context)
        else:
            loose.append(run)
    if loose:
        yield from _run({"messages": loose}, "main", context)
    yield from rest.finish(0)


def _run(run: dict[str, Any], name: str, context: Context) -> Iterator[Record]:
    ledger, messages = Ledger(), as_list(run.get("messages"))
    info = as_dict(as_dict(run).get("info"))
    model = text_of(as_dict(as_dict(as_dict(info.get("config")).get("model"))).get("model_name"))
    schemas = any(as_dict(message).get("tool_calls") for message in messages)
    make = PartMaker(context, exact=not any(_usage(as_dict(m))[0] for m in messages))
    thread = Thread(name, NAME, text_of(info.get("mini_version")), hidden_head=schemas)
    for at, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            ledger.reject(at, "a message that is no JSON object")
            continue
        if message.get("role") == "exit":
            ledger.ignore("the end of a run")
            continue
        ledger.used += 1
        contents, extra = make.message(message), as_dict(message.get("extra"))
        at_s = seconds(extra.get("timestamp"))
        if message.get("role") == "assistant":
            tools = contents.tools or (["bash"] if thread.turns or "```" in str(message.get("content")) else [])
            thread.add_reply(contents.parts, tools, at_s)
            response = as_dict(extra.get("response"))
            turn = thread.close(f"{name}:{at}", at, at_s, model=text_of(response.get("model")) or model)
            turn.usage, turn.passes = _usage(message, make.meanings)
        else:
            thread.add_input(contents.parts, at_s, "tool" if thread.turns else "user")
    yield from records_of([thread], context, ledger)


def _usage(message: dict[str, Any], meanings: Any = None) -> tuple[Usage | None, list[Pass]]:
    logged = as_dict(as_dict(message.get("extra")).get("response")).get("usage")
    try:
        usage = normalise(logged, meanings=meanings) if isinstance(logged, dict) else None
        return (usage, passes(logged)) if usage is not None and usage.input_tokens else (None, [])
    except ValueError:
        return None, []
