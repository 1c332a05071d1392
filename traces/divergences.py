"""Where the consecutive prompts of a session part: found while their units are at hand, stored as lengths and a kind.

A *line* is what a change replaces: of text the line in which two prompts part (or the whole part of a message, where
its text is not known), of hash traces a native block. Behind the changed lines prompts often go on alike: how far is
kept too, so that what a change costs can be recomputed without any text.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numba import njit
from numpy.typing import NDArray

from traces.divergence_kinds import Side, name_kind
from traces.prefixes import PrefixTree
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
    row, previous, shared = _pairs(nodes["parent"], nodes["end"], leaf, rows["session_id"].fill_null(-1).to_numpy(),
                                   step, order)  # fmt: skip
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
        bool(_holds_end(q.id, q.explicit, k.id, k.explicit, at, max(1, END_TOKENS // native))),
        kind,
    )


def _units(tree: PrefixTree, leaf: int, begin: int) -> Units:
    nodes = tree.nodes
    return Units(
        *_gather(
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
    cut_q, cut_k, alike = _resume(q.id, q.explicit, k.id, k.explicit, cuts_q, cuts_k, least)
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
    return int(_parts_before(nodes.parent, nodes.start, nodes.end, nodes.role, leaf, common, TEMPLATE))


@njit(cache=True)
def _parts_before(parent: Any, start: Any, end: Any, role: Any, leaf: Any, common: Any, template: Any) -> Any:
    """How many parts of messages come before the one that holds token `common`."""
    depth = 0
    node = leaf
    while node > 0:
        depth += 1
        node = parent[node]
    path = np.empty(depth, np.int64)
    node = leaf
    for i in range(depth - 1, -1, -1):
        path[i] = node
        node = parent[node]
    parts = 0
    last = -1
    for node in path:
        if start[node] > common:
            break
        if role[node] == template:
            last = -1
        elif role[node] != last:
            parts += 1
            last = role[node]
    return parts - 1 if last >= 0 else parts


@njit(cache=True)
def _pairs(parent: Any, end: Any, leaf: Any, session: Any, native: Any, order: Any) -> Any:
    count = len(order)
    row = np.empty(count, np.int64)
    previous = np.empty(count, np.int64)
    shared = np.empty(count, np.int64)
    found = 0
    q = -1
    for r in order:
        if q >= 0 and session[q] != session[r]:
            q = -1
        if leaf[r] < 0:
            continue
        if q >= 0:
            a, b = leaf[q], leaf[r]
            while a != b:  # parents may have larger ids, so the deeper end climbs
                if end[a] > end[b] or (end[a] == end[b] and a != 0):
                    a = parent[a]
                else:
                    b = parent[b]
            step = native[r]
            if end[a] < min(end[leaf[q]], end[leaf[r]]) // step * step:
                row[found] = r
                previous[found] = q
                shared[found] = end[a] // step * step
                found += 1
        q = r
    return row[:found], previous[:found], shared[:found]


@njit(cache=True)
def _gather(
    parent: Any,
    start: Any,
    end: Any,
    per_unit: Any,
    offset: Any,
    value: Any,
    role: Any,
    pool: Any,
    leaf: Any,
    begin: Any,
    longest: Any,
) -> Any:
    """Units of the path to `leaf` from token `begin` on; of a virtual run `longest` units and the rest as one."""
    count = 0
    node = leaf
    while node > 0 and end[node] > begin:
        units = (end[node] - start[node]) // per_unit[node] - max(0, (begin - start[node]) // per_unit[node])
        count += units if offset[node] >= 0 else min(units, longest + 1)
        node = parent[node]
    ids = np.empty(count, np.uint64)
    explicit = np.empty(count, np.bool_)
    roles = np.empty(count, np.int8)
    tokens = np.empty(count, np.int64)
    starts = np.zeros(count, np.bool_)
    at = count
    node = leaf
    while node > 0 and end[node] > begin:
        skip = max(0, (begin - start[node]) // per_unit[node])
        units = (end[node] - start[node]) // per_unit[node] - skip
        shown = units if offset[node] >= 0 else min(units, longest + 1)
        at -= shown
        for i in range(shown):
            if offset[node] >= 0:
                ids[at + i] = pool[offset[node] + skip + i]
            else:
                ids[at + i] = value[node] + np.uint64(skip + i)
        explicit[at : at + shown] = offset[node] >= 0
        roles[at : at + shown] = role[node]
        tokens[at : at + shown] = per_unit[node]
        if shown < units:
            tokens[at + longest] = per_unit[node] * (units - longest)
            ids[at + longest] ^= np.uint64(units) << np.uint64(16)  # alike only where as much is left
        starts[at] = skip == 0
        node = parent[node]
    return ids, explicit, roles, tokens, starts


@njit(cache=True)
def _resume(ids_q: Any, explicit_q: Any, ids_k: Any, explicit_k: Any, cuts_q: Any, cuts_k: Any, least: Any) -> Any:
    """The ends of the fewest changed lines behind which the two go on alike, and how far; else one line each, and 0.

    Alike are at least `least` units, or a quarter of that where a prompt ends with them.
    """
    for lines in range(1, len(cuts_q) + len(cuts_k) - 1):
        best = 0
        found_q, found_k = 0, 0
        for i in range(lines + 1):
            j = lines - i
            if i >= len(cuts_q) or j >= len(cuts_k):
                continue
            a, b = cuts_q[i], cuts_k[j]
            left = min(len(ids_q) - a, len(ids_k) - b)
            same = 0
            while same < left and ids_q[a + same] == ids_k[b + same] and explicit_q[a + same] == explicit_k[b + same]:
                same += 1
            if same > best and (same >= least or (same == left and lines <= 3 and 4 * same >= least)):
                best = same
                found_q, found_k = a, b
        if best > 0:
            return found_q, found_k, best
    return cuts_q[1], cuts_k[1], 0


@njit(cache=True)
def _holds_end(ids_q: Any, explicit_q: Any, ids_k: Any, explicit_k: Any, at: Any, window: Any) -> bool:
    """Whether the last `window` units of q, behind `at`, stand somewhere in k behind `at`."""
    size = min(window, len(ids_q) - at)
    if size < window // 4 or size < 1:
        return False
    first = len(ids_q) - size
    for b in range(at, len(ids_k) - size + 1):
        i = 0
        while i < size and ids_q[first + i] == ids_k[b + i] and explicit_q[first + i] == explicit_k[b + i]:
            i += 1
        if i == size:
            return True
    return False
