"""Helicone request exports: rows of its query API or of `@helicone/export`, with bodies where they were included."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.calls.session_headers import lowered
from traces.calls.span_content import parsed
from traces.formats.gateways.export_rows import has_columns, taken
from traces.records import Context, Record, Session, Skipped
from traces.source.logged_times import first_moment
from traces.source.sources import Head, Source
from traces.text.messages import compact
from traces.usage.counts import add_known, count

NAME = "helicone"
SESSION_SCOPE = "dataset"
_NO_REFERENCE = "00000000-0000-0000-0000-000000000000"
"""What `cache_reference_id` holds where an answer is not from the cache (DEFAULT_UUID in Helicone's source)."""
SUMMARY = {
    "carries": "usage with cache figures, times, sessions and their paths; prompts with --include-body",
    "time": "wall",
    "computes": "lengths, reported cache figures, time to first token; hit rates where bodies are included",
    "notes": "a session path /a/b is a sub-agent of /a; answers from Helicone's own cache reached no engine",
}


def sniff(head: Head, name: str) -> float:
    """Sure where rows with Helicone's names begin the file."""
    if has_columns(head, "request_created_at", "response_status"):
        return 0.93
    start = head.data[: 1 << 16]
    if b'"request_created_at"' in start and (b'"request_id"' in start or b'"response_status"' in start):
        return 0.95
    return 0.8 if b'"Helicone-Session-Id"' in start and b'"request_' in start else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield the calls in the order of the file."""
    yield from taken(source, _Reader(context).take)


class _Reader:
    def __init__(self, context: Context) -> None:
        self.calls = Calls(context)
        self.unit = context.time_unit
        self.sessions: set[str] = set()

    def take(self, ordinal: int, row: Mapping[str, Any]) -> Iterator[Record]:
        status = row.get("response_status")
        status = int(status) if isinstance(status, str) and status.lstrip("-").isdigit() else status
        if isinstance(status, int) and not 200 <= status < 300:
            yield Skipped("failed_attempt", 1, "an answer with an error", ordinal)
            return
        if (
            row.get("cache_reference_id") not in (None, "", _NO_REFERENCE)
            or str(row.get("cache_hit")).lower() == "true"
        ):
            yield Skipped("ignored", 1, "answered from Helicone's own cache", ordinal)
            return
        chain = _sessions(row)
        for place, key in enumerate(chain):
            if key not in self.sessions:
                self.sessions.add(key)
                above = chain[place + 1] if place + 1 < len(chain) else None
                yield Session(key, parent_key=above, role="subagent" if above else "main")
        yield self.calls.request(self._call(ordinal, row, chain[0] if chain else None))

    def _call(self, ordinal: int, row: Mapping[str, Any], session: str | None) -> Call:
        start = first_moment(row, "request_created_at", unit=self.unit)
        end = first_moment(row, "response_created_at", unit=self.unit)
        delay = number_of(row, "delay_ms")
        duration = delay / 1000 if delay is not None else None
        if duration is None and start is not None and end is not None:
            duration = end - start
        first = number_of(row, "time_to_first_token")
        body = parsed(row.get("request_body"))
        answer = parsed(row.get("response_body"))
        identity = text_of(answer, "id") or text_of(row, "request_id")
        body = body if isinstance(body, dict) else None
        usage, disjoint = _usage(row, answer)
        return Call(
            key=str(ordinal),
            ordinal=ordinal,
            session=session,
            request=body,
            answer=answer if isinstance(answer, dict) else None,
            usage=usage,
            disjoint=disjoint,
            model=text_of(row, "response_model", "request_model", "model_override", "model"),
            arrival_s=start,
            ttft_s=first / 1000 if first else None,  # unknown is stored as 0
            duration_s=duration,
            identity=identity,
            cut=body is not None and b'helicone-message":"request body too large' in compact(body)[:400],
        )


def _sessions(row: Mapping[str, Any]) -> list[str]:
    """The session of a row and those above it: each step of its path is one."""
    properties = parsed(row.get("request_properties", row.get("properties")))
    named = lowered(properties if isinstance(properties, dict) else {})
    session = named.get("helicone-session-id")
    if not session:
        return []
    steps = [step for step in named.get("helicone-session-path", "").split("/") if step][:50]
    return ["/".join([session, *steps[1:count]]) for count in range(len(steps), 1, -1)] + [session]


def _usage(row: Mapping[str, Any], answer: Any) -> tuple[Mapping[str, Any] | None, bool | None]:
    """Helicone's columns where the answer has no usage of its own, and whether their input leaves cached tokens out.

    It does for Anthropic, and where more was read from the cache. Since there is a column `reasoning_tokens` it does
    whoever the provider is, and completion_tokens are without reasoning (valhalla/jawn, HandlerContext.ts).
    """
    usage = {name: row[name] for name in _COLUMNS if row.get(name) is not None}
    if (isinstance(answer, dict) and isinstance(answer.get("usage"), dict)) or not {*_COLUMNS[:2]} & usage.keys():
        return None, None
    who = f"{text_of(row, 'provider') or ''} {text_of(row, 'request_model') or ''}".lower()
    if "reasoning_tokens" not in row:
        exceeds = (number_of(row, "prompt_cache_read_tokens") or 0) > (number_of(row, "prompt_tokens") or 0)
        return usage, exceeds or "anthropic" in who or "claude" in who
    output, reasoning = (count(row.get(name), name) for name in ("completion_tokens", "reasoning_tokens"))
    return usage | {"completion_tokens": add_known(output, reasoning)}, True


_COLUMNS = (
    "prompt_tokens",
    "completion_tokens",
    "prompt_cache_read_tokens",
    "prompt_cache_write_tokens",
    "reasoning_tokens",
)
