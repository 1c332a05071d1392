"""Spans of agents and model calls from any export: which spans are model calls, and to which session they belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from traces.calls.model_calls import Call, Calls, number_of, text_of
from traces.calls.span_content import content_of, usage_attributes
from traces.records import Context, Note, Record, Reject, Request, Session, Skipped
from traces.usage.rules import normalise

MODEL_OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "completion", "generate", "responses"})
_AGENT_OPERATIONS = frozenset({"invoke_agent", "create_agent", "invoke_workflow"})
_SESSIONS = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "exgentic.session.id",
    "thread.id",
)
_FIRST_TOKEN_S = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
    "gen_ai.latency.time_to_first_token",
)


class Span(NamedTuple):
    """One span. Times in seconds since the epoch; attributes by name, values as plain JSON."""

    ordinal: int
    trace: str
    span: str
    parent: str | None
    name: str
    start_s: float | None
    end_s: float | None
    attributes: Mapping[str, Any]
    events: tuple[Any, ...] = ()
    error: bool = False
    service: str | None = None


def kind_of(span: Span) -> str:
    """`model` for a model call, `agent` for the run of an agent, else `other`."""
    at = span.attributes
    operation = text_of(at, "gen_ai.operation.name")
    if operation is not None:
        operation = operation.lower()
        return "model" if operation in MODEL_OPERATIONS else "agent" if operation in _AGENT_OPERATIONS else "other"
    kind = text_of(at, "openinference.span.kind", "traceloop.span.kind", "langfuse.observation.type")
    if kind is not None and kind.upper() in ("LLM", "GENERATION", "AGENT"):
        return "agent" if kind.upper() == "AGENT" else "model"
    called = text_of(at, "ai.operationId", "operation.name") or ""
    if called.startswith("ai.") and (".doGenerate" in called or ".doStream" in called):
        return "model"
    if text_of(at, "llm.request.type") in ("chat", "completion") or (kind is None and usage_attributes(at)):
        return "model" if not called.startswith("ai.") else "other"
    return "other"


class Described(NamedTuple):
    """The model call of a span. `body` and `answer` are as traces.calls.model_calls takes them."""

    body: Mapping[str, Any] | None
    answer: Mapping[str, Any] | None
    usage: Mapping[str, Any] | None
    provider: str | None
    model: str | None
    ttft_s: float | None = None
    identity: str | None = None
    cut: bool = False


class _Known(NamedTuple):
    parent: str | None
    kind: str
    trace: str
    start_s: float | None
    end_s: float | None


class Forest:
    """The parent links between the spans of a source. Stores only the id and parent of each span."""

    def __init__(self) -> None:
        self._spans: dict[str, _Known] = {}
        self._wrappers: set[str] = set()

    def add(self, span: Span) -> None:
        """Add a span; spans may come in any order."""
        self._spans[span.span] = _Known(span.parent, kind_of(span), span.trace, span.start_s, span.end_s)

    def settle(self) -> None:
        """Mark the model calls that only wrap other model calls: their usage is that of the wrapped calls.

        Some tools write the previous call as the parent, so a call that began after its parent's end is not wrapped.
        """
        for known in self._spans.values():
            if known.kind == "model":
                for above, one in self._above(known.parent):
                    begun_later = known.start_s is not None and one.end_s is not None and known.start_s >= one.end_s
                    if one.kind == "model" and not begun_later:
                        self._wrappers.add(above)

    def is_call(self, span: Span) -> bool:
        """Whether a span is a model call and not a wrapper of model calls."""
        return self._spans[span.span].kind == "model" and span.span not in self._wrappers

    def agents(self, span: Span) -> list[str]:
        """The agent runs around a span, innermost first."""
        return [above for above, one in self._above(span.parent) if one.kind == "agent"]

    def root_trace(self, span: Span) -> str:
        """The trace id of the outermost known span around a span."""
        trace = span.trace
        for _, one in self._above(span.parent):
            trace = one.trace
        return trace

    def _above(self, at: str | None) -> Iterator[tuple[str, _Known]]:
        seen = 0
        while at is not None and at in self._spans and seen < 1000:
            yield at, self._spans[at]
            at = self._spans[at].parent
            seen += 1


def described(span: Span) -> Described:
    """A span by the attributes of OpenTelemetry, OpenInference and their relatives."""
    at = span.attributes
    body, answer = content_of(at, span.events)
    return Described(
        body,
        answer,
        usage_attributes(at),
        text_of(at, "gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider"),
        text_of(at, "gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "ai.model.id"),
        number_of(at, *_FIRST_TOKEN_S),
        text_of(at, "gen_ai.response.id"),
    )


def requests(
    spans: Callable[[], Iterable[Span | Reject]],
    context: Context,
    fill: bool,
    describe: Callable[[Span], Described] = described,
) -> Iterator[Record]:
    """The model calls among spans. The spans are read twice.

    Args:
        spans: Starts reading the spans from the beginning; unreadable ones come as rejects.
        context: The reader's context.
        fill: The source has no usage (see traces.calls.model_calls.Calls).
        describe: Extracts the model call of a span.
    """
    forest = Forest()
    for span in spans():
        if isinstance(span, Span):
            forest.add(span)
    forest.settle()
    teller = _Teller(context, forest, fill, describe)
    for span in spans():
        if isinstance(span, Reject):
            yield span
            continue
        try:
            yield from teller.take(span)
        except (ValueError, RecursionError) as error:
            yield Reject(span.ordinal, str(error)[:120] if isinstance(error, ValueError) else "nested too deeply")
    yield from teller.end()


class _Teller:
    def __init__(self, context: Context, forest: Forest, fill: bool, describe: Callable[[Span], Described]) -> None:
        self.describe = describe
        self.calls = Calls(context, fill)
        self.forest = forest
        self.sessions: set[str] = set()
        self.used = 0
        self.others = 0
        self.totals: dict[str, int] = {}  # agent run -> input and output tokens that it reports
        self.sums: Counter[str] = Counter()  # agent run -> those of its calls

    def take(self, span: Span) -> Iterator[Record]:
        if not self.forest.is_call(span):
            self.others += 1
            self._total(span)
            yield Skipped("ignored", 1, "no call of a model", span.ordinal)
            return
        described = self.describe(span)
        if span.error and not described.usage:
            yield Skipped("failed_attempt", 1, "a span that ended with an error", span.ordinal)
            return
        if described.body is None and described.answer is None and not described.usage and described.model is None:
            yield Skipped("ignored", 1, "a span without content, usage and model", span.ordinal)
            return
        self.used += 1
        yield from self._session(span)
        request = self._request(span, described)
        for agent in self.forest.agents(span):
            self.sums[agent] += (request.input_tokens or 0) + (request.output_tokens or 0)
        yield request

    def _total(self, span: Span) -> None:
        usage = usage_attributes(span.attributes) if kind_of(span) == "agent" else None
        if usage:
            counted = normalise(usage)
            self.totals[span.span] = (counted.input_tokens or 0) + (counted.output_tokens or 0)

    def end(self) -> Iterator[Record]:
        """Compares the source's own totals with the sums over its calls."""
        if not self.used and self.others:
            yield Note("no span of a model call: agents, tools and totals are no requests")
        apart = [abs(total - self.sums[agent]) for agent, total in self.totals.items() if self.sums[agent] != total]
        if self.used and apart:
            yield Note(
                f"{len(apart):,} of {len(self.totals):,} agent runs report totals that differ from the sum of their "
                f"calls, by {sum(apart):,} tokens; the calls were used"
            )

    def _session(self, span: Span) -> Iterator[Record]:
        chain = self._chain(span)
        for place, key in enumerate(chain):
            if key not in self.sessions:
                self.sessions.add(key)
                yield Session(
                    key,
                    parent_key=chain[place + 1] if place + 1 < len(chain) else None,
                    role="main" if place + 1 == len(chain) else "subagent",
                    agent=text_of(span.attributes, "gen_ai.agent.name") or span.service,
                )

    def _chain(self, span: Span) -> list[str]:
        """The session of a span and its ancestors. The outermost agent run is the conversation itself."""
        named = next((str(span.attributes[n]) for n in _SESSIONS if span.attributes.get(n)), None)
        root = named or self.forest.root_trace(span)
        if not root:
            return []
        inner = self.forest.agents(span)[:-1]
        return [*(f"{root}/{agent}" for agent in inner), root]

    def _request(self, span: Span, described: Described) -> Request:
        duration = None
        if span.start_s is not None and span.end_s is not None:
            duration = span.end_s - span.start_s
        return self.calls.request(
            Call(
                key=str(span.ordinal),
                ordinal=span.ordinal,
                session=next(iter(self._chain(span)), None),
                request=described.body,
                answer=described.answer,
                usage=described.usage,
                provider=described.provider,
                model=described.model,
                arrival_s=span.start_s,
                ttft_s=described.ttft_s,
                duration_s=duration,
                identity=described.identity or f"span:{span.trace}:{span.span}",
                cut=described.cut,
            )
        )
