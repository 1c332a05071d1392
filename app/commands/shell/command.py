"""The frame of every command: `--debug`, refusals on one line, exit codes, Ctrl-C and SIGTERM.

Exit codes: 0 fine, 1 bad data, 2 wrong usage, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import click

from app.commands.shell.rules import Rule, check
from app.widgets.flags import flag_of
from app.widgets.plain_text import printable

DEBUG_VARIABLE = "TRACETOWER_DEBUG"
ROOT = Path(__file__).resolve().parents[3]


class BadData(click.ClickException):
    """Data that cannot be used: exit 1."""

    exit_code = 1


class Command(click.Command):
    """A command that takes `--debug`, checks its rules, and ends every error as one line."""

    def __init__(self, *args: Any, rules: Sequence[Rule] = (), **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.rules = tuple(rules)
        self.params.append(
            click.Option(["--debug"], is_flag=True, help=f"Show tracebacks, as {DEBUG_VARIABLE}=1 does everywhere.")
        )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Every error leaves as a `click.ClickException` or an exit code."""
        before = os.environ.get(DEBUG_VARIABLE)
        if ctx.params.pop("debug", False):
            os.environ[DEBUG_VARIABLE] = "1"  # worker processes and the guards around readers see it too
        try:
            check(self.rules, ctx)
            return super().invoke(ctx)
        except (click.exceptions.Exit, BrokenPipeError):
            raise
        except KeyboardInterrupt:
            click.echo("Interrupted.", err=True)
            ctx.exit(130)
        except Exception as error:
            if debugging() and not isinstance(error, click.ClickException):
                traceback.print_exc()
            raise _refusal(error, ctx) from None
        finally:
            if before is None:
                os.environ.pop(DEBUG_VARIABLE, None)
            else:
                os.environ[DEBUG_VARIABLE] = before


def command(name: str, *rules: Rule, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """`click.command` for a `Command` with these rules."""
    return click.command(name, cls=Command, rules=rules, **settings)


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def end_on_sigterm() -> None:
    """Make SIGTERM unwind the program, so that temporary files and child processes go with it."""

    def end(number: int, frame: FrameType | None) -> None:
        click.echo("Terminated.", err=True)
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def _refusal(error: Exception, ctx: click.Context) -> click.ClickException:
    """Any error as the one line that the command ends with."""
    from concurrent.futures.process import BrokenProcessPool

    from analysis.store.question import BadQuestion
    from traces.dataset.layout import NotADataset

    if isinstance(error, click.ClickException):
        usage = isinstance(error, click.UsageError)
        text = _line(error.format_message())
        return click.UsageError(text, ctx) if usage else BadData(text)
    if isinstance(error, BadQuestion):
        return click.UsageError(_line(asked(error, ctx.command)), ctx)
    if isinstance(error, NotADataset):
        return BadData(_line(str(error)))
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        return BadData(_line(f"{name}{error.strerror or error}. Check the path, its permissions and the free space"))
    if isinstance(error, MemoryError):
        return BadData("not enough memory. Ask for less at once, or give the process more memory")
    if isinstance(error, BrokenProcessPool):
        return BadData("a worker process died, most often for lack of memory. Try again with --workers 1")
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = Path(where.filename)
    shown = place.relative_to(ROOT) if place.is_relative_to(ROOT) else place.name
    return BadData(
        _line(f"unexpected {type(error).__name__} at {shown}:{where.lineno}: {error}. Add --debug for the traceback")
    )


def asked(error: Any, of: click.Command) -> str:
    """A BadQuestion in flags of the command `of`: first the flag, last a value to try."""
    flag = flag_of(error.parameter) if error.parameter else None
    if flag is None or not any(flag in option.opts for option in of.params):
        return str(error)
    hint = f". Try {flag} {error.choices[0]}" if error.choices else ""
    return f"{flag}: {str(error).rstrip('.')}{hint}"


def _line(text: str) -> str:
    return printable(" ".join(text.split("\n")))
