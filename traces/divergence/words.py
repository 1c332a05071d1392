"""Reasoning, images, speakers and random ids in texts. Every test takes the two texts of a change, so that only what
really changed is judged."""

from __future__ import annotations

import re

from traces.divergence.difference import ID_LABEL, Difference

IMAGE_CHARS = 24
"""So far from where a text begins to change its image is named, if what changed is one."""

SAME_IMAGE_CHARS = 100
"""An image that stands in both texts is the same one if so many characters of it are."""

REASONING = re.compile(
    r"</?(?:think|thinking|reasoning|thought|thoughts|scratchpad|analysis)>|\[(?:thinking|reasoning)\]"
    r"|<\|channel\|>analysis",
    re.IGNORECASE,
)
IMAGE = re.compile(
    r"\[(?:\w+ ){0,2}image|<image|<img\b|image/(?:png|jpe?g|webp|gif)|data:image|!\[[^\]]*\]\(|<\|(?:image|vision)",
    re.IGNORECASE,
)
SPEAKER = re.compile(
    r"^(?:<\|(?!\w*end|eot)[\w ]+\|>\w*"
    r"|[^\w\n]{0,3}(?:human|user|assistant|tool|tool_result|observation|model|ai|bot)[^\w\n]{0,3})[^\S\n]*$"
    r"|^(?:human|user|assistant|tool): |<start_of_turn>|\[INST\]|<\|(?:im_start|start_header_id|start)\|>",
    re.IGNORECASE | re.MULTILINE,
)
"""Where a message begins in a prompt that is one text."""

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_+/=-]*")
_WORD_IN_NAME = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_ID_PART = re.compile(r"[0-9A-Za-z_+/-]")


def is_nonce(found: Difference) -> bool:
    """Whether one random id became another: a single word, and it looks drawn or is called an id."""
    a, b, start = found.words(_ID_PART)
    if re.search(r"\s", found.changed[0] + found.changed[1]) or not a or not b:
        return False
    label = found.before[:start]
    signed = re.search(r"""[:=#"'`(\[<*]\s*$|\bis\s+$""", label) is not None
    told = signed or (any(c.isdigit() for c in a) and any(c.isdigit() for c in b))
    if told and ID_LABEL.search(label) and re.fullmatch(r"[\w+/=.:~-]+", a + b):
        return True
    return _is_id(a) and _is_id(b)


def is_image(found: Difference) -> bool:
    """Whether an image that is written in the text became another, or a text in its place."""
    for said, other in (found.changed, found.changed[::-1]):
        match = IMAGE.search(said.lstrip()[:IMAGE_CHARS])
        if match and said.lstrip()[match.start() :][:SAME_IMAGE_CHARS] not in other:
            return True
    last = None
    for match in IMAGE.finditer(found.label, max(0, found.low - 400)):
        last = match
    return last is not None and not re.search(r"[>\])]", found.label[last.end() :])


def _is_id(word: str) -> bool:
    """Whether a word looks drawn at random: digits among its letters, or letters in no order of a language."""
    parts: list[str] = _ID.findall(word)
    last = max(parts, key=len, default="")
    bare = re.sub(r"[-_+/=]", "", last)
    digits = sum(c.isdigit() for c in bare)
    if bare.isdigit():
        return len(bare) >= 6
    if digits:
        return len(bare) >= 4 and (len(bare) >= 8 or bool(re.fullmatch(r"[0-9a-fA-F]+|[0-9A-Z]+", bare)) or digits > 1)
    if len(bare) >= 4 and re.fullmatch(r"[0-9a-f]+|[0-9A-F]+", bare):
        return True
    mixed = any(c.isupper() for c in bare[1:]) and any(c.islower() for c in bare)
    words = [word for part in re.split(r"[-_+/=]", last) for word in _WORD_IN_NAME.findall(part)]
    if all(len(word) > 2 and (word.isupper() or re.search(r"[aeiouy]", word, re.IGNORECASE)) for word in words):
        return False
    return len(bare) >= 8 and (mixed or not re.search(r"[aeiou]", bare, re.IGNORECASE))
