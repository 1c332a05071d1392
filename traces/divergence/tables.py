"""Where the consecutive prompts of a session part: found while their units are at hand, stored as lengths and a kind.

A *line* is what a change replaces: of text the line in which two prompts part (or the whole part of a message, where
its text is not known), of hash traces a native block. Behind the changed lines prompts often go on alike: how far is
kept too, so that what a change costs can be recomputed without any text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.divergence.kinds import name_kind
from traces.divergence.pieces import are_pieces, name_pieces, piece_behind
from traces.divergence.shapes import cut_short, in_last, last_tail, shape_of
from traces.divergence.sides import Side, further_lines
from traces.divergence.spans import END_TOKENS, LOOK_BACK_TOKENS, Span, span_of
from traces.divergence.units import (
    MERGED_TOKENS,
    READ_UNITS,
    TEMPLATE,
    Units,
    Vocabularies,
    Vocabulary,
    message_end,
    role_at,
    text_of,
    units_of,
)
from traces.divergence.words import SPEAKER
from traces.schema import DIVERGENCES, polars_schema
from traces.text.kept_texts import KeptTexts
from traces.tree.prefixes import PrefixTree
from traces.tree.prompt_pairs import common_tail, found_ahead, pairs_that_part, parts_before

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
) -> pl.DataFrame:
    """The `divergences` table.

    Args:
        tree: with its units.
        rows: request_id, session_id, turn, prefix_id, source_id and compaction of the requests, in any order.
        native: by source, its native block; 1 for text.
        tokenizers: by source; None where units are no token ids.
        kept: texts of pieces without token ids, as far as they are at hand.
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


def _place(
    tree: PrefixTree, leaf_q: int, leaf_k: int, common: int, native: int, words: Vocabulary | None, compaction: bool
) -> tuple[Any, ...] | None:
    """(role, message, line_token, line_tokens, previous_line_tokens, resumed_tokens, keeps_end, kind) of one pair;
    None where the text only grew and its last token became part of another."""
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
    kind = None
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
        before = _side(q, span, span.first_q, stop_q, at, words)
        after = _side(k, span, span.first_k, stop_k, at, words)
        if shape.dropped > 1 or not shape.resumed:
            behind = message_end(k, at)
            stop = message_end(k, behind)
            known, _ = found_ahead(
                q.id, q.explicit, k.id, k.explicit, behind, min(stop, behind + 4 * span.least), at, span.least
            )  # fmt: skip
            seen = stop - behind >= span.least and known >= 0.5  # the earlier prompt has it too
            told = None if seen else text_of(k, behind, min(stop, behind + READ_UNITS), words)
            after = after._replace(following=told or "")
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
    )


def _side(units: Units, span: Span, first: int, cut: int, at: int, words: Vocabulary | None) -> Side:
    """What there is to read of a side; its first line ends at `first`, its changed lines at `cut`."""
    line = span.line
    # where nothing is left behind the place where they part, what stands there is no part of the change
    role = role_at(units, at) if cut > at else role_at(units, max(line, at - 1)) if cut > line else role_at(units, line)
    text = "" if cut == line else text_of(units, line, min(cut, line + READ_UNITS), words)
    if text is None and words is not None and role != "image" and not units.explicit[line:cut].any():
        # the end of a piece that was given fewer tokens in the other prompt: what changed is behind it
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
