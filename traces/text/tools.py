"""Sorts the tool names of coding agents into a few classes, which describe the work that an answer does.

Only the classes leave this module: names of users' own tools never reach a dataset.
"""

from __future__ import annotations

from collections.abc import Iterable

CLASSES = ("edit", "execute", "plan", "explore", "other", "mcp", "custom")
"""Tool classes. `mcp` and `custom` are tools whose purpose the name does not show."""

_NAMES = {
    "edit": """edit multiedit write notebookedit str_replace_editor str_replace_based_edit_tool edit_file write_file
        create_file apply_patch apply_diff write_to_file replace_in_file replace insert_content search_and_replace patch
        update_file delete_file text_editor file_editor edit_notebook multi_edit search_replace create insert""",
    "execute": """bash bashoutput killshell killbash shell local_shell exec exec_command write_stdin unified_exec
        execute_bash execute_command run_command run_shell_command run_terminal_cmd terminal execute_ipython_cell python
        run run_in_terminal code_execution execute shell_command run_ipython ipython run_code powershell taskoutput
        taskstop cmd_runner""",
    "plan": """todowrite todoread task agent exitplanmode exit_plan_mode enterplanmode update_plan think task_tracker
        todo_write todo_read write_todos new_task switch_mode update_todo_list taskcreate taskupdate taskget tasklist
        plan skill delegate spawn_agent todolist agentswarm report_intent""",
    "explore": """read grep glob ls notebookread webfetch websearch read_file read_many_files list_files list_directory
        search_files search_file_content codebase_search grep_search file_search list_dir view view_image open find
        find_by_name web_search web_fetch fetch fetch_webpage google_web_search search_dir search_file find_file
        list_code_definition_names scroll_down scroll_up goto lsp toolsearch read_dir get_errors list
        view_file search_web fetchurl readmediafile tool_search cat""",
    "other": """askuserquestion ask_followup_question ask_user attempt_completion finish submit message exit
        browser_action browse browser save_memory memory slashcommand sendmessage request_user_input""",
}
_CLASS_OF = {name: cls for cls, names in _NAMES.items() for name in names.split()}


def tool_class(name: str) -> str:
    """The class of one tool name (case does not matter)."""
    known = _CLASS_OF.get(name.lower())
    if known:
        return known
    return "mcp" if name.lower().startswith(("mcp__", "mcp_")) else "custom"


def work_of(classes: Iterable[str]) -> str:
    """The kind of work of an answer that calls tools of `classes`.

    The first of these classes that is called decides: edit, execute, plan, explore. Other calls give `other`, and no
    calls `unknown` (the caller may know better).
    """
    called = set(classes)
    for work in ("edit", "execute", "plan", "explore"):
        if work in called:
            return work
    return "other" if called else "unknown"


def classify(names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """(work, classes) of an answer that calls the tools `names`; the classes come sorted, each once."""
    classes = tuple(sorted({tool_class(name) for name in names}))
    return work_of(classes), classes
