"""Small traces, and what exporting and reading them again makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from analysis.export.selection import Scaling
from analysis.export.write import export
from analysis.headline.report import report
from analysis.store.question import Question
from analysis.store.warehouse import Warehouse, open_dataset
from traces.intake.ingest import Options, ingest


def mooncake_file(path: Path, rows: list[dict[str, Any]]) -> Path:
    """A Mooncake file of rows."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(source: Path, folder: Path, **options: Any) -> Warehouse:
    """Ingest a file or folder into a dataset in `folder`."""
    target = folder / f"dataset-{len(list(folder.iterdir()))}"
    ingest([str(source)], target, Options(**options))
    return open_dataset(target)


def again(warehouse: Warehouse, to: str, folder: Path, block: int | None = None, **scaling: Any) -> Warehouse:
    """Export to a target and ingest what was written."""
    path = folder / f"export-{to}-{len(list(folder.iterdir()))}"
    export(warehouse, to, path, block, Scaling(**scaling))
    named = {"mooncake-delta": "mooncake-delta"}.get(to)
    return read(path, folder, format=named, block_tokens=block if to in ("bailian", "mooncake-delta") else None)


def requests(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    """What every format carries of each request, in order of arrival."""
    frame = warehouse.loaded().requests
    order = warehouse.arrived("recorded").order
    columns = ("input_tokens", "prefix_tokens", "output_tokens")
    return list(frame.select(*columns)[order].rows())


def hit_tokens(warehouse: Warehouse, block: int) -> int:
    """The ceiling's hit tokens."""
    return int(report(warehouse, Question(block), ())["hit_rate"]["ceiling_hit_tokens"])


WEKA = {
    "id": "one",
    "models": ["m"],
    "block_size": 64,
    "hash_id_scope": "local",
    "tool_tokens": 64,
    "system_tokens": 64,
    "requests": [
        {"t": 0.0, "type": "s", "model": "m", "in": 200, "out": 30, "hash_ids": [1, 2, 3], "input_types": ["text"],
         "output_types": ["text", "tool_use"], "stop": "tool_use", "api_time": 2.0, "ttft": 0.5},
        {"t": 9.0, "type": "subagent", "agent_id": "agent_001", "subagent_type": "Explore", "duration_ms": 6000,
         "total_tokens": 300, "tool_use_count": 1, "status": "completed", "models": ["m"], "tool_tokens": 64,
         "system_tokens": 0, "requests": [
             {"t": 0.0, "type": "n", "model": "m", "in": 140, "out": 7, "hash_ids": [1, 9], "input_types": ["text"],
              "output_types": ["text"], "stop": "end_turn", "api_time": 1.5},
             {"t": 4.0, "type": "n", "model": "m", "in": 210, "out": 8, "hash_ids": [1, 9, 10],
              "input_types": ["tool_result"], "output_types": ["text"], "stop": "end_turn", "api_time": 2.0},
         ]},
        {"t": 10.0, "type": "n", "model": "m", "in": 300, "out": 0, "hash_ids": [1, 2, 3, 4],
         "input_types": ["tool_result"], "output_types": ["text"], "stop": "end_turn", "api_time": 1.0},
    ],
}  # fmt: skip
"""A Weka session whose sub-agent runs from 3 s to 9 s while its parent waits."""


def weka_folder(folder: Path, sessions: int = 2) -> Path:
    """A folder of Weka files, all of them `WEKA`."""
    folder.mkdir()
    for k in range(sessions):
        (folder / f"s{k}.json").write_text(json.dumps({**WEKA, "id": f"s{k}"}))
    return folder
