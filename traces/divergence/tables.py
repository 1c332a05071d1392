"""Where consecutive prompts of a session differ: found during an ingest, stored as lengths and a kind of change.

A *line* is what a change replaces: in text, the line in which two prompts differ (or the whole part of a message if its
text is not known); in hash traces, a native block. After the changed lines prompts are often equal again. The table
stores how far, so that the cost of a change can be recomputed without any text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.divergence.kinds import name_kind
from traces.divergence.notes import is_block, is_reminder
from traces.divergence.shapes import (
    LEAST_ALIKE_CHARS,
    Shape,
    Side,
    changed_lines,
    cut_short,
    further_lines,
    in_last,
    last_tail,
    shape_of,
)
from traces.divergence.units import (
    END_TOKENS,
    LOOK_BACK_TOKENS,
    MERGED_TOKENS,
    READ_UNITS,
    SPEAKER,
    TEMPLATE,
    Span,
    Units,
    Vocabularies,
    Vocabulary,
    message_end,
    role_at,
    span_of,
    text_of,
    units_of,
)
from traces.records import ROLES
from traces.schema import DIVERGENCES, polars_schema
from traces.text.kept_texts import KeptTexts
from traces.tree.prefixes import PrefixTree
from traces.tree.prompt_pairs import common_tail, found_ahead, pairs_that_part, parts_before

Excerpts = dict[tuple[int, int], tuple[str | None, str | None]]
"""(request_id, previous_request_id) -> the changed lines of the earlier and of the later prompt."""

HEAD_UNITS = 600
"""How much of a message is read before its changed lines."""

AHEAD_UNITS = 4000
"""How much is read of what follows, changed or not."""


def divergence_table(
    tree: PrefixTree,
    rows: pl.DataFrame,
    native: NDArray[np.int64],
    tokenizers: list[str | None],
    kept: KeptTexts | None = None,
    excerpts: Excerpts | None = None,
) -> pl.DataFrame:
    """The `divergences` table.

    Args:
        tree: with its units.
        rows: request_id, session_id, turn, prefix_id, source_id and compaction of the requests, in any order.
        native: by source, its native block; 1 for text.
        tokenizers: by source; None where units are no token ids.
        kept: texts of pieces without token ids, as far as they are at hand.
        excerpts: takes the changed lines of both prompts, by (request_id, previous_request_id).
    """
    nodes = tree.columns()
    leaf = rows["prefix_id"].fill_null(-1).to_numpy().astype(np.int64)
    source = rows["source_id"].to_numpy()
    step = native[source] if len(native) else np.ones(len(leaf), np.int64)
    order = _in_sessions(rows["session_id"], rows["turn"])
    session = rows["session_id"].fill_null(-1).to_numpy()
    row, previous, shared = pairs_that_part(nodes["parent"], nodes["end"], leaf, session, step, order)
    ids, compaction = rows["request_id"].to_numpy(), rows["compaction"].fill_null(False).to_numpy()
    texts = Vocabularies(kept or KeptTexts())
    divergences = []
    for r, q, common in zip(row.tolist(), previous.tolist(), shared.tolist(), strict=True):
        words = texts.of(tokenizers[source[r]])
        place = _place(tree, int(leaf[q]), int(leaf[r]), common, int(step[r]), words, bool(compaction[r]))
        if place is not None:
            pair, (*columns, before, after) = (int(ids[r]), int(ids[q])), place
            divergences.append((*pair, common, *columns))
            if excerpts is not None and (before or after):
                excerpts[pair] = before, after
    return pl.DataFrame(divergences, schema=polars_schema(DIVERGENCES), orient="row")


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


def _place(
    tree: PrefixTree, leaf_q: int, leaf_k: int, common: int, native: int, words: Vocabulary | None, compaction: bool
) -> tuple[Any, ...] | None:
    """(role, message, line_token, line_tokens, previous_line_tokens, resumed_tokens, keeps_end, kind) of one pair, then
    its changed lines before and after, null where unknown. None if the text only grew and its last token became part
    of another."""
    begin = max(0, common - LOOK_BACK_TOKENS * native) // native * native
    q, k = units_of(tree, leaf_q, begin), units_of(tree, leaf_k, begin)
    at = (common - begin) // native
    if words is not None and len(q.id) - at <= MERGED_TOKENS and words.grew(q, k, at):
        return None
    message = _message(tree, leaf_k, common)
    span = span_of(q, k, at, native, words)
    window = max(1, END_TOKENS // native)
    tail_q, tail_k = common_tail(q.id, q.explicit, k.id, k.explicit, at, window)
    if tail_q < 0 and words is not None:  # its last token may have become part of another
        tail_q, tail_k = common_tail(q.id[:-1], q.explicit[:-1], k.id, k.explicit, at, window)
    if tail_q < 0 and in_last(q, k, at):
        tail_q, tail_k = last_tail(q, k, at, span.least // 2)
    role_q, role_k = role_at(q, at), role_at(k, at)
    kind = was = becomes = None
    if native == 1:
        shape = shape_of(q, k, at, span, int(tail_q), int(tail_k), words, compaction)
        ended = cut_short(q, k, at) and k.role[at] == TEMPLATE  # what the last message ended with is gone
        if span.alike > 0 and (ended or not shape.resumed):
            span = span._replace(cut_q=span.first_q, cut_k=span.first_k, alike=0)
        stop_q, stop_k = span.cut_q, span.cut_k
        if span.alike == 0 and tail_q >= 0 and shape.dropped <= 0 and not ended:
            stop_q, stop_k = int(tail_q), int(tail_k)
        elif span.alike == 0 and (shape.resumed or in_last(q, k, at)):
            stop_q, stop_k = len(q.id), message_end(k, at) if k.role[at] != TEMPLATE else at
        while min(stop_q, stop_k) > at and not q.explicit[stop_q - 1] and q.id[stop_q - 1] == k.id[stop_k - 1]:
            stop_q, stop_k = stop_q - 1, stop_k - 1  # an image that both have after the change
        before = _side(q, span, span.first_q, stop_q, at, words)
        after = _side(k, span, span.first_k, stop_k, at, words)
        was, becomes = before.text, after.text
        if shape.dropped > 0 or role_q != role_k or not shape.resumed:
            behind = message_end(k, at)
            stop = message_end(k, behind)
            known, _ = found_ahead(
                q.id, q.explicit, k.id, k.explicit, behind, min(stop, behind + 4 * span.least), at, span.least
            )  # fmt: skip
            seen = stop - behind >= span.least and known >= 0.5  # the earlier prompt has it too
            text = None if seen else text_of(k, behind, min(stop, behind + READ_UNITS), words)
            after = after._replace(following=text or "")
        if words is not None and are_pieces(q, k, at, span.line, words):
            kind = name_pieces(q, k, span.line, words, before, after, shape)
        elif before.text and before.text == after.text:
            further = further_lines(before, after)
            kind = None if further is None else name_kind(*further, shape)
        else:
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
        was,
        becomes,
    )


def _side(units: Units, span: Span, first: int, cut: int, at: int, words: Vocabulary | None) -> Side:
    """What there is to read of a side; its first line ends at `first`, its changed lines at `cut`."""
    line = span.line
    # where nothing is left after the place where they part, what stands there is no part of the change
    role = role_at(units, at) if cut > at else role_at(units, max(line, at - 1)) if cut > line else role_at(units, line)
    text = "" if cut == line else text_of(units, line, min(cut, line + READ_UNITS), words)
    if text is None and words is not None and role != "image" and not units.explicit[line:cut].any():
        # the end of a piece that was given fewer tokens in the other prompt: what changed is after it
        first = cut = piece_behind(units, line, words)
        text = text_of(units, line, min(cut, line + READ_UNITS), words)
    shown = text_of(units, line, min(first, cut, line + READ_UNITS), words) or ""
    ahead = text_of(units, line, line + AHEAD_UNITS, words) or ""
    begins = line < len(units.role) and units.role[line] == TEMPLATE
    head = "" if begins else text_of(units, _part_start(units, line), line, words) or ""
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


def _message(tree: PrefixTree, leaf: int, common: int) -> int:
    nodes = tree.nodes
    return int(parts_before(nodes.parent, nodes.start, nodes.end, nodes.role, leaf, common, TEMPLATE))


# Prompts whose pieces are no token ids -------------------------------------------------------------------------------

IMAGE = ROLES.index("image")

PIECE_UNITS = 2000
"""How much is read of what follows a piece."""


def are_pieces(q: Units, k: Units, at: int, line: int, words: Vocabulary | None) -> bool:
    """Whether two prompts part where neither has token ids, and texts of pieces are at hand."""
    if words is None or q.explicit[at:].any() or k.explicit[at:].any():
        return False
    return any(piece_behind(units, line, words) > line for units in (q, k))


def piece_behind(units: Units, line: int, words: Vocabulary) -> int:
    """Where the first piece of known text ends that begins at `line` or soon after it; `line` where there is none."""
    begins = (line + np.flatnonzero(units.starts[line : line + 2 * READ_UNITS])).tolist()
    for at, end in zip(begins[:4], [*begins[1:], len(units.starts)], strict=False):
        if words.kept.get(int(units.id[at])) is not None:
            return int(end)
    return line


def name_pieces(
    q: Units, k: Units, line: int, words: Vocabulary, before: Side, after: Side, shape: Shape
) -> str | None:
    """The kind of what parts two prompts at the piece that begins at unit `line`; None also where only its length
    differs."""
    other = _other_pieces(q, k, line, words)
    roles = None if other is None else (role_at(q, other[0]), role_at(k, other[1]))
    if roles is not None and roles[0] == "image":
        return "image" if roles[1] == "image" or shape.dropped < 2 else name_kind(before, after, shape)
    if other is None or roles is None or (before.ends and before.ahead and after.ahead.startswith(before.ahead)):
        return None  # the earlier text continues
    sides = [_piece_side(units, at, role, words) for units, at, role in zip((q, k), other, roles, strict=True)]
    cut = changed_lines(before, after) or changed_lines(*sides)
    if cut is None and (_has_reminder(after, before) or _has_reminder(before, after)):
        return "reminder"
    if cut is None:
        further = further_lines(before, after) if before.text == after.text else (before, after)
        return None if further is None else name_kind(*further, shape)
    return name_kind(*cut, shape._replace(resumed=True, dropped=min(shape.dropped, 0)))


def _has_reminder(more: Side, less: Side) -> bool:
    """Whether one prompt has a reminder more as a message, and continues after it with what the other has there."""
    if more.role not in ("user", "system") or not more.text or not (is_reminder(more.text) or is_block(more.text)):
        return False
    rest = more.ahead.removeprefix(more.text)
    return rest != more.ahead and bool(less.ahead) and rest.startswith(less.ahead[:LEAST_ALIKE_CHARS])


def _other_pieces(q: Units, k: Units, line: int, words: Vocabulary) -> tuple[int, int] | None:
    """Where the first pieces begin, from `line` on, that are not the same in both; None where all are, as far as one of
    the two reaches."""
    for a, b in zip(_begins(q, line, words), _begins(k, line, words), strict=False):
        if q.id[a] != k.id[b]:
            return a, b
    return None


def _begins(units: Units, line: int, words: Vocabulary) -> list[int]:
    """Where pieces begin whose text is known, and images; the rest of a piece that is longer in one prompt does not."""
    window = slice(line, line + 2 * READ_UNITS)
    starts = (line + np.flatnonzero(units.starts[window] & (units.role[window] != TEMPLATE))).tolist()
    return [at for at in starts if units.role[at] == IMAGE or words.kept.get(int(units.id[at])) is not None]


def _piece_side(units: Units, at: int, role: str, words: Vocabulary) -> Side:
    ahead = text_of(units, at, at + PIECE_UNITS, words) or ""
    return Side(role, ahead, ahead, ahead, at + PIECE_UNITS >= len(units.id))
