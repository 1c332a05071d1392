"""What harnesses write anew from call to call: every class draws a wording once, and other values of it."""

from __future__ import annotations

import base64
import random
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Protocol

from tests.planted.harness.texts import FOLDERS, WORDS, Draw, hexes, letters, listing, path, sentence, word


class Slot(Protocol):
    """A stretch of a prompt that a harness writes anew."""

    kind: str
    form: str

    def text(self) -> str: ...
    def step(self, r: random.Random) -> None: ...


_DE = [
    "Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
]  # fmt: skip
_FR = [
    "janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre",
    "décembre",
]  # fmt: skip
_ES = [
    "enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre", "octubre", "noviembre",
    "diciembre",
]  # fmt: skip
_RU = [
    "января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября", "октября", "ноября",
    "декабря",
]  # fmt: skip
_DE_DAYS = ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"]
_JA_DAYS = "月火水木金土日"
_EPOCH = datetime(1970, 1, 1)


def _ordinal(day: int) -> str:
    return f"{day}{'th' if 10 < day < 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def _hour(d: datetime) -> str:
    return f"{d.hour % 12 or 12}:{d:%M %p}"


DATES: tuple[Callable[[datetime], str], ...] = (
    lambda d: f"Today's date: {d:%Y-%m-%d}",
    lambda d: f"Today's date is {d:%m/%d/%Y}.",
    lambda d: f"  Today's date: {d:%a %b %d %Y}",
    lambda d: f"The current date is {d:%A, %B %d, %Y}.",
    lambda d: f"Knowledge cutoff: 2024-06\nCurrent date: {d:%Y-%m-%d}",
    lambda d: f"My setup: today's date is {d:%A, %B %d, %Y} (formatted according to the user's locale).",
    lambda d: f"Heute ist {_DE_DAYS[d.weekday()]}, der {d.day}. {_DE[d.month - 1]} {d.year}.",
    lambda d: f"Nous sommes le {d.day} {_FR[d.month - 1]} {d.year}.",
    lambda d: f"Fecha actual: {d.day} de {_ES[d.month - 1]} de {d.year}",
    lambda d: f"Сегодня {d.day} {_RU[d.month - 1]} {d.year} г.",
    lambda d: f"今日は{d.year}年{d.month}月{d.day}日({_JA_DAYS[d.weekday()]})です。",
    lambda d: f"当前日期:{d.year}年{d.month:02d}月{d.day:02d}日",
    lambda d: f"오늘 날짜: {d.year}년 {d.month}월 {d.day}일",
    lambda d: f"- The current date is {d:%d.%m.%Y}",
    lambda d: f"<current_date>{d:%Y-%m-%d}</current_date>",
    lambda d: f"It is {d:%B} {_ordinal(d.day)}, {d.year}.",
)
TIMES: tuple[Callable[[datetime], str], ...] = (
    lambda d: f"Current time: {d:%Y-%m-%d %H:%M:%S}",
    lambda d: f"# Current Time\n{d.month}/{d.day}/{d.year}, {d:%I:%M:%S %p} (Europe/Berlin, UTC+2:00)",
    lambda d: (
        f"# Current Time\nCurrent time in ISO 8601 UTC format: {d:%Y-%m-%dT%H:%M:%S}.{d.microsecond // 1000:03d}Z\n"
        "User time zone: America/New_York, UTC-4:00"
    ),
    lambda d: f"Now: {d.isoformat()}+00:00",
    lambda d: f"<timestamp>{d:%A, %b} {d.day}, {d.year}, {_hour(d)} (UTC+2)</timestamp>",
    lambda d: f"time={(d - _EPOCH) // timedelta(seconds=1)}",
    lambda d: f"timestamp_ms: {(d - _EPOCH) // timedelta(milliseconds=1)}",
    lambda d: f"Date: {d:%a, %d %b %Y %H:%M:%S} GMT",
    lambda d: f"The local time is {_hour(d)}.",
    lambda d: f"{d:%a %b %d %H:%M:%S} UTC {d.year}",
    lambda d: f"Uhrzeit: {d:%H:%M} Uhr",
    lambda d: f"[{d:%H:%M:%S}] session resumed",
    lambda d: f"现在时间 {d:%H:%M}",
    lambda d: f'<datetime tz="UTC">{d:%Y%m%dT%H%M%SZ}</datetime>',
    lambda d: f'{{"now": "{d:%Y-%m-%dT%H:%M:%SZ}"}}',
    lambda d: f"Last sync {d:%d/%b/%Y:%H:%M:%S} +0000",
)


class Clock:
    """A date, or a time of day."""

    kind = "clock"

    def __init__(self, r: random.Random) -> None:
        self.dated = r.random() < 0.45
        self._write = r.choice(DATES if self.dated else TIMES)
        self._at = datetime(2024, 1, 1) + timedelta(seconds=r.randint(0, 80_000_000), milliseconds=r.randint(0, 999))
        self.form = self.text()[:12]

    def text(self) -> str:
        return self._write(self._at)

    def step(self, r: random.Random) -> None:
        before = self.text()
        while self.text() == before:
            if self.dated:
                self._at += timedelta(days=r.choice([1, 1, 1, 2, 17, 40]))
            else:
                later = r.choice([1, 7, 61, 300, 4000, 90000])
                self._at += timedelta(seconds=later, milliseconds=r.randint(1, 900))


def _uuid(r: random.Random) -> uuid.UUID:
    return uuid.UUID(int=r.getrandbits(128))


NONCES: tuple[Draw, ...] = (
    lambda r: f"Request ID: {_uuid(r)}",
    lambda r: f"x-request-id={hexes(r, 32)}",
    lambda r: f"session: {letters(r, 21)}",
    lambda r: f"x-anthropic-billing-header: cc_version=2.1.37.3a3; cc_entrypoint=cli; cch={hexes(r, 5)};",
    lambda r: f'<trace id="{hexes(r, 16)}"/>',
    lambda r: f"traceparent: 00-{hexes(r, 32)}-{hexes(r, 16)}-01",
    lambda r: f"req_{letters(r, 24)}",
    lambda r: f"run_id: {r.getrandbits(40)}",
    lambda r: f"01J{letters(r, 23, '0123456789ABCDEFGHJKMNPQRSTVWXYZ')}",
    lambda r: f"Nonce: {base64.b64encode(r.randbytes(16)).decode()}",
    lambda r: f"<untrusted_{hexes(r, 8)}>",
    lambda r: f"conversation_id: conv-{hexes(r, 12)}",
    lambda r: f"msg_{letters(r, 24)}",
    lambda r: f"Container: {hexes(r, 12)}",
    lambda r: f"<repr object at 0x7f{hexes(r, 10)}>",
    lambda r: f"chatcmpl-{letters(r, 29)}",
    lambda r: f"[cache-buster {r.random()}]",
    lambda r: f"seed={r.randint(10**6, 10**9)}",
    lambda r: f"User: user_{hexes(r, 64)}_account__session_{_uuid(r)}",
    lambda r: f"Interaction Id: {hexes(r, 4).upper()}-{hexes(r, 4).upper()}",
)


class Nonce:
    """An identifier."""

    kind = "nonce"

    def __init__(self, r: random.Random) -> None:
        self._write = r.choice(NONCES)
        self._text = self._write(r)
        self.form = self._text[:12]

    def text(self) -> str:
        return self._text

    def step(self, r: random.Random) -> None:
        before = self._text
        while self._text == before:
            self._text = self._write(r)


_HOMES = ["/home/user", "/Users/ann", "/workspace", "/root", "C:\\Users\\bo", "/mnt/d/work", "/testbed"]
_FLAGS = [" M", "M ", "??", "A ", " D", "MM"]


class Directory:
    """Where the work goes on: a folder, a branch, what git says of it."""

    kind = "working_directory"

    def __init__(self, r: random.Random) -> None:
        self.home = r.choice(_HOMES)
        self.branch = self._some_branch(r)
        self._write = r.choice(self._forms())
        self._text = self._write(r)
        self.form = self._text[:12]

    def text(self) -> str:
        return self._text

    def step(self, r: random.Random) -> None:
        before = self._text
        while self._text == before:
            self._text = self._write(r)

    def _some_branch(self, r: random.Random) -> str:
        made = [f"feature/{word(r)}-{word(r)}", f"fix/{r.randint(10, 999)}", f"{word(r)}-wip"]
        return r.choice(["main", "master", "develop", *made])

    def _folder(self, r: random.Random) -> str:
        by = "\\" if "\\" in self.home else "/"
        return self.home + by + by.join(r.choice(FOLDERS + WORDS[:30]) for _ in range(r.randint(1, 3)))

    def _status(self, r: random.Random) -> str:
        return "\n".join(f"{r.choice(_FLAGS)} {path(r)}" for _ in range(r.randint(1, 4)))

    def _commits(self, r: random.Random) -> str:
        return "\n".join(
            f"{hexes(r, 7)} {r.choice(['fix', 'feat', 'chore', 'docs'])}: {sentence(r, 5)[:-1].lower()}"
            for _ in range(r.randint(2, 5))
        )

    def _on_branch(self, r: random.Random) -> str:
        branch = self._some_branch(r)
        return f"On branch {branch}\nYour branch is up to date with 'origin/{branch}'."

    def _forms(self) -> list[Draw]:
        return [
            lambda r: f"Working directory: {self._folder(r)}",
            lambda r: f"  <cwd>{self._folder(r)}</cwd>",
            lambda r: f"cwd: {self._folder(r)}",
            lambda r: f"# Current Working Directory ({self._folder(r)}) Files\n{listing(r)}",
            lambda r: f"Current branch: {self._some_branch(r)}",
            lambda r: (
                "gitStatus: This is the git status at the start of the conversation.\n"
                f"Current branch: {self.branch}\n\nMain branch (you will usually use this for PRs): main\n\n"
                f"Status:\n{self._status(r)}\n\nRecent commits:\n{self._commits(r)}"
            ),
            self._on_branch,
            lambda r: f"I'm currently working in the directory: {self._folder(r)}",
            lambda r: (
                f"The user's OS version is darwin 24. The absolute path of the user's workspace is {self._folder(r)}."
            ),
            lambda r: f"git status:\n{self._status(r)}",
            lambda r: f"(Current directory: {self._folder(r)})",
            lambda r: f"HEAD: {hexes(r, 40)}",
            lambda r: f"(env) user@host:{self._folder(r)}$ (git:{self._some_branch(r)})",
        ]


SLOTS: dict[str, Callable[[random.Random], Slot]] = {
    "clock": Clock,
    "nonce": Nonce,
    "working_directory": Directory,
}
