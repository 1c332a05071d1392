"""The command line: a thin skin over traces and analysis. Data on stdout, progress and warnings on stderr."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("data.demo", "Ingest the bundled real sessions and print their report."),
    "ingest": ("data.ingest", "Read traces and transcripts into a dataset."),
    "validate": ("data.ingest", "Make the checks and the receipt of ingest, but write nothing."),
    "formats": ("data.formats", "List what can be read, and what can be computed from it."),
    "report": ("questions.report", "The headline figures of a dataset."),
    "curve": ("questions.curve", "Hit rate over capacity, TTL and tiers."),
    "query": ("questions.query", "A named query, or read-only SQL."),
    "bundle": ("data.bundle", "A dataset as a zip that is safe to share."),
    "app": ("app", "Open the dataset in a browser."),
    "kv-budget": ("serving.kv_budget", "Does a model fit, and how many tokens and sessions does it hold?"),
    "interactivity": ("serving.interactivity", "TTFT and tokens per second of one replica."),
    "route": ("serving.route", "Replicas and routing policies on the trace."),
    "sessions": ("serving.sessions", "How many sessions at once before the cache thrashes?"),
    "misses": ("questions.misses", "Where the input tokens went."),
    "cost": ("questions.cost", "What the trace costs at dated list prices, and what each loss costs."),
    "profile": ("questions.profile", "The workload as distributions."),
    "export": ("export", "The trace for planners and load generators."),
    "synth": ("data.synth", "A seeded workload from a profile."),
    "compare": ("questions.compare", "Two datasets side by side."),
}
"""Command -> its module below app.commands and the line that --help shows, so that help imports no heavy module."""


class LazyGroup(click.Group):
    """Imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order a user meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called `cmd_name`."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"app.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name.replace('-', '_')}_command")
        return command

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
    """Workload traces of coding agents: what a KV cache could reuse, and why less is reused."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; exit 0 fine, 1 bad data, 2 wrong usage, 130 interrupted, 143 terminated."""
    from app.commands.shell.command import end_on_sigterm

    end_on_sigterm()
    try:
        return group.main(args=args, prog_name="tracetower", standalone_mode=True)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
