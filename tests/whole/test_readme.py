"""The READMEs are true: their tables come from the code, and the places they name exist."""

from __future__ import annotations

import re
import sys

from app.cli import COMMANDS
from tests.places import ROOT
from traces.intake.registry import READERS, reader
from traces.schema import TABLES

README = ROOT / "README.md"
TRACES = ROOT / "traces" / "README.md"
PAGES = [README, *(ROOT / name / "README.md" for name in ("traces", "analysis", "tests")), ROOT / "CONTRIBUTING.md"]

OF_A_DATASET = {"cache/", "private/"}
"""Folders that the pages name and that are in a dataset, not in the project."""


def _cell(text: str) -> str:
    """A bar would end the cell of a table, also within backticks."""
    return text.replace("|", "\\|")


def tables() -> str:
    """The data dictionary."""
    parts = []
    for name, table in TABLES.items():
        rows = [f"| `{c.name}` | {c.unit or '–'} | {_cell(c.meaning)} |" for c in table]
        parts.append(f"**{name}**\n\n| column | unit | meaning |\n|---|---|---|\n" + "\n".join(rows))
    return "\n\n".join(parts)


def formats() -> str:
    """What can be read."""
    rows = [
        f"| `{name}` | {_cell(reader(name).SUMMARY['carries'])} | {_cell(reader(name).SUMMARY['computes'])} |"
        for name in sorted(READERS)
    ]
    return "| format | carries | what can be computed |\n|---|---|---|\n" + "\n".join(rows)


def section(name: str, text: str) -> str:
    found = re.search(rf"<!-- {name}: .*?-->\n(.*?)<!-- /{name} -->", text, re.S)
    assert found is not None
    return found[1].strip()


def test_tables_are_the_schema() -> None:
    assert section("tables", TRACES.read_text("utf-8")) == tables()


def test_formats_are_the_readers() -> None:
    assert section("formats", TRACES.read_text("utf-8")) == formats()


def test_commands_exist() -> None:
    text = README.read_text("utf-8")
    for name in re.findall(r"^tracetower ([a-z-]+)", text, re.M):
        assert name in COMMANDS, name


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150


def test_places_that_pages_name_exist() -> None:
    """`rooms/like_this.py`, links, and folders, from the root or from the page's own folder."""
    for page in PAGES:
        text = page.read_text("utf-8")
        named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.(?:py|sql|md|toml))?)`", text)
        linked = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
        for place in sorted({*named, *filter(None, linked)} - OF_A_DATASET):
            assert (ROOT / place).exists() or (page.parent / place).exists(), f"{page.name} names {place}"


def test_one_command_sets_up_and_one_tests() -> None:
    blocks = re.findall(r"```sh\n(.*?)```", README.read_text("utf-8").split("## A minute")[0], re.S)
    assert len(blocks) == 2
    assert "tracetower demo" in blocks[0]
    assert "pytest" in blocks[1]
    gate = (ROOT / ".ci" / "run").read_text("utf-8").strip().splitlines()[-1]
    assert re.search(r"'(.*)'", blocks[1])[1] == gate  # type: ignore[index]


if __name__ == "__main__":  # python -m tests.whole.test_readme --write
    if "--write" in sys.argv:
        text = TRACES.read_text("utf-8")
        for name, content in (("tables", tables()), ("formats", formats())):
            text = re.sub(
                rf"(<!-- {name}: .*?-->\n).*?(<!-- /{name} -->)",
                lambda m, c=content: f"{m[1]}{c}\n{m[2]}",  # type: ignore[misc]
                text,
                flags=re.S,
            )
        TRACES.write_text(text, "utf-8")
