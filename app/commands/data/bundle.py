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
@click.option(
    "--models",
    type=click.Choice(["published", "pseudonyms"]),
    default="published",
    show_default=True,
    help="Keep the names of published models, or write model-1, model-2, ... for every model.",
)
def bundle_command(dataset: str, output: str, models: str) -> None:
    """Write DATASET as a zip without text, hashes and names of people, projects or files, ready to upload.

    Names of published models and agents are kept, unless --models pseudonyms is given.

    \b
    Examples:
      tracetower bundle mine -o mine.zip
      tracetower bundle mine -o mine.zip --models pseudonyms
    """
    from traces.dataset.bundle import bundle
    from traces.dataset.layout import Dataset

    size = bundle(Dataset(dataset), Path(output), models == "pseudonyms")
    kept = "names of models are pseudonyms" if models == "pseudonyms" else "names of published models are kept"
    say(f"{output}: {size:,} bytes ({kept}; names of published agents are kept)")
