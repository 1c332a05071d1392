"""The names of a dataset's inputs, which stay on the machine that made it."""

from __future__ import annotations

import json

from traces.dataset.layout import Dataset


def input_names(dataset: Dataset) -> dict[str, str]:
    """Label (`sessions.input_label`) -> name of the input as it was given; empty where the dataset came without them.

    A bundle has none: names are in private/ and never leave the machine. Show them to its owner only.
    """
    try:
        inputs = json.loads(dataset.private_file("state.json").read_bytes())["inputs"]
        return {str(label): str(name) for label, name, *_ in inputs}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
