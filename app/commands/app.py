"""app: the browser app, served until it is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from app.commands.shell.command import command
from app.commands.shell.options import opened
from app.visit.server import clear_dead
from app.visit.uploads.leases import MINUTES, MINUTES_VARIABLE

PATIENCE_S = 10
"""How long the server may take to end."""


@command("app")
@click.argument("dataset", required=False, type=click.Path())
@click.option(
    "--data-root", multiple=True, type=click.Path(exists=True, file_okay=False), help="A folder visitors may open."
)
@click.option(
    "--lease", type=click.FloatRange(0, 100_000), default=MINUTES, show_default=True,
    help="Minutes that an upload is kept after the last visit.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8501, show_default=True, help="Port to listen on.")
@click.option("--address", default="localhost", show_default=True, help="Address to listen on.")
def app_command(dataset: str | None, data_root: tuple[str, ...], lease: float, port: int, address: str) -> None:
    """Open the app in a browser, on DATASET if given. Ctrl-C or SIGTERM ends it and deletes all uploads.

    \b
    Examples:
      tracetower app mine
      tracetower app --data-root /srv/traces --address 0.0.0.0
    """
    environment = {**os.environ, MINUTES_VARIABLE: f"{lease:g}"}
    if dataset is not None:
        opened(dataset)
        environment["TRACETOWER_DATASET"] = str(Path(dataset).resolve())
    if data_root:
        environment["TRACETOWER_DATA_ROOTS"] = os.pathsep.join(str(Path(r).resolve()) for r in data_root)
    folder = Path(__file__).resolve().parents[1]
    line = [sys.executable, "-m", "streamlit", "run", str(folder)]
    line += ["--server.port", str(port), "--server.address", address]
    clear_dead()
    server = subprocess.Popen(line, env=environment, cwd=folder)
    try:
        code = server.wait()
    except BaseException:  # Ctrl-C, SIGTERM: the server goes first, and clears its uploads on the way
        server.terminate()
        try:
            server.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
        clear_dead()
        raise
    raise click.exceptions.Exit(code)
