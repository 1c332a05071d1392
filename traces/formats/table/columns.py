"""Column names as people write them, and what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from traces.usage.containers import OBJECTS, is_count, may_count
from traces.usage.names import figure

NAMES: dict[str, tuple[str, ...]] = {
    "time": (
        "start",
        "start_time",
        "started_at",
        "ts",
        "timestamp",
        "time",
        "created_at",
        "arrived_at",
        "arrival_time",
        "arrival",
        "created",
        "request_time",
        "requested_at",
        "logged_at",
        "event_time",
        "datetime",
        "date",
        "timestamp_s",
        "timestamp_ms",
        "timestamp_us",
        "timestamp_ns",
        "start_time_ms",
        "start_time_unix_nano",
        "timestamp_start_unix_ms",
    ),
    "end": ("end", "end_time", "ended_at", "completed_at", "end_time_ms", "end_time_unix_nano"),
    "duration": ("duration_s", "latency_s", "duration_ms", "latency_ms", "duration_e2e_ms"),
    "ttft": ("ttft_s", "ttft_ms", "time_to_first_token_s", "time_to_first_token_ms"),
    "request_id": ("request_id",),
    "id": ("id",),
    "logical_id": ("logical_id",),
    "session": ("session_id", "conversation_id", "thread_id", "session"),
    "parent_session": ("parent_session_id",),
    "model": ("model", "model_name"),
    "provider": ("provider",),
    "status": ("status", "status_code", "http_status"),
    "error": ("error",),
    "stop_reason": ("stop_reason", "finish_reason"),
    "agent": ("agent", "agent_name"),
    "prompt": ("prompt",),
    "messages": ("messages",),
    "system": ("system",),
    "tools": ("tools",),
    "token_ids": ("token_ids", "prompt_token_ids"),
    "hash_ids": ("hash_ids", "block_hashes", "total_hashes"),
    "block_size": ("block_size",),
    "response": ("response", "completion"),
    "output_token_ids": ("output_token_ids", "completion_token_ids", "response_token_ids"),
    "usage": OBJECTS,
}
"""What a column can mean -> the names it goes by, the likeliest first. Case, spaces and punctuation do not matter."""

PROMPTS = ("token_ids", "messages", "prompt", "hash_ids")
"""Columns that hold a prompt; the first that has a value is used."""

FIGURES = {
    "input_tokens": "input_tokens",
    "uncached_input_tokens": "uncached_input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "cache_read_tokens": "cached_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "total_tokens": "total_tokens",
}
"""Names of token counts for --map, and the field of a usage object that each is. Unmapped columns need none: their own
names say what they are (traces.usage.names)."""


class Columns(NamedTuple):
    """The columns of a row: meaning -> columns to look in, and the flat usage columns as (column, usage field).

    `objects`: the columns that may hold a usage object.
    """

    found: dict[str, tuple[str, ...]]
    usage: tuple[tuple[str, str], ...]
    objects: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Every column that means something."""
        return [
            *dict.fromkeys([name for names in self.found.values() for name in names] + [one for one, _ in self.usage])
        ]

    @property
    def tells_lengths(self) -> bool:
        """Whether a prompt, a usage object or a number of tokens is among them."""
        return bool(self.usage) or any(name in self.found for name in (*PROMPTS, "usage"))

    @property
    def tells_a_call(self) -> bool:
        """Whether a row is a model call, its lengths known or not."""
        who = {"model", "session", "request_id", "logical_id"} & self.found.keys()
        return self.tells_lengths or bool(who and {"time", "status"} & self.found.keys())


def plain(name: str) -> str:
    """`name` without case, spaces and punctuation."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


_MEANING = {plain(name): name for name in FIGURES}
_MEANING |= {plain(name): meaning for meaning, names in NAMES.items() for name in (meaning, *names)}
_MEANING |= {plain(name): meaning for meaning, names in NAMES.items() for name in names}


def checked_mapping(mapping: Mapping[str, str] | None) -> dict[str, str]:
    """`--map NAME=COLUMN` as meaning -> column.

    Raises:
        ValueError: for a NAME that means nothing here; the message lists the names.
    """
    out: dict[str, str] = {}
    for name, column in (mapping or {}).items():
        meaning = _MEANING.get(plain(name))
        if meaning is None:
            known = ", ".join(sorted([*FIGURES, *(names[0] for names in NAMES.values())]))
            raise ValueError(f"--map {name}=…: no such name. Known: {known}")
        out[meaning] = column
    return out


def resolve(columns: Iterable[str], mapping: Mapping[str, str]) -> Columns:
    """What the `columns` of a row mean. `mapping`: meaning -> column, as `checked_mapping` gives it."""
    present = [c for c in columns if isinstance(c, str)]
    by_plain: dict[str, str] = {}
    for column in present:
        by_plain.setdefault(plain(column), column)
    mapped = {column for column in mapping.values() if column in present}
    found: dict[str, tuple[str, ...]] = {}
    for meaning, names in NAMES.items():
        if meaning in mapping:
            if mapping[meaning] in present:
                found[meaning] = (mapping[meaning],)
            continue
        hits = (by_plain.get(plain(name)) for name in names)
        usable = tuple(dict.fromkeys(h for h in hits if h is not None and h not in mapped))
        if usable:
            found[meaning] = usable
    usage = [(mapping[name], field) for name, field in FIGURES.items() if mapping.get(name) in present]
    meant = {field for _, field in usage}
    taken = {column for columns in found.values() for column in columns} | mapped
    counts = [column for column in present if column not in taken and (is_count(column) or may_count(column))]
    # A mapped figure stands alone: no other column of the same figure counts beside it.
    usage += [(column, column) for column in counts if figure((column,)) not in {figure((field,)) for field in meant}]
    objects = (*(name for name in ("response",) if name in present), *found.get("usage", ()))
    return Columns(found, tuple(usage), objects)
