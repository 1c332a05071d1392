"""From turns to requests: the provider's counts are the lengths where there are any, else the tokenizer's.

A prompt is its parent's, the parent's answer and the new messages. With the provider's counts, what a prompt grew by is
spread over these; a growth that they cannot explain, and the head that is not logged, become `unobserved`.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from traces.records import Base, Context, Piece, Prompt, Record, Request, Session
from traces.text.lengths import output_estimate, split, spread
from traces.text.tools import classify
from traces.transcripts.ledger import Ledger
from traces.transcripts.parts import Part
from traces.transcripts.passes import in_passes
from traces.transcripts.prompts import Estimated, Whole
from traces.transcripts.turns import Thread, Turn


def requests_of(threads: list[Thread], context: Context, reports_usage: bool = False) -> Iterator[Record]:
    """Yield the sessions of one source and their requests, in the order of their records.

    `reports_usage`: whether the source has the provider's counts anywhere, of calls or of a session, so that a call
    without them is one of unknown length. Where a source never has any, the tokenizer's length of the prompt stands for
    the input tokens; beside output that the provider counted it would compare what is visible with what was sent.
    """
    told = sorted((turn for thread in threads for turn in thread.turns), key=lambda turn: turn.ordinal)
    turns = [one for turn in told for one in (in_passes(turn) if turn.passes else [turn])]
    counted = any(turn.input_tokens is not None for turn in turns)
    reports_usage = reports_usage or any(turn.usage is not None for turn in turns)
    whole = any(turn.whole is not None for turn in turns)
    teller: Whole | Estimated | _Counted = Whole() if whole else _Counted(turns, context) if counted else Estimated()
    for thread in threads:
        if thread.turns:
            yield _session(thread)
    prompts = [teller.prompt(turn) for turn in turns]  # before any reply: its lengths come from what follows it
    for turn, prompt in zip(turns, prompts, strict=True):
        total = turn.input_tokens
        if not reports_usage:
            total = teller.totals.get(turn.key) or None
        yield _request(turn, prompt, teller.reply(turn), total)


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


class _Counted:
    """Sources with usage: the provider's counts are the lengths."""

    def __init__(self, turns: list[Turn], context: Context) -> None:
        self.totals: dict[str, int] = {}
        self.digest = context.digest
        self.replies: dict[str, list[Piece]] = {}
        self.heads: dict[str, list[Piece]] = {}
        self.cached: dict[tuple[str, int], Turn] = {}
        reads: dict[tuple[str, str | None, str], Counter[int]] = defaultdict(Counter)
        for turn in turns:
            if turn.parent is None and not turn.compaction and turn.usage and turn.usage.cache_read_tokens:
                reads[_head_of(turn.thread)][turn.usage.cache_read_tokens] += 1
        # What a session's first call reads from the cache was written by another session: the head that they share.
        self.shared = {key: min(c, key=lambda read: (-c[read], read)) for key, c in reads.items()}

    def prompt(self, turn: Turn) -> Prompt | None:
        total = turn.length
        if total is None:
            return None
        base, added = self._provider_parent(turn) or turn.parent, turn.inputs
        while base is not None and base.length is None:
            added = base.inputs + base.reply + added  # a call of unknown length: its messages are new here
            base = base.parent
        if base is None:
            prompt = Prompt(tuple(self._from_head(turn, total, added)))
        elif total < (base.length or 0):
            prompt = self._shortened(turn, base, total, added)
        else:
            prompt = self._extended(turn, base, total - (base.length or 0), added)
        if turn.cached_total:
            self.cached[turn.thread.key, turn.cached_total] = turn
        return prompt._replace(completeness="no_head" if turn.thread.hidden_head else "structure", lengths="provider")

    def reply(self, turn: Turn) -> tuple[Piece, ...]:
        told = self.replies.get(turn.key)
        if told is None:
            estimates = _reply_estimates(turn)
            told = _pieces(turn.reply, split(round(sum(estimates)), estimates))
        return tuple(told)

    def _provider_parent(self, turn: Turn) -> Turn | None:
        """The call of this session after which the cache held exactly what this call read from it."""
        read = turn.usage.cache_read_tokens if turn.usage else None
        if not read or turn.compaction or (turn.parent is not None and turn.parent.cached_total == read):
            return None
        found = self.cached.get((turn.thread.key, read))
        return None if found is None or (found.length or 0) > (turn.length or 0) else found

    def _extended(self, turn: Turn, base: Turn, growth: int, added: list[Part]) -> Prompt:
        told = self.replies.get(base.key)
        if told is None:
            estimates = _reply_estimates(base)
            shares = spread(
                growth,
                estimates + [part.estimate for part in added],
                [False] * len(estimates) + [part.elastic for part in added],
            )
            self.replies[base.key] = _pieces(base.reply, shares.tokens[: len(estimates)])
            pieces = _pieces(added, shares.tokens[len(estimates) :]) + self._hidden(turn, shares.unobserved)
            return Prompt(tuple(pieces), Base(base.key))
        rest = growth - sum(piece.tokens for piece in told)
        if rest >= 0:
            shares = spread(rest, [part.estimate for part in added], [part.elastic for part in added])
            return Prompt(tuple(_pieces(added, shares.tokens) + self._hidden(turn, shares.unobserved)), Base(base.key))
        # Another continuation of the same answer took more for it than this prompt grew by in all.
        weights = [float(piece.tokens) for piece in told] + [part.estimate for part in added]
        tokens = split(growth, weights)
        again = [piece._replace(tokens=n) for piece, n in zip(told, tokens, strict=False) if n]
        return Prompt(tuple(again + _pieces(added, tokens[len(told) :])), Base(base.key, False))

    def _shortened(self, turn: Turn, base: Turn, total: int, added: list[Part]) -> Prompt:
        """A prompt below its parent's length: history was dropped. What the provider read from its cache is kept;
        without that, the prompt of the last turn that a person started; without that, the head.
        """
        read = (turn.usage.cache_read_tokens if turn.usage else None) or 0
        keep = read if 0 < read <= total and read <= (base.length or 0) else 0
        above: Turn | None = base
        while not keep and above is not None:
            if above.length is not None and above.length <= total and above.trigger == "user":
                keep = above.length
            above = above.parent
        if not keep:
            keep = min(total, sum(piece.tokens for piece in self.heads.get(turn.thread.key, [])))
        shares = spread(total - keep, [part.estimate for part in added], [part.elastic for part in added])
        pieces = self._hidden(turn, shares.unobserved) + _pieces(added, shares.tokens)
        return Prompt(tuple(pieces), Base(base.key, False, keep))

    def _from_head(self, turn: Turn, total: int, added: list[Part]) -> list[Piece]:
        thread = turn.thread
        visible = round(sum(part.estimate for part in added))
        head = self.heads.get(thread.key)
        if head is None:
            logged = round(sum(part.estimate for part in thread.head))
            hidden = max(0, total - visible - logged)
            shared = max(0, min(hidden, self.shared.get(_head_of(thread), 0) - logged))
            name = ":".join(str(x) for x in _head_of(thread))
            head = [Piece(self.digest(f"head:{name}"), shared, "unobserved")]
            head += _pieces(thread.head, split(logged, [part.estimate for part in thread.head]))
            head.append(Piece(self.digest(f"head of:{turn.key}"), hidden - shared, "unobserved"))
            head = [piece for piece in head if piece.tokens]
            if not turn.compaction:
                self.heads[thread.key] = head
        kept, left = [], max(0, total - visible)
        for piece in head:
            tokens = min(piece.tokens, left)
            left -= tokens
            if tokens:
                kept.append(piece._replace(tokens=tokens))
        rest = total - sum(piece.tokens for piece in kept)
        shares = spread(rest, [part.estimate for part in added], [part.elastic for part in added])
        return kept + _pieces(added, shares.tokens) + self._hidden(turn, shares.unobserved)

    def _hidden(self, turn: Turn, tokens: int) -> list[Piece]:
        return [Piece(self.digest(f"hidden in:{turn.key}"), tokens, "unobserved")] if tokens else []


def _head_of(thread: Thread) -> tuple[str, str | None, str]:
    return thread.agent, thread.version, "main" if thread.role == "main" else "subagent"


def _reply_estimates(turn: Turn) -> list[float]:
    """Provider tokens of each part of an answer; where it was counted they add up to the count."""
    estimates = [part.estimate for part in turn.reply]
    output = turn.usage.output_tokens if turn.usage else None
    if not estimates or output is None or turn.output_complete is False:
        return estimates
    reasoning = turn.usage.reasoning_tokens if turn.usage else None
    thoughts = [at for at, part in enumerate(turn.reply) if part.role == "reasoning"]
    if reasoning and thoughts and reasoning <= output and len(thoughts) < len(estimates):
        # The summary that is logged is shorter than the reasoning that was counted.
        rest = [at for at in range(len(estimates)) if at not in thoughts]
        for group, tokens in ((thoughts, reasoning), (rest, output - reasoning)):
            for at, share in zip(group, split(tokens, [estimates[at] or 1.0 for at in group]), strict=True):
                estimates[at] = float(share)
        return estimates
    return [float(share) for share in split(output, estimates)]


def _pieces(parts: list[Part], tokens: list[int]) -> list[Piece]:
    return [Piece(part.key, n, part.role) for part, n in zip(parts, tokens, strict=True) if n]
