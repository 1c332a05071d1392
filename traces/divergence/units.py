"""Stretches of prompts unit by unit, the text of their units, and the lines that a change spans."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from traces.records import ROLES
from traces.text.kept_texts import KeptTexts
from traces.text.tokens import load_tokenizer
from traces.tree.prefixes import PrefixTree
from traces.tree.prompt_pairs import resume, units_from

SPEAKER = re.compile(
    r"^(?:<\|(?!\w*end|eot)[\w ]+\|>\w*"
    r"|[^\w\n]{0,3}(?:human|user|assistant|tool|tool_result|observation|model|ai|bot)[^\w\n]{0,3})[^\S\n]*$"
    r"|^(?:human|user|assistant|tool): |<start_of_turn>|\[INST\]|<\|(?:im_start|start_header_id|start)\|>",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a message begins in a prompt that is one text."""


MERGED_TOKENS = 4
"""Tokens at the end of a text that become others when it continues: "." and a line end are one token."""

LONGEST_HIDDEN_RUN = 16_384
"""This many units of a run without known content are distinguished; the rest of the run counts as one unit, because
counts may be any number."""

READ_UNITS = 8000
"""How much of changed lines is read to name them."""

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


class Vocabulary:
    """The bytes of every token id, and which hold a line end; made when the first text is read."""

    def __init__(self, vocabulary: Callable[[], list[bytes]], single_bytes: bool, kept: KeptTexts) -> None:
        self._vocabulary = vocabulary
        self.kept = kept
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
        """Whether the text of k at `at` begins with the text of q after `at`."""
        if not (q.explicit[at:].all() and k.explicit[at : at + MERGED_TOKENS + 1].all()):
            return False
        rest, more = q.id[at:], k.id[at : at + MERGED_TOKENS + 1]
        if max(int(rest.max(initial=0)), int(more.max(initial=0))) >= len(self.tokens):
            return False
        before, after = (b"".join([self.tokens[unit] for unit in ids.tolist()]) for ids in (rest, more))
        return after.startswith(before)


class Vocabularies:
    """Vocabularies by name, loaded when the first divergence asks; None where token ids cannot be read."""

    def __init__(self, kept: KeptTexts) -> None:
        self._kept = kept
        self._known: dict[str | None, Vocabulary | None] = {None: None}

    def of(self, name: str | None) -> Vocabulary | None:
        """The vocabulary of the tokenizer called `name`."""
        if name not in self._known:
            try:
                vocabulary = load_tokenizer(name or "").vocabulary
            except ValueError:
                vocabulary = None
            self._known[name] = None if vocabulary is None else Vocabulary(vocabulary, name == "bytes", self._kept)
        return self._known[name]


def units_of(tree: PrefixTree, leaf: int, begin: int) -> Units:
    """The prompt that ends at node `leaf`, from token `begin` on."""
    nodes = tree.nodes
    return Units(
        *units_from(
            nodes.parent, nodes.start, nodes.end, nodes.per_unit, nodes.offset, nodes.value, nodes.role, nodes.pool,
            leaf, begin, LONGEST_HIDDEN_RUN,
        )
    )  # fmt: skip


def role_at(units: Units, at: int) -> str:
    """The role of unit `at`, of what follows it where it only frames a message."""
    ahead = units.role[at : at + 16]
    known = ahead[ahead != TEMPLATE]
    return ROLES[int(known[0])] if known.size else "unknown"


def text_of(units: Units, start: int, stop: int, words: Vocabulary | None) -> str | None:
    """The text of a stretch; None where nothing of it can be read."""
    ids = units.id[start:stop][units.explicit[start:stop]]
    if words is not None and ids.size:
        return words.text(ids)
    if words is None:
        return None
    begins = units.id[start:stop][units.starts[start:stop] & (units.role[start:stop] != TEMPLATE)]
    texts = [words.kept.get(int(key)) for key in begins.tolist()]
    return "".join(text for text in texts if text is not None) if any(texts) else None


def message_end(units: Units, at: int) -> int:
    """Where the message that holds unit `at` (or begins there) ends."""
    framing = units.role[at:] == TEMPLATE
    begin = int(np.argmin(framing)) if framing.size and framing[0] else 0
    rest = np.flatnonzero(framing[begin:])
    return at + begin + int(rest[0]) if rest.size else len(units.role)


def messages(units: Units, start: int, stop: int, words: Vocabulary | None) -> int:
    """How many messages begin in a stretch: by their frames, or where a prompt is one text by its template's marks."""
    framed = frames(units, start, stop)
    if framed or words is None or (units.role[start:stop] != UNKNOWN).any():
        return framed
    text = text_of(units, start, min(stop, start + 16 * READ_UNITS), words)
    return len(SPEAKER.findall(text)) if text else 0


def frames(units: Units, start: int, stop: int) -> int:
    """How many messages' frames begin in a stretch."""
    framing = units.role[max(0, start - 1) : stop] == TEMPLATE
    if start > 0:
        framing[0] = False  # a frame that begins before the stretch is counted where it begins
        return int(np.count_nonzero(framing[1:] & (units.role[start - 1 : stop - 1] != TEMPLATE)))
    return int(np.count_nonzero(framing[1:] & ~framing[:-1])) + int(framing[:1].any())


LOOK_BACK_TOKENS = 4096
"""A line is searched for at most this far before the place where prompts part."""

MOST_LINES = 24
"""Lines of either prompt that a change may span; what is longer is not resumed after."""

LEAST_ALIKE_TOKENS = 16
"""Fewer tokens alike after a change are chance; four times as many where a token is a byte."""

END_TOKENS = 64
"""How much of a prompt's end is looked for in the next one."""

MOST_MESSAGES = 8
"""Messages of either prompt that a change may span."""


class Span(NamedTuple):
    """Changed lines, in units of a stretch: where they begin in both, where the frame of their message does, where the
    first line and all of them end in the earlier (q) and the later prompt (k), how many units are alike after them,
    and how many are more than chance."""

    line: int
    framed: int
    first_q: int
    first_k: int
    cut_q: int
    cut_k: int
    alike: int
    least: int


def span_of(q: Units, k: Units, at: int, native: int, words: Vocabulary | None) -> Span:
    """The changed lines of two stretches that part at unit `at`; `native`: tokens of a unit."""
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
    return Span(line, framed, first_q, first_k, int(cut_q), int(cut_k), int(alike), least)


def _line_ends(units: Units, native: int, words: Vocabulary | None) -> NDArray[np.bool_]:
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


def _first(ends: NDArray[np.bool_], line: int, at: int) -> int:
    """Where the line that holds the first difference ends; `at` where it ended right before."""
    if line < at and (ends[at - 1] or at == len(ends)):
        return at
    found = np.flatnonzero(ends[at : at + 16 * LOOK_BACK_TOKENS])
    return at + int(found[0]) + 1 if found.size else len(ends)


def _cuts(units: Units, ends: NDArray[np.bool_], framed: int, line: int, at: int, native: int) -> NDArray[np.int64]:
    """The places up to which a change may extend: nowhere, the frame of its message, the line before it; the place
    where the prompts differ, if a line ends there; the ends of the next lines, and of the next messages."""
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
