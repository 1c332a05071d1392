"""ATIF, Harbor's Agent Trajectory Interchange Format, versions 1.0 to 1.8 (JSON).

Facts: harbor, models/trajectories. `prompt_tokens` includes cached tokens. Steps with `is_copied_context` are history
and no calls; `llm_call_count` 0 is a step without a call, above 1 its counts are added up. Sub-agents are embedded, or
files of their own; `continued_trajectory_ref` names the file that continues after the context was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from traces.records import Context, Note, Record, Request
from traces.transcripts.ledger import Ledger, document, objects
from traces.transcripts.parts import Part, PartMaker, as_dict, as_list, plain, seconds, text_of
from traces.transcripts.requests import requests_of
from traces.transcripts.turns import Thread, Turn
from traces.usage.rules import Usage, normalise

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "atif"
SIBLINGS = True
SUMMARY = {
    "carries": "system prompt, tools, messages, tool calls, usage with cache reads, token ids where logged, times",
    "time": "wall clock (ISO 8601), where logged",
    "computes": "hit rates, reported and achievable; lengths are the provider's where steps have metrics",
    "notes": "continuations and sub-agents in other files of the folder are read with the trajectory that names them",
}


def sniff(head: Any, name: str) -> float:
    """Sure of the schema's name."""
    return 0.97 if b'"ATIF-v' in head.data[:65536] and b'"schema_version"' in head.data[:65536] else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the sessions of the trajectory, its continuations and sub-agents, and their requests."""
    ledger = Ledger(context.meanings)
    root = _root(source)
    reader = _Reader(source, PartMaker(context), ledger)
    for number, whole in objects(root, ledger):
        reader.trajectory(whole, root.name, "main" if number == 1 else f"main-{number}", None, None)
    if root is not source:
        source.claim(root.name)
    counted = any(turn.input_tokens is not None for thread in reader.threads for turn in thread.turns)
    count_of = 0
    for record in requests_of(reader.threads, context):
        count_of += isinstance(record, Request)
        yield record
    yield from ledger.finish(count_of)
    if reader.aggregates:
        yield Note(f"atif: {reader.aggregates} steps hold the added counts of several calls")
    if counted and reader.stated and reader.stated not in (reader.total, reader.total + reader.total_below):
        difference = reader.stated - reader.total
        yield Note(f"atif: the trajectory's own totals differ from its steps' sum by {difference:,} tokens")


def _root(source: Source) -> Source:
    """The file that a continuation goes back to."""
    if ".cont-" not in source.name:
        return source
    start = source.name.partition(".cont-")[0]
    place = next((s for n, s in source.siblings.items() if n == f"{start}.json"), None)
    return place or source


class _Reader:
    def __init__(self, source: Source, make: PartMaker, ledger: Ledger) -> None:
        self.source, self.make, self.ledger = source, make, ledger
        self.threads: list[Thread] = []
        self.seen: set[str] = set()
        self.ordinal = self.aggregates = self.total = self.total_below = self.stated = 0

    def trajectory(
        self, whole: dict[str, Any], name: str, key: str, parent: str | None, spawn: Turn | None, goes_on: bool = False
    ) -> None:
        """Take one trajectory; with `goes_on` it continues the thread that was read last."""
        agent = as_dict(whole.get("agent"))
        if goes_on:
            thread = self.threads[-1]
        else:
            role = "main" if parent is None else "subagent"
            version, agent_name = text_of(agent.get("version")), text_of(agent.get("name")) or "atif"
            thread = Thread(key, agent_name, version, role=role, parent_key=parent, spawn=spawn)
            thread.head = self.make.tools(agent.get("tool_definitions"))
            self.threads.append(thread)
        model = text_of(agent.get("model_name"))
        copied: list[Part] = []
        refs: list[tuple[dict[str, Any], Turn | None]] = []
        embedded = {
            str(as_dict(t).get("trajectory_id")): as_dict(t) for t in as_list(whole.get("subagent_trajectories"))
        }
        for value in as_list(whole.get("steps")):
            self.ordinal += 1
            step = as_dict(value)
            if step.get("is_copied_context") is True:
                copied += self._said(step)[0] + self._seen(step)
                self.ledger.duplicate("copied context")
                continue
            if copied:
                if goes_on or thread.turns:
                    thread.restart(copied)
                else:
                    thread.add_input(copied, None, "user")
                copied = []
            self._step(thread, step, model)
            last = thread.turns[-1] if thread.turns else None
            for result in as_list(as_dict(step.get("observation")).get("results")):
                refs += [(as_dict(ref), last) for ref in as_list(as_dict(result).get("subagent_trajectory_ref"))]
        metrics = as_dict(whole.get("final_metrics"))
        stated = [metrics.get(n) for n in ("total_prompt_tokens", "total_completion_tokens")]
        if key == "main":  # a continuation's totals include those before it
            self.stated = sum(n for n in stated if isinstance(n, int)) or self.stated
        self._continue(whole, name, key, parent, spawn)
        for at, (ref, turn) in enumerate(refs, 1):
            child = embedded.get(str(ref.get("trajectory_id"))) or self._other(
                name, text_of(ref.get("trajectory_path"))
            )
            if child is not None:
                self.trajectory(child, name, f"{key}/subagent-{at}", key, turn)

    def _continue(self, whole: dict[str, Any], name: str, key: str, parent: str | None, spawn: Turn | None) -> None:
        path = text_of(whole.get("continued_trajectory_ref"))
        following = self._other(name, path) if path else None
        if following is not None:
            self.trajectory(following, name, key, parent, spawn, goes_on=True)

    def _other(self, name: str, path: str | None) -> dict[str, Any] | None:
        folder = name.rpartition("/")[0]
        if path is None or path in self.seen:
            return None
        self.seen.add(path)
        wanted = path.rpartition("/")[2]
        here = [n for n in self.source.siblings if n.rpartition("/")[0] == folder and n.endswith(wanted)]
        # Where several trajectories share a folder, the names begin alike.
        start = name.partition(".json")[0]
        found = next((n for n in sorted(here, key=len) if len(here) == 1 or n.startswith(start)), None)
        if found is None or found == name:
            return None
        self.source.claim(found)
        value = document(self.source.siblings[found], self.ledger)
        return value if isinstance(value, dict) else None

    def _step(self, thread: Thread, step: dict[str, Any], model: str | None) -> None:
        kind, at_s = step.get("source"), seconds(step.get("timestamp"))
        managed = as_dict(as_dict(step.get("extra")).get("context_management"))
        self.ledger.used += 1
        if kind == "user":
            thread.add_input(self.make.content(step.get("message"), "user").parts, at_s, "user")
        elif kind == "agent":
            self._call(thread, step, model, at_s)
        elif not thread.turns and not thread.inputs:
            thread.head += self.make.content(step.get("message"), "system").parts
            thread.hidden_head = False
        else:
            # Later system steps say what the agent did; they are no messages.
            self.ledger.used -= 1
            self.ledger.ignore("a system notice")
        if managed.get("type") == "compaction":
            thread.compaction = True
        seen = self._seen(step)
        if seen and kind == "agent":
            thread.add_input(seen, at_s, "tool")

    def _call(self, thread: Thread, step: dict[str, Any], model: str | None, at_s: float | None) -> None:
        parts, tools = self._said(step)
        calls = step.get("llm_call_count")
        if calls == 0:
            thread.add_input(parts, at_s, "tool")
            return
        metrics = as_dict(step.get("metrics"))
        try:
            usage = _usage(metrics, self.ledger.meanings, text_of(step.get("model_name")) or model)
        except ValueError as error:
            self.ledger.reject(self.ordinal, str(error))
            usage = None
        thread.add_reply(parts, tools, at_s)
        turn = thread.close(
            f"{thread.key}:{self.ordinal}",
            self.ordinal,
            at_s,
            usage=usage,
            model=text_of(step.get("model_name")) or model,
        )
        turn.aggregate = isinstance(calls, int) and calls > 1
        self.aggregates += turn.aggregate
        ids = metrics.get("prompt_token_ids")
        if isinstance(ids, list) and ids and all(isinstance(i, int) and 0 <= i < 1 << 32 for i in ids):
            turn.whole = [_exact(ids, turn.model, self.make)]
        if usage is not None:
            tokens = (usage.input_tokens or 0) + (usage.output_tokens or 0)
            self.total += tokens if thread.role == "main" else 0
            self.total_below += tokens if thread.role != "main" else 0  # totals may count sub-agents or not

    def _said(self, step: dict[str, Any]) -> tuple[list[Part], list[str]]:
        role = {"agent": "assistant", "system": "system"}.get(str(step.get("source")), "user")
        thoughts = plain(step.get("reasoning_content"))
        contents = self.make.message(
            {"role": role, "content": step.get("message"), "tool_calls": step.get("tool_calls")}
        )
        return ([self.make.text("reasoning", thoughts)] if thoughts else []) + contents.parts, contents.tools

    def _seen(self, step: dict[str, Any]) -> list[Part]:
        results = [as_dict(r) for r in as_list(as_dict(step.get("observation")).get("results"))]
        shown = [r for r in results if r.get("content") is not None]
        return [part for r in shown for part in self.make.result(r.get("content"), r.get("source_call_id"))]


def _exact(ids: list[int], model: str | None, make: PartMaker) -> Part:
    """A prompt of the model's own token ids: they never match those of another model."""
    space = make.digest(f"token ids of {model}") & 0xFFFFFFFF
    units = np.array(ids, dtype=np.uint64) | (np.uint64(space) << np.uint64(32))
    return Part(make.digest(units.tobytes()), len(ids), 0, "unknown", False, units)


def _usage(metrics: dict[str, Any], meanings: Any, model: str | None) -> Usage | None:
    extra = as_dict(metrics.get("extra"))
    logged = {n: metrics.get(n) for n in _COUNTS} | {n: extra[n] for n in _MORE_COUNTS if n in extra}
    usage = normalise(logged, meanings=meanings, model=model)
    return usage if any(value is not None for value in usage[:5]) else None


_COUNTS = ("prompt_tokens", "completion_tokens", "cached_tokens")
_MORE_COUNTS = (
    "cache_creation_input_tokens",
    "cache_write_tokens",
    "cache_write_input_tokens",
    "reasoning_output_tokens",
    "reasoning_tokens",
)
