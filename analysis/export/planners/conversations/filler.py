"""Placeholder text of a given length: common short words, about one token each in the usual tokenizers.

Equal seeds give equal text, so prompts share text exactly where they share blocks. It contains none of the dataset's
own text (a dataset holds no text).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.export.block_ids import scattered
from analysis.export.rows import ExportSelection, Row

_WORDS = (
    "the", "of", "and", "to", "in", "is", "you", "that", "it", "he", "was", "for", "on", "are", "as", "with",
    "his", "they", "at", "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what",
    "all", "were", "we", "when", "your", "can", "said", "there", "use", "an", "each", "which", "she", "do", "how",
    "their", "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "so", "some", "her",
    "would", "make", "like", "him", "into", "time", "has", "look", "two", "more", "write", "go", "see", "number",
    "no", "way", "could", "people", "my", "than", "first", "water", "been", "call", "who", "oil", "its", "now",
    "find", "long", "down", "day", "did", "get", "come", "made", "may", "part", "over", "new", "sound", "take",
    "only", "little", "work", "know", "place", "year", "live", "me", "back", "give", "most", "very", "after",
    "thing", "our", "just", "name", "good",
)  # fmt: skip


def text(seed: int, tokens: int) -> str:
    """`tokens` words, the same for the same seed; each is followed by a space."""
    count = max(0, tokens)
    places = scattered(np.arange(count, dtype=np.int64), seed * 0x9E3779B97F4A7C15) % np.uint64(len(_WORDS))
    return "".join([_WORDS[i] + " " for i in places.tolist()])


def prompt_of(out: ExportSelection, row: Row) -> str:
    """The text of a whole prompt: derived from its block ids, or unique if the prompt is unknown."""
    ids = out.block_ids(row)
    return text(-1 - row.number, row.tokens) if ids is None else prompt(ids, out.block, row.tokens)


def prompt(ids: NDArray[np.int64], block: int, tokens: int) -> str:
    """The text of a prompt of `tokens` tokens that has these block ids."""
    parts = [text(int(i), min(block, tokens - place * block)) for place, i in enumerate(ids)]
    return "".join(parts)
