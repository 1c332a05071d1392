"""SWE-agent trajectories (.traj, JSON).

Facts: SWE-agent docs/usage/trajectories.md. A step's `query` (from 1.1.0) is the exact prompt of that step. Before, its
`messages` are the history after the step, so the prompt of the next one. Older still there is only `history`, which
keeps what history processors (the last five observations, say) leave out of the real prompts: prompts are then derived.
There are no times, and token counts only for the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Note, Record, Request
from traces.source.sources import parse_json
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import Contents, PartMaker, as_dict, as_list, text_of
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "swe_agent"
SUMMARY = {
    "carries": "exact prompts (from 1.0), messages, tool calls; run totals of tokens",
    "time": "none",
    "computes": "achievable hit rates; lengths are the tokenizer's",
    "notes": "without the steps' own prompts these are derived from the history, which history processors shorten",
}


def sniff(head: Any, name: str) -> float:
    """Sure of a trajectory of steps with actions and observations."""
    value = opening(head)
    if not isinstance(value, dict):
        data = head.data[:65536]
        return 0.9 if b'"trajectory"' in data and b'"observation"' in data and b'"action"' in data else 0.0
    steps = value.get("trajectory") or next(
        (as_dict(a).get("trajectory") for a in as_list(value.get("attempts"))), None
    )
    first = as_dict(steps[0]) if isinstance(steps, list) and steps else {}
    if "action" in first and "observation" in first and "response" in first:
        return 0.95
    history = as_list(value.get("history"))
    first = as_dict(history[0]) if history else {}
    return 0.9 if "message_type" in first or ("agent" in first and "role" in first) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield a session for each attempt (and each agent in it), and its requests."""
    ledger = Ledger()
    attempts = [attempt for at, run in objects(source, ledger) for attempt in _attempts(run, at)]
    make, threads, ordinal, sent = PartMaker(context, exact=True), [], 0, 0
    for name, run, attempt in attempts:
        model = _model(attempt) or _model(run)
        steps = [as_dict(step) for step in as_list(attempt.get("trajectory"))]
        history = [as_dict(message) for message in as_list(attempt.get("history"))]
        logged = any(isinstance(step.get("query") or step.get("messages"), list) for step in steps)
        if logged:
            threads.append(_logged(steps, name, model, make, ordinal))
            ordinal += len(steps)
            ledger.used += len(steps)
            ledger.duplicate("a message that the steps' prompts hold", len(history))
        else:
            threads += _derived(history, name, model, make, ordinal)
            ordinal += len(history)
            ledger.used += len(history)
            ledger.duplicate("a step that the history holds", len(steps))
        stats = as_dict(as_dict(attempt.get("info")).get("model_stats")).get("tokens_sent")
        sent += stats if isinstance(stats, int) and not isinstance(stats, bool) else 0
    count = total = 0
    for record in requests_of(threads, context):
        if isinstance(record, Request):
            count, total = count + 1, total + (record.input_tokens or 0)
        yield record
    yield from ledger.finish(count)
    if sent:
        yield Note(f"swe_agent: the run's own total of tokens sent is {sent:,}; its prompts come to {total:,} here")


def _attempts(run: dict[str, Any], number: int) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(name, run, attempt) of each attempt of the run that is a file's record `number`."""
    attempts = [as_dict(attempt) for attempt in as_list(run.get("attempts"))] or [run]
    before = "" if number == 1 else f"run-{number}-"
    for at, attempt in enumerate(attempts, 1):
        yield before + ("main" if len(attempts) == 1 else f"attempt-{at}"), run, attempt


def _logged(steps: list[dict[str, Any]], name: str, model: str | None, make: PartMaker, before: int) -> Thread:
    thread = Thread(name, NAME, time_basis="none")
    previous: list[Any] | None = None
    for at, step in enumerate(steps):
        query, after = step.get("query"), step.get("messages")
        answer: Contents | None = None
        if isinstance(query, list):
            prompt = query
        elif isinstance(after, list):
            last = max((i for i, m in enumerate(after) if as_dict(m).get("role") == "assistant"), default=len(after))
            prompt = previous if previous is not None else after[:last]
            answer = make.message(as_dict(after[last])) if last < len(after) else None
        else:
            prompt = previous or []
        if answer is None or not answer.parts:
            said = step.get("response") or step.get("thought")
            answer = make.message({"role": "assistant", "content": said, "tool_calls": step.get("tool_calls")})
        whole = [part for message in prompt for part in make.message(as_dict(message)).parts]
        tools = answer.tools or _command(step.get("action"))
        thread.add_reply(answer.parts, tools)
        turn = thread.close(f"{name}:{at}", before + at + 1, model=model, trigger="tool" if at else "user")
        turn.whole = whole
        previous = after if isinstance(after, list) else None
    return thread


def _derived(history: list[dict[str, Any]], name: str, model: str | None, make: PartMaker, before: int) -> list[Thread]:
    threads: dict[str, Thread] = {}
    for at, message in enumerate(history, before + 1):
        agent = text_of(message.get("agent")) or "main"
        thread = threads.get(agent)
        if thread is None:
            key = name if not threads else f"{name}/{agent}"
            role, parent = ("subagent", name) if threads else ("main", None)
            thread = Thread(key, NAME, role=role, parent_key=parent, hidden_head=False, time_basis="none")
            threads[agent] = thread
        contents = make.message(message)
        if message.get("role") == "assistant" and not message.get("is_demo"):
            thread.add_reply(contents.parts, contents.tools or _command(message.get("action")))
            thread.close(f"{thread.key}:{at}", at, model=model)
        else:
            observed = thread.turns and not message.get("is_demo")
            thread.add_input(contents.parts, None, "tool" if observed else "user")
    return list(threads.values())


def _command(action: object) -> list[str]:
    """The tool that an action in text names: its first word, a shell command where SWE-agent has no such tool."""
    words = action.split() if isinstance(action, str) else []
    if not words:
        return []
    own = words[0] in ("open", "create", "edit", "insert", "str_replace_editor", "submit", "goto", "exit")
    return [words[0] if own or words[0].startswith(("search_", "find_", "scroll_")) else "bash"]


def _model(run: dict[str, Any]) -> str | None:
    config = run.get("replay_config")
    if isinstance(config, str):
        try:
            config = parse_json(config.encode())
        except (ValueError, UnicodeEncodeError):
            return None
    model = as_dict(as_dict(as_dict(config).get("agent")).get("model"))
    return text_of(model.get("name")) or text_of(model.get("model_name"))
