"""Messages of OpenCode 2 (the table `session_message`) in the shape of the earlier versions.

Facts: anomalyco/opencode, packages/core/src/session/message.ts. The column `type` says what a row is; a row of an
assistant is one step with its counts, its content is text, reasoning and tools with their results. Databases that were
migrated keep the earlier tables, and some versions write both.
"""

from __future__ import annotations

from typing import Any

from traces.transcripts.parts import as_dict, as_list, kind_of, plain

TABLE = "session_message"
_NOTICES = ("agent-switched", "model-switched")
_USER_TEXTS = ("user", "synthetic", "system")


def stored_message(row: dict[str, Any], data: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]] | None:
    """(message, its parts) of a row and its parsed `data`; None for one that is in no prompt."""
    kind = str(row.get("type"))
    info = {**data, "id": row.get("id"), "sessionID": row.get("session_id"), "seq": row.get("seq")}
    info.setdefault("time", {"created": row.get("time_created")})
    if kind in _NOTICES:
        return None
    if kind == "assistant":
        model = as_dict(data.get("model"))
        info.update(role="assistant", modelID=model.get("id") or data.get("modelID"))
        return info, [_part(as_dict(content)) for content in as_list(data.get("content"))]
    info["role"] = kind if kind == "compaction" else "user"
    if kind in _USER_TEXTS:
        files = [{"type": "file", **as_dict(file)} for file in as_list(data.get("files"))]
        return info, [{"type": "text", "text": data.get("text")}, *files]
    if kind == "shell":
        return info, [{"type": "text", "text": f"{plain(data.get('command'))}\n{plain(data.get('output'))}"}]
    return info, [{"type": "text", "text": plain([data.get("summary"), data.get("recent", data.get("include"))])}]


def _part(content: dict[str, Any]) -> dict[str, Any]:
    if kind_of(content) != "tool":
        return content
    state, time = as_dict(content.get("state")), as_dict(content.get("time"))
    error = as_dict(state.get("error")).get("message", state.get("error"))
    times = {"start": time.get("ran") or time.get("created"), "end": time.get("completed")}
    shown = {**state, "time": {**times, "compacted": time.get("pruned")}}
    if state.get("status") in ("completed", "error"):
        shown["output"] = plain(state.get("content")) or error or plain(state.get("result"))
    return {"type": "tool", "tool": content.get("name"), "callID": content.get("id"), "state": shown}
