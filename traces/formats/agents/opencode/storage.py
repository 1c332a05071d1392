"""Where opencode keeps sessions, messages and parts: a tree of JSON files, a database, an export or events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from traces.formats.agents.opencode.session_messages import TABLE, stored_message
from traces.source.database import MAGIC, BadDatabase, Database
from traces.source.sources import parse_json
from traces.transcripts.ledger import Ledger, document, objects, opening
from traces.transcripts.parts import as_dict, as_list, seconds

if TYPE_CHECKING:
    from traces.source.sources import Source

_KINDS = ("message", "part", "session")


class Message(NamedTuple):
    """A message and its parts in order."""

    name: str
    info: dict[str, Any]
    parts: list[dict[str, Any]]


class Stored:
    """All sessions, messages and parts of one place, linked by their ids."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, tuple[str, dict[str, Any]]] = {}
        self.parts: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._times: set[tuple[str, str, Any]] | None = None
        self.unread = ""  # tables of the database that hold rows and are not read

    def conversations(self) -> Iterator[tuple[str, list[Message]]]:
        """Yield (session id, its messages in order of time), by session."""
        by_session: dict[str, list[Message]] = {}
        for name, (session, info) in self.messages.items():
            parts = [part for _, part in sorted(self.parts.get(name, []), key=lambda pair: pair[0])]
            by_session.setdefault(session, []).append(Message(name, info, parts))
        for session in sorted(by_session):
            yield session, sorted(by_session[session], key=_created)

    def times(self) -> set[tuple[str, str, Any]]:
        """(session, role, time) of the messages of the earlier tables."""
        if self._times is None:
            messages = self.messages.values()
            self._times = {(s, str(m.get("role")), as_dict(m.get("time")).get("created")) for s, m in messages}
        return self._times

    def orphans(self) -> int:
        """How many parts belong to no message that is here."""
        return sum(len(parts) for message, parts in self.parts.items() if message not in self.messages)

    def add(self, kind: str, value: dict[str, Any], place: str = "") -> bool:
        """Take one stored object; `place` is its path, which names the message of parts that do not."""
        above, _, own = place.rpartition("/")
        if kind == "session":
            self.sessions[str(value.get("id"))] = value
        elif kind == "message":
            session = str(value.get("sessionID") or above.rpartition("/")[2])
            self.messages[str(value.get("id") or own)] = (session, value)
        elif kind == "part":
            message = str(value.get("messageID") or above.rpartition("/")[2])
            self.parts.setdefault(message, []).append((own or str(value.get("id")), value))
        else:
            return False
        return True


def _created(message: Message) -> tuple[float, int, str]:
    place = message.info.get("seq")
    created = seconds(as_dict(message.info.get("time")).get("created")) or 0.0
    return created, place if isinstance(place, int) else 0, message.name


def is_database(tables: Mapping[str, str]) -> bool:
    """Whether a database has opencode's tables, of the earlier version or of this one."""
    return tables.keys() >= {*_KINDS} or TABLE in tables


def stored(source: Source, ledger: Ledger) -> Stored:
    """Everything that `source` and the files beside it hold."""
    found = Stored()
    head = source.head()
    if head.start.startswith(MAGIC):
        _database(source, found, ledger)
        return found
    value = opening(head)
    first = value if isinstance(value, dict) else {}
    if "part" in first and "sessionID" in first:
        _events(source, found, ledger)
    elif "info" in first:
        for _, whole in objects(source, ledger):
            _export(whole, found)
            ledger.used += 1
    else:
        _tree(source, found, ledger)
    return found


def _export(whole: dict[str, Any], found: Stored) -> None:
    info = as_dict(whole.get("info"))
    found.add("session", info)
    for message in as_list(whole.get("messages")):
        about = as_dict(as_dict(message).get("info"))
        found.add("message", {"sessionID": info.get("id"), **about})
        for at, part in enumerate(as_list(as_dict(message).get("parts"))):
            found.add("part", {"messageID": about.get("id"), **as_dict(part)}, f"x/{at:06d}")


def _tree(source: Source, found: Stored, ledger: Ledger) -> None:
    root, kind = _place(source.name)
    names = [source.name] if kind is None else [n for n in source.siblings if _place(n)[0] == root and _place(n)[1]]
    for name in sorted(names) or [source.name]:
        other = source.siblings.get(name, source)
        value = document(other, ledger)
        if not isinstance(value, dict):
            continue
        if other is not source:
            source.claim(name)
        own = _place(name)[1] or _kind(value)
        if not found.add(own or "", value, name):
            ledger.ignore("a file of another kind")
        elif own == "session":
            ledger.used += 1


def _place(name: str) -> tuple[str, str | None]:
    """(what lies before the kind's folder, kind) of a path in the storage tree."""
    steps = name.split("/")
    for at in range(len(steps) - 1):
        if steps[at] in _KINDS and name.endswith(".json"):
            return "/".join(steps[:at]), steps[at]
    return name, None


def _kind(value: dict[str, Any]) -> str | None:
    if "role" in value and "sessionID" in value:
        return "message"
    return "part" if "messageID" in value else "session" if "projectID" in value else None


def _events(source: Source, found: Stored, ledger: Ledger) -> None:
    """`opencode run --format json`: each event has a part; the messages are the ids that parts name."""
    for ordinal, line in objects(source, ledger):
        part = as_dict(line.get("part"))
        message, session = str(part.get("messageID")), str(line.get("sessionID"))
        if not part:
            ledger.ignore("an event without a part")
            continue
        if message not in found.messages:
            ledger.used -= 1  # there is no record of the message itself
            info = {"id": message, "role": "assistant", "time": {"created": line.get("timestamp")}}
            found.add("message", {**info, "sessionID": session})
        found.add("part", part, f"x/{ordinal:09d}")


def _database(source: Source, found: Stored, ledger: Ledger) -> None:
    try:
        with Database(source) as base:
            for table, kind in TABLES.items():
                for row in base.rows(table) if table in base.tables else ():
                    _row(kind, row, found, ledger)
            found.unread = base.unread(*TABLES)
    except BadDatabase as error:
        ledger.reject(0, str(error))


TABLES = {"session": "session", "session_v2": "session", "message": "message", "part": "part", TABLE: TABLE}
"""Tables, the earlier version's messages first, and what their rows are."""

_COLUMNS = {
    "session_id": "sessionID",
    "message_id": "messageID",
    "parent_id": "parentID",
    "project_id": "projectID",
}


def _row(kind: str, row: dict[str, Any], found: Stored, ledger: Ledger) -> None:
    value = {_COLUMNS.get(name, name): row[name] for name in row if name != "data" and row[name] is not None}
    data = row.get("data")
    try:
        parsed = as_dict(parse_json(data.encode() if isinstance(data, str) else data or b"{}"))
    except (ValueError, UnicodeEncodeError) as error:
        ledger.reject(0, str(error))
        return
    if kind == TABLE:
        _session_message(row, parsed, found, ledger)
        return
    value = {**value, **parsed}
    value.setdefault("time", {"created": row.get("time_created"), "updated": row.get("time_updated")})
    found.add(kind, value, f"x/{value.get('id')}" if kind == "part" else "")
    ledger.used += kind == "session"


def _session_message(row: dict[str, Any], data: dict[str, Any], found: Stored, ledger: Ledger) -> None:
    message = stored_message(row, data)
    if message is None:
        ledger.ignore("a change of agent or model")
        return
    info, parts = message
    session, created = str(info["sessionID"]), as_dict(info["time"]).get("created")
    if (session, str(info["role"]), created) in found.times():
        ledger.duplicate("a message that the earlier tables have")
        return
    found.add("message", info)
    for at, part in enumerate(parts):
        found.add("part", {"messageID": info["id"], **part}, f"x/{at:06d}")
