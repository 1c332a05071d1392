"""The settings of a comparison of fleets, turned into cells to replay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analysis.fleet.grid import grid
from analysis.fleet.routed_trace import Routed, service_model
from analysis.fleet.routers import POLICIES, policy
from analysis.fleet.routing import Cell, Event, ServiceModel
from analysis.store.question import BadQuestion


class Hardware(NamedTuple):
    """The hardware for the service `model`: a model of the catalogue on `tp` GPUs."""

    model: str
    gpu: str
    tp: int
    kv_dtype: str

    def service(self) -> ServiceModel:
        """Service times on this hardware.

        Raises:
            ValueError: for a model, a GPU or a precision that the catalogue does not have.
        """
        from analysis.replica.interactivity import Service
        from analysis.replica.models.catalog import load_gpu, load_model
        from analysis.replica.models.kv_layout import Sharding

        return service_model(Service(load_model(self.model), load_gpu(self.gpu), Sharding(self.tp), self.kv_dtype))


class Settings(NamedTuple):
    """Policies and fleets to compare.

    Attributes:
        params: NAME=VALUE texts.
        events: texts scale:AT:N, lose:AT or hot:AT:SESSION, AT in seconds from the first arrival.
    """

    policies: Sequence[str]
    replicas: Sequence[int]
    capacities: Sequence[int | None] = (None,)
    seeds: int = 1
    service: str = "instant"
    insert: str = "arrival"
    params: Sequence[str] = ()
    events: Sequence[str] = ()
    max_running: int | None = None
    queue_limit: int | None = None
    hardware: Hardware | None = None


def cells(settings: Settings, routed: Routed) -> list[Cell]:
    """Every combination of policy, fleet and seed, seeds last.

    Raises:
        BadQuestion: for an unknown policy, parameter or event.
        ValueError: for hardware that the catalogue does not have.
    """
    unknown = [name for name in settings.policies if name not in POLICIES]
    if unknown or not settings.policies:
        named = f"no policy is called {', '.join(unknown)}" if unknown else "name at least one policy"
        raise BadQuestion(f"{named}. Policies: {', '.join(POLICIES)}", "policies", POLICIES)
    if settings.service == "model" and settings.hardware is None:
        raise BadQuestion("the service `model` needs a model and a GPU of the catalogue", "model")
    open_loop = routed.population is None or settings.service == "instant"
    base = Cell(
        settings.policies[0], 1, block_tokens=routed.block_tokens, service=settings.service, insert=settings.insert,
        params=parse_params(settings.params, settings.policies),
        events=parse_events(settings.events, routed.trace.session_names or ()),
        max_running=settings.max_running, queue_limit=settings.queue_limit, loop="open" if open_loop else "closed",
        population=routed.population,
        model=settings.hardware.service() if settings.hardware is not None and settings.service == "model" else None,
    )  # fmt: skip
    return grid(base, settings.policies, settings.replicas, settings.capacities or [None], settings.seeds)


def parse_events(texts: Iterable[str], sessions: Iterable[str]) -> tuple[Event, ...]:
    """Read scale:AT:N, lose:AT and hot:AT:SESSION; `sessions` are the session names in the order of their codes.

    Raises:
        BadQuestion: for anything else, or a session that the dataset does not have.
    """
    codes = {name: code for code, name in enumerate(sessions)}
    events = []
    for text in texts:
        kind, *rest = text.split(":", 2)
        try:
            if (kind, len(rest)) == ("scale", 2):
                events.append(Event("scale", float(rest[0]), int(rest[1])))
            elif (kind, len(rest)) == ("lose", 1):
                events.append(Event("lose", float(rest[0])))
            elif (kind, len(rest)) == ("hot", 2):
                if rest[1] not in codes:
                    raise BadQuestion(f"{text}: the dataset has no session {rest[1]!r}", "events")
                events.append(Event("hot", float(rest[0]), codes[rest[1]]))
            else:
                raise ValueError
        except BadQuestion:
            raise
        except ValueError:
            raise BadQuestion(f"{text!r} is none of scale:AT:N, lose:AT, hot:AT:SESSION", "events") from None
    return tuple(events)


def parse_params(texts: Iterable[str], policies: Iterable[str]) -> dict[str, float]:
    """Read NAME=VALUE; a name must be a parameter of one of the policies.

    Raises:
        BadQuestion: for anything else; the message lists the parameters there are.
    """
    names = list(policies)
    known = sorted({name for chosen in names for name in policy(chosen).params})
    params = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            raise BadQuestion(
                f"{text!r} is not NAME=VALUE of {', '.join(names)}; there are {', '.join(known) or 'none'}", "params"
            )
        try:
            params[name] = float(value)
        except ValueError:
            raise BadQuestion(f"{text!r}: {value!r} is not a number", "params") from None
    return params
