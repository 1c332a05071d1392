"""Where the consecutive prompts of a session part: found while their units are at hand, stored as lengths and a kind.

A *line* is what a change replaces: of text the line in which two prompts part (or the whole part of a message, where
its text is not known), of hash traces a native block. Behind the changed lines prompts often go on alike: how far is
kept too, so that what a change costs can be recomputed without any text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from traces.divergence_kinds import Side, name_kind
from traces.prefixes import PrefixTree
from traces.prompt_pairs import holds_end, pairs_that_part, parts_before, resume, units_from
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

READ_UNITS = 2000
"""How much of changed lines is read to name them."""

AHEAD_UNITS = 500
"""How much is read of what follows, changed or not."""

LONGEST_HIDDEN_RUN = 16_384
"""So many units of a run without known content are told apart, the rest of it is one: counts may be any number."""

TEMPLATE = ROLES.index("template")


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
    """The bytes of every token id, and which hold a line end."""

    def __init__(self, tokens: list[bytes]) -> None:
        self.tokens = tokens
        self.line_end = np.array([b"\n" in token for token in tokens], np.bool_)

    def text(self, units: NDArray[np.uint64]) -> str | None:
        """The text of token ids; None where they are no ids of this vocabulary."""
        if units.size and int(units.max()) >= len(self.tokens):
            return None
        return b"".join([self.tokens[unit] for unit in units.tolist()]).decode("utf-8", "replace")


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
            self._known[name] = None if vocabulary is None else _Vocabulary(vocabulary())
        return self._known[name]


def _place(
    tree: PrefixTree, leaf_q: int, leaf_k: int, common: int, native: int, words: _Vocabulary | None, compaction: bool
) -> tuple[Any, ...]:
    """(role, message, line_token, line_tokens, previous_line_tokens, resumed_tokens, keeps_end, kind) of one pair."""
    begin = max(0, common - LOOK_BACK_TOKENS * native) // native * native
    q, k = _units(tree, leaf_q, begin), _units(tree, leaf_k, begin)
    at = (common - begin) // native
    message = _message(tree, leaf_k, common)
    span = _span(q, k, at, native, words)
    role_q, role_k = _role(q, at), _role(k, at)
    kind = None
    if native == 1:
        before = _side(q, span.line, span.first_q, span.cut_q, role_q, words)
        after = _side(k, span.line, span.first_k, span.cut_k, role_k, words)
        over = len(q.id) - span.cut_q < span.least
        kind = name_kind(before, after, span.alike > 0 or over, compaction)
    role = role_q if kind == "stripped_reasoning" or role_k == "unknown" else role_k
    return (
        role,
        message,
        begin + span.line * native,
        int(k.tokens[span.line : span.cut_k].sum()),
        int(q.tokens[span.line : span.cut_q].sum()),
        int(k.tokens[span.cut_k : span.cut_k + span.alike].sum()),
        bool(holds_end(q.id, q.explicit, k.id, k.explicit, at, max(1, END_TOKENS // native))),
        kind,
    )


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


def _side(units: Units, line: int, first: int, cut: int, role: str, words: _Vocabulary | None) -> Side:
    """What there is to read of a side; its first line ends at `first`, its changed lines at `cut`."""
    if cut == line:
        text: str | None = ""
    else:
        text = _text(units, line, min(cut, line + READ_UNITS), words)
    shown = _text(units, line, min(first, cut, line + READ_UNITS), words) or ""
    ahead = _text(units, line, line + AHEAD_UNITS, words) or ""
    return Side(role, text, shown, ahead, line + AHEAD_UNITS >= len(units.id))


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
    if words is not None and count:
        known = units.explicit & (units.id < len(words.tokens))
        ends[known] |= words.line_end[units.id[known].astype(np.int64)]
    return ends


class _Span(NamedTuple):
    """Changed lines, in units of a stretch: where they begin in both, where the first line and all of them end in the
    earlier (q) and the later prompt (k), how many units are alike behind them, and how many are more than chance."""

    line: int
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
    cuts_q, cuts_k = _cuts(ends_q, framed, at), _cuts(ends_k, framed, at)
    single_bytes = words is not None and len(words.tokens) <= 256
    least = max(1, (4 * LEAST_ALIKE_TOKENS if single_bytes else LEAST_ALIKE_TOKENS) // native)
    cut_q, cut_k, alike = resume(q.id, q.explicit, k.id, k.explicit, cuts_q, cuts_k, least)
    if min(cut_q, cut_k) == framed:
        line = framed
    return _Span(line, int(cuts_q[1]), int(cuts_k[1]), int(cut_q), int(cut_k), int(alike), least)


def _cuts(ends: NDArray[np.bool_], line: int, at: int) -> NDArray[np.int64]:
    """Where the lines from `line` on end, the first of them behind `at`; `line` itself comes first."""
    found = at + np.flatnonzero(ends[at : at + 16 * LOOK_BACK_TOKENS])[:MOST_LINES] + 1
    if found.size == 0:
        found = np.array([len(ends)], np.int64)
    return np.concatenate([[line], found]).astype(np.int64)


def _message(tree: PrefixTree, leaf: int, common: int) -> int:
    nodes = tree.nodes
    return int(parts_before(nodes.parent, nodes.start, nodes.end, nodes.role, leaf, common, TEMPLATE))
