"""Which row of the table `sources` a request belongs to: one for each kind of input."""

from __future__ import annotations

from typing import Any

from traces.records import Blocks, Request


class SourceIds:
    """Numbers the kinds of one input's requests.

    Args:
        rows: the sources of the dataset so far; new ones are added.
        format_name: name of the input's format.
        tokenizer: tokenizer of its lengths.
        time_unit: unit of its times, where it is known.
    """

    def __init__(self, rows: list[tuple[Any, ...]], format_name: str, tokenizer: str, time_unit: str | None) -> None:
        self._rows = rows
        self._ids = {source: number for number, source in enumerate(rows)}
        self._format, self._tokenizer, self._time_unit = format_name, tokenizer, time_unit
        self._last_shape: tuple[Any, ...] = ()
        self._last = -1

    def of(self, request: Request) -> int:
        """The number of the request's source."""
        prompt = request.prompt
        if isinstance(prompt, Blocks):
            shape = (prompt.block_tokens, prompt.tail, prompt.namespace, request.time_basis, request.arrival_s is None)
            if shape == self._last_shape:
                return self._last
            self._last_shape = shape
            self._last = found = self._number(request)
            return found
        return self._number(request)

    def _number(self, request: Request) -> int:
        prompt = request.prompt
        if isinstance(prompt, Blocks):
            namespace: Any = prompt.namespace.partition("#")[0] or "trace"
            block: Any = prompt.block_tokens
            tail: Any = prompt.tail
            tokenizer = None
            lengths = "trace"
        elif prompt is not None:
            namespace, block, tail = "dataset", 1, None
            tokenizer = self._tokenizer
            exact = any(piece.units is not None for piece in prompt.pieces[:8])
            counted = request.input_tokens is not None and not exact
            lengths = prompt.lengths or ("provider" if counted else "tokenizer")
        else:
            namespace, block, tail, tokenizer = None, None, None, None
            lengths = "provider" if request.input_tokens is not None else "trace"
        basis = request.time_basis if request.arrival_s is not None else "none"
        unit = None if basis == "none" else self._time_unit or ("iso" if basis == "wall" else "s")
        key = (self._format, namespace, block, tail, basis, unit, tokenizer, lengths)
        found = self._ids.get(key)
        if found is None:
            found = len(self._rows)
            self._rows.append(key)
            self._ids[key] = found
        return found
