"""The format of an input is a matter of the input alone."""

from __future__ import annotations

import random
from pathlib import Path

from tests.places import SAMPLES
from traces.intake.registry import READERS, UnknownFormat, detect, reader, surest
from traces.source.sources import Source


def _format(path: Path) -> str:
    try:
        return detect(Source(path.name, path))[0]
    except UnknownFormat:
        return "none"


def test_what_was_read_before_does_not_change_a_format(tmp_path: Path) -> None:
    """Whole samples and their first lines, in three orders."""
    paths = [path for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
    for number, path in enumerate(list(paths)):
        with path.open("rb") as stream:
            line = stream.readline()
        if line.startswith(b"{"):
            paths.append(tmp_path / f"{number}{path.suffix}")
            paths[-1].write_bytes(line)
    formats = {path: _format(path) for path in paths}
    for order in (paths[::-1], random.Random(7).sample(paths, len(paths))):
        assert {path: _format(path) for path in order} == formats


def test_readers_that_are_not_asked_would_not_have_been_surer() -> None:
    """No reader is surer than the registry says; so the one that is found is the first of the surest of all."""
    heads = [Source(path.name, path).head() for path in sorted(SAMPLES.rglob("*")) if path.is_file()]
    for head in heads:
        sure = {name: reader(name).sniff(head, head.name) for name in READERS}
        assert {name: one for name, one in sure.items() if one > READERS[name][1]} == {}, head.name
        place, most = surest(head)
        assert (list(READERS)[place] if most else None, most) == max(
            ((name if one else None, one) for name, one in sure.items()), key=lambda pair: pair[1]
        )
