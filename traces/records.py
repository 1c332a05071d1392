"""What a reader yields: sessions, requests with their prompts, and what it could not use.

A prompt is given as *what it adds* to an earlier prompt (`base`), so a reader never repeats the history of a session
and the prefix tree is built in work proportional to the new tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traces.source.sources import Source
    from traces.text.kept_texts import KeptTexts
    from traces.text.tokens import Tokenizer

ROLES = (
    "unknown",
    "system",
    "tools",
    "user",
    "assistant",
    "reasoning",
    "tool_result",
    "summary",
    "image",
    "template",
    "unobserved",
)
"""Node roles; the position is the code stored while the tree is built."""


class Piece(NamedTuple):
    """A run of prompt tokens: one message part, one tool schema, one hidden stretch.

    `key` is a 64-bit digest of the content, keyed by `Context.digest` (equal content, equal key); two pieces at the
    same place of two prompts share min(tokens) if their keys are equal and nothing otherwise. Where exact token ids are
    known they are given as `units` (uint32 or uint64, len == tokens) and sharing is exact to the token, whatever the
    keys.
    """

    key: int
    tokens: int
    role: str
    units: NDArray[Any] | None = None


class Base(NamedTuple):
    """The earlier prompt that a prompt extends.

    `request_key` names an earlier request of the same source. With `with_reply` its reply's pieces come next. With
    `keep_tokens` only that many leading tokens of the base are kept (a rewind or an edit).
    """

    request_key: str
    with_reply: bool = True
    keep_tokens: int | None = None


class Prompt(NamedTuple):
    """A prompt: `base`'s tokens, then `pieces`. completeness: full | no_head | structure.

    `lengths` says who counted the tokens: provider | tokenizer. Empty: the provider where its count is known and the
    prompt is not full. `content`: a digest of the prompt and its answer where the reader knows them whole, however
    much of them it tells by `base`; 0: the pieces are the content.
    """

    pieces: tuple[Piece, ...]
    base: Base | None = None
    completeness: str = "full"
    lengths: str = ""
    content: int = 0


class Blocks(NamedTuple):
    """A prompt given by block ids: labels (int, hex or other string), never floats.

    `ids` is a list, or the text between the brackets of a JSON array of whole numbers (then only what is new since the
    session's previous prompt is ever parsed: traces.tree.blocks).
    `tail`: "ceil" where a partial last block has an id of its own, "floor" where it has none. `namespace` separates ids
    that must never match: "" the input (with --one-trace all inputs are one), "file" the input always, "file#2" a part
    of it, "dataset" none.
    """

    ids: list[Any] | bytes
    block_tokens: int
    tail: str = "ceil"
    namespace: str = ""


class Session(NamedTuple):
    """A chain of requests that shares a conversation; a sub-agent is a session with a parent.

    May be yielded several times for one key: fields that are not None win over earlier ones.
    """

    key: str
    parent_key: str | None = None
    spawn_request_key: str | None = None
    forked_from_key: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    role: str | None = None  # main | subagent | side | unknown
    started_at_us: int | None = None  # µs since epoch, UTC
    head_tokens: int | None = None  # length of the prompt's head (tools + system) where the source tells it
    native: bool = True


class Request(NamedTuple):
    """One model call that reached an engine. Every count is tokens; None is unknown and never 0."""

    key: str  # unique in the source
    session_key: str | None  # None: the session is unknown (inferred later for hash traces)
    ordinal: int  # line or entry in the input, 1-based
    arrival_s: float | None = None  # seconds: since epoch (wall), since session start (relative); None: unknown
    time_basis: str = "wall"  # wall | trace (an absolute clock with an unknown zero) | relative | none
    ttft_s: float | None = None
    duration_s: float | None = None
    model: str | None = None
    input_tokens: int | None = None  # all prompt tokens, cached included
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    output_complete: bool | None = None
    output_tokens_estimate: int | None = None
    reasoning_tokens: int | None = None
    prompt: Prompt | Blocks | None = None  # None: lengths only
    reply: tuple[Piece, ...] | None = None  # the answer, where its text is known
    trigger: str = "unknown"  # user | tool | unknown
    work: str = "unknown"  # explore | edit | execute | plan | other | unknown
    tool_classes: tuple[str, ...] = ()
    stop_reason: str | None = None
    status: str = "ok"
    compaction: bool = False  # the source says that the history was compacted before this request
    dedupe_key: str | None = None  # made of the source's own ids only: equal in every copy of this call, across inputs
    copy_rank: tuple[Any, ...] = ()  # the copy with the smallest rank owns the call; ties go to the input's name


class Reject(NamedTuple):
    """A record that could not be used: counted, listed, kept in the dataset. `reason` never quotes the record."""

    ordinal: int
    reason: str


class Skipped(NamedTuple):
    """Records that are no requests. kind: used | ignored | duplicate | failed_attempt (counted in ignored too)."""

    kind: str
    count: int = 1  # type: ignore[assignment]  # the field's own name; tuple.count is not used
    reason: str = ""
    ordinal: int = 0


class Note(NamedTuple):
    """A warning for the receipt; it names no content and no file."""

    text: str


class Evidence(NamedTuple):
    """One meaning of an input's usage figures: in how many objects it matters, and what shows it in how many.

    `contradicting` objects show another meaning; `example` is one of them in figures. `assumed` objects were read by
    the usual meaning of names that are nobody's in particular.
    """

    meaning: str
    records: int
    proofs: tuple[tuple[str, int], ...]
    contradicting: int = 0
    example: str = ""
    assumed: int = 0


Record = Session | Request | Reject | Skipped | Note | Evidence


class Context(NamedTuple):
    """What a reader may use while it reads."""

    tokenizer: Tokenizer
    digest: Any  # digest(bytes | str) -> int: 64-bit, keyed by the dataset's secret
    block_tokens: int | None = None  # --block-size: native block of ids that do not say it
    time_unit: str | None = None  # --time-unit
    mapping: dict[str, str] | None = None  # --map NAME=COLUMN
    texts: KeptTexts | None = None  # takes texts of pieces without token ids
    meanings: Any = None  # traces.usage.evidence.Meanings: what the input's usage objects showed so far


class Reader(Protocol):
    """A module of `traces.formats`. Adding a format is one such file and one line in `traces.intake.registry.READERS`.

    `SESSION_SCOPE` (optional) is what its session keys are unique in: "input" (the default), "trace" (the input, or all
    inputs with --one-trace) or "dataset" (also what `dedupe_key` and keys of parents reach over).
    `COUNTS_BESIDE = True` (optional) says that before its first record it has handed its texts over to be counted
    (`traces.text.text_counts`), so that the next input may be started meanwhile.
    `SIBLINGS = True` (optional) says that it looks at the files beside the one it is given.
    """

    NAME: str
    SUMMARY: dict[str, str]  # carries, time, blocks, computes, notes: shown by `tracetower formats`

    def sniff(self, head: Any, name: str) -> float:
        """How surely `head` (source.sources.Head: first bytes and first parsed record) is this format, 0 to 1."""
        ...

    def read(self, source: Source, context: Context) -> Iterator[Record]:
        """Yield records in order. Never raises for bad content: yields Reject."""
        ...
