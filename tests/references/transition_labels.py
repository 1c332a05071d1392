"""Transitions as the raw files mark them, read without the readers and the tree: what a diagnosis is compared with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Labels = dict[int, str]
"""By the record that a call is read from (1 = first line of the file): what the file says happened before the call."""


def _records(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            yield number, record


def _message(record: dict[str, Any]) -> dict[str, Any]:
    message = record.get("message")
    return message if isinstance(message, dict) else {}


def claude_code(path: Path) -> Labels:
    """A session file: parentUuid says what a call continues, isSidechain that it is a sub-agent's, isCompactSummary
    that a summary stands before it. Calls whose parent is not in the file, synthetic ones, and the first of a sub-agent
    that has the file to itself (nothing there to tell it from a session) have no label."""
    by_uuid = {str(r["uuid"]): r for _, r in _records(path) if r.get("uuid")}
    labels: Labels = {}
    asked: dict[str, set[str]] = {}  # by the record that a call answers
    continued: dict[str, set[str]] = {}  # by the call before
    seen: set[str] = set()
    mains = 0
    for number, record in _records(path):
        message = _message(record)
        name = str(message.get("id") or record.get("uuid"))
        if record.get("type") != "assistant" or message.get("model") == "<synthetic>" or name in seen:
            continue
        seen.add(name)
        before, compacted, dangling = None, False, False
        answers = above = record.get("parentUuid") or ""
        walked: set[str] = set()  # fixtures hold circles
        while above and above not in walked:
            walked.add(above)
            if above not in by_uuid:
                dangling = True
                break
            parent = by_uuid[above]
            compacted |= bool(parent.get("isCompactSummary")) or parent.get("subtype") == "compact_boundary"
            if parent.get("type") == "assistant":
                before = str(_message(parent).get("id") or above)
                break
            above = parent.get("parentUuid") or (parent.get("logicalParentUuid") if compacted else "") or ""
        if compacted:
            labels[number] = "compaction"
        elif before is None:
            side = bool(record.get("isSidechain"))
            if side and mains:
                labels[number] = "sub-agent start"
            elif not side and not dangling and not mains:
                labels[number] = "session start"
            mains += not side
        elif asked.get(answers):
            labels[number] = "retry"
        else:
            labels[number] = "fork or rewind" if continued.get(before) else "append"
        asked.setdefault(answers, set()).add(name)
        if before is not None:
            continued.setdefault(before, set()).add(name)
    return labels


def pi(path: Path) -> Labels:
    """A session file: a compaction record, and parentId where the version has it (else the order of the lines)."""
    above: dict[str, str] = {}
    calls: set[str] = set()
    continued: set[str] = set()
    compactions: set[str] = set()
    labels: Labels = {}
    last = ""
    for number, record in _records(path):
        key = str(record.get("id") or f"line {number}") if record.get("type") != "session" else ""
        if not key:
            continue
        above[key] = str(record["parentId"] or "") if "parentId" in record else last
        last = key
        if record.get("type") == "compaction":
            compactions.add(key)
        message = _message(record)
        if message.get("role") != "assistant":
            continue
        at, compacted = above[key], False
        while at and at not in calls:
            compacted |= at in compactions
            at = above.get(at, "")
        if compacted:
            labels[number] = "compaction"
        elif not at:
            labels[number] = "session start"
        else:
            labels[number] = "fork or rewind" if at in continued else "append"
        continued.add(at)
        calls.add(key)
    return labels


def codex(path: Path) -> tuple[list[tuple[int, str]], str]:
    """A rollout: the lines where the history was compacted or rolled back, and what its header says it starts as: ""
    for a sub-agent or a fork, which has the file to itself."""
    marks, start = [], "session start"
    for number, record in _records(path):
        payload = record.get("payload") if isinstance(record.get("payload"), dict) else {}
        assert isinstance(payload, dict)
        if record.get("type") == "session_meta" and number == 1:
            source = payload.get("source")
            if (isinstance(source, dict) and "subagent" in source) or payload.get("forked_from_id"):
                start = ""
        if record.get("type") == "compacted":
            marks.append((number, "compaction"))
        if payload.get("type") == "thread_rolled_back":
            marks.append((number, "fork or rewind"))
    return marks, start


def codex_labels(path: Path, calls: list[int]) -> Labels:
    """Labels of the calls read from these records of a rollout: the mark between a call and the one before it. None
    for a rollout that was stripped of its items: there, no mark does not say that nothing happened."""
    if not any(record.get("type") == "response_item" for _, record in _records(path)):
        return {}
    marks, start = codex(path)
    labels: Labels = {}
    before = 0
    for index, call in enumerate(sorted(calls)):
        between = [name for number, name in marks if before < number <= call]
        labels[call] = between[-1] if between else (start if index == 0 else "append")
        before = call
    return labels


def weka(path: Path) -> list[tuple[float, int, str]]:
    """A Weka session: (in, out, label) of each call in file order, a sub-agent's calls where it stands.

    The file marks sub-agents and the length of each head. What a chain's calls share is compared id by id, so that a
    change inside the marked head is a system change; nothing else of a Weka file is a mark, and has no label.
    """
    data = path.read_bytes()
    session = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    block = int(session["block_size"])
    found: list[tuple[float, int, str]] = []

    def chain(calls: list[dict[str, Any]], head: int, start: str) -> None:
        previous: list[int] | None = None
        for call in calls:
            if call.get("type") == "subagent":
                inner = call["tool_tokens"] + call["system_tokens"]
                chain(call["requests"], inner, "sub-agent start")
                continue
            ids = call["hash_ids"]
            if previous is None:
                label = start
            else:
                shared = next((i for i, (a, b) in enumerate(zip(ids, previous, strict=False)) if a != b), None)
                blocks = min(len(ids), len(previous)) if shared is None else shared
                grown = len(ids) >= len(previous) and blocks == len(previous)
                label = "append" if grown else "system change" if (blocks + 1) * block <= head else ""
            found.append((call["in"], call["out"], label))
            previous = ids

    chain(session["requests"], session["tool_tokens"] + session["system_tokens"], "session start")
    return found
