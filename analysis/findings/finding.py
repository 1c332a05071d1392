"""A finding: a sentence, the figures that it states, and where to look."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Stated(NamedTuple):
    """A figure that a sentence states: its exact value, and the unit by which it is written."""

    value: Any
    unit: str


class Finding(NamedTuple):
    """A finding.

    Attributes:
        kind: what it is about; one per kind and page.
        words: the sentence, with the names of figures in braces.
        figures: name -> figure.
        weight: rank, largest first: points of the prompt tokens, or one of `analysis.findings.thresholds.FIRST`.
        page: the page that shows more.
        settings: its settings, as in a link.
    """

    kind: str
    words: str
    figures: dict[str, Stated]
    weight: float
    page: str
    settings: dict[str, Any]

    def sentence(self, written: Mapping[str, Callable[[Any], str]]) -> str:
        """The sentence with its figures written by the formatter of their unit."""
        return self.words.format_map({name: written[unit](value) for name, (value, unit) in self.figures.items()})

    def to_dict(self, written: Mapping[str, Callable[[Any], str]]) -> dict[str, Any]:
        """As JSON: the sentence, and the figures without rounding."""
        return {
            "kind": self.kind,
            "sentence": self.sentence(written),
            "figures": {name: figure.value for name, figure in self.figures.items()},
            "weight": self.weight,
            "page": self.page,
            "settings": self.settings,
        }
