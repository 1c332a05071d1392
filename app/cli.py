"""The command line: a thin skin over traces and analysis. Data on stdout, progress and warnings on stderr."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("app.commands.data", "Ingest the bundled real sessions and print their report."),
    "ingest": ("app.commands.data", "Read traces and transcripts into a dataset."),
    "validate": ("app.commands.data", "The same checks and receipt as ingest, nothing written."),
    "formats": ("app.commands.data", "What can be read, and what can be computed from it."),
    "report": ("app.commands.questions", "The headline figures of a dataset."),
    "curve": ("app.commands.questions", "Hit rate over capacity, TTL and tiers."),
    "query": ("app.commands.questions", "A named query, or read-only SQL."),
    "bundle": ("app.commands.data", "A dataset as a zip that is safe to share."),
    "app": ("app.commands.data", "Open the dataset in a browser."),
    "kv-budget": ("app.commands.replica", "Does a model fit, and how many tokens and sessions does it hold?"),
    "interactivity": ("app.commands.replica", "TTFT and tokens per second of one replica."),
    "route": ("app.commands.route", "Replicas and routing policies on the trace."),
    "misses": ("app.commands.misses", "Where the input tokens went."),
    "profile": ("app.commands.workloads", "The workload profile of a dataset."),
    "export": ("app.commands.workloads", "The trace for planners and load generators."),
    "synth": ("app.commands.workloads", "A seeded workload from a profile."),
    "compare": ("app.commands.workloads", "Two datasets side by side."),
}
"""Command -> module that holds it and the line that --help shows, so that help never imports a heavy module."""


class LazyGroup(click.Group):
    """Imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        return next(c for c in module.COMMANDS if c.name == cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


EPILOG = """\b
Examples:
  tracetower demo
  tracetower ingest ~/.claude/projects -o mine
  tracetower report mine --by role
  tracetower curve mine --capacity-tokens 1M,4M,16M
  tracetower app mine
"""


@click.group(cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="tracetower")
def group() -> None:
    """Workload traces of coding agents: what a KV cache could reuse, and why it is not more."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; exit 0 fine, 1 bad data, 2 wrong usage."""
    try:
        return group.main(args=args, prog_name="tracetower", standalone_mode=True)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
