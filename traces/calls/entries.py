"""Messages as parts of a prompt: flattened, tokenised once, and then recognised by their content.

Tools come first, then the system prompt, then the messages.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xxhash

from traces.records import Context, Piece
from traces.text.messages import Part, compact, parts, role_of, serialise

MESSAGE_TOKENS = 4
"""Tokens that a chat template puts around a message: three marks and a role, as in OpenAI's counting guide."""

PIECE_CHARS = 256
"""Texts are cut at line ends into pieces of at least this many characters. Sharing between prompts is exact to a
piece."""

ENGINE_IDS = 1 << 40
"""Added to token ids that an engine logged."""

CACHED_BYTES = 64 << 20
PIECE_BYTES = 200
KNOWN_MESSAGES = 100_000
KNOWN_ENDS = 10_000
_LINE_START = re.compile(r"(?<=\n)(?=[A-Za-z])")


class Entry(NamedTuple):
    """One message (or tool, or system prompt): its digest, its pieces with tokenizer lengths, and its kind."""

    key: int
    pieces: tuple[Piece, ...]
    tokens: int
    elastic: bool  # contains something of unknown size
    calls: tuple[str, ...]  # tools that it calls
    head: bool = False  # a tool or a system prompt
    exact: bool = False  # the engine's own token ids

    @property
    def last_role(self) -> str:
        """The role of its last piece."""
        return self.pieces[-1].role if self.pieces else "unknown"


class Entries:
    """Makes entries, one per distinct content. Memory is bounded: a forgotten content is only tokenised again.

    `exact`: texts keep their token ids; needed only where the tokenizer's lengths are the prompts'
    (traces.calls.history).
    """

    def __init__(self, context: Context, exact: bool = True) -> None:
        self._exact = exact
        self._digest = context.digest
        self._texts = context.texts
        self._tokenizer = context.tokenizer
        self._known: OrderedDict[bytes, Entry] = OrderedDict()
        self._bytes = 0
        self._ends: OrderedDict[int, str] = OrderedDict()  # the last run of a text, by what came before it

    def of(self, request: Mapping[str, Any]) -> tuple[list[Entry], list[Entry]]:
        """The entries of a request body of any provider: (tools and system prompt, messages or a bare prompt).

        Raises:
            ValueError: Token ids are not integers.
        """
        heads = [self.tool(tool) for tool in _tools(request)]
        for name in ("system", "instructions", "systemInstruction", "system_instruction"):
            system = request.get(name)
            if system:
                heads += [self.system(block) for block in (system if isinstance(system, list) else [system])]
                break
        for name in ("messages", "input", "contents", "prompt", "text", "input_ids", "prompt_token_ids"):
            value = request.get(name)
            if value is not None:
                return heads, self._field(value, name)
        return heads, []

    def _field(self, value: Any, name: str) -> list[Entry]:
        if isinstance(value, str):
            return self.text(value) if name in ("prompt", "text") else [self.message(value)]
        if isinstance(value, list) and value and isinstance(value[0], int):
            return self.token_ids(value)
        if isinstance(value, list) and name in ("prompt", "text", "input_ids") and len(value) == 1:
            return self._field(value[0], name)
        return [self.message(message) for message in (passes_apart(value) if isinstance(value, list) else [value])]

    def message(self, message: Any) -> Entry:
        """A message of any provider."""

        def build() -> Entry:
            head = isinstance(message, dict) and role_of(message) == "system"
            return self._build(parts(message), head, _sender(message))

        return self._cached(_mark(message, b"m"), build)

    def system(self, value: Any) -> Entry:
        """A system prompt: a text, a block, a list of blocks, a Gemini content."""

        def build() -> Entry:
            inner = value.get("parts") or value.get("content") or value if isinstance(value, dict) else value
            found = parts({"role": "system", "content": inner})
            return self._build(found, True, "system")

        return self._cached(_mark(value, b"s"), build)

    def tool(self, schema: Any) -> Entry:
        """The schema of a tool."""
        return self._cached(_mark(schema, b"t"), lambda: self._build([Part("tools", serialise(schema))], True))

    def text(self, text: str) -> list[Entry]:
        """A whole prompt as one text, in runs: the common beginning of several texts is tokenised once.

        Without token ids a run is shared as a whole or not at all, so this text is also cut where an earlier one ended.
        """
        return [
            self._cached(_mark(run, b"r"), partial(self._build, [Part("unknown", run)], False))
            for run in (runs(text, 8 * PIECE_CHARS) if self._exact else self._runs(text))
        ]

    def _runs(self, text: str) -> list[str]:
        found: list[str] = []
        place = before = 0
        start = 0
        while start < len(text):
            last = self._ends.get(place)
            if last is not None and text.startswith(last, start):
                run = last
            else:
                cut = _LINE_START.search(text, start + PIECE_CHARS) if len(text) - start >= 2 * PIECE_CHARS else None
                run = text[start : cut.start()] if cut else text[start:]
            found.append(run)
            start += len(run)
            before, place = place, xxhash.xxh3_64_intdigest(place.to_bytes(8, "little") + _mark(run, b"r"))
        if found:
            self._ends[before] = found[-1]
            self._ends.move_to_end(before)
            while len(self._ends) > KNOWN_ENDS:
                self._ends.popitem(last=False)
        return found

    def token_ids(self, ids: Sequence[int]) -> list[Entry]:
        """A whole prompt as the engine's token ids, in runs of 256.

        Raises:
            ValueError: An id is not a token id.
        """
        try:
            units = np.array(ids)
        except (OverflowError, ValueError):
            raise ValueError("token ids are not whole numbers") from None
        if units.ndim != 1 or units.dtype.kind not in "iu" or not 0 <= int(units.min()) <= int(units.max()) < 1 << 32:
            raise ValueError("token ids are not whole numbers from 0 to 2^32")
        # An engine's ids never match those of the tokenizer that counts texts.
        units = units.astype(np.uint64) | np.uint64(ENGINE_IDS)
        found = []
        for start in range(0, len(units), 256):
            run = units[start : start + 256]
            key = self._digest(run.tobytes())
            found.append(Entry(key, (Piece(key, len(run), "unknown", run),), len(run), False, (), exact=True))
        return found

    def _cached(self, mark: bytes, build: Callable[[], Entry]) -> Entry:
        found = self._known.get(mark)
        if found is not None:
            self._known.move_to_end(mark)
            return found
        found = self._known[mark] = build()
        self._bytes += _bytes(found)
        while len(self._known) > 1 and (self._bytes > CACHED_BYTES or len(self._known) > KNOWN_MESSAGES):
            self._bytes -= _bytes(self._known.popitem(last=False)[1])
        return found

    def _build(self, found: Sequence[Part], head: bool, sender: str | None = None) -> Entry:
        pieces: list[Piece] = []
        if found and sender is not None:
            pieces.append(Piece(self._digest(f"message|{sender}"), MESSAGE_TOKENS, "template"))
        for part in found:
            if part.text:
                for run in runs(part.text, PIECE_CHARS):
                    units = self._tokenizer.encode(run) if self._exact else None
                    count = self._tokenizer.count(run) if units is None else len(units)
                    if count:
                        pieces.append(Piece(self._digest(f"{part.role}|{run}"), count, part.role, units))
                        if units is None and self._texts is not None:
                            self._texts.add(pieces[-1].key, run)
            elif part.guess:
                pieces.append(Piece(self._digest(f"{part.role}|{part.name}"), part.guess, part.role))
        key = self._digest(b"".join(piece.key.to_bytes(8, "little") for piece in pieces) + bytes([head]))
        calls = tuple(part.name for part in found if part.name and part.text)
        elastic = any(part.guess for part in found)
        return Entry(key, tuple(pieces), sum(piece.tokens for piece in pieces), elastic, calls, head)


def passes_apart(messages: list[Any]) -> list[Any]:
    """Messages as Anthropic's server reads them: each pass of an answer on its own, nothing before the last compaction.

    The results of a server-side tool are in the middle of an answer, and the model continued after them in a new pass.
    A compaction block replaces everything before it.
    """
    found: list[Any] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else None
        if not isinstance(content, list) or message.get("role") != "assistant":
            found.append(message)
            continue
        kinds = [block_kind(block) for block in content]
        if not any(kinds):
            found.append(message)
            continue
        start = 0
        for at in range(1, len(content) + 1):
            if at == len(content) or kinds[at] != kinds[at - 1] or kinds[at] == "compaction":
                if kinds[start] == "compaction":
                    found[:] = [one for one in found if isinstance(one, dict) and role_of(one) == "system"]
                found.append({**message, "content": content[start:at]})
                start = at
    return found


def block_kind(block: Any) -> str:
    """What separates one pass of an answer from the next: compaction | result (of a server-side tool) | nothing."""
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        return ""
    return "compaction" if kind == "compaction" else "result" if kind.endswith("_tool_result") else ""


def _mark(value: Any, kind: bytes) -> bytes:
    return xxhash.xxh3_128_digest(compact(value)) + kind


def _sender(message: Any) -> str:
    name = message.get("role", message.get("type")) if isinstance(message, dict) else "user"
    return name if isinstance(name, str) else ""


def _bytes(entry: Entry) -> int:
    return sum(PIECE_BYTES + (0 if piece.units is None else piece.units.nbytes) for piece in entry.pieces)


def runs(text: str, least: int) -> Iterator[str]:
    """Parts of `text` of at least `least` characters that start with a letter after a line end.

    No pattern of o200k_base or cl100k_base matches across such a place (traces.text.tokens.chunks). A cut depends only
    on the text before it, so texts with a common beginning have the same first runs.
    """
    start = 0
    if len(text) >= 2 * least:
        for match in _LINE_START.finditer(text):
            if match.start() - start >= least:
                yield text[start : match.start()]
                start = match.start()
    if start < len(text):
        yield text[start:]


def _tools(request: Mapping[str, Any]) -> Iterator[Any]:
    tools = request.get("tools")
    if tools is None and isinstance(request.get("toolConfig"), dict):
        tools = request["toolConfig"].get("tools")
    if tools is None:
        tools = request.get("functions")
    for tool in tools if isinstance(tools, list) else ():
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        if isinstance(declared, list):
            yield from declared
        elif tool:
            yield tool
