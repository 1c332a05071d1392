"""AIPerf: dag_jsonl conversations with sub-agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.export.planners import Written
from analysis.export.planners.conversations.chains import Chains
from analysis.export.planners.conversations.conversations import Conversation, conversations, words
from analysis.export.planners.conversations.vllm import PLACEHOLDER
from analysis.export.planners.output import milliseconds, new_file
from analysis.export.rows import ExportSelection


def write_dag(out: ExportSelection, path: Path) -> Written:
    """Write one conversation per line. A sub-agent, or a session that continues with a new prompt, is a spawn."""
    chains = Chains(out.block)
    count = loose = 0
    with new_file(path) as file:
        for family in conversations(out, chains):
            known = {c.name: c for c in family}
            children: dict[tuple[str, int], list[Conversation]] = {}
            for conversation in family:
                if conversation.after is not None:
                    children.setdefault(conversation.after, []).append(conversation)
            for conversation in family:
                loose += conversation.after is None and conversation is not family[0]
                turns = [
                    _turn(out, conversation, place, children.get((conversation.name, place), []))
                    for place in range(len(conversation.turns))
                ]
                record = {"session_id": conversation.name, "turns": turns}
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                count += 1
            assert all(after[0] in known for after in children)
    notes = [
        *chains.notes(),
        PLACEHOLDER,
        "AIPerf decides when top-level sessions start (--concurrency, --request-rate)",
    ]
    if loose:
        notes.append(f"{loose:,} sub-agents have no known spawning request: they run as sessions of their own")
    return Written(
        count, notes,
        [
            f"aiperf profile --custom-dataset-type dag_jsonl --input-file {path} --url URL --model MODEL "
            "--endpoint-type chat --concurrency 8"
        ],
    )  # fmt: skip


def _turn(out: ExportSelection, conversation: Conversation, place: int, children: list[Conversation]) -> dict[str, Any]:
    turn = conversation.turns[place]
    found: dict[str, Any] = {"messages": [{"role": "user", "content": words(out, turn, place == 0)}]}
    if turn.row.output:
        found["max_tokens"] = turn.row.output
        found["extra"] = {"ignore_eos": True, "min_tokens": turn.row.output}
    if turn.delay_s is not None and place:
        found["delay"] = milliseconds(turn.delay_s)
    if children:
        found["spawns"] = [_spawn(conversation, place, child) for child in children]
    return found


def _spawn(conversation: Conversation, place: int, child: Conversation) -> dict[str, Any]:
    """The child, joined by the first turn sent after it ended; not joined if there is no such turn."""
    last = child.turns[-1].row
    spawn: dict[str, Any] = {"children": [child.name]}
    if last.arrival_s is None or place + 1 >= len(conversation.turns):
        return spawn
    end = last.arrival_s + (last.duration_s or 0.0)
    later = range(place + 1, len(conversation.turns))
    arrivals = [(t, conversation.turns[t].row.arrival_s) for t in later]
    spawn["join_at"] = next((t for t, a in arrivals if a is not None and a >= end), later[-1])
    return spawn
