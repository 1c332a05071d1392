"""bundle: a dataset as a zip that is safe to share."""

from __future__ import annotations

from pathlib import Path

import click

from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument
from app.commands.shell.terminal import say


@command("bundle")
@dataset_argument
@click.option("-o", "--output", required=True, type=click.Path(), help="The zip to write.")
def bundle_command(dataset: str, output: str) -> None:
    """Write DATASET as a zip without names, text or hashes: safe to share, ready to upload.

    \b
    Example:
      tracetower bundle mine -o mine.zip
    """
    from traces.dataset.bundle import bundle
    from traces.dataset.layout import Dataset

    size = bundle(Dataset(dataset), Path(output))
    say(f"{output}: {size:,} bytes")
