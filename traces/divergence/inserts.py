"""Reminders and summaries that a harness puts into a prompt."""

from __future__ import annotations

import re

_REMINDER_TAG = r"<[\w-]*(?:reminder|todos?|notice|todo[-_]list|task[-_]list)[\w -]*>"
_TITLE = (
    r"reminder|note|notice|important|attention|warning|caution|hint|tip|heads[ -]up|hinweis|erinnerung|wichtig|achtung"
    r"|rappel|remarque|recordatorio|nota|aviso|importante|внимание|напоминание|注意|提醒|提示|重要|リマインダー|참고"
)
REMINDER = re.compile(
    rf"{_REMINDER_TAG}|^[\W_]*(?:(?:system|user|agent|important|friendly|automated|automatic|harness|tool)[\W_]+){{0,2}}"
    rf"(?:{_TITLE}|system)[\W_]*?[:\-–—\]!>：]"
    r"|\breminder\b|\b(?:remember|(?:do not|don't) forget) to\b|\bkeep in mind\b"
    r"|\b(?:to-?do|task)s?[ -]?(?:list|state|status)s?\b|\b(?:current|open|remaining|pending) (?:to-?do|task)s\b"
    r"|\btodos:|^\s*[-*] \[[ xX~>-]\] ",
    re.IGNORECASE | re.MULTILINE,
)
_STRONG_REMINDER = re.compile(
    rf"{_REMINDER_TAG}|\A[\W_]*(?:\w+[\W_]+){{0,2}}?reminder\b|\A[^\n]{{0,40}}\b(?:to-?do)s?\b[^\n]{{0,40}}:?\s*\n",
    re.IGNORECASE,
)
_HEADLINE = re.compile(
    r"\A[\W_]*(?:(?:system|user|agent|friendly|automated|automatic|harness|tool)[\W_]+){0,2}"
    rf"(?:{_TITLE})[\W_]*?[:\-–—\]!>：]",
    re.IGNORECASE,
)
_OPEN_REMINDER = re.compile(
    r"<([\w-]*(?:reminder|todo|instructions|rules|notice|memor(?:y|ies)|attached|extra_info|environment_details"
    r"|context_window)[\w-]*)[^<>]*>(?:(?!</\1>).)*\Z",
    re.IGNORECASE | re.DOTALL,
)
_REQUEST = re.compile(r"\W*(?:please )?(?:remember|(?:do not|don't) forget) to\b", re.IGNORECASE)
_TASK = re.compile(r"\s*(?:[-*]|\d+[.)])?\s*\[[ xX~>-]\] ")
_SUMMARY_WORD = r"(?:summary|recap|digest|synopsis)"
SUMMARY = re.compile(
    r"\A\W*<[\w -]*(?:summary|snapshot|recap|condensed|compacted|handoff)[\w -]*>"
    rf"|^[\W_]*(?:(?:here(?:['’]s| is)|this is|below is|the|a|an|brief|short|detailed|compact|condensed|structured"
    r"|previous|prior|earlier|running|conversation|context|session|chat|history|progress|task|work|dialogue?"
    rf"|message)s?[ _-]+){{0,6}}{_SUMMARY_WORD}\b(?:[\W_]*$|[*_ ]*[:\]\-–—]| (?:of|from|so far|until|up to)\b)"
    rf"|\b{_SUMMARY_WORD} of (?:the |our |this |your )?(?:\w+ )?(?:conversation|session|work|messages|history|chat"
    r"|context|discussion|progress|turns)"
    r"|\bcontinued? from (?:a|the) previous (?:conversation|session)|\bran out of context"
    r"|\b(?:conversation|history|context|messages|turns|session)\b[^\n.]{0,60}\b(?:summari[sz]ed|compacted|condensed"
    r"|compressed)\b|\bcompacted into\b"
    r"|\bfollowing is an? (?:\w+ )?summary\b|\bprior messages\b[^\n]{0,80}\bhidden\b|\bsummary from (?:the )?previous\b"
    r"|\b(?:picking|taking) (?:up|over) (?:the )?work from\b|\bhand-?(?:off|over)\b(?: \w+)?[\W_]*[:\n]"
    r"|\balready discussed the following\b|\A\W*earlier in this (?:conversation|session|chat)\b"
    r"|\b(?:we|you|i|it) left off\b|\bspoke to you previously\b|\bproduced a summary\b"
    r"|\b(?:summary|recap) of (?:what|everything|all) (?:has|have|had|was|we|i|you|happened)\b"
    r"|\bzusammenfassung (?:des|der|unser\w*)\b|\br[eé]sum[eé] de (?:la|notre|cette|l['’])\b"
    r"|\bresumen de (?:la|nuestra|esta)\b|\bresumo d[ae] (?:conversa|sess)"
    r"|(?:对话|会话|對話|历史)\w{0,4}(?:摘要|总结|總結)|会話\w{0,4}要約|대화\W{0,2}요약",
    re.IGNORECASE | re.MULTILINE,
)

_SECTION = re.compile(
    r"^[^\w\n]{0,8}(?:\d+\.[ \t]*)?(?:(?:overall |user(?:['’]s)? |main )?(?:goals?|objectives?|tasks?|requests?"
    r"|context)|primary request(?: and intent)?|key (?:technical )?(?:concepts|knowledge|decisions|findings|points)"
    r"|files?(?: and code(?: sections)?| touched| changed| modified| involved)?|(?:relevant|modified|changed) files"
    r"|errors?(?: and fixes)?|problem solving|(?:work |tasks? )?(?:done|completed|accomplished)(?: so far)?"
    r"|progress(?: so far)?|in progress|pending(?: tasks?| work)?|(?:optional )?next (?:steps?|actions?)"
    r"|current (?:state|status|work|plan|task|focus)|to-?do|remaining(?: work| tasks| steps)?|discoveries"
    r"|decisions(?: made)?|open (?:questions|issues)|instructions|all user messages|file system state|findings"
    r"|blockers|outstanding|files & changes|technical context|strategy(?: & approach)?|exact next steps|task tracking"
    r"|code state|version control status|open problems|user instructions|left to do"
    r"|where (?:things|we|it) (?:stand|stands|are))\b[^\n:]{0,30}(?::|[^\w\n]{0,8}$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading of what a summary tells: the goal, what is done, what comes next."""

_SUMMARY_TAG = re.compile(r"think|reason|thought|summary|snapshot|recap|image|screenshot", re.IGNORECASE)

SUMMARY_CHARS = 2000
"""How much of a message is read for a summary's headings."""

LEAST_SECTIONS = 3
"""So many different headings make a text without a title a summary."""

_BLOCK = re.compile(r"\s*<([A-Za-z][\w.:-]*)(?:\s[^<>]*)?>.*</\1>\s*\Z", re.DOTALL)
_FIRST_BLOCK = re.compile(r"\s*<([A-Za-z][\w.:-]*)(?:\s[^<>]*)?>.*?</\1>", re.DOTALL)
_MESSAGE_END = re.compile(r"<\|\w+\|>\s*\Z")
_OTHER_BLOCK = re.compile(
    r"think|reason|thought|scratchpad|analysis|image|img|picture|screenshot|tool|function|param|invoke|schema|command"
    r"|summary|snapshot|recap|output|result|observation|answer|response|execute|code|div|span|html|body|table|t[rdh]|[ou]l|li"
    r"|p|b|i|a|em|strong|pre|h\d|svg|path",
    re.IGNORECASE,
)


def is_block(text: str) -> bool:
    """Whether a text is one tagged block that a harness puts in: no reasoning, image, tool, summary or markup."""
    return _is_harness(_BLOCK.match(_MESSAGE_END.sub("", text)))


def begins_with_block(text: str) -> bool:
    """Whether a text begins with such a block, and goes on behind it."""
    return _is_harness(_FIRST_BLOCK.match(text))


def _is_harness(match: re.Match[str] | None) -> bool:
    return match is not None and _OTHER_BLOCK.fullmatch(match[1]) is None and not _SUMMARY_TAG.search(match[1])


def is_reminder(text: str) -> bool:
    """Whether a text that was put in, or taken out, is a reminder."""
    return bool(REMINDER.search(text[:400]))


def in_reminder(role: str, head: str, line: str, changed: tuple[str, str]) -> bool:
    """Whether a change lies in a reminder: within its tag, under its headline, or in the lines of a task list.

    A model reminds nobody, and what a tool returns may be about tasks and notes: there a tag has to tell.
    """
    if role in ("assistant", "reasoning"):
        return False
    if _OPEN_REMINDER.search(head + line):
        return True
    if role == "tool_result":
        return False
    paragraph = (head + line).rsplit("\n\n", 1)[-1]
    if _STRONG_REMINDER.search(paragraph) or re.match(r"[\W_]*reminder\b", paragraph, re.IGNORECASE):
        return True
    if "\n\n" not in head and (_HEADLINE.search(head + line) or _REQUEST.match(head + line)):
        return True
    lines = [one for text in changed for one in text.splitlines() if one.strip()]
    return bool(lines) and all(_TASK.match(one) for one in lines)


def is_summary(text: str) -> bool:
    """Whether a message that begins so is a summary of others."""
    return bool(SUMMARY.search(text[:300])) or has_sections(text)


def has_sections(text: str) -> bool:
    """Whether a text has the headings of a summary."""
    told = _SECTION.finditer(text[:SUMMARY_CHARS].replace("_", " "))
    return len({match[0].strip().lower() for match in told}) >= LEAST_SECTIONS
