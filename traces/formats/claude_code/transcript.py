"""Claude Code session transcripts (JSONL under ~/.claude/projects).

The record format is internal to Claude Code and changes often; read here are versions 1.0.17 to 2.1. Lines of unknown
types are passed over. The provider's usage gives the lengths, the tree of `parentUuid` the structure.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.formats.claude_code.chains import Chain, Chains
from traces.formats.claude_code.lines import Ignored, LineParser
from traces.formats.claude_code.store import META, RESULT, TranscriptStore
from traces.formats.claude_code.transcript_calls import Conversation
from traces.records import Base, Context, Piece, Prompt, Record, Reject, Request, Session, Skipped
from traces.text.tools import CLASSES, work_of
from traces.transcripts.counted_prompts import CountedPrompts
from traces.usage.passes import Pass
from traces.usage.rules import Usage

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "claude_code"
SUMMARY = {
    "carries": "sessions, sub-agents, messages, usage with cache reads and writes, tools, times",
    "time": "wall clock (ISO 8601)",
    "computes": "everything: ceiling and curves on provider-counted lengths, reported rate and its gap, transitions",
    "notes": "system prompt and tool schemas are not logged: prompts are completed by an unobserved head; "
    "output without a stop reason is a partial count",
}
SESSION_SCOPE = "dataset"
"""Session and request keys mean the same in every file."""

COUNTS_BESIDE = True
MOST_HELD = 10_000

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
    message = record.get("message")
    return 0.97 if isinstance(message, dict) and "parts" not in message else 0.8  # a relative has parts, not content


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield rejects, then sessions and their requests, then what became of the other lines."""
    parser = LineParser(context)
    store = TranscriptStore()
    ignored: Counter[tuple[str, str]] = Counter()
    rejects: list[Reject] = []  # yielded after the last line, so that the whole file is read before its first record
    parse, add = parser.parse, store.add
    for ordinal, raw in source.lines():
        if raw is None:
            rejects.append(Reject(ordinal, "line is too long"))
            continue
        if not raw or raw.isspace():
            continue
        try:
            line = parse(ordinal, raw)
        except ValueError as error:
            rejects.append(Reject(ordinal, str(error)))
            if len(rejects) == MOST_HELD:
                yield from rejects
                rejects.clear()
            continue
        if isinstance(line, Ignored):
            ignored[line.kind, line.reason] += 1
            continue
        if not line.session:
            # Nothing has named a session yet: such lines must not meet those of other files.
            line.session = parser.session = f"unnamed:{source.digest().hex()}"
        add(line)
    store.close()
    chains = Chains(store)
    yield from rejects
    yield from _sessions(chains, _session_of_folder(source.name))
    store.parts.count(parser.parts.counts)
    yield from _requests(Conversation(chains), context.digest)
    blocks = sum(store.calls.lines)
    in_calls = sum(call >= 0 for call in store.lines.call)
    for (kind, reason), count in ignored.items():
        yield Skipped(kind, count, reason)
    for kind, count, reason in (
        ("used", blocks - len(store.calls) + chains.used, "part of a conversation"),
        ("duplicate", store.repeated, "logged before"),
        ("ignored", len(store.lines) - in_calls - chains.used, "in no call's prompt"),
    ):
        if count:
            yield Skipped(kind, count, reason)


def _session_of_folder(name: str) -> str | None:
    """The session whose folder holds the file of a sub-agent: `<session>/subagents/agent-<id>.jsonl`."""
    found = _SUBAGENT_FILE.search(name)
    return found[1] if found else None


def _sessions(chains: Chains, folder: str | None) -> Iterator[Record]:
    keys = chains.store.calls.key
    for chain in chains.by_key.values():
        if not len(chain.calls):
            continue
        yield Session(
            chain.key,
            parent_key=chain.parent_key or (folder if chain.role != "main" else None),
            spawn_request_key=None if chain.spawn is None else keys[chain.spawn],
            forked_from_key=chain.forked_from,
            agent=NAME,
            agent_version=chain.version,
            role=chain.role,
            started_at_us=None if chain.first_s is None else round(chain.first_s * 1e6),
        )
    for key, call in chains.spawned().items():
        # The sub-agent's own file may be another input; this one says which call started it.
        yield Session(key, parent_key=chains.chain(call).key, spawn_request_key=keys[call])


def _requests(log: Conversation, digest: Any) -> Iterator[Record]:
    prompts = CountedPrompts(log, digest)
    for call in log.calls():
        last = _request(log, prompts, call)
        earlier = log.store.passes.get(call, ())
        for place, one in enumerate(earlier):
            yield _pass(log.chains, digest, call, last, place, one)
        yield last._replace(compaction=True) if earlier and earlier[-1].kind == "compaction" else last


def _pass(chains: Chains, digest: Any, call: int, last: Request, place: int, one: Pass) -> Request:
    """A pass of an answer before its last: sent the prompt that the call extends, and what nobody logged."""
    parent, total = chains.parent[call], one.usage.input_tokens or 0
    length = (chains.store.calls.input_tokens(parent) if parent >= 0 else None) or 0
    base = Base(chains.store.calls.key[parent], False) if 0 < length <= total else None
    key = f"{last.key}|{place}"
    rest = Piece(digest(f"hidden in:{key}"), total - (length if base else 0), "unobserved")
    return Request(
        key=key,
        session_key=last.session_key,
        ordinal=last.ordinal,
        arrival_s=last.arrival_s,
        model=one.model or last.model,
        input_tokens=one.usage.input_tokens,
        cache_read_tokens=one.usage.cache_read_tokens,
        cache_write_tokens=one.usage.cache_write_tokens,
        output_tokens=one.usage.output_tokens,
        output_complete=None if one.usage.output_tokens is None else True,
        prompt=Prompt((rest,) if rest.tokens else (), base, "no_head") if rest.tokens or base else None,
        trigger=last.trigger,
        stop_reason="tool_use" if one.kind == "message" else one.kind,
        dedupe_key=None if last.dedupe_key is None else f"{last.dedupe_key}|{place}",
        copy_rank=last.copy_rank,
    )


def _request(log: Conversation, prompts: CountedPrompts[int, int], call: int) -> Request:
    chains, store, calls, chain = log.chains, log.store, log.store.calls, log.chains.chain(call)
    usage = calls.usage(call) or Usage()
    inputs = chains.inputs(call)
    arrival, duration = _times(store, call, inputs)
    reply = prompts.reply(call)
    classes = [name for bit, name in enumerate(CLASSES) if calls.classes[call] >> bit & 1]
    stop_reason = store.names.values[calls.stop[call]]
    # Originals before copies: a main conversation before a side file, then the session that ended first.
    rank = bool(calls.copied[call]), chain.role != "main", math.inf if chain.last_s is None else chain.last_s
    # by position, which is twice as fast: key, session, ordinal, arrival, basis, ttft, duration, model, input, cache
    # read and write, output, complete, estimate, reasoning, prompt, reply, trigger, work
    return Request(
        calls.key[call], chain.key, store.lines.ordinal[calls.first[call]], arrival, "wall", None, duration,
        store.names.values[calls.model[call]], usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens,
        usage.output_tokens, None if usage.output_tokens is None else stop_reason is not None,
        log.output_estimate(call), usage.reasoning_tokens, prompts.prompt(call), reply or None,
        _trigger(store, inputs, chain), work_of(classes) if classes else "other" if reply else "unknown",
        tool_classes=tuple(sorted(classes)),
        stop_reason=stop_reason,
        compaction=bool(chains.compacted[call]),
        dedupe_key=None if calls.key[call].startswith("line:") else calls.key[call],
        copy_rank=rank,
    )  # fmt: skip


def _times(store: TranscriptStore, call: int, inputs: array[int]) -> tuple[float | None, float | None]:
    """(arrival, duration): from the latest input before the first block to the end of the last block.

    Without such an input the first block's time stands for the arrival and the duration is unknown.
    """
    at_s = store.lines.at_s
    first = at_s[store.calls.first[call]]
    if math.isnan(first):
        return None, None
    arrival = max((at_s[at] for at in inputs if at_s[at] <= first), default=None)
    if arrival is None:
        return first, None
    return arrival, max(first, store.calls.last_s[call]) - arrival


def _trigger(store: TranscriptStore, inputs: array[int], chain: Chain) -> str:
    """What ended the prompt: a tool's result, or a person; a sub-agent's task is the work of a tool."""
    trigger = "unknown"
    for at in inputs:
        if store.lines.flags[at] & RESULT:
            trigger = "tool"
        elif trigger != "tool" or not store.lines.flags[at] & META:
            trigger = "user"
    return "tool" if trigger == "user" and chain.role != "main" else trigger
