"""From turns to requests: the provider's counts are the lengths where there are any, else the tokenizer's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from traces.records import Context, Piece, Prompt, Record, Request, Session
from traces.text.lengths import output_estimate
from traces.text.tools import classify
from traces.transcripts.ledger import Ledger
from traces.transcripts.passes import in_passes
from traces.transcripts.prompts import Counted, Estimated, Whole
from traces.transcripts.turns import Thread, Turn


def requests_of(threads: list[Thread], context: Context, reports_usage: bool = False) -> Iterator[Record]:
    """Yield the sessions of one source and their requests, in the order of their records.

    `reports_usage`: whether the source has the provider's counts anywhere, of calls or of a session, so that a call
    without them is one of unknown length. Where a source never has any, the tokenizer's length of the prompt stands for
    the input tokens; beside output that the provider counted it would compare what is visible with what was sent.
    """
    logged = sorted((turn for thread in threads for turn in thread.turns), key=lambda turn: turn.ordinal)
    turns = [one for turn in logged for one in (in_passes(turn) if turn.passes else [turn])]
    counted = any(turn.input_tokens is not None for turn in turns)
    reports_usage = reports_usage or any(turn.usage is not None for turn in turns)
    whole = any(turn.whole is not None for turn in turns)
    counted = counted and not whole
    log = Counted(turns, context) if counted else Whole() if whole else Estimated()
    for thread in threads:
        if thread.turns:
            yield _session(thread)
    for turn in turns:
        prompt = log.prompt(turn)
        total = turn.input_tokens
        if not reports_usage and not isinstance(log, Counted):
            total = log.totals.get(turn.key) or None
        yield _request(turn, prompt, log.reply(turn), total)


def records_of(
    threads: list[Thread], context: Context, ledger: Ledger, reports_usage: bool = False
) -> Iterator[Record]:
    """Yield what `requests_of` does, then what became of the records that are no requests."""
    count = 0
    for record in requests_of(threads, context, reports_usage):
        count += isinstance(record, Request)
        yield record
    yield from ledger.finish(count)


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_VERSION = re.compile(r"v?\d[0-9A-Za-z.+-]{0,31}")


def _slug(text: str | None, shape: re.Pattern[str]) -> str | None:
    """`text` if it looks like what it should be: free text of a log never reaches a dataset."""
    return text if text is not None and shape.fullmatch(text) else None


def _session(thread: Thread) -> Session:
    spawn = thread.spawn.key if thread.spawn is not None else thread.spawn_key
    return Session(
        thread.key,
        parent_key=thread.parent_key,
        spawn_request_key=spawn,
        forked_from_key=thread.forked_from,
        agent=_slug(thread.agent, _NAME),
        agent_version=_slug(thread.version, _VERSION),
        role=thread.role,
        started_at_us=None if thread.started_s is None else round(thread.started_s * 1e6),
    )


def _request(turn: Turn, prompt: Prompt | None, reply: tuple[Piece, ...], total: int | None) -> Request:
    usage, thread = turn.usage, turn.thread
    work, classes = classify(turn.tools)
    if not turn.tools and turn.reply:
        work = "other"
    output = usage.output_tokens if usage else None
    complete = turn.output_complete if turn.output_complete is not None else (None if output is None else True)
    estimate = None
    if output is None or complete is False:
        estimate = output_estimate(sum(p.counted for p in turn.reply), sum(p.calls for p in turn.reply))
    # A sub-agent's task is the work of a tool, not of a person.
    trigger = "tool" if turn.trigger == "user" and thread.role != "main" else turn.trigger
    return Request(
        key=turn.key,
        session_key=thread.key,
        ordinal=turn.ordinal,
        arrival_s=turn.arrival_s,
        time_basis=thread.time_basis,
        ttft_s=turn.ttft_s,
        duration_s=turn.duration_s,
        model=turn.model,
        input_tokens=total,
        cache_read_tokens=usage.cache_read_tokens if usage else None,
        cache_write_tokens=usage.cache_write_tokens if usage else None,
        output_tokens=output,
        output_complete=complete if output is not None else None,
        output_tokens_estimate=estimate,
        reasoning_tokens=usage.reasoning_tokens if usage else None,
        prompt=prompt,
        reply=reply or None,
        trigger=trigger,
        work=work,
        tool_classes=classes,
        stop_reason=turn.stop_reason and (_slug(turn.stop_reason, _NAME) or "other"),
        status=turn.status,
        compaction=turn.compaction,
        dedupe_key=turn.dedupe_key,
        copy_rank=turn.copy_rank,
    )
