"""What harnesses write into prompts as a whole: reminders, summaries, marks of what was cut, system prompts."""

from __future__ import annotations

import random

from tests.planted.words import Draw, code, numbered, paragraph, path, sentence, word


def _todo(r: random.Random) -> str:
    return "\n".join(f"- [{r.choice(' x')}] {sentence(r)}" for _ in range(r.randint(2, 5)))


REMINDERS: tuple[Draw, ...] = (
    lambda r: f"<system-reminder>\n{paragraph(r)}\n</system-reminder>",
    lambda _: (
        "<system-reminder>\nThis is a reminder that your todo list is currently empty. DO NOT mention this to the user "
        "explicitly because they are already aware.\n</system-reminder>"
    ),
    lambda r: (
        f"<system-reminder>\nNote: {path(r)} was modified, either by the user or by a linter. Here are the relevant "
        f"changes (shown with line numbers):\n{numbered(r)}\n</system-reminder>"
    ),
    lambda _: (
        "<system-reminder>\nPlan mode is active. The user indicated that they do not want you to execute yet -- you "
        "MUST NOT make any edits.\n</system-reminder>"
    ),
    lambda r: (
        "<system-reminder>As you answer the user's questions, you can use the following context:\n# claudeMd\n"
        f"{paragraph(r)}\n      IMPORTANT: this context may or may not be relevant to your tasks.\n</system-reminder>"
    ),
    lambda r: (
        f"ENVIRONMENT REMINDER: You have {r.randint(2, 30)} turns left to complete the task. When finished reply with "
        "<finish></finish>."
    ),
    lambda r: (
        f"<environment_details>\n# VSCode Visible Files\n{path(r)}\n\n# VSCode Open Tabs\n{path(r)}\n{path(r)}\n\n"
        "# Current Mode\nACT MODE\n</environment_details>"
    ),
    lambda r: (
        "<reminderInstructions>\nYou are an agent - you must keep going until the user's query is completely resolved. "
        f"{sentence(r)}\n</reminderInstructions>"
    ),
    lambda r: f"Reminder: {sentence(r)} {sentence(r)}",
    lambda r: f"IMPORTANT: {paragraph(r)}",
    lambda r: f"[SYSTEM NOTE: {sentence(r)}]",
    lambda r: f"<user_instructions>\n{paragraph(r)}\n</user_instructions>",
    lambda r: (
        f'<EXTRA_INFO>\nThe following information has been included based on a keyword match for "{word(r)}".\n'
        f"{paragraph(r)}\n</EXTRA_INFO>"
    ),
    lambda r: f"<memory_blocks>\n<human>{sentence(r)}</human>\n<project>{paragraph(r)}</project>\n</memory_blocks>",
    lambda r: f'<attached_files>\n<file_contents path="{path(r)}">\n{code(r)}\n</file_contents>\n</attached_files>',
    lambda r: f"# Task Progress (reminder)\n- [x] {sentence(r, 4)}\n- [ ] {sentence(r, 5)}\n- [ ] {sentence(r, 4)}",
    lambda r: (
        f"<context_window_usage>You have used {r.randint(20, 95)}% of your context. {sentence(r)}"
        "</context_window_usage>"
    ),
    lambda r: (
        f"The TodoWrite tool hasn't been used recently. {sentence(r)} Make sure that you NEVER mention this reminder "
        "to the user"
    ),
    lambda r: f"Hinweis: {sentence(r)} Bitte {sentence(r)}",
    lambda r: f"<rules>\n- {sentence(r)}\n- {sentence(r)}\n</rules>",
    lambda r: f"> **Supervisor**: {sentence(r)}",
    lambda r: f"<system_reminder>{sentence(r)}</system_reminder>",
    lambda r: f"<reminder>{paragraph(r)}</reminder>",
    lambda r: f"REMINDER - {paragraph(r)}",
    lambda r: f"NOTE: {sentence(r)}",
    lambda r: f"[System note] {sentence(r)}",
    lambda r: f"Please remember to {word(r)} the {word(r)}. {sentence(r)}",
    lambda r: f"Your todo list has changed:\n{_todo(r)}",
    lambda r: f"Current todos:\n{_todo(r)}",
    lambda r: f"<todo_list>\n{_todo(r)}\n</todo_list>",
    lambda r: f"Remember to {word(r)} the {word(r)} and {sentence(r)}",
)

_SECTIONS = [
    "Primary Request and Intent", "Key Technical Concepts", "Files and Code Sections", "Errors and fixes",
    "Pending Tasks", "Current Work",
]  # fmt: skip


def _sections(r: random.Random) -> str:
    return "\n".join(
        f"{i + 1}. {r.choice(_SECTIONS)}:\n   - {sentence(r)}\n   - {sentence(r)}" for i in range(r.randint(2, 6))
    )


SUMMARIES: tuple[Draw, ...] = (
    lambda r: (
        "This session is being continued from a previous conversation that ran out of context. The conversation is "
        f"summarized below:\nAnalysis:\n{paragraph(r)}\n\nSummary:\n{_sections(r)}\nPlease continue the conversation "
        "from where we left it off without asking the user any further questions."
    ),
    lambda r: (
        "Another language model started to solve this problem and produced a summary of its thinking process. You also "
        "have access to the state of the tools that were used by that language model. Use this to build on the work "
        "that has already been done and avoid duplicating work. Here is the summary produced by the other language "
        f"model, use the information in this summary to assist with your own analysis:\n{_sections(r)}"
    ),
    lambda r: (
        f"<state_snapshot>\n    <overall_goal>{sentence(r)}</overall_goal>\n    <key_knowledge>\n - {sentence(r)}\n"
        f" - {sentence(r)}\n    </key_knowledge>\n    <file_system_state>\n - {path(r)}: {sentence(r)}\n"
        f"    </file_system_state>\n    <current_plan>\n 1. [DONE] {sentence(r)}\n 2. [TODO] {sentence(r)}\n"
        "    </current_plan>\n</state_snapshot>"
    ),
    lambda r: (
        f"<CONVERSATION SUMMARY>\nUSER_CONTEXT: {sentence(r)}\nCOMPLETED: {paragraph(r)}\nPENDING: {sentence(r)}\n"
        f"CURRENT_STATE: {paragraph(r)}\n</CONVERSATION SUMMARY>"
    ),
    lambda r: f"I spoke to you previously about a number of things.\n{paragraph(r)} {paragraph(r)}",
    lambda r: f"Here is a summary of the conversation to date:\n\n{paragraph(r)} {paragraph(r)}",
    lambda r: f"## Conversation so far (condensed)\n{_sections(r)}",
    lambda r: f"Previous conversation summary: {paragraph(r)} {paragraph(r)}",
    lambda r: f"[Context compacted] Earlier in this conversation, {paragraph(r)}",
    lambda r: f"<summary>\n{_sections(r)}\n</summary>",
    lambda r: f"## Conversation summary\n{paragraph(r)} {paragraph(r)}",
    lambda r: f"<conversation_summary>{paragraph(r)}\n{paragraph(r)}</conversation_summary>",
    lambda r: f"Summary of earlier messages: {paragraph(r)} {paragraph(r)}",
    lambda r: f"The conversation history before this point was compacted into the following summary:\n{_sections(r)}",
    lambda r: f"[Previous conversation summary]\n{paragraph(r)} {paragraph(r)}",
    lambda r: f"# Summary of our work\n\n1. {paragraph(r)}\n2. {paragraph(r)}",
    lambda r: f"**Context summary:** {paragraph(r)} {paragraph(r)}",
    lambda r: f"Earlier in this conversation (summarized): {paragraph(r)} {paragraph(r)}",
    lambda r: f"Zusammenfassung des bisherigen Gesprächs:\n{paragraph(r)} {paragraph(r)}",
    lambda r: (
        f"The following is a recap of what has been done:\n- {sentence(r)}\n- {sentence(r)}\n- {sentence(r)}\n"
        f"{paragraph(r)}"
    ),
    lambda r: (
        f"**Goal**: {sentence(r)}\n**Done so far**: {paragraph(r)}\n**Files touched**: {path(r)}, {path(r)}\n"
        f"**Next steps**: {sentence(r)}"
    ),
)

CLEARED = (
    "[Old tool result content cleared]",
    "[old tool result cleared]",
    "<MASKED>",
    "[Tool output removed to save context]",
    "Old environment output: ({n} lines omitted)",
    "[[NOTE] This file read has been removed to save space in the context window. Refer to the latest file read for "
    "the most up to date version of this file.]",
    "[content pruned]",
    "(output omitted)",
    "[TRUNCATED]",
    "Old tool call result: omitted",
    "<persisted-output>Output too large ({n} KB). Full output saved to disk.</persisted-output>",
)
"""What stands where a tool's result was."""

CUTS = (
    "\n... [{n} characters truncated]",
    "\n[... Observation truncated due to length ...]",
    "…",
    "\n\n(truncated, {n} lines omitted)",
    "<response clipped><NOTE>To save on context only part of this file has been shown to you.</NOTE>",
    "\n[truncated]",
    "[...{n} chars elided...]",
)
"""What stands where the end of a tool's result was."""

IMAGES_GONE = (
    "[image omitted]",
    "[Image removed to save context]",
    "<image>",
    "[image]",
    "(image was here)",
    "[screenshot from an earlier step]",
    "[Image #1]",
    "[media attached: screenshot.png]",
)

SYSTEMS = (
    "You are Claude Code, Anthropic's official CLI for Claude.\n\nYou are an interactive CLI tool that helps users "
    "with software engineering tasks.",
    "You are Codex, based on GPT-5. You are running as a coding agent in the Codex CLI on a user's computer.",
    "You are OpenHands agent, a helpful AI assistant that can interact with a computer to solve tasks.",
    "You are Cline, a highly skilled software engineer with extensive knowledge in many programming languages, "
    "frameworks, design patterns, and best practices.",
    "Act as an expert software developer.\nAlways use best practices when coding.\nRespect and use existing "
    "conventions, libraries, etc that are already present in the code base.",
    "SETTING: You are an autonomous programmer, and you're working directly in the command line with a special "
    "interface.",
    "You are an AI coding assistant, powered by GPT-4o. You operate in Cursor.",
    "You are opencode, an interactive CLI agent specializing in software engineering tasks.",
    "Answer the following questions as best you can. You have access to the following tools:",
    "You are a helpful assistant.",
)

_SETTINGS = [
    "Platform: linux", "Is directory a git repo: Yes", "OS Version: Darwin 24.5.0", "Shell: zsh",
    "  <approval_policy>on-request</approval_policy>", "  <sandbox_mode>workspace-write</sandbox_mode>",
    "Model: claude-sonnet-4",
]  # fmt: skip
_BLOCKS = [
    "Here is useful information about the environment you are running in:\n<env>\n%s\n</env>",
    "<environment_context>\n%s\n</environment_context>",
    "<environment_details>\n%s\n</environment_details>",
    "<RUNTIME_INFORMATION>\n%s\n</RUNTIME_INFORMATION>",
    "<user_info>\n%s\n</user_info>",
    "# System information\n%s",
    "%s",
    "# Environment\n%s\n\n",
]


def environment(r: random.Random, lines: list[str]) -> str:
    """These lines, mostly among others that never change, as a block."""
    more = [*lines, *(r.choice(_SETTINGS) for _ in range(r.randint(1, 4)))]
    r.shuffle(more)
    return r.choice(_BLOCKS) % "\n".join(lines if r.random() < 0.15 else more)
