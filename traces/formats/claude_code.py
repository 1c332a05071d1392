"""Claude Code session transcripts (JSONL under ~/.claude/projects).

The record format is internal to Claude Code and changes often; read here are versions 1.0.17 to 2.1. Lines of unknown
types are passed over. The provider's usage gives the lengths, the tree of `parentUuid` the structure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.claude_chains import Call, Chain, Transcript, TranscriptBuilder
from traces.formats.claude_lines import Ignored, LineParser
from traces.formats.claude_prompts import PromptBuilder, Told
from traces.records import Context, Note, Record, Reject, Request, Session, Skipped
from traces.tools import classify

if TYPE_CHECKING:
    from traces.sources import Source

NAME = "claude_code"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, usage with cache reads and writes, tools, times",
    "tail": "none",
    "time": "wall clock (ISO 8601)",
    "notes": "system prompt and tool schemas are not logged: prompts are completed by an unobserved head; "
    "output without a stop reason is a partial count",
}
SCOPE = "dataset"
"""Session and request keys mean the same in every file."""

_SUBAGENT_FILE = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/subagents/(?:[^/]+/)*agent-[^/]+$")
_TYPES = {
    "user",
    "assistant",
    "system",
    "summary",
    "attachment",
    "progress",
    "file-history-snapshot",
    "queue-operation",
}


def sniff(head: Any, name: str) -> float:
    """How surely `head` starts a Claude Code transcript."""
    return max((_likeness(record) for record in head.records), default=0.0)


def _likeness(record: Any) -> float:
    if not isinstance(record, dict) or not isinstance(record.get("type"), str):
        return 0.0
    kind = record["type"]
    if (kind == "summary" and "leafUuid" in record) or (kind == "file-history-snapshot" and "snapshot" in record):
        return 0.9
    if kind not in _TYPES or "uuid" not in record or not ("sessionId" in record or "isSidechain" in record):
        return 0.0
    return 0.97 if isinstance(record.get("message"), dict) else 0.8


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield rejects, then sessions and their requests, then what became of the other lines."""
    parser = LineParser(context)
    builder = TranscriptBuilder()
    ignored: Counter[tuple[str, str]] = Counter()
    for ordinal, raw in source.lines():
        if raw is None:
            yield Reject(ordinal, "line is too long")
            continue
        if not raw.strip():
            continue
        try:
            line = parser.parse(ordinal, raw)
        except ValueError as error:
            yield Reject(ordinal, str(error))
            continue
        if isinstance(line, Ignored):
            ignored[line.kind, line.reason] += 1
        else:
            builder.add(line)
    transcript = builder.build()
    yield from _sessions(transcript, _session_of_folder(source.name))
    yield from _requests(transcript, PromptBuilder(transcript, context.digest).build())
    for (kind, reason), count in ignored.items():
        yield Skipped(kind, count, reason)
    for kind, count in (("used", transcript.used), ("duplicate", transcript.repeated), ("ignored", transcript.ignored)):
        if count:
            yield Skipped(kind, count, "line of a conversation")


def _session_of_folder(name: str) -> str | None:
    """The session whose folder holds the file of a sub-agent: `<session>/subagents/agent-<id>.jsonl`."""
    found = _SUBAGENT_FILE.search(name)
    return found[1] if found else None


def _sessions(transcript: Transcript, folder: str | None) -> Iterator[Record]:
    for chain in transcript.chains.values():
        if not chain.calls:
            continue
        yield Session(
            chain.key,
            parent_key=chain.parent_key or (folder if chain.role != "main" else None),
            spawn_request_key=chain.spawn.key if chain.spawn else None,
            forked_from_key=chain.forked_from,
            agent=NAME,
            agent_version=chain.version,
            role=chain.role,
            started_at_us=None if chain.first_s is None else round(chain.first_s * 1e6),
        )
    for key, (parent_key, call) in transcript.spawned.items():
        # The sub-agent's own file may be another input; this one tells which call started it.
        yield Session(key, parent_key=parent_key, spawn_request_key=call.key)


def _requests(transcript: Transcript, told: dict[str, Told]) -> Iterator[Record]:
    unlike = 0
    for call in transcript.calls:
        yield _request(call, transcript.chains[call.session], told[call.key])
        usage = call.usage
        unlike += bool(
            usage and usage.cache_read_tokens and usage.input_tokens and usage.cache_read_tokens > usage.input_tokens
        )
    if unlike:
        yield Note(f"{unlike} calls report more cached tokens than input tokens")


def _request(call: Call, chain: Chain, told: Told) -> Request:
    usage = call.usage
    output = usage.output_tokens if usage else None
    arrival, duration = _times(call)
    work, classes = classify(use.name for use in call.uses)
    if not call.uses and call.reply:
        work = "other"
    return Request(
        key=call.key,
        session_key=call.session,
        ordinal=call.first.ordinal,
        arrival_s=arrival,
        duration_s=duration,
        model=call.model,
        input_tokens=usage.input_tokens if usage else None,
        cache_read_tokens=usage.cache_read_tokens if usage else None,
        cache_write_tokens=usage.cache_write_tokens if usage else None,
        output_tokens=output,
        output_complete=None if output is None else call.stop_reason is not None,
        output_tokens_estimate=told.output_tokens_estimate,
        reasoning_tokens=usage.reasoning_tokens if usage else None,
        prompt=told.prompt,
        reply=told.reply or None,
        trigger=_trigger(call, chain),
        work=work,
        tool_classes=classes,
        stop_reason=call.stop_reason,
        compaction=call.compaction,
        dedupe_key=call.dedupe_key,
        copy_rank=_rank(call, chain),
    )


def _times(call: Call) -> tuple[float | None, float | None]:
    """(arrival, duration): from the latest input before the first block to the end of the last block.

    Without such an input the first block's time stands for the arrival and the duration is unknown.
    """
    first = call.first.at_s
    if first is None:
        return None, None
    before = [line.at_s for line in call.inputs if line.at_s is not None and line.at_s <= first]
    if not before:
        return first, None
    arrival = max(before)
    return arrival, None if call.last_s is None else call.last_s - arrival


def _trigger(call: Call, chain: Chain) -> str:
    """What ended the prompt: a tool's result, or a person; a sub-agent's task is the work of a tool."""
    trigger = "unknown"
    for line in call.inputs:
        if line.results:
            trigger = "tool"
        elif trigger != "tool" or not line.meta:
            trigger = "user"
    return "tool" if trigger == "user" and chain.role != "main" else trigger


def _rank(call: Call, chain: Chain) -> tuple[Any, ...]:
    """Originals before copies: a main conversation before a side file, then the session that ended first."""
    return (call.copied, chain.role != "main", math.inf if chain.last_s is None else chain.last_s)
