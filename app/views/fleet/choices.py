"""What fleets and policies are asked about: the form, and its answers as cells to replay."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import streamlit as st

from app.visit.link import link
from app.widgets import formats
from app.widgets.plain_text import markdown

if TYPE_CHECKING:
    from analysis.fleet.routed_trace import Routed
    from analysis.fleet.routing import Cell

UNBOUNDED = "unbounded"
MOST_CELLS = 120
MOST_REPLICAS = 256
SERVICES = {
    "recorded": "Recorded durations",
    "model": "Model and GPUs",
    "instant": "No time: hits alone",
}
INSERTS = {"arrival": "as it arrives", "finish": "once it is computed"}

POLICY_HELP = "Named as their users know them; `tracetower route DATASET --replicas 1 --policy list` says each rule."
REPLICAS_HELP = f"One fleet, or several to compare: 4, 8, 16. At most {MOST_REPLICAS}."
CACHE_HELP = (
    "Tokens of KV cache of each replica: 1M, or several to compare: 500k, 1M, unbounded. The page Hardware derives it "
    "from model and GPUs."
)
SERVICE_HELP = (
    "How long an answer takes, and so what runs at once. Recorded: as in the trace. Model: estimated from the "
    "interactivity arithmetic, below. No time: exact hits, but nothing is ever in flight, so load is unknown."
)
SEEDS_HELP = "How often a policy that draws at random is replayed; with several, means with 95 % intervals."
EVENTS_HELP = (
    "One per line, AT in seconds from the first arrival. scale:AT:N (to N replicas), lose:AT (the busiest fails), "
    "hot:AT:SESSION (all its remaining requests at once; sessions are numbered from 0)."
)


class Refused(ValueError):
    """The settings are invalid; the message says why and what to enter instead."""


class Settings(NamedTuple):
    """The form as it was sent."""

    policies: tuple[str, ...]
    replicas: str
    cache: str
    service: str
    seeds: int
    insert: str
    max_running: int | None
    queue_limit: int | None
    params: str
    events: str
    model: str
    gpu: str
    tp: int
    kv_dtype: str

    def flags(self) -> list[str]:
        """As options of `tracetower route`; what is left at its default is left out."""
        out = ["--replicas", _joined(self.replicas), "--policy", ",".join(self.policies)]
        sizes = [size for size in capacities(self.cache) if size is not None]
        if sizes:
            out += ["--capacity-tokens", ",".join(str(size) for size in sizes)]
        if self.service != "instant":
            out += ["--service", self.service]
        if self.service == "model":
            out += ["--model", self.model, "--gpu", self.gpu, "--tp", str(self.tp), "--kv-dtype", self.kv_dtype]
        if self.seeds > 1:
            out += ["--seeds", str(self.seeds)]
        if self.insert != "arrival":
            out += ["--insert", self.insert]
        if self.max_running is not None:
            out += ["--max-running", str(self.max_running)]
        if self.queue_limit is not None:
            out += ["--queue-limit", str(self.queue_limit)]
        for flag, text in (("--param", self.params), ("--event", self.events)):
            for line in _lines(text):
                out += [flag, line]
        return [*out, "--json"]


def form(durations_known: bool) -> Settings | None:
    """Draw the form; what it says if it was sent just now."""
    _from_replica()
    with st.form("fleet"):
        policies = st.multiselect(
            "Policies", **link.at("fleet-policies"), help=POLICY_HELP,
        )  # fmt: skip
        one, two, three, four = st.columns([2, 3, 3, 1.4])
        replicas = one.text_input("Replicas", **link.at("fleet-replicas"), max_chars=100, help=REPLICAS_HELP)
        cache = two.text_input(
            "Cache of each, tokens", **link.at("fleet-cache"), max_chars=200, help=CACHE_HELP,
        )  # fmt: skip
        service = three.selectbox(
            "An answer takes", **link.at("fleet-service", default="recorded" if durations_known else "instant"),
            format_func=lambda s: SERVICES[s] + ("" if durations_known or s != "recorded" else " (none here)"),
            help=SERVICE_HELP,
        )  # fmt: skip
        seeds = four.number_input("Seeds", **link.at("fleet-seeds"), help=SEEDS_HELP)
        with st.expander("More: model, limits, parameters, events", icon=":material/tune:"):
            a, b, c, d = st.columns(4)
            model = a.selectbox(
                "Model", **link.at("fleet-model"), help="For answers by model and GPUs.",
            )  # fmt: skip
            gpu = b.selectbox("GPU", **link.at("fleet-gpu"), format_func=str.upper)
            tp = c.selectbox("GPUs a replica, TP", **link.at("fleet-tp"))
            dtype = d.selectbox("KV precision", **link.at("fleet-kv"))
            a, b, c, _ = st.columns(4)
            insert = a.selectbox(
                "A prompt can be hit", **link.at("fleet-insert"), format_func=INSERTS.__getitem__,
            )  # fmt: skip
            most = b.number_input(
                "Running on a replica at most", **link.at("fleet-running"), placeholder="no limit",
            )  # fmt: skip
            queue = c.number_input(
                "Waiting on a replica at most", **link.at("fleet-queue"), placeholder="no limit",
                help="More are refused.",
            )  # fmt: skip
            a, b = st.columns(2)
            params = a.text_area(
                "Parameters of policies", **link.at("fleet-params"), placeholder="c=1.25\nbudget=0.02", max_chars=2000,
                help="NAME=VALUE, one per line; each policy uses its own parameters.",
            )  # fmt: skip
            events = b.text_area(
                "Events", **link.at("fleet-events"), placeholder="scale:3600:6\nlose:7200", help=EVENTS_HELP,
                max_chars=2000,
            )  # fmt: skip
        sent = st.form_submit_button("Run", type="primary", icon=":material/play_arrow:")
    if not sent:
        return None
    return Settings(
        tuple(policies), replicas or "", cache or "", str(service), int(seeds), str(insert), most, queue, params or "",
        events or "", str(model), str(gpu), int(tp or 1), str(dtype),
    )  # fmt: skip


def _from_replica() -> None:
    """Offer the capacity of the configuration that was last looked at on the page Hardware."""
    mark: tuple[str, int, float | None] | None = st.session_state.get("replica-mark")
    if mark is not None and mark[1] > 0:
        st.button(
            f"Take the cache of {mark[0]}: {formats.tokens(mark[1])} tokens", on_click=_set_cache, args=(mark[1],),
            key="fleet-from-replica", icon=":material/dns:", help="As chosen on the page Hardware.",
        )  # fmt: skip


def _set_cache(tokens: int) -> None:
    link.put("fleet-cache", str(tokens))


def cells(settings: Settings, routed: Routed) -> list[Cell]:
    """Every combination that the form asks for.

    Raises:
        Refused: the settings cannot be read, are invalid, or are more than a page should run.
        analysis.store.question.BadQuestion: an invalid parameter of a policy, or an invalid event.
    """
    from analysis.fleet import settings as fleet
    from analysis.fleet.grid import alike

    if not settings.policies:
        raise Refused("Choose at least one policy.")
    chosen = fleet.cells(
        fleet.Settings(
            settings.policies, fleets(settings.replicas), capacities(settings.cache), settings.seeds, settings.service,
            settings.insert, _lines(settings.params), _lines(settings.events), settings.max_running,
            settings.queue_limit, fleet.Hardware(settings.model, settings.gpu, settings.tp, settings.kv_dtype),
        ),
        routed,
    )  # fmt: skip
    if any(event.kind == "scale" and event.argument > MOST_REPLICAS for event in chosen[0].events):
        raise Refused(f"A fleet on this page has at most {MOST_REPLICAS} replicas.")
    runs = len({repr(alike(cell)) for cell in chosen})
    if runs > MOST_CELLS:
        raise Refused(
            f"{runs} replays are more than this page runs at once ({MOST_CELLS}). Ask for fewer policies, fleets or "
            "seeds, or run them with `tracetower route --workers`."
        )
    return chosen


def fleets(text: str) -> list[int]:
    """Replica counts of "4, 8, 16", ascending.

    Raises:
        Refused: for anything else.
    """
    try:
        found = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        raise Refused(f"Replicas: {text!r} is not a number, or several as in 4, 8, 16.") from None
    if not found or found[0] < 1 or found[-1] > MOST_REPLICAS:
        raise Refused(f"Replicas: between 1 and {MOST_REPLICAS}, or several as in 4, 8, 16.")
    return found


def capacities(text: str) -> list[int | None]:
    """Tokens of "500k, 1M, unbounded", ascending; None: unbounded, as is nothing at all.

    Raises:
        Refused: for anything else.
    """
    from app.widgets.sizes import parse_size

    sizes: set[int | None] = set()
    for part in (part.strip() for part in text.split(",")):
        try:
            if part:
                sizes.add(None if part.lower() == UNBOUNDED else parse_size(part))
        except ValueError:
            raise Refused(f"Cache: {part!r} is neither tokens, as in 1M or 361000, nor {UNBOUNDED}.") from None
    if any(size is not None and size < 0 for size in sizes):
        raise Refused("Cache: a replica cannot hold fewer than 0 tokens.")
    return sorted(sizes or {None}, key=lambda size: math.inf if size is None else size)


def fleet_name(row: dict[str, Any]) -> str:
    """Replicas and cache of a row in words: 8 × 1 M tokens, 8 × unbounded."""
    capacity = row["capacity_tokens"]
    return f"{row['replicas']} × {UNBOUNDED if capacity is None else formats.tokens(capacity)}"


def refused(error: Exception) -> None:
    """Show why nothing was run."""
    st.error(markdown(str(error)), icon=":material/error:")


def _joined(text: str) -> str:
    return ",".join(part.strip() for part in text.split(",") if part.strip())


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
