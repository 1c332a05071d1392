"""Directories, branches, commits and what git says of the work, and whether a change is one of them."""

from __future__ import annotations

import re

from traces.divergence.clocks import within
from traces.divergence.difference import Difference

LEAST_HEX = 7
"""Hex digits of a commit's abbreviated name."""

_PATH = re.compile(r"(?<![\w.:/\\<])(?:~|[A-Za-z]:)?(?:[/\\][\w.@+%-]+)+[/\\]?|(?<![\w/])~(?![\w/])")
_PROMPT = re.compile(r"[\w.-]+@[\w.-]+:[~/\\\w]")
"""What a shell asks with: user, host and directory."""

_LINK = r"""["'`*>)\]]*\s*(?:(?:is\s+(?:now\s+)?)?(?:at|on|in)\b|is\b(?:\s+now\b)?|[:=]+)?\s*["'`*(\[<]*"""
_SIGN = r"""["'`*>)\]]*\s*(?:[:=>]+|\bis\b)\s*["'`*(\[<]*"""
_DIRECTORY = (
    r"(?:cwd|pwd|dir(?:ectory)?|folder|workspace|project|repo(?:sitory)?|work[ _-]?tree)(?:[ _-]?(?:root|path|dir))?"
)
_DIRECTORY_LABEL = re.compile(rf"(?:\b|_){_DIRECTORY}(?:{_SIGN}|\s*\(\s*)$", re.IGNORECASE)
_SITUATED = re.compile(r"\b(?:you(?:['’]re| are)(?: now)?|located|running|working) (?:in|at|from)\W+$", re.IGNORECASE)
_BRANCH_LABEL = re.compile(
    rf"(?:\bon (?:the )?branch\s+[\"'`*]*|@[\w.-]+:\S+ \(|\bgit: on "
    rf"|\b(?:current|git|main|default)[ _-]?branch{_LINK}|\bbranch{_SIGN}|\(git:\s*"
    r"|^##\s+|\borigin/)$",
    re.IGNORECASE | re.MULTILINE,
)
_COMMIT_LABEL = re.compile(rf"(?:\b|_)(?:HEAD|commit|revision|rev|sha|git[ _-]?hash|tree){_LINK}$", re.IGNORECASE)
_STATE_LABEL = re.compile(
    rf"\bgit: [^\n]{{0,80}}$|git[ _-]?(?:status|state)\b[^\n]{{0,80}}$"
    rf"|git[ _-]?(?:repo(?:sitory)?|diff|info|log)\b{_LINK}$|\b(?:ahead|behind)\b[^\n]{{0,40}}$"
    rf"|\bstate\b{_LINK}$",
    re.IGNORECASE,
)
_GIT_LINE = re.compile(
    r"\s*(?:[MADRCUT?!]{1,2}|modified:|new file:|deleted:|renamed:|both modified:)\s+\"?[\w./@+-]+\"?(?: -> \S+)?,?\s*"
    r"|\s*(?:On branch |## \S+\.\.\.|HEAD (?:is|detached)|Your branch |Changes (?:not staged|to be committed)"
    r"|Untracked files|nothing (?:to commit|added)|no changes added|working tree clean|\(use \"git|(?:Current )?branch:"
    r"|\S+\s+\| +\d+ [+-]*$|\d+ files? changed,|[│ ]*[├└][─-]+|Status:|Recent commits:|Main branch).*",
    re.IGNORECASE,
)
_ONE_COMMIT = re.compile(r"\s*[0-9a-f]{7,40} \S.*")
_COMMITS = re.compile(r"^\W*(?:recent |last |latest )?commits?:?\s*$|\bgit log\b", re.IGNORECASE | re.MULTILINE)


def is_place(found: Difference, role: str) -> bool:
    """Whether a directory, a branch, a commit or what git says of the work became another."""
    a, b, start = found.words()
    before = found.before[:start]
    spoken = role in ("assistant", "tool_result")
    if not spoken and within(_PATH, found.before, found.low, found.high_before) and within(
        _PATH, found.after, found.low, found.high_after
    ):  # fmt: skip
        return True
    if _PROMPT.match(a) and _PROMPT.match(b) and all(len(part.split()) <= 4 for part in found.changed):
        return True
    short = all(len(part.split()) <= 2 for part in found.changed)
    if _DIRECTORY_LABEL.search(before) and (short or (_PATH.match(a) and _PATH.match(b))):
        return True
    if _SITUATED.search(before) and _PATH.match(a) and _PATH.match(b):
        return True
    if _BRANCH_LABEL.search(before) and short:
        return True
    if _COMMIT_LABEL.search(before) and _is_hex(a) and _is_hex(b):
        return True
    return bool(_STATE_LABEL.search(before)) and (not spoken or all(len(part.split()) <= 6 for part in found.changed))


def is_git_lines(before: str, after: str, head: str, role: str) -> bool:
    """Whether all lines that changed are what git says of the work; `head`: what stands before them."""
    a, b = before.splitlines(), after.splitlines()
    others, both = [], set(a) & set(b)
    for line in (*a, *b):
        if line.strip() and line not in both:
            others.append(line)
    if not others:
        return False
    told = [bool(_GIT_LINE.fullmatch(line)) for line in others]
    if all(told):
        return True
    if role in ("assistant", "tool_result") or not (any(told) or _COMMITS.search(head[-120:])):
        return False
    return all(one or _ONE_COMMIT.fullmatch(line) for one, line in zip(told, others, strict=True))


def _is_hex(word: str) -> bool:
    return bool(re.match(rf"[0-9a-f]{{{LEAST_HEX},64}}(?![0-9A-Za-z])", word))
