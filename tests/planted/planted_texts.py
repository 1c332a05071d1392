"""Texts of a coding session as they come, and the many ways in which programs write what changes in them."""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime

Draw = Callable[[random.Random], str]

_NOUNS = [
    "parser", "session", "config", "request", "handler", "cache", "token", "report", "widget", "invoice", "customer",
    "route", "schema", "index", "migration", "queue", "worker", "socket", "payload", "fixture", "snapshot",
    "release", "pipeline", "branch", "commit", "time", "date", "memory", "status", "note", "summary",
]  # fmt: skip
_VERBS = [
    "reads", "writes", "checks", "drops", "keeps", "moves", "returns", "builds", "parses", "loads", "opens",
    "updates", "removes", "sends", "counts",
]  # fmt: skip
_ADJECTIVES = [
    "old", "new", "slow", "empty", "broken", "second", "local", "shared", "stale", "nested", "public", "private",
    "first", "last",
]  # fmt: skip
_FILES = [
    "src/app.py", "src/parser/lexer.py", "lib/cache.ts", "tests/test_api.py", "README.md", "pkg/server/main.go",
    "docs/guide.md", "web/index.html", "config/settings.toml", "src/routes/users.rs", "Makefile", "scripts/build.sh",
]  # fmt: skip


def sentence(rng: random.Random) -> str:
    """A sentence about code; some hold words that a careless diagnosis would take for a cause."""
    said = (
        f"The {rng.choice(_ADJECTIVES)} {rng.choice(_NOUNS)} {rng.choice(_VERBS)} the {rng.choice(_ADJECTIVES)} "
        f"{rng.choice(_NOUNS)}"
    )
    more = rng.random()
    if more < 0.3:
        said += f" before {rng.choice(_FILES)} {rng.choice(_VERBS)} {rng.randint(2, 400)} {rng.choice(_NOUNS)}s"
    elif more < 0.5:
        said += f", so `{rng.choice(_NOUNS)}_{rng.choice(_NOUNS)}` {rng.choice(_VERBS)} nothing"
    return said + rng.choice((".", ".", ".", "!", ";"))


def prose(rng: random.Random, least: int = 2, most: int = 7) -> str:
    """Sentences, some on lines of their own."""
    out = sentence(rng)
    for _ in range(rng.randint(least, most)):
        out += rng.choice((" ", " ", "\n", "\n\n")) + sentence(rng)
    return out


def code(rng: random.Random) -> str:
    """A few lines of Python."""
    lines = [f"def {rng.choice(_NOUNS)}_{rng.choice(_VERBS)}({rng.choice(_NOUNS)}, limit={rng.randint(1, 99)}):"]
    for _ in range(rng.randint(3, 12)):
        depth = "    " * rng.randint(1, 3)
        name = rng.choice(_NOUNS)
        lines.append(
            rng.choice(
                (
                    f"{depth}{name} = {rng.choice(_NOUNS)}.{rng.choice(_VERBS)}({rng.randint(0, 999)})",
                    f"{depth}if {name} is None:",
                    f'{depth}raise ValueError("{rng.choice(_ADJECTIVES)} {name}")',
                    f"{depth}# {sentence(rng)}",
                )
            )
        )
    return "\n".join(lines)


def listing(rng: random.Random) -> str:
    """What `ls -l` shows, dates and all."""
    return "\n".join(
        f"-rw-r--r-- 1 dev dev {rng.randint(10, 99999):>6} {moment(rng):%b %d %H:%M} {rng.choice(_FILES)}"
        for _ in range(rng.randint(4, 14))
    )


def test_run(rng: random.Random) -> str:
    """What pytest prints."""
    files = rng.sample(_FILES, rng.randint(3, 7))
    body = "\n".join(f"{file} {'.' * rng.randint(2, 30)} [{rng.randint(1, 99)}%]" for file in files)
    return (
        f"collected {rng.randint(3, 80)} items\n\n{body}\n\n{rng.randint(3, 80)} passed in {rng.uniform(0.1, 9):.2f}s"
    )


def git_log(rng: random.Random) -> str:
    """What `git log --oneline` shows."""
    return "\n".join(f"{hexes(rng, 7)} {sentence(rng)}" for _ in range(rng.randint(4, 12)))


def record(rng: random.Random) -> object:
    """A JSON value."""
    return {
        "ok": rng.random() < 0.5,
        "path": rng.choice(_FILES),
        "when": f"{moment(rng):%Y-%m-%dT%H:%M:%SZ}",
        "message": sentence(rng) + rng.choice(("", " naïve café", " – fin")),
        "matches": [{"line": rng.randint(1, 900), "text": sentence(rng)} for _ in range(rng.randint(2, 6))],
        "id": hexes(rng, 12),
    }


def tool_output(rng: random.Random) -> str:
    """What a tool returns."""
    drawn = rng.random()
    if drawn < 0.25:
        return json.dumps(record(rng), ensure_ascii=False)
    if drawn < 0.4:
        return code(rng) + "\n" + code(rng)
    return rng.choice((listing, test_run, git_log, prose))(rng)


def moment(rng: random.Random) -> datetime:
    """A moment of some years."""
    return datetime.fromtimestamp(rng.randint(1_700_000_000, 1_790_000_000), UTC)


def hexes(rng: random.Random, digits: int) -> str:
    """Random hex digits."""
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _of(rng: random.Random, alphabet: str, size: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(size))


_LETTERS = string.ascii_letters + string.digits


def random_id(rng: random.Random) -> str:
    """A random id as programs make them."""
    return rng.choice(
        (
            lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)).upper(),
            lambda: hexes(rng, rng.choice((8, 12, 16, 24, 32, 40, 64))),
            lambda: _of(rng, _LETTERS, rng.choice((8, 12, 16, 22, 32))),
            lambda: base64.b64encode(rng.randbytes(rng.choice((9, 16, 24)))).decode(),
            lambda: "01" + _of(rng, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24),
            lambda: _of(rng, _LETTERS + "_-", 21),
            lambda: rng.choice(("req_", "call_", "toolu_01", "msg_", "chatcmpl-", "sess-")) + _of(rng, _LETTERS, 22),
            lambda: str(rng.randint(10**5, 10**18)),
        )
    )()


def _path(rng: random.Random) -> str:
    parts = [rng.choice(_NOUNS) for _ in range(rng.randint(1, 3))]
    return rng.choice(
        (
            lambda: "/home/" + "/".join([rng.choice(("ana", "dev", "li")), *parts]),
            lambda: "/" + "/".join(["workspace", *parts]),
            lambda: "C:\\Users\\" + "\\".join([rng.choice(("ana", "dev")), *parts]),
            lambda: "~/" + "/".join(parts),
            lambda: "/tmp/" + parts[0] + "-" + hexes(rng, 6),
        )
    )()


def _branch(rng: random.Random) -> str:
    return rng.choice(
        ("main", "dev", f"feature/{rng.choice(_NOUNS)}-{rng.randint(1, 99)}", f"fix-{rng.choice(_NOUNS)}")
    )


def _status(rng: random.Random) -> str:
    return "\n".join(f"{rng.choice((' M', '??', 'A ', 'D '))} {file}" for file in rng.sample(_FILES, rng.randint(1, 4)))


_MONTHS = {
    language: names.split(" ")
    for language, names in {
        "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    }.items()
}
_WEEKDAYS = ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"]


def _month(at: datetime, language: str) -> str:
    return _MONTHS[language][at.month - 1]


def _german(rng: random.Random) -> str:
    at = moment(rng)
    return f"Heute ist {_WEEKDAYS[at.weekday()]}, der {at.day}. {_month(at, 'de')} {at.year}."


def _french(rng: random.Random) -> str:
    at = moment(rng)
    return f"Nous sommes le {at.day} {_month(at, 'fr')} {at.year}."


def _spanish(rng: random.Random) -> str:
    at = moment(rng)
    return f"Fecha: {at.day} de {_month(at, 'es')} de {at.year}"


def _russian(rng: random.Random) -> str:
    at = moment(rng)
    return f"Сегодня {at.day} {_month(at, 'ru')} {at.year} г."


def _japanese(rng: random.Random) -> str:
    at = moment(rng)
    return f"今日は{at.year}年{at.month}月{at.day}日({'月火水木金土日'[at.weekday()]})です。"


CLOCKS: tuple[Draw, ...] = (
    _german,
    _french,
    _spanish,
    _russian,
    _japanese,
    lambda rng: f"当前日期：{moment(rng):%Y年%m月%d日}",
    lambda rng: f"오늘 날짜: {moment(rng):%Y년 %-m월 %-d일}",
    lambda rng: f"# Current Time\n{moment(rng):%-m/%-d/%Y, %-I:%M:%S %p} (Europe/Berlin, UTC+2:00)",
    lambda rng: f"Last sync {moment(rng):%d/%b/%Y:%H:%M:%S} +0000",
    lambda rng: f"<timestamp>{moment(rng):%A, %b %-d, %Y, %-I:%M %p} (UTC+2)</timestamp>",
    lambda rng: f"Current time: {moment(rng):%Y-%m-%dT%H:%M:%SZ}",
    lambda rng: f"Today is {moment(rng):%A, %-d %B %Y}.",
    lambda rng: f"Today's date is {moment(rng):%m/%d/%Y}.",
    lambda rng: f"The current date is {moment(rng):%Y-%m-%d}.",
    lambda rng: f"Date: {format_datetime(moment(rng))}",
    lambda rng: f"timestamp: {moment(rng).timestamp():.0f}",
    lambda rng: f"ts={1000 * int(moment(rng).timestamp()) + rng.randint(0, 999)}",
    lambda rng: f"{moment(rng):%a %b %e %H:%M:%S UTC %Y}",
    lambda rng: f"It is now {moment(rng):%-I:%M %p} on {moment(rng):%B %-d, %Y}.",
    lambda rng: f"<current_datetime>{moment(rng).isoformat(timespec='milliseconds')}</current_datetime>",
    lambda rng: f"[{moment(rng):%H:%M:%S}] agent ready",
    lambda rng: f"Local clock {moment(rng):%d.%m.%Y %H:%M}",
    lambda rng: f'{{"current_date": "{moment(rng):%Y-%m-%d}", "locale": "en"}}',
    lambda rng: f"Session started {moment(rng):%Y%m%dT%H%M%SZ}",
    lambda rng: f"{moment(rng):%Y-%m-%d %H:%M:%S},{rng.randint(100, 999)} INFO session opened",
)
NONCES: tuple[Draw, ...] = (
    lambda rng: f"traceparent: 00-{hexes(rng, 32)}-{hexes(rng, 16)}-01",
    lambda rng: f"<tool_guard_{hexes(rng, 8)}>",
    lambda rng: f"<repr object at 0x7f{hexes(rng, 10)}>",
    lambda rng: f"request-id: {random_id(rng)}",
    lambda rng: f"nonce={random_id(rng)}",
    lambda rng: f"hdr: v=2; id={random_id(rng)}; lang=en",
    lambda rng: f"<session id='{random_id(rng)}' mode='agent'>",
    lambda rng: f"Trace {random_id(rng)} of the agent",
    lambda rng: f'{{"conversation": "{random_id(rng)}", "stream": true}}',
    lambda rng: f"x-billing: cc_version=2.1; cch={hexes(rng, 5)};",
    lambda rng: f"[{random_id(rng)}]",
    lambda rng: f"cache buster {random_id(rng)}",
)
PLACES: tuple[Draw, ...] = (
    lambda rng: f"(venv) dev@host:{_path(rng)}$ (git:{_branch(rng)})",
    lambda rng: f"(Current directory: {_path(rng)})",
    lambda rng: f"The absolute path of the user's workspace is {_path(rng)}.",
    lambda rng: f"Working directory: {_path(rng)}",
    lambda rng: f"cwd: {_path(rng)}",
    lambda rng: f"<cwd>{_path(rng)}</cwd>",
    lambda rng: f"You are in {_path(rng)}.",
    lambda rng: f"PWD={_path(rng)}",
    lambda rng: f'{{"cwd": {json.dumps(_path(rng))}, "shell": "bash"}}',
    lambda rng: f"On branch {_branch(rng)}",
    lambda rng: f"Current branch: {_branch(rng)}",
    lambda rng: f"git branch = {_branch(rng)}",
    lambda rng: f"## {_branch(rng)}...origin/main [ahead {rng.randint(1, 40)}]",
    lambda rng: f"HEAD {hexes(rng, rng.choice((7, 8, 40)))}",
    lambda rng: f"commit {hexes(rng, 40)}",
    lambda rng: f"Git status:\n{_status(rng)}",
    lambda rng: f"gitStatus: {rng.choice(('clean', 'dirty', 'M ' + rng.choice(_FILES), '?? ' + rng.choice(_FILES)))}",
    lambda rng: f"Status:\n{_status(rng)}\n\nRecent commits:\n{hexes(rng, 7)} {sentence(rng)}",
    lambda rng: f"Your branch is ahead of 'origin/main' by {rng.randint(2, 90)} commits.",
    lambda rng: "Changes not staged for commit:\n" + "\n".join(
        f"\tmodified:   {file}" for file in rng.sample(_FILES, rng.randint(1, 3))
    ),
)  # fmt: skip


def _todo(rng: random.Random) -> str:
    return "\n".join(f"- [{rng.choice(' x')}] {sentence(rng)}" for _ in range(rng.randint(2, 5)))


REMINDERS: tuple[Draw, ...] = (
    lambda rng: (
        f"<environment_details>\n# Open Tabs\n{rng.choice(_FILES)}\n\n# Current Mode\nACT\n</environment_details>"
    ),
    lambda rng: f"<user_instructions>\n{prose(rng, 1, 3)}\n</user_instructions>",
    lambda rng: f"<EXTRA_INFO>\n{sentence(rng)}\n</EXTRA_INFO>",
    lambda rng: f'<attached_files>\n<file path="{rng.choice(_FILES)}">\n{code(rng)}\n</file>\n</attached_files>',
    lambda rng: f"<rules>\n- {sentence(rng)}\n- {sentence(rng)}\n</rules>",
    lambda rng: f"<context_window_usage>You have used {rng.randint(20, 95)}% of your context.</context_window_usage>",
    lambda rng: f"ENVIRONMENT REMINDER: You have {rng.randint(2, 30)} turns left to complete the task.",
    lambda rng: f"Hinweis: {sentence(rng)}",
    lambda rng: f"<system-reminder>\n{prose(rng, 1, 3)}\n</system-reminder>",
    lambda rng: f"<system_reminder>{sentence(rng)}</system_reminder>",
    lambda rng: f"Reminder: {sentence(rng)}",
    lambda rng: f"REMINDER - {prose(rng, 0, 2)}",
    lambda rng: f"NOTE: {sentence(rng)}",
    lambda rng: f"Please remember to {rng.choice(_VERBS)} the {rng.choice(_NOUNS)}. {sentence(rng)}",
    lambda rng: f"Your todo list has changed:\n{_todo(rng)}",
    lambda rng: f"<reminder>{prose(rng, 1, 2)}</reminder>",
    lambda rng: f"Current todos:\n{_todo(rng)}",
    lambda rng: f"IMPORTANT: {sentence(rng)}",
    lambda rng: f"[System note] {sentence(rng)}",
    lambda rng: f"<todo_list>\n{_todo(rng)}\n</todo_list>",
)
"""What a harness injects into a conversation."""

SUMMARIES: tuple[Draw, ...] = (
    lambda rng: (
        f"<state_snapshot>\n    <overall_goal>{sentence(rng)}</overall_goal>\n    <key_knowledge>\n{prose(rng, 2, 4)}\n"
        "    </key_knowledge>\n</state_snapshot>"
    ),
    lambda rng: f"**Goal**: {sentence(rng)}\n**Done so far**: {prose(rng, 1, 3)}\n**Next steps**: {sentence(rng)}",
    lambda rng: (
        "Another language model started to solve this problem and produced a summary of its thinking process. Here is "
        f"the summary:\n{prose(rng, 3, 8)}"
    ),
    lambda rng: f"I spoke to you previously about a number of things.\n{prose(rng, 3, 6)}",
    lambda rng: f"Zusammenfassung des bisherigen Gesprächs:\n{prose(rng, 3, 6)}",
    lambda rng: f"The following is a recap of what has been done:\n- {sentence(rng)}\n- {sentence(rng)}",
    lambda rng: (
        "This session is being continued from a previous conversation that ran out of context. "
        f"The conversation is summarized below:\n{prose(rng, 3, 8)}"
    ),
    lambda rng: f"<summary>\n{prose(rng, 3, 8)}\n</summary>",
    lambda rng: f"Here is a summary of the conversation so far:\n\n{prose(rng, 3, 8)}",
    lambda rng: f"## Conversation summary\n{prose(rng, 3, 8)}",
    lambda rng: f"<conversation_summary>{prose(rng, 3, 8)}</conversation_summary>",
    lambda rng: f"Summary of earlier messages: {prose(rng, 3, 8)}",
    lambda rng: (
        f"The conversation history before this point was compacted into the following summary:\n{prose(rng, 3)}"
    ),
    lambda rng: f"[Previous conversation summary]\n{prose(rng, 3, 8)}",
    lambda rng: f"# Summary of our work\n\n1. {prose(rng, 1, 3)}\n2. {prose(rng, 1, 3)}",
    lambda rng: f"**Context summary:** {prose(rng, 3, 8)}",
    lambda rng: f"Earlier in this conversation (summarized): {prose(rng, 3, 8)}",
)
CLEARED = (
    "[Old tool result content cleared]",
    "[Tool output removed to save space]",
    "<persisted-output>Output too large.</persisted-output>",
    "...",
    "Old environment output: (41 lines omitted)",
    "[[NOTE] This file read has been removed to save space in the context window.]",
)
"""What stands in the place of a tool's result that a harness took out of the history."""
