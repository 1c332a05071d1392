"""What harnesses write anew from call to call, in many wordings: times, identifiers, where the work is done."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from email.utils import format_datetime

from tests.planted.words import FOLDERS, WORDS, Draw, hexes, letters, listing, path, sentence, word

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
_EPOCH = datetime(1970, 1, 1)


def _month(d: datetime, language: str) -> str:
    return _MONTHS[language][d.month - 1]


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def _seconds(d: datetime) -> int:
    return (d - _EPOCH) // timedelta(seconds=1)


CLOCKS: tuple[Callable[[datetime], str], ...] = (
    lambda d: f"Today's date: {d:%Y-%m-%d}",
    lambda d: f"Today's date is {d:%m/%d/%Y}.",
    lambda d: f"  Today's date: {d:%a %b %d %Y}",
    lambda d: f"The current date is {d:%A, %B %d, %Y}.",
    lambda d: f"Today is {d:%A, %-d %B %Y}.",
    lambda d: f"Knowledge cutoff: 2024-06\nCurrent date: {d:%Y-%m-%d}",
    lambda d: f"My setup: today's date is {d:%A, %B %d, %Y} (formatted according to the user's locale).",
    lambda d: f"Heute ist {_WEEKDAYS[d.weekday()]}, der {d.day}. {_month(d, 'de')} {d.year}.",
    lambda d: f"Nous sommes le {d.day} {_month(d, 'fr')} {d.year}.",
    lambda d: f"Fecha actual: {d.day} de {_month(d, 'es')} de {d.year}",
    lambda d: f"Сегодня {d.day} {_month(d, 'ru')} {d.year} г.",
    lambda d: f"今日は{d.year}年{d.month}月{d.day}日({'月火水木金土日'[d.weekday()]})です。",
    lambda d: f"当前日期:{d.year}年{d.month:02d}月{d.day:02d}日",
    lambda d: f"오늘 날짜: {d.year}년 {d.month}월 {d.day}일",
    lambda d: f"- The current date is {d:%d.%m.%Y}",
    lambda d: f"<current_date>{d:%Y-%m-%d}</current_date>",
    lambda d: f'{{"current_date": "{d:%Y-%m-%d}", "locale": "en"}}',
    lambda d: f"It is {d:%B} {_ordinal(d.day)}, {d.year}.",
    lambda d: f"Current time: {d:%Y-%m-%d %H:%M:%S}",
    lambda d: f"Current date and time: {d:%Y-%m-%dT%H:%M:%SZ}",
    lambda d: f"# Current Time\n{d.month}/{d.day}/{d.year}, {d:%I:%M:%S %p} (Europe/Berlin, UTC+2:00)",
    lambda d: (
        f"# Current Time\nCurrent time in ISO 8601 UTC format: {d.isoformat(timespec='milliseconds')}Z\n"
        "User time zone: America/New_York, UTC-4:00"
    ),
    lambda d: f"<current_datetime>{d.isoformat(timespec='milliseconds')}</current_datetime>",
    lambda d: f"Now: {d.isoformat()}+00:00",
    lambda d: f"<timestamp>{d:%A, %b} {d.day}, {d.year}, {d:%-I:%M %p} (UTC+2)</timestamp>",
    lambda d: f"time={_seconds(d)}",
    lambda d: f"now={_seconds(d)}",
    lambda d: f"timestamp_ms: {(d - _EPOCH) // timedelta(milliseconds=1)}",
    lambda d: f"Date: {format_datetime(d)}",
    lambda d: f"The time is {d:%H:%M:%S} UTC.",
    lambda d: f"The local time is {d:%-I:%M %p}.",
    lambda d: f"It is now {d:%-I:%M %p} on {d:%B %-d, %Y}.",
    lambda d: f"Local clock {d:%d.%m.%Y %H:%M}",
    lambda d: f"Session clock {d:%Y/%m/%d %H:%M}",
    lambda d: f"{d:%a %b %d %H:%M:%S} UTC {d.year}",
    lambda d: f"Uhrzeit: {d:%H:%M} Uhr",
    lambda d: f"[{d:%H:%M:%S}] session resumed",
    lambda d: f"现在时间 {d:%H:%M}",
    lambda d: f'<datetime tz="UTC">{d:%Y%m%dT%H%M%SZ}</datetime>',
    lambda d: f'{{"now": "{d:%Y-%m-%dT%H:%M:%SZ}"}}',
    lambda d: f"Last sync {d:%d/%b/%Y:%H:%M:%S} +0000",
    lambda d: f"{d:%Y-%m-%d %H:%M:%S},{d.microsecond // 1000:03d} INFO session opened",
)


def _uuid(r: random.Random) -> uuid.UUID:
    return uuid.UUID(int=r.getrandbits(128), version=4)


def _ulid(r: random.Random) -> str:
    return "01J" + letters(r, 23, "0123456789ABCDEFGHJKMNPQRSTVWXYZ")


_IDS: tuple[Draw, ...] = (
    lambda r: str(_uuid(r)),
    lambda r: str(_uuid(r)).upper(),
    lambda r: hexes(r, r.choice((8, 12, 16, 24, 32, 40, 64))),
    lambda r: letters(r, r.choice((8, 12, 16, 22, 32))),
    lambda r: base64.b64encode(r.randbytes(r.choice((9, 16, 24)))).decode(),
    _ulid,
    lambda r: r.choice(("req_", "call_", "toolu_01", "msg_", "chatcmpl-", "sess-")) + letters(r, 22),
    lambda r: str(r.randint(10**5, 10**18)),
)


def _id(r: random.Random) -> str:
    """An identifier as programs make them."""
    return r.choice(_IDS)(r)


NONCES: tuple[Draw, ...] = (
    lambda r: f"Request ID: {_uuid(r)}",
    lambda r: f"request-id: {_id(r)}",
    lambda r: f"x-request-id={hexes(r, 32)}",
    lambda r: f"session: {letters(r, 21)}",
    lambda r: f"<session id='{_id(r)}' mode='agent'>",
    lambda r: f"x-anthropic-billing-header: cc_version=2.1.37.3a3; cc_entrypoint=cli; cch={hexes(r, 5)};",
    lambda r: f"hdr: v=1; id={hexes(r, 4)};",
    lambda r: f"hdr: v=2; id={_id(r)}; lang=en",
    lambda r: f'<trace id="{hexes(r, 16)}"/>',
    lambda r: f"Trace {_id(r)} of the agent",
    lambda r: f"traceparent: 00-{hexes(r, 32)}-{hexes(r, 16)}-01",
    lambda r: f"req_{letters(r, 24)}",
    lambda r: f"run_id: {r.getrandbits(40)}",
    _ulid,
    lambda r: f"run {_ulid(r)}",
    lambda r: f"[{_id(r)}]",
    lambda r: f"Nonce: {base64.b64encode(r.randbytes(16)).decode()}",
    lambda r: f"nonce={_id(r)}",
    lambda r: f"<untrusted_{hexes(r, 8)}>",
    lambda r: f"<tool_guard_{hexes(r, 8)}>",
    lambda r: f"conversation_id: conv-{hexes(r, 12)}",
    lambda r: f'{{"conversation": "{_id(r)}", "stream": true}}',
    lambda r: f"msg_{letters(r, 24)}",
    lambda r: f"Container: {hexes(r, 12)}",
    lambda r: f"<repr object at 0x7f{hexes(r, 10)}>",
    lambda r: f"chatcmpl-{letters(r, 29)}",
    lambda r: f"[cache-buster {r.random()}]",
    lambda r: f"cache buster {_id(r)}",
    lambda r: f"seed={r.randint(10**6, 10**9)}",
    lambda r: f"User: user_{hexes(r, 64)}_account__session_{_uuid(r)}",
    lambda r: f"Interaction Id: {hexes(r, 4).upper()}-{hexes(r, 4).upper()}",
)

_HOMES = ["/home/user", "/Users/ann", "/workspace", "/root", "C:\\Users\\bo", "/mnt/d/work", "/testbed", "~", "/tmp"]
_FLAGS = [" M", "M ", "??", "A ", " D", "MM"]


def _branch(r: random.Random) -> str:
    made = [f"feature/{word(r)}-{word(r)}", f"fix/{r.randint(10, 999)}", f"{word(r)}-wip"]
    return r.choice(["main", "master", "develop", *made])


def _folder(r: random.Random) -> str:
    home = r.choice(_HOMES)
    by = "\\" if "\\" in home else "/"
    return home + by + by.join(r.choice(FOLDERS + WORDS[:30]) for _ in range(r.randint(1, 3)))


def _status(r: random.Random) -> str:
    return "\n".join(f"{r.choice(_FLAGS)} {path(r)}" for _ in range(r.randint(1, 4)))


def _commits(r: random.Random) -> str:
    return "\n".join(
        f"{hexes(r, 7)} {r.choice(['fix', 'feat', 'chore', 'docs'])}: {sentence(r, 5)[:-1].lower()}"
        for _ in range(r.randint(2, 5))
    )


def _on_branch(r: random.Random) -> str:
    branch = _branch(r)
    return f"On branch {branch}\nYour branch is up to date with 'origin/{branch}'."


PLACES: tuple[Draw, ...] = (
    lambda r: f"Working directory: {_folder(r)}",
    lambda r: f"  <cwd>{_folder(r)}</cwd>",
    lambda r: f"cwd: {_folder(r)}",
    lambda r: f"PWD={_folder(r)}",
    lambda r: f'{{"cwd": {json.dumps(_folder(r))}, "shell": "bash"}}',
    lambda r: f"You are in {_folder(r)}.",
    lambda r: f"# Current Working Directory ({_folder(r)}) Files\n{listing(r)}",
    lambda r: f"I'm currently working in the directory: {_folder(r)}",
    lambda r: f"The user's OS version is darwin 24. The absolute path of the user's workspace is {_folder(r)}.",
    lambda r: f"(Current directory: {_folder(r)})",
    lambda r: f"(env) user@host:{_folder(r)}$ (git:{_branch(r)})",
    lambda r: f"Current branch: {_branch(r)}",
    lambda r: f"git branch = {_branch(r)}",
    lambda r: f"## {_branch(r)}...origin/main [ahead {r.randint(1, 40)}]",
    lambda r: f"Your branch is ahead of 'origin/main' by {r.randint(2, 90)} commits.",
    _on_branch,
    lambda r: f"HEAD: {hexes(r, 40)}",
    lambda r: f"HEAD is now at {hexes(r, 7)} {word(r)}",
    lambda r: f"commit {hexes(r, 40)}",
    lambda r: f"git status:\n{_status(r)}",
    lambda r: f"git status: M src/{word(r)}.py, ?? {word(r)}.txt",
    lambda r: f"gitStatus: {r.choice(('clean', 'dirty', 'M ' + path(r), '?? ' + path(r)))}",
    lambda r: (
        f"gitStatus: This is the git status at the start of the conversation.\nCurrent branch: {_branch(r)}\n\n"
        f"Main branch (you will usually use this for PRs): main\n\nStatus:\n{_status(r)}\n\n"
        f"Recent commits:\n{_commits(r)}"
    ),
    lambda r: (
        "Changes not staged for commit:\n" + "\n".join(f"\tmodified:   {path(r)}" for _ in range(r.randint(1, 3)))
    ),
)

FORMS: dict[str, tuple[Callable[..., str], ...]] = {"clock": CLOCKS, "nonce": NONCES, "working_directory": PLACES}


class Slot:
    """A stretch of a prompt that is written anew: one wording of a kind, drawn once, and other values of it."""

    def __init__(self, r: random.Random, kind: str, form: int | None = None) -> None:
        forms = FORMS[kind]
        self.kind = kind
        self._write = r.choice(forms) if form is None else forms[form]
        self._at = datetime(2024, 1, 1) + timedelta(seconds=r.randint(0, 80_000_000), milliseconds=r.randint(0, 999))
        self._text = self._drawn(r)
        self.form = self._text[:12]

    def text(self) -> str:
        return self._text

    def step(self, r: random.Random) -> None:
        """Give it another value; a clock goes forward."""
        before = self._text
        while self._text == before:
            later = r.choice([1, 7, 61, 300, 4000, 90_000, 1_500_000])
            self._at += timedelta(seconds=later, milliseconds=r.randint(1, 900))
            self._text = self._drawn(r)

    def _drawn(self, r: random.Random) -> str:
        return self._write(self._at if self.kind == "clock" else r)
