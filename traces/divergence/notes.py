"""Texts that harnesses write into prompts: reminders, summaries, tools, reasoning, images; and mere layout."""

from __future__ import annotations

import re
from collections import Counter

from traces.divergence.values import Difference, difference

IMAGE_CHARS = 24
"""So far from where a text begins to change its image is named, if what changed is one."""

SAME_IMAGE_CHARS = 100
"""An image that stands in both texts is the same one if this many characters of it are."""

REASONING = re.compile(
    r"</?(?:think|thinking|reasoning|thought|thoughts|scratchpad|analysis)>|\[(?:thinking|reasoning)\]"
    r"|<\|channel\|>analysis",
    re.IGNORECASE,
)
IMAGE = re.compile(
    r"\[(?:\w{1,40} ){0,2}image|</?image|<img\b|image/(?:png|jpe?g|webp|gif)|data:image|!\[[^\]\n]{0,200}\]\("
    r"|<\|(?:image|vision)",
    re.IGNORECASE,
)


def is_image(found: Difference) -> bool:
    """Whether an image that is written in the text became another, or a text in its place."""
    for said, other in (found.changed, found.changed[::-1]):
        match = IMAGE.search(said.lstrip()[:IMAGE_CHARS])
        if match and said.lstrip()[match.start() :][:SAME_IMAGE_CHARS] not in other:
            return True
    last = None
    for match in IMAGE.finditer(found.label, max(0, found.low - 400)):
        last = match
    return last is not None and not re.search(r"[>\])]", found.label[last.end() :])


_REMINDER_TAG = r"<[\w-]*(?:reminder|todos?|notice|todo[-_]list|task[-_]list)[\w -]*>"
_REMINDER_START = re.compile(r"<[\w-]*(?:reminder|todos?|notice|todo[-_]list|task[-_]list)", re.IGNORECASE)
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
_TITLED_REMINDER = re.compile(r"[\W_]*+(?:[^\W_]++[\W_]++){0,2}?reminder\b", re.IGNORECASE)
_TASK_TITLE = re.compile(r".{0,40}\b(?:to-?do)s?\b.{0,40}:?", re.IGNORECASE)
_HEADLINE = re.compile(
    r"\A[\W_]*(?:(?:system|user|agent|friendly|automated|automatic|harness|tool)[\W_]+){0,2}"
    rf"(?:{_TITLE})[\W_]*?[:\-–—\]!>：]",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(/?)([\w-]++)[^<>]*+>")
_SPACED_TAG = re.compile(r"<[\w -]++>")
_REMINDER_NAME = re.compile(
    r"reminder|todo|instructions|rules|notice|memor(?:y|ies)|attached|extra_info|environment_details|context_window",
    re.IGNORECASE,
)
_THOUGHT_NAME = re.compile(r"(?:think|thinking|reasoning|thoughts?)\Z", re.IGNORECASE)
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
"""A heading that summaries use: the goal, what is done, what comes next."""

_SUMMARY_TAG = re.compile(r"think|reason|thought|summary|snapshot|recap|image|screenshot", re.IGNORECASE)

SUMMARY_CHARS = 2000
"""How much of a message is read for a summary's headings."""

LEAST_SECTIONS = 3
"""This many different headings make a text without a title a summary."""

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
    """Whether a text begins with such a block, and continues after it."""
    return _is_harness(_FIRST_BLOCK.match(text))


def _is_harness(match: re.Match[str] | None) -> bool:
    return match is not None and _OTHER_BLOCK.fullmatch(match[1]) is None and not _SUMMARY_TAG.search(match[1])


def is_reminder(text: str) -> bool:
    """Whether a text that was put in, or taken out, is a reminder."""
    return bool(REMINDER.search(text[:400]))


def in_reminder(role: str, head: str, line: str, changed: tuple[str, str]) -> bool:
    """Whether a change lies in a reminder: within its tag, under its headline, or in the lines of a task list.

    Models write no reminders, and the output of a tool may be about tasks and notes: in these only a tag counts.
    """
    if role in ("assistant", "reasoning"):
        return False
    if _is_open(head + line, _REMINDER_NAME):
        return True
    if role == "tool_result":
        return False
    paragraph = (head + line).rsplit("\n\n", 1)[-1]
    if _TITLED_REMINDER.match(paragraph) or _is_task_title(paragraph):
        return True
    if any(_REMINDER_START.match(tag[0]) for tag in _SPACED_TAG.finditer(paragraph)):
        return True
    if "\n\n" not in head and (_HEADLINE.search(head + line) or _REQUEST.match(head + line)):
        return True
    lines = [one for text in changed for one in text.splitlines() if one.strip()]
    return bool(lines) and all(_TASK.match(one) for one in lines)


def _is_task_title(paragraph: str) -> bool:
    """Whether a paragraph begins with a short line that names a list of tasks."""
    line, end, _ = paragraph.partition("\n")
    return bool(end) and _TASK_TITLE.fullmatch(line.rstrip()[:120]) is not None


def in_thought(text: str) -> bool:
    """Whether a text ends within reasoning that a tag opened."""
    return _is_open(text, _THOUGHT_NAME)


def _is_open(text: str, names: re.Pattern[str]) -> bool:
    """Whether a tag of such a name is open at the end of a text: none closes it after it was opened last."""
    opened: set[str] = set()
    for tag in _TAG.finditer(text):
        name = tag[2].lower()
        if tag[1]:
            opened.discard(name)
        elif names.search(name):
            opened.add(name)
    return bool(opened)


def is_summary(text: str) -> bool:
    """Whether a message that begins so is a summary of others."""
    return bool(SUMMARY.search(text[:300])) or has_sections(text)


def has_sections(text: str) -> bool:
    """Whether a text has the headings of a summary."""
    sections = _SECTION.finditer(text[:SUMMARY_CHARS].replace("_", " "))
    return len({match[0].strip().lower() for match in sections}) >= LEAST_SECTIONS


SCHEMA = re.compile(
    r'"(?:parameters|input_schema|inputSchema|json_schema|parametersJsonSchema)"\s*:|"type"\s*:\s*"function"'
    r"|<(?:function|tool|tool_description)(?:>| name=)",
)

_DECLARED = re.compile(
    r"-{2,} ?(?:BEGIN|END) FUNCTION|^#{1,4} [\w.-]+\s*\nDescription:|^<(?:tool|function)(?:_description)?[ >]"
    r"|^\W{0,4}(?:\(?\d+[.)]\s*)?[`*]*[\w.-]+[`*]*\W{0,3}\((?:required|optional|str(?:ing)?|int(?:eger)?|number|float"
    r"|bool(?:ean)?|array|object|list|dict)\b[^()\n]*\)|\bArgs: "
    r"|^[ \t]*type \w+ = \(|^[ \t]+\w+\??: (?:string|number|boolean|any|object|\w+\[\]|\"[^\"\n]*\" \|)"
    r"|^(?:Parameters|Arguments|Usage):\s*$",
    re.MULTILINE,
)
"""A tool as it is written into a prompt: its heading and what it does, its parameters, its arguments on a line."""

_LIST = re.compile(
    r"^(#{1,4}) [^\n]{0,30}\b(?:tools|functions)\b[^\n]{0,30}$|<(?:\w{1,40}_)?(?:tools|functions)\w{0,40}>"
    r"|^[ \t]*namespace \w+ \{"
    r"|\b(?:following|these|available) (?:\w{1,40} )?(?:tools|functions)\b[^\n]{0,200}:[ \t]*+$",
    re.IGNORECASE | re.MULTILINE,
)
_LIST_END = re.compile(
    r"^(#{1,4}) (?![\w.-]+\s*\n)|</(?:\w{1,40}_)?(?:tools|functions)\w{0,40}>", re.IGNORECASE | re.MULTILINE
)
_TOOL_HEAD = re.compile(r"(?:^#{1,4} [\w.-]+\Z|BEGIN FUNCTION|<(?:tool|function))")

_TOOL_LINE = re.compile(
    r"\s*(?:#{1,4} [\w.-]+\s*(?:\n|\Z)|Description:|-{2,} ?(?:BEGIN|END) FUNCTION|(?:Parameters|Arguments|Usage):"
    r"|</?(?:\w{1,40}_)?(?:tools|functions)\w{0,40}>|type \w+ = \(|// |namespace \w+ \{|\} // namespace)"
)

TOOL_CHARS = 240
"""How much of a text is read for the tool that it begins with."""


def is_tool(text: str) -> bool:
    """Whether a text begins with a tool as it is written into a prompt."""
    return bool(_DECLARED.search(text[:TOOL_CHARS]) or SCHEMA.search(text[:TOOL_CHARS]))


def is_tool_line(text: str) -> bool:
    """Whether the first line of a text belongs to a tool as it is written into a prompt, or ends the list."""
    return _TOOL_LINE.match(text) is not None or is_tool(text.split("\n", 1)[0])


def in_tools(head: str, ahead: str) -> bool:
    """Whether a place lies in a list of tools, or right under a tool's heading: by what stands around it."""
    lists = list(_LIST.finditer(head))
    last = lists[-1] if lists else None
    if last is None:
        above = ("\n" + head).rsplit("\n", 2)
        described = (above[-1] + ahead[:TOOL_CHARS]).startswith("Description:")
        return described and len(above) == 3 and bool(_TOOL_HEAD.search(above[1]))
    if not _DECLARED.search(head[max(last.end(), len(head) - 2 * TOOL_CHARS) :] + ahead[:TOOL_CHARS]):
        return False
    return all(
        last[1] is not None and end[1] is not None and len(end[1]) > len(last[1])
        for end in _LIST_END.finditer(head, last.end())
    )


LAYOUT_CHARS = 8
"""Characters besides whitespace that have to be alike after a change of layout."""


def same_but_layout(a: str, b: str, ends: bool = False, least: int = LAYOUT_CHARS) -> bool:
    """Whether two texts differ only in whitespace, escapes or the order of keys.

    `ends`: `a` ends, and `b` may continue. `least`: characters besides whitespace that have to be equal.
    """
    if a == b:
        return False
    bare_a, bare_b = bare(a), bare(b)
    if bare_a == bare_b and (len(bare_a) >= 2 or (a.strip() == b.strip() == "" and a != "" != b)):
        return True
    found = difference(a, b)
    alike = difference(bare_a, bare_b).low
    if alike - len(bare(a[: found.low])) >= (2 if ends and alike == len(bare_a) else least):
        return True
    return len(bare_a) == len(bare_b) >= LAYOUT_CHARS and "{" in bare_a and _fields(bare_a) == _fields(bare_b)


def _fields(bare: str) -> Counter[str]:
    """The keys and values of a JSON text in no order."""
    return Counter(re.split(r"[,{}\[\]]", bare))


_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'", "&amp;": "&"}


def bare(text: str) -> str:
    """A text without what its layout adds: whitespace, escapes, the kind of quotes."""
    if "\\u" in text:
        text = _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text)
    if "&" in text:
        for entity, char in _ENTITIES.items():
            text = text.replace(entity, char)
    return re.sub(r"\s+|\\[nrt]|\\", "", text).replace("'", '"')
