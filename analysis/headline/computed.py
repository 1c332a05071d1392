"""The figures that compiled code or numpy computes: which function, and an equivalent query where SQL can say the same.

The pages show both under "How is this computed?". The query did not run there; a test runs every one and compares its
digits with the function's.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

QUERIES = Path(__file__).parent / "equivalents"
"""The equivalent queries, a file per figure; `_paths`, `_matches` and `_causes` are their common beginnings."""

_PARTS = ("causes", "matches", "paths")

_NO_DRAWS = "Its intervals come from sessions drawn at random, which SQL does not repeat."
_NO_TREE = "It builds the prompts anew as a changed prefix tree and counts the hits there."
_NO_TEXT = "It also reads where prompts are alike again after a change. By plain transition: see the causes of misses."
_NO_REPLAY = "A fleet is replayed request by request, and each choice depends on all earlier ones."
_FORMULA = "The formulas are all of it: nothing is read from the requests but their lengths."


class Computed(NamedTuple):
    """How a figure is computed.

    Attributes:
        function: the function, as module.function.
        without_query: why there is no equivalent query; "" where there is one.
    """

    function: str
    without_query: str = ""


COMPUTED = {
    "ceiling": Computed("analysis.kernel.reuse.reuse"),
    "capacity": Computed("analysis.headline.curves.curve"),
    "ttl": Computed("analysis.headline.curves.curve"),
    "tiers": Computed("analysis.headline.curves.curve"),
    "eviction_age": Computed("analysis.headline.eviction_age.eviction_age"),
    "causes": Computed("analysis.why.misses.misses"),
    "requests": Computed("analysis.why.request_misses.request_misses"),
    "sessions": Computed("analysis.why.session_losses.session_losses"),
    "reported": Computed("analysis.why.provider.gap.provider_gap"),
    "what_ifs": Computed("analysis.why.edited.what_ifs.what_if_table"),
    "rates": Computed("analysis.why.intervals.group_rates", _NO_DRAWS),
    "transitions": Computed("analysis.why.transition_losses.transition_losses", _NO_TEXT),
    "divergences": Computed("analysis.why.divergences.divergences", _NO_TREE),
    "fleets": Computed("analysis.fleet.routing.replay", _NO_REPLAY),
    "placement": Computed("analysis.fleet.placement.uniform_placement", _FORMULA),
    "fits": Computed("analysis.replica.kv_budget.kv_budget", _FORMULA),
    "speed": Computed("analysis.replica.answers.interactivity_json", _FORMULA),
}
"""Figure -> how it is computed."""


def equivalent(figure: str, **values: object) -> str:
    """The equivalent query of a figure with its values written in; None is NULL."""
    text = (QUERIES / f"{figure}.sql").read_text("utf-8").rstrip()
    for part in _PARTS:
        text = text.replace(f"{{{part}}}", (QUERIES / f"_{part}.sql").read_text("utf-8").rstrip())
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", "NULL" if value is None else str(value))
    return text
