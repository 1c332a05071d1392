"""The kind of one change, told from two prompts by hand: what coding harnesses write, in many words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.planted.score import found_labels

Message = dict[str, Any]
Prompt = dict[str, Any]
Pair = tuple[Prompt, Prompt]

FILL = "Widget lock across replica will a parser. Buffer must not drop the frame before the stream closes. "
SYSTEM = "You are a coding agent.\n\n" + FILL * 4


def user(content: Any) -> Message:
    return {"role": "user", "content": content}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


FIRST = "Fix it. " + FILL
SEEN = "OBSERVATION: " + FILL * 2
SAID = [
    user(FIRST),
    assistant("I look. " + FILL),
    user(SEEN),
    assistant("I edit. " + FILL * 2),
    user("OBSERVATION: ok " + FILL),
]
NEXT = [assistant("Tests next. " + FILL), user("OBSERVATION: 3 passed " + FILL)]
DONE = "The bug in the lock was found and fixed; the tests of the buffer are still to be run. No new dependencies."
SUMMARY = (
    "Here is a summary of the conversation to date:\n\nThe bug in the lock was found and fixed; the tests of the "
    "buffer are still to be run. The user wants no new dependencies."
)


def systems(before: str, after: str) -> Pair:
    """Two ends of the system prompt."""
    return {"system": SYSTEM + before, "messages": SAID}, {"system": SYSTEM + after, "messages": SAID + NEXT}


def lines(before: str, after: str) -> Pair:
    """Two lines within the system prompt."""
    return systems(f"\n{before}\n{FILL}", f"\n{after}\n{FILL}")


def histories(before: list[Message], after: list[Message]) -> Pair:
    return {"system": SYSTEM, "messages": before}, {"system": SYSTEM, "messages": after}


def summed(*messages: Message) -> Pair:
    """What stands for the history then."""
    return histories(SAID, list(messages))


def firsts(before: Any, after: Any) -> Pair:
    """Two contents of the first message."""
    return histories([user(before), *SAID[1:]], [user(after), *SAID[1:], *NEXT])


def results(after: str) -> Pair:
    """Another content of the first result."""
    return histories(SAID, [*SAID[:2], user(after), *SAID[3:], *NEXT])


def tool(name: str, does: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"p": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "description": does, "parameters": schema}}


def tooled(date: str, messages: list[Message]) -> Prompt:
    told = [tool("web", f"Searches. Today's date: {date} "), tool("b", "x")]
    return {"system": SYSTEM, "tools": told, "messages": messages}


def thoughts(before: str, after: str) -> Pair:
    answers = [assistant(f"<think>\n{text}\n</think>\n\nI look.") for text in (before, after)]
    return histories([SAID[0], answers[0], *SAID[2:]], [SAID[0], answers[1], *SAID[2:], *NEXT])


CLOCKS = {
    "es": ("Fecha actual: 29 de enero de 2024", "Fecha actual: 15 de febrero de 2024"),
    "de": ("Heute ist Sonntag, der 25. August 2024.", "Heute ist Dienstag, der 27. August 2024."),
    "ja": ("今日は2026年3月5日(木)です。", "今日は2026年4月14日(火)です。"),
    "fr": ("Nous sommes le 18 avril 2024.", "Nous sommes le 28 mai 2024."),
    "ru": ("Сегодня 16 мая 2024 г.", "Сегодня 17 июня 2024 г."),
    "ko": ("오늘 날짜: 2024년 7월 7일", "오늘 날짜: 2024년 7월 8일"),
    "zh": ("当前日期:2025年11月21日", "当前日期:2025年12月08日"),
    "log": ("Last sync 12/Feb/2025:18:56:18 +0000", "Last sync 13/Feb/2025:19:56:19 +0000"),
}
SUMMARIES = {
    "snapshot": "<state_snapshot>\n    <overall_goal>Fix the lock</overall_goal>\n    <key_knowledge>\n"
    f" - {DONE}\n    </key_knowledge>\n    <current_plan>\n 1. [DONE] fix\n 2. [TODO] tests\n    </current_plan>\n"
    "</state_snapshot>",
    "of another model": "Another language model started to solve this problem and produced a summary of its thinking "
    "process. You also have access to the state of the tools that were used by that language model. Use this to build "
    "on the work that has already been done and avoid duplicating work. Here is the summary produced by the other "
    f"language model, use the information in this summary to assist with your own analysis:\n{DONE}",
    "spoken": f"I spoke to you previously about a number of things.\n{DONE}",
    "recap": f"The following is a recap of what has been done:\n- {DONE}",
    "in German": f"Zusammenfassung des bisherigen Gesprächs:\n{DONE}",
    "goal": f"**Goal**: Fix the lock\n**Done so far**: {DONE}\n**Next steps**: run the tests",
}
REMINDERS = {
    "of files": '<attached_files>\n<file_contents path="a.py">\nx = 1\n</file_contents>\n</attached_files>',
    "of instructions": "<user_instructions>\nUse tabs.\n</user_instructions>",
    "of context used": "<context_window_usage>You have used 45% of your context.</context_window_usage>",
    "of rules": "<rules>\n- Use tabs\n</rules>",
    "of the system": "<system-reminder>\nUse tabs.\n</system-reminder>",
}
INSTRUCTIONS = "<reminderInstructions>\nYou are an agent, keep going.\n</reminderInstructions>\n\n"
EXTRA = '<EXTRA_INFO>\nIncluded based on a keyword match for "loop". Do it.\n</EXTRA_INFO>\n'
MEMORY = "<memory_blocks>\n<human>likes tests</human>\n</memory_blocks>\n"
DETAILS = "\n\n<environment_details>\n# VSCode Open Tabs\nsrc/a.py\n\n# Current Mode\nACT MODE\n</environment_details>"
REMOVED = (
    "[[NOTE] This file read has been removed to save space in the context window. Refer to the latest file read for "
    "the most up to date version of this file.]"
)
HEADED = (
    "\n# Tools{}\n\n## read_file\nDescription: Reads a file from disk.\nParameters:\n- path: (required) the file\n\n"
    "## grep\nDescription: Searches files.\nParameters:\n- q: (required) what\n"
)
BASH = "\n\n## bash\nDescription: Runs a command.\nParameters:\n- cmd: (required) the command"
READ, RUN = json.dumps(tool("read", "Reads.")), json.dumps(tool("bash", "Runs."))
RULED_READ, RULED_RUN = (
    f"---- BEGIN FUNCTION: {name} ----\nDescription: {does}\n---- END FUNCTION ----\n"
    for name, does in (("read", "Reads."), ("bash", "Runs."))
)
LINED = "read: Reads a file. Args: p (str)\ngrep: Finds. Args: q (str)\n"
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 30}}
SEE = block("See " + FILL)

PAIRS: dict[str, tuple[str, Pair]] = {
    **{f"clock {name}": ("clock", lines(*dates)) for name, dates in CLOCKS.items()},
    "clock in a tool": ("clock", (tooled("2025-07-11", SAID), tooled("2025-07-12", SAID + NEXT))),
    "directory in a shell's prompt": (
        "working_directory",
        lines("(env) user@host:/root/web/branch$ (git:master)", "(env) user@host:/root/cursor$ (git:develop)"),
    ),
    "tools under titles, one put first": ("tool_schema", systems(HEADED.format(""), HEADED.format(BASH))),
    "tools under titles, described otherwise": (
        "tool_schema",
        systems(HEADED.format(""), HEADED.format("").replace("Reads a file", "Quickly loads one document")),
    ),
    "tools as JSON": ("tool_schema", systems(f"\n<tools>\n{READ}\n</tools>", f"\n<tools>\n{RUN}\n{READ}\n</tools>")),
    "tools between rules": ("tool_schema", systems(f"\n{RULED_READ}", f"\n{RULED_RUN}\n{RULED_READ}")),
    "tools a line each": ("tool_schema", systems(f"\n{LINED}", f"\nbash: Runs it. Args: c (str)\n{LINED}")),
    **{f"summary {name}": ("summary", summed(user(text), *SAID[-2:])) for name, text in SUMMARIES.items()},
    **{f"summary and {kept} kept": ("summary", summed(user(SUMMARY), *SAID[5 - kept :])) for kept in range(3)},
    "summary behind the first message": ("summary", summed(SAID[0], user(SUMMARY))),
    "summary behind the first message, accepted": ("summary", summed(SAID[0], user(SUMMARY), assistant("Ok."))),
    "summary as an answer": ("summary", summed(user("What did we do so far?"), assistant(SUMMARY), user("Continue."))),
    "summary in the system prompt": (
        "summary",
        ({"system": SYSTEM, "messages": SAID}, {"system": f"{SYSTEM}\n\n{SUMMARY}", "messages": SAID[-2:]}),
    ),
    **{f"reminder {name}": ("reminder", firsts(FIRST, f"{FIRST}\n\n{text}")) for name, text in REMINDERS.items()},
    "reminder of instructions first": ("reminder", firsts(FIRST, INSTRUCTIONS + FIRST)),
    "reminder of a keyword": ("reminder", firsts(FIRST, EXTRA + FIRST)),
    "reminder behind a result": ("reminder", results(SEEN + DETAILS)),
    "reminder taken out": ("reminder", firsts(MEMORY + FIRST, FIRST)),
    "reminder as a block": (
        "reminder",
        firsts([block(FIRST)], [block("<system-reminder>\nUse tabs.\n</system-reminder>"), block(FIRST)]),
    ),
    "edit: a file's text removed": ("edit", results(REMOVED)),
    "edit: a result cleared": ("edit", results("[old tool result cleared]")),
    "compaction, one kept": ("compaction", summed(SAID[0], SAID[-1])),
    "reasoning left empty": ("stripped_reasoning", thoughts("The lock is wrong. " + FILL, "")),
    "image becomes a note": ("image", firsts([SEE, PICTURE], [SEE, block("[media attached: screenshot.png]")])),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str | None]]]:
    """By pair the kinds of its two prompts, by each tokenizer; each pair is a session of its own."""
    rows: list[dict[str, Any]] = []
    for name, (_, prompts) in PAIRS.items():
        for prompt in prompts:
            told = {**prompt, "system": f"Case {name}. {prompt['system']}"}
            rows.append({"ts": 1_756_684_800 + len(rows), "session_id": name, **told})
    labels = [found_labels(rows, tmp_path_factory.mktemp(name), name)[0] for name in ("bytes", "o200k_base")]
    return {name: [told[2 * i : 2 * i + 2] for told in labels] for i, name in enumerate(PAIRS)}


@pytest.mark.parametrize("name", PAIRS)
def test_the_kind_of_one_change(name: str, found: dict[str, list[list[str | None]]]) -> None:
    assert found[name] == [[None, PAIRS[name][0]]] * 2
