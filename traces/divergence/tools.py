"""Schemas of tools, in a list of their own or written into a prompt."""

from __future__ import annotations

import re

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
    r"^(#{1,4}) [^\n]{0,30}\b(?:tools|functions)\b[^\n]{0,30}$|<(?:\w+_)?(?:tools|functions)\w*>"
    r"|^[ \t]*namespace \w+ \{|\b(?:following|these|available) (?:\w+ )?(?:tools|functions)\b[^\n]*:[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_LIST_END = re.compile(r"^(#{1,4}) (?![\w.-]+\s*\n)|</(?:\w+_)?(?:tools|functions)\w*>", re.IGNORECASE | re.MULTILINE)
_TOOL_HEAD = re.compile(r"(?:^#{1,4} [\w.-]+|BEGIN FUNCTION[^\n]*|<(?:tool|function)[^\n]*)\n[^\n]*\Z", re.MULTILINE)

_TOOL_LINE = re.compile(
    r"\s*(?:#{1,4} [\w.-]+\s*(?:\n|\Z)|Description:|-{2,} ?(?:BEGIN|END) FUNCTION|(?:Parameters|Arguments|Usage):"
    r"|</?(?:\w+_)?(?:tools|functions)\w*>|type \w+ = \(|// |namespace \w+ \{|\} // namespace)"
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
        line = head.rsplit("\n", 1)[-1]
        return bool(_TOOL_HEAD.search(head)) and line.startswith("Description:")
    if not _DECLARED.search(head[max(last.end(), len(head) - 2 * TOOL_CHARS) :] + ahead[:TOOL_CHARS]):
        return False
    return all(
        last[1] is not None and end[1] is not None and len(end[1]) > len(last[1])
        for end in _LIST_END.finditer(head, last.end())
    )
