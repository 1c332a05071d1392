"""A transcript's calls as the conversation that prompts are made of. Calls and parts are positions in its columns."""

# ruff: noqa: D102 (the protocol says what each method is)

from __future__ import annotations

from collections.abc import Sequence

from traces.formats.claude_code.chains import Chains
from traces.formats.claude_code.parts import CALL
from traces.formats.claude_code.store import META, RESULT, TranscriptStore
from traces.records import ROLES, Piece
from traces.text.lengths import output_estimate
from traces.transcripts.counted_prompts import Head


class Conversation:
    """What `traces.transcripts.counted_prompts` needs to know of a transcript."""

    def __init__(self, chains: Chains) -> None:
        self.chains = chains
        self.store: TranscriptStore = chains.store
        self.parts = self.store.parts
        self.length = self.store.calls.input_tokens
        self.read_tokens = self.store.calls.read_tokens
        self.cached_total = self.store.calls.cached_total
        self.reply = self.store.reply

    def calls(self) -> Sequence[int]:
        return range(len(self.store.calls))

    def key(self, call: int) -> str:
        return self.store.calls.key[call]

    def session(self, call: int) -> str:
        return self.chains.chain(call).key

    def head_of(self, call: int) -> Head:
        chain = self.chains.chain(call)
        return Head("claude_code", chain.version, "main" if chain.role == "main" else "subagent")

    def logged_head(self, call: int) -> list[int]:
        return []

    def parent(self, call: int) -> int | None:
        parent = self.chains.parent[call]
        return parent if parent >= 0 else None

    def set_parent(self, call: int, parent: int) -> None:
        self.chains.parent[call] = parent

    def starts_cold(self, call: int) -> bool:
        first = self.chains.chain(call).calls[0] == call
        return first and self.chains.parent[call] < 0 and not self.chains.dangling[call]

    def compacted(self, call: int) -> bool:
        return bool(self.chains.compacted[call])

    def by_person(self, call: int) -> bool:
        flags = self.store.lines.flags
        return any(not flags[at] & (META | RESULT) for at in self.chains.inputs(call))

    def inputs(self, call: int) -> list[int]:
        return [part for at in self.chains.inputs(call) for part in self.store.parts_of(at)]

    def output_tokens(self, call: int) -> int | None:
        return self.store.calls.output_tokens(call) if self.store.calls.stop[call] else None

    def reasoning_tokens(self, call: int) -> int | None:
        return self.store.calls.reasoning_tokens(call)

    def thoughts(self, parts: list[int]) -> list[bool]:
        return [self.parts.role(part) == "reasoning" for part in parts]

    def estimates(self, parts: list[int]) -> list[float]:
        return list(map(self.parts.estimate, parts))

    def elastic(self, parts: list[int]) -> list[bool]:
        return list(map(self.parts.elastic, parts))

    def pieces(self, parts: list[int], tokens: Sequence[int]) -> list[Piece]:
        keys, codes = self.parts.key, self.parts.code
        sized = zip(parts, tokens, strict=True)
        return [Piece(keys[part], count, ROLES[codes[part] & (CALL - 1)]) for part, count in sized if count]

    def shares(self, parts: list[int]) -> list[int] | None:
        share = self.parts.share
        return None if not parts or share[parts[0]] < 0 else [share[part] for part in parts]

    def share(self, call: int, parts: list[int], tokens: Sequence[int]) -> None:
        for part, count in zip(parts, tokens, strict=True):
            self.parts.share[part] = count

    def output_estimate(self, call: int) -> int | None:
        """Estimated output tokens, where the recorded figure is none or a partial one."""
        if self.output_tokens(call) is not None:
            return None
        parts, reply = self.parts, self.store.reply(call)
        return output_estimate(sum(parts.counted[part] for part in reply), sum(map(parts.calls, reply)))
