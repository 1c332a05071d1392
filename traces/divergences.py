"""Where the consecutive prompts of a session part: found while their units are at hand, stored as lengths and a kind.

A *line* is what a change replaces: of text the line in which two prompts part (or the whole part of a message, where
its text is not known), of hash traces a native block. Behind the changed lines prompts often go on alike: how far is
kept too, so that what a change costs can be recomputed without any text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.divergence_kinds import Shape, Side, name_kind
from traces.divergence_words import SPEAKER
from traces.prefixes import PrefixTree
from traces.prompt_pairs import common_tail, found_ahead, pairs_that_part, parts_before, resume, units_from
from traces.records import ROLES
from traces.schema import DIVERGENCES, polars_schema
from traces.tokens import load_tokenizer

LOOK_BACK_TOKENS = 4096
"""A line is searched for at most this far before the place where prompts part."""

MOST_LINES = 24
"""Lines of either prompt that a change may span; what is longer is not resumed behind."""

LEAST_ALIKE_TOKENS = 16
"""Fewer tokens alike behind a change are chance; four times as many where a token is a byte."""

END_TOKENS = 64
"""How much of a prompt's end is looked for in the next one."""

MOST_MESSAGES = 8
"""Messages of either prompt that a change may span."""

READ_UNITS = 8000
"""How much of changed lines is read to name them."""

HEAD_UNITS = 600
"""How much of a message is read before its changed lines."""

AHEAD_UNITS = 2000
"""How much is read of what follows, changed or not."""

MERGED_TOKENS = 4
"""Tokens at the end of a text that become others when it goes on: "." and a line end are one token."""

LONGEST_HIDDEN_RUN = 16_384
"""So many units of a run without known content are told apart, the rest of it is one: counts may be any number."""

REASONING = ROLES.index("reasoning")
TEMPLATE = ROLES.index("template")
UNKNOWN = ROLES.index("unknown")


class Units(NamedTuple):
    """A stretch of a prompt, unit by unit: id, whether it is explicit, role, tokens, and whether a node starts here.

    The rest of a very long run whose content is not known stands as one unit with all its tokens.
    """

    id: NDArray[np.uint64]
    explicit: NDArray[np.bool_]
    role: NDArray[np.int8]
    tokens: NDArray[np.int64]
    starts: NDArray[np.bool_]


def divergence_table(
    tree: PrefixTree, rows: pl.DataFrame, native: NDArray[np.int64], tokenizers: list[str | None]
) -> pl.DataFrame:
    """The `divergences` table.

    Args:
        tree: with its units.
        rows: request_id, session_id, turn, prefix_id, source_id and compaction of the requests, in any order.
        native: by source, its native block; 1 for text.
        tokenizers: by source; None where units are no token ids.
    """
    nodes = tree.columns()
    leaf = rows["prefix_id"].fill_null(-1).to_numpy().astype(np.int64)
    source = rows["source_id"].to_numpy()
    step = native[source] if len(native) else np.ones(len(leaf), np.int64)
    order = _in_sessions(rows["session_id"], rows["turn"])
    session = rows["session_id"].fill_null(-1).to_numpy()
    row, previous, shared = pairs_that_part(nodes["parent"], nodes["end"], leaf, session, step, order)
    ids, compaction = rows["request_id"].to_numpy(), rows["compaction"].fill_null(False).to_numpy()
    texts = _Texts()
    told = []
    for r, q, common in zip(row.tolist(), previous.tolist(), shared.tolist(), strict=True):
        words = texts.of(tokenizers[source[r]])
        place = _place(tree, int(leaf[q]), int(leaf[r]), common, int(step[r]), words, bool(compaction[r]))
        if place is not None:
            told.append((int(ids[r]), int(ids[q]), common, *place))
    return pl.DataFrame(told, schema=polars_schema(DIVERGENCES), orient="row")


def _in_sessions(session: pl.Series, turn: pl.Series) -> NDArray[np.int64]:
    """The rows that have a session, session by session and by turn within."""
    known = np.flatnonzero(session.is_not_null().to_numpy())
    if not known.size:
        return known
    codes = session.gather(known).to_numpy()
    first = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    order = np.empty(known.size, np.int64)
    order[first[codes] + turn.gather(known).to_numpy()] = known
    return order


class _Vocabulary:
    """The bytes of every token id, and which hold a line end; made when the first text is read."""

    def __init__(self, vocabulary: Callable[[], list[bytes]], single_bytes: bool) -> None:
        self._vocabulary = vocabulary
        self.single_bytes = single_bytes  # whether a token is a byte

    @cached_property
    def tokens(self) -> list[bytes]:
        """The bytes of each token, by its id."""
        return self._vocabulary()

    @cached_property
    def line_end(self) -> NDArray[np.bool_]:
        """Whether a token holds a line end, by its id."""
        return np.array([b"\n" in token for token in self.tokens], np.bool_)

    def text(self, units: NDArray[np.uint64]) -> str | None:
        """The text of token ids; None where they are no ids of this vocabulary."""
        if units.size and int(units.max()) >= len(self.tokens):
            return None
        return b"".join([self.tokens[unit] for unit in units.tolist()]).decode("utf-8", "replace")

    def grew(self, q: Units, k: Units, at: int) -> bool:
        """Whether the text of q behind `at` is what the text of k begins with there."""
        if not (q.explicit[at:].all() and k.explicit[at : at + MERGED_TOKENS + 1].all()):
            return False
        rest, more = q.id[at:], k.id[at : at + MERGED_TOKENS + 1]
        if max(int(rest.max(initial=0)), int(more.max(initial=0))) >= len(self.tokens):
            return False
        before, after = (b"".join([self.tokens[unit] for unit in ids.tolist()]) for ids in (rest, more))
        return after.startswith(before)


class _Texts:
    """Vocabularies by name, loaded when the first divergence asks; None where token ids cannot be read."""

    def __init__(self) -> None:
        self._known: dict[str | None, _Vocabulary | None] = {None: None}

    def of(self, name: str | None) -> _Vocabulary | None:
        """The vocabulary of the tokenizer called `name`."""
        if name not in self._known:
            try:
                vocabulary = load_tokenizer(name or "").vocabulary
            except ValueError:
                vocabulary = None
            self._known[name] = None if vocabulary is None else _Vocabulary(vocabulary, name == "bytes")
        return self._known[name]


def _place(
    tree: PrefixTree, leaf_q: int, leaf_k: int, common: int, native: int, words: _Vocabulary | None, compaction: bool
) -> tuple[Any, ...] | None:
    """(role, message, line_token, line_tokens, previous_line_tokens, resumed_tokens, keeps_end, kind) of one pair;
    None where the text only grew and its last token became part of another."""
    begin = max(0, common - LOOK_BACK_TOKENS * native) // native * native
    q, k = _units(tree, leaf_q, begin), _units(tree, leaf_k, begin)
    at = (common - begin) // native
    if words is not None and len(q.id) - at <= MERGED_TOKENS and words.grew(q, k, at):
        return None
    message = _message(tree, leaf_k, common)
    span = _span(q, k, at, native, words)
    window = max(1, END_TOKENS // native)
    tail_q, tail_k = common_tail(q.id, q.explicit, k.id, k.explicit, at, window)
    if tail_q < 0 and words is not None:  # its last token may have become part of another
        tail_q, tail_k = common_tail(q.id[:-1], q.explicit[:-1], k.id, k.explicit, at, window)
    if tail_q < 0 and _in_last(q, k, at):
        tail_q, tail_k = _last_tail(q, k, at, span.least // 2)
    role_q, role_k = _role(q, at), _role(k, at)
    kind = None
    if native == 1:
        shape = _shape(q, k, at, span, int(tail_q), int(tail_k), words, compaction)
        if span.alike > 0 and not shape.resumed:
            span = span._replace(cut_q=span.first_q, cut_k=span.first_k, alike=0)
        stop_q, stop_k = span.cut_q, span.cut_k
        if span.alike == 0 and tail_q >= 0 and shape.dropped <= 0:
            stop_q, stop_k = int(tail_q), int(tail_k)
        elif span.alike == 0 and (shape.resumed or _in_last(q, k, at)):
            stop_q, stop_k = len(q.id), _message_end(k, at) if k.role[at] != TEMPLATE else at
        before = _side(q, span, span.first_q, stop_q, at, words)
        after = _side(k, span, span.first_k, stop_k, at, words)
        kind = name_kind(before, after, shape)
    # where something was taken out, what follows it is no part of the change
    role = role_q if span.cut_k == span.line or kind == "stripped_reasoning" or role_k == "unknown" else role_k
    if kind == "stripped_reasoning" and "reasoning" in (role_q, role_k):
        role = "reasoning"
    return (
        role,
        message,
        begin + span.line * native,
        int(k.tokens[span.line : span.cut_k].sum()),
        int(q.tokens[span.line : span.cut_q].sum()),
        int(k.tokens[span.cut_k : span.cut_k + span.alike].sum()),
        bool(tail_q >= 0),
        kind,
    )


def _shape(
    q: Units, k: Units, at: int, span: _Span, tail_q: int, tail_k: int, words: _Vocabulary | None, compaction: bool
) -> Shape:
    """What became of the messages at the place where two prompts part."""
    # little that is alike may be what every message has around it, unless one of the two ends with it, or as before
    strong = span.alike >= 4 * span.least  # so much is no chance
    over = span.cut_q + span.alike + 1 >= len(q.id)
    resumed = (span.alike > 0 and (strong or over or tail_q >= 0)) or _cut_short(q, k, at)
    whole = min(span.cut_q, span.cut_k) == span.line == span.framed and _frames(q, span.line, span.line + 1) > 0
    kept = tail_q >= 0
    stop_q, stop_k = (tail_q, tail_k) if kept else (span.cut_q, span.cut_k)
    dropped = _messages(q, span.framed, stop_q, words) - _messages(k, span.framed, stop_k, words) if kept else 0
    skips = False
    if dropped > 1 or not (kept or strong):
        behind = _message_end(q, at) if (q.role == TEMPLATE).any() else at + 1
        first = min(stop_k if kept else len(k.id), max(_message_end(k, at), at + 2 * span.least), at + 16 * span.least)
        share, place = found_ahead(
            q.id, q.explicit, k.id, k.explicit, at, first, behind, span.least
        )  # fmt: skip
        fresh = int(np.count_nonzero(k.role[at:stop_k] != TEMPLATE)) if kept else len(k.id)
        skips = share >= 0.5 and (place >= 0 or fresh < 4)
        half = span.least // 2
        if not skips and _text_end(k, at) - at < 2 * span.least:  # a short text, and what has none changed behind it
            share, place = found_ahead(q.id, q.explicit, k.id, k.explicit, at, at + half, behind, half)
            skips = place >= 0 and at + half <= len(k.id)
        if skips and not kept:
            stop_q, stop_k = int(place), at
            dropped = _messages(q, span.framed, stop_q, words)
    if span.alike > 0 and resumed and not skips and (dropped < 2 or strong):
        stop_q, stop_k = span.cut_q, span.cut_k
        dropped = _messages(q, span.framed, stop_q, words) - _messages(k, span.framed, stop_k, words)
    elif not (kept or skips):
        more, bare = _put_in(q, k, span.framed, at), _lost_reasoning(q, k, at, span.least // 2)
        return Shape(resumed, whole, -int(more), compaction=compaction, unreasoned=bare)
    total = int(q.tokens.sum())
    return Shape(
        resumed, whole, dropped, float(q.tokens[at:stop_q].sum()) / total if total else 0.0, skips, kept, compaction,
        _lost_reasoning(q, k, at, span.least // 2),
    )  # fmt: skip


def _put_in(q: Units, k: Units, framed: int, at: int) -> bool:
    """Whether the later prompt has a message more there, and goes on behind it as the earlier one does."""
    stop, size = _message_end(k, at), END_TOKENS // 4
    if framed + size > len(q.id) or stop + size > len(k.id) or q.role[framed] != TEMPLATE:
        return False
    if (q.id[framed : framed + size] == k.id[stop : stop + size]).all():
        return True
    # or with most of the same message
    q_end, k_end = min(_message_end(q, framed), framed + 32 * size), _message_end(k, stop)
    share, _ = found_ahead(k.id[:k_end], k.explicit[:k_end], q.id, q.explicit, at, q_end, stop, size // 2)
    return bool(q_end - at >= 2 * size and share >= 0.1)


def _lost_reasoning(q: Units, k: Units, at: int, least: int) -> bool:
    """Whether the later prompt goes on with what stands right behind the earlier one's reasoning there."""
    if at >= len(q.id) or q.role[at] != REASONING:
        return False
    start = at
    while start > 0 and q.role[start - 1] == REASONING:
        start -= 1
    behind = np.flatnonzero(q.role[at:] != REASONING)
    if not behind.size or start >= len(k.id) or k.role[start] == REASONING:
        return False
    stop = at + int(behind[0])
    size = min(least, len(q.id) - stop)
    if size >= min(4, least) and np.array_equal(q.id[stop : stop + size], k.id[start : start + size]):
        return True
    # or with the same answer, that begins otherwise
    q_end, k_end = _message_end(q, stop), min(_message_end(k, start), start + 32 * least)
    if k_end - start < 2 * least or q_end - stop < 2 * least:
        return False
    share, _ = found_ahead(q.id[:q_end], q.explicit[:q_end], k.id, k.explicit, start, k_end, stop, least)
    return bool(share >= 0.5)


def _text_end(units: Units, at: int) -> int:
    """Where the text that unit `at` is in (or its message begins with) ends."""
    begin = at
    while begin < len(units.role) and units.role[begin] == TEMPLATE:
        begin += 1
    rest = np.flatnonzero((units.role[begin:] == TEMPLATE) | ~units.explicit[begin:])
    return begin + int(rest[0]) if rest.size else len(units.role)


def _cut_short(q: Units, k: Units, at: int) -> bool:
    """Whether the earlier prompt's last message lost its end, or its last part, and nothing else: no branch begins
    within a message."""
    if not _in_last(q, k, at) or q.role[at - 1] == TEMPLATE:
        return False
    return bool(k.role[at] == TEMPLATE or q.role[at] != q.role[at - 1])


def _in_last(q: Units, k: Units, at: int) -> bool:
    """Whether two prompts part within the earlier one's last message."""
    if not 0 < at < min(len(q.id), len(k.id)):
        return False
    return not (q.role[at:] == TEMPLATE).any() and bool((q.role == TEMPLATE).any())


def _last_tail(q: Units, k: Units, at: int, least: int) -> tuple[int, int]:
    """Where the end of the earlier prompt's last message, which is the end of the same message in the later prompt too,
    begins in both; (-1, -1) where it is another message: less than `least` units are alike there, and less than half of
    it in all."""
    stop_q, stop_k = len(q.id), _message_end(k, at)
    size = min(stop_q, stop_k) - at
    differ = q.id[stop_q - size : stop_q][::-1] != k.id[stop_k - size : stop_k][::-1]
    alike = int(differ.argmax()) if differ.any() else size
    framing = np.flatnonzero(q.role[:at] == TEMPLATE)
    begin = int(framing[-1]) + 1 if framing.size else 0
    same = alike >= max(1, least) or 2 * (at - begin + alike) >= max(stop_q, stop_k) - begin
    return (stop_q - alike, stop_k - alike) if same else (-1, -1)


def _message_end(units: Units, at: int) -> int:
    """Where the message that holds unit `at` (or begins there) ends."""
    framing = units.role[at:] == TEMPLATE
    begin = int(np.argmin(framing)) if framing.size and framing[0] else 0
    rest = np.flatnonzero(framing[begin:])
    return at + begin + int(rest[0]) if rest.size else len(units.role)


def _messages(units: Units, start: int, stop: int, words: _Vocabulary | None) -> int:
    """How many messages begin in a stretch: by their frames, or where a prompt is one text by its template's marks."""
    framed = _frames(units, start, stop)
    if framed or words is None or (units.role[start:stop] != UNKNOWN).any():
        return framed
    text = _text(units, start, min(stop, start + 16 * READ_UNITS), words)
    return len(SPEAKER.findall(text)) if text else 0


def _frames(units: Units, start: int, stop: int) -> int:
    framing = units.role[max(0, start - 1) : stop] == TEMPLATE
    if start > 0:
        framing[0] = False  # a frame that begins before the stretch is counted where it begins
        return int(np.count_nonzero(framing[1:] & (units.role[start - 1 : stop - 1] != TEMPLATE)))
    return int(np.count_nonzero(framing[1:] & ~framing[:-1])) + int(framing[:1].any())


def _units(tree: PrefixTree, leaf: int, begin: int) -> Units:
    nodes = tree.nodes
    return Units(
        *units_from(
            nodes.parent, nodes.start, nodes.end, nodes.per_unit, nodes.offset, nodes.value, nodes.role, nodes.pool,
            leaf, begin, LONGEST_HIDDEN_RUN,
        )
    )  # fmt: skip


def _role(units: Units, at: int) -> str:
    """The role of unit `at`, of what follows it where it only frames a message."""
    ahead = units.role[at : at + 16]
    told = ahead[ahead != TEMPLATE]
    return ROLES[int(told[0])] if told.size else "unknown"


def _side(units: Units, span: _Span, first: int, cut: int, at: int, words: _Vocabulary | None) -> Side:
    """What there is to read of a side; its first line ends at `first`, its changed lines at `cut`."""
    line = span.line
    # where nothing is left behind the place where they part, what stands there is no part of the change
    role = _role(units, at) if cut > at else _role(units, max(line, at - 1)) if cut > line else _role(units, line)
    text = "" if cut == line else _text(units, line, min(cut, line + READ_UNITS), words)
    shown = _text(units, line, min(first, cut, line + READ_UNITS), words) or ""
    ahead = _text(units, line, line + AHEAD_UNITS, words) or ""
    begins = line < len(units.role) and units.role[line] == TEMPLATE
    head = "" if begins else _text(units, _part_start(units, line), line, words) or ""
    if role == "unknown":
        head = "" if SPEAKER.match(ahead.lstrip("\n")) else SPEAKER.split(head)[-1].lstrip("\n")
    return Side(role, text, shown, ahead, line + AHEAD_UNITS >= len(units.id), head)


def _part_start(units: Units, line: int) -> int:
    """Where the part that holds the lines from `line` on begins, as far as it is read."""
    start = max(0, line - HEAD_UNITS)
    if line == start:
        return line
    before = units.role[start:line]
    others = np.flatnonzero((before != before[-1]) | ~units.explicit[start:line])
    if before[-1] == TEMPLATE:
        return line
    return start + int(others[-1]) + 1 if others.size else start


def _text(units: Units, start: int, stop: int, words: _Vocabulary | None) -> str | None:
    """The text of a stretch; None where nothing of it can be read."""
    told = units.id[start:stop][units.explicit[start:stop]]
    return words.text(told) if words is not None and told.size else None


def _line_ends(units: Units, native: int, words: _Vocabulary | None) -> NDArray[np.bool_]:
    """Per unit: a line ends with it."""
    count = len(units.id)
    if native > 1:
        return np.ones(count, np.bool_)
    ends = np.zeros(count, np.bool_)
    if count:
        # a part ends where the role changes, and where known text meets what is not known
        ends[:-1] = (units.role[1:] != units.role[:-1]) | (units.explicit[1:] != units.explicit[:-1])
        ends[:-1] |= units.starts[1:] & ~units.explicit[:-1]
        # what frames a message is no line of its own
        ends &= units.role != TEMPLATE
        ends[-1] = True
    if words is not None and units.explicit.any():
        known = units.explicit & (units.id < len(words.tokens))
        ends[known] |= words.line_end[units.id[known].astype(np.int64)]
    return ends


class _Span(NamedTuple):
    """Changed lines, in units of a stretch: where they begin in both, where the frame of their message does, where the
    first line and all of them end in the earlier (q) and the later prompt (k), how many units are alike behind them,
    and how many are more than chance."""

    line: int
    framed: int
    first_q: int
    first_k: int
    cut_q: int
    cut_k: int
    alike: int
    least: int


def _span(q: Units, k: Units, at: int, native: int, words: _Vocabulary | None) -> _Span:
    ends_q, ends_k = _line_ends(q, native, words), _line_ends(k, native, words)
    line = at
    while line > 0 and not ends_k[line - 1] and k.role[line - 1] != TEMPLATE:
        line -= 1
    framed = line
    while framed > 0 and k.role[framed - 1] == TEMPLATE:
        framed -= 1  # a message that is put in, or taken out, goes with its frame
    cuts_q, cuts_k = _cuts(q, ends_q, framed, line, at, native), _cuts(k, ends_k, framed, line, at, native)
    single_bytes = words is not None and words.single_bytes
    least = max(1, (4 * LEAST_ALIKE_TOKENS if single_bytes else LEAST_ALIKE_TOKENS) // native)
    cut_q, cut_k, alike = resume(q.id, q.explicit, k.id, k.explicit, cuts_q, cuts_k, at, least)
    if min(cut_q, cut_k) == framed:
        line = framed
    first_q, first_k = _first(ends_q, line, at), _first(ends_k, line, at)
    if alike == 0:
        cut_q, cut_k = first_q, first_k
    return _Span(line, framed, first_q, first_k, int(cut_q), int(cut_k), int(alike), least)


def _first(ends: NDArray[np.bool_], line: int, at: int) -> int:
    """Where the line that holds the first difference ends; `at` where it ended right before."""
    if line < at and (ends[at - 1] or at == len(ends)):
        return at
    found = np.flatnonzero(ends[at : at + 16 * LOOK_BACK_TOKENS])
    return at + int(found[0]) + 1 if found.size else len(ends)


def _cuts(units: Units, ends: NDArray[np.bool_], framed: int, line: int, at: int, native: int) -> NDArray[np.int64]:
    """Where lines end that a change may reach to: not at all, before its message's frame or behind it; at the place
    where prompts part, if a line ends right there; behind the next lines; behind the next messages."""
    window = ends[at : at + 16 * LOOK_BACK_TOKENS]
    found = at + np.flatnonzero(window)
    cuts = {framed, line, *(found[:MOST_LINES] + 1).tolist()}
    if at > 0 and (ends[at - 1] or at == len(ends)):
        cuts.add(at)
    if native == 1:
        framing = units.role[at : at + 16 * LOOK_BACK_TOKENS] == TEMPLATE
        starts = at + 1 + np.flatnonzero(framing[1:] & ~framing[:-1])
        cuts.update(starts[:MOST_MESSAGES].tolist())
        if framing[:1].any() and units.role[at - 1] != TEMPLATE:
            cuts.add(at)
    if len(cuts) < 3 or found.size <= MOST_LINES:
        cuts.add(len(ends))
    return np.array(sorted(cuts), np.int64)


def _message(tree: PrefixTree, leaf: int, common: int) -> int:
    nodes = tree.nodes
    return int(parts_before(nodes.parent, nodes.start, nodes.end, nodes.role, leaf, common, TEMPLATE))
