"""Dates and times in texts, and whether a change is one of them."""

from __future__ import annotations

import re

from traces.divergence.difference import ID_LABEL, Difference

CHANCE_LETTERS = 6
"""So many letters and digits of a change may be no part of a date or a path: "on", "at", "UTC"."""

_MONTHS = (
    "jan(?:uary|uar|uari|vier)?|j[aä]nner|feb(?:ruary|ruar|ruari)?|f[eé]v(?:rier)?|mar(?:ch|s|zo|ço|t)?|m[aä]rz|maart"
    "|mrt|apr(?:il|ile)?|avr(?:il)?|abr(?:il)?|may|mai|mayo|maio|maggio|mei|jun[ei]?|juin|junio|junho|giugno|jul[yi]?"
    "|juil(?:let)?|julio|julho|luglio|aug(?:ust|ustus)?|ao[uû]t|agosto|sep(?:t|tember|tembre)?|set(?:iembre|embro"
    "|tembre)|septiembre|o[ck]t(?:ober|obre|ubre)?|outubro|ottobre|nov(?:ember|embre|iembre|embro)?"
    "|de[cz](?:ember|embre|embro)?|d[eé]c(?:embre)?|dic(?:iembre|embre)?|enero|ene|janeiro|fevereiro|febrero|gennaio"
    "|febbraio|январ[ья]|феврал[ья]|март[а]?|апрел[ья]|ма[йя]|июн[ья]|июл[ья]|август[а]?|сентябр[ья]|октябр[ья]"
    "|ноябр[ья]|декабр[ья]"
)
_MONTH = rf"(?:{_MONTHS})\b\.?"
_DAY = (
    r"\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?\b|\b(?:montag|dienstag|mittwoch|donnerstag"
    r"|freitag|samstag|sonntag|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche|lunes|martes|mi[eé]rcoles|jueves"
    r"|viernes|s[aá]bado|domingo|segunda|ter[cç]a|quarta|quinta|sexta|lunedì|martedì|mercoledì|giovedì|venerdì|sabato"
    r"|domenica|maandag|woensdag|donderdag|vrijdag|zaterdag|zondag|понедельник|вторник|сред[ау]|четверг|пятниц[ау]"
    r"|суббот[ау]|воскресенье)\b|[月火水木金土日]曜日?|(?:星期|周|週)[一二三四五六日天]|[월화수목금토일]요일"
)
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[ap]\.?m\b\.?)?"
_ZONE = r"(?:\s?(?:Z|UTC|GMT|[+-]\d{2}:?\d{2}))?"
CLOCK = re.compile(
    rf"\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T _]{_TIME})?{_ZONE}"
    rf"|(?<![\d.])\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}(?!\d)"
    rf"|(?<![\d.])\d{{1,2}}[-/ ](?:{_MONTHS})[-/ ]\d{{4}}(?::{_TIME})?{_ZONE}"
    rf"|(?<!\w)\d{{8}}T\d{{4,6}}Z?"
    rf"|{_TIME}{_ZONE}"
    rf"|(?:(?:{_DAY}),?\s+(?:de[rn]\s+)?)?(?:\d{{1,2}}(?:st|nd|rd|th|er|\.|º)?\s+(?:of\s+|de\s+)?{_MONTH}"
    rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b)"
    rf"(?:,?\s+(?:de\s+)?\d{{4}}\b)?|\b{_MONTH}\s+(?:de\s+)?\d{{4}}\b|{_DAY}|\b\d{{4}}-W\d\d(?:-\d)?\b"
    r"|\d{4}\s?[年년]\s?\d{1,2}\s?[月월](?:\s?\d{1,2}\s?[日日号일])?(?:\s?[(（][月火水木金土日一二三四五六월화수목금토일][)）])?"
    r"|(?<!\d)\d{1,2}\s?[月월]\s?\d{1,2}\s?[日号일](?:\s?[(（][月火水木金土日一二三四五六월화수목금토일][)）])?"
    r"|(?<!\d)\d{1,2}\s?[時时点點시]\s?\d{1,2}\s?[分분](?:\s?\d{1,2}\s?[秒초])?"
    r"|(?<![\w.-])1[4-9]\d{8}(?:\d{3}|\d{6}|\d{9}|\.\d+)?(?![\w-])"
    r"|\b\d+ (?:second|minute|hour|day)s? ago\b",
    re.IGNORECASE,
)
_CLOCK_LABEL = re.compile(
    r"(?:\b|_)(?:(?:date|time|day)s?|today|now|clock|timestamp|datetime|uptime|elapsed|epoch|heute|datum|uhrzeit|zeit"
    r"|aujourd['’]hui|nous sommes|heure|hoy|fecha|hora|hoje|oggi|data|vandaag|сегодня|дата|время)(?:\b|_)"
    r"|今日|今天|本日|日付|日期|时间|時間|時刻|現在|현재|오늘|날짜|시간",
    re.IGNORECASE,
)


def is_clock(found: Difference) -> bool:
    """Whether a time or a date became another: all of the change lies in such, but for a word or two."""
    label = found.label
    a, b, start = found.words()
    named = bool(_CLOCK_LABEL.search(label[-60:]) or _CLOCK_LABEL.search(a) or _CLOCK_LABEL.search(b))
    if not named and ID_LABEL.search(label[:start]) and a.isdigit() and b.isdigit():
        return False
    if within(CLOCK, found.before, found.low, found.high_before) and within(
        CLOCK, found.after, found.low, found.high_after
    ):
        return True
    return named and all(part and not part.strip(" .,:/-0123456789TZ") for part in (a, b)) and not ID_LABEL.search(
        label[:start]
    )  # fmt: skip


def within(pattern: re.Pattern[str], text: str, low: int, high: int) -> bool:
    """Whether a match touches the stretch, and matches cover its letters and digits but for a few."""
    begin = max(0, text.rfind("\n", 0, low) + 1, low - 120)
    touched = False
    bare = [c.isalnum() for c in text[low:high]]
    for match in pattern.finditer(text, begin, min(len(text), high + 120)):
        if match.start() > high or (match.start() == high and low < high):
            break
        if match.end() < low or (match.end() == low and low < high):
            continue
        touched = True
        for i in range(max(low, match.start()), min(high, match.end())):
            bare[i - low] = False
    left = sum(bare)
    return touched and left <= min(CHANCE_LETTERS, max(2, len(bare) // 2))
