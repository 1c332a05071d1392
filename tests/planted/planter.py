"""The planter: causes as coding harnesses make them, in prompts of every provider, from a seed.

Each cause is tried alone on the grown prompt, and the one that parts it earliest, token by token, from the session's
last one is the truth. Some rows are planted but not scored (`dropped`), for what is true of them is open to argument:

- two causes part the prompts at the same token, or both together part them elsewhere than the first alone; where only
  plain causes are planted also if the second changes what stands within `NEAR_TOKENS` of the place where they part;
- the only change is of the last tokens, which a prompt of one text may merge with what follows them;
- a reminder stands after all that was sent before, so that at most a token is merged;
- a prompt that is shorter than the one before and was given no cause;
- a fork that goes back to a prompt which was changed since: to go back reverts that as well;
- a compaction that keeps none of the messages after the place where they part, or only such as "weiter": it cannot be
  distinguished from a branch; and one that leaves out one or two messages: that is an edit that takes messages out;
- an edit within a tool's description written into the prompt, within a planted reminder or within what a harness writes
  anew: the change is of the tool, of the reminder or of the harness's text;
- an edit that rewrites the last message that was sent as a whole: a rewind, with another message in its place.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import orjson

from tests.planted.causes import TOLD_FORMS, put_reminder, told_tool
from tests.planted.notes import IMAGES_GONE, REMINDERS, environment
from tests.planted.prompts import State, Tokens, ToldTools, common, fresh, leaves, leaves_of, lost_of, put_text
from tests.planted.rewrites import CAUSES
from tests.planted.score import KINDS, Planted
from tests.planted.sessions import Session, steps, tower
from tests.planted.slots import FORMS, Slot
from tests.planted.words import hexes, paragraph, task

MERGED_TOKENS = 2
"""Tokens at the end of a text that may become others when it grows."""

NEAR_TOKENS = 200
"""Of two causes no further apart than this many tokens, either may be named."""

SHORT_MESSAGE = 120
"""Bytes of a message that a user may write twice."""

_BEGIN = datetime(2025, 9, 1, tzinfo=UTC)
_ORDER = {"fork": 0, "summary": 1, "compaction": 1}
"""What rewrites the history comes before what changes it."""


@dataclasses.dataclass
class _Course:
    """A session under way: what it will say, its state, and what it has sent."""

    name: str
    session: Session
    state: State
    prompts: int
    sent: list[int] = dataclasses.field(default_factory=list)
    states: list[State] = dataclasses.field(default_factory=list)
    left: State | None = None
    """The branch that a fork left behind."""

    def group(self) -> list[dict[str, Any]]:
        """What the next prompt adds."""
        return fresh(self.session.groups[len(self.sent)])


class _Tried(NamedTuple):
    """A cause alone: how many tokens of the session's last prompt it leaves, and the prompt."""

    at: int
    kind: str
    note: str
    arguable: str
    prompt: Any


def plant(
    seed: int,
    tokenizer: str = "bytes",
    rates: Mapping[str, float] | None = None,
    *,
    least: int = 220,
    hard: bool = True,
    style: str = "",
    written: str = "messages",
    into: Sequence[Session] = (),
) -> Planted:
    """Plant into generated sessions, or into conversations.

    Args:
        seed: of everything that is drawn.
        tokenizer: what prompts are compared by.
        rates: by kind the chance that a call after the first gets it, where it is possible; None: drawn.
        least: sessions are drawn until they have this many rows.
        hard: whether harnesses change anything anywhere, or only in the ways that most of them do.
        style: one of `sessions.STYLES` for all sessions; empty: each draws its own.
        written: one of `prompts.WRITTEN`.
        into: conversations to plant into instead.
    """
    r = random.Random(f"planted-{seed}-{bool(into)}")
    chances = dict(drawn_rates(r) if rates is None else rates)
    courses: list[_Course] = []
    while sum(course.prompts for course in courses) < least:
        session = r.choice(into) if into else tower(r, r.choice([1, 4, 8, 14, 24, 40]), style)
        prompts = min(len(session.groups), r.choice([5, 12, 25, 40, 60]))
        state = dataclasses.replace(_begun(r, session, list(chances), hard), hard=hard, written=written)
        courses.append(_Course(f"s{len(courses)}-{hexes(r, 6)}", session, state, prompts))
    planter = _Planter(str(seed), chances, Tokens(tokenizer))
    while courses:
        course = r.choice(courses[:6])  # sessions run beside each other
        planter.send(r, course)
        if len(course.sent) == course.prompts:
            courses.remove(course)
    return planter.harvest()


def drawn_rates(r: random.Random) -> dict[str, float]:
    """Rates by kind, for all kinds or for some."""
    kinds = list(KINDS) if r.random() < 0.3 else r.sample(KINDS, r.choice([1, 2, 3, 4, 6]))
    return dict.fromkeys(kinds, r.choice([0.03, 0.1, 0.2, 0.35, 0.6]) * r.choice([1.0, 1.2, 1.5]) / len(kinds))


def _begun(r: random.Random, session: Session, kinds: list[str], hard: bool) -> State:
    """The first prompt of a session, with what its harness writes into it."""
    tools, messages = fresh(session.tools), fresh(session.groups[0])
    state = State({"content": session.system}, tools, messages, image_gone=r.choice(IMAGES_GONE))
    slots = [Slot(r, kind) for kind in FORMS if kind in kinds for _ in range(r.choice([1, 1, 2]))]
    r.shuffle(slots)
    for group in [slots] if slots and r.random() < 0.5 else [[slot] for slot in slots]:
        found = leaves(state)
        heads = [leaf for leaf in found if leaf.role in ("system", "developer")]
        users = [leaf for leaf in found if leaf.role == "user"] or found
        where = r.choice(["system", "system", "user", *(["tool"] if hard else [])])
        lines = [slot.text() for slot in group]
        text = environment(r, lines) if len(group) > 1 or r.random() < 0.5 else lines[0]
        if where == "tool" and tools and len(group) == 1:
            tool = r.choice(tools)
            function = tool.get("function", tool)
            function["description"] = (function.get("description") or "") + r.choice([" ", "\n"]) + text
        else:
            chosen = heads if where == "system" and heads else users
            put_text(r, chosen[-1] if where == "user" else chosen[0], text)
        state.slots += group
    if "tool_schema" in kinds and (not tools or r.random() < 0.25):
        form = r.randrange(TOLD_FORMS)
        between = r.choice(["\n\n", "\n"])
        state.told = ToldTools(form, between, [told_tool(r, form) for _ in range(r.randint(2, 6))])
        heading = r.choice(
            ["# Tools\n\n%s", "<tools>\n%s\n</tools>", "You have access to the following functions:\n\n%s\n", "%s"]
        )
        found = leaves(state)
        put_text(r, next((leaf for leaf in found if leaf.role == "system"), found[0]), heading % state.told.block())
    return state


class _Planter:
    """Sends prompts, and keeps what it sent."""

    def __init__(self, seed: str, rates: dict[str, float], tokens: Tokens) -> None:
        self.seed, self.rates, self.tokens = seed, rates, tokens
        self.rows: list[dict[str, Any]] = []
        self.prompts: list[Any] = []
        self.truth: list[str | None] = []
        self.dropped: list[bool] = []
        self.notes: list[str] = []

    def harvest(self) -> Planted:
        return Planted(self.rows, self.truth, self.dropped, lost_of(self.rows, self.prompts), self.notes)

    def send(self, r: random.Random, course: _Course) -> None:
        """The next prompt of a session, with causes or without."""
        state, tried = self._changed(r, course)
        prompt = self.tokens.of(state)
        truth, why = self._judged(course, state, prompt, tried)
        at = _BEGIN + timedelta(seconds=30 * len(self.rows))
        times = {"ts": at.isoformat(), "end_time": (at + timedelta(seconds=9)).isoformat()}
        course.sent.append(len(self.rows))
        self.rows.append({**times, "session_id": course.name, "model": "m", **state.row()})
        self.prompts.append(prompt)
        self.truth.append(truth)
        self.dropped.append(bool(why))
        self.notes.append("; ".join([f"{one.kind}@{one.at}: {one.note}" for one in tried] + ([why] if why else [])))
        course.states = [*course.states, state.copied()][-12:]
        course.state = state

    def _changed(self, r: random.Random, course: _Course) -> tuple[State, list[_Tried]]:
        """What is sent next, and each cause in it alone."""
        if not course.sent:
            return course.state.copied(), []
        grown = self._grown(r, course)
        planned = [kind for kind, rate in self.rates.items() if r.random() < rate]
        state, tried = grown, []
        for number, kind in enumerate(sorted(planned, key=lambda kind: _ORDER.get(kind, 2))):
            alone, both = (self._tried(course, kind, number, base) for base in (grown, state))
            if alone and both:
                state = both[0]
                tried.append(self._of(course, kind, *alone))
        if not tried and course.left and r.random() < 0.4:
            state, course.left = course.left, None
            state.messages += course.group()
            tried = [self._of(course, "fork", state, "back to the branch that was left", "")]
        elif any(one.kind == "fork" for one in tried) and r.random() < 0.5:
            course.left = course.state.copied()
        return state.copied(), tried

    def _of(self, course: _Course, kind: str, state: State, note: str, arguable: str) -> _Tried:
        prompt = self.tokens.of(state)
        return _Tried(common(self.prompts[course.sent[-1]], prompt), kind, note, arguable, prompt)

    def _grown(self, r: random.Random, course: _Course) -> State:
        """The session's last prompt and what comes next, with what a harness writes into that: history later on."""
        state, group = course.state.copied(), course.group()
        state.known = len(state.messages)
        for kind in FORMS:
            if kind in self.rates and r.random() < 0.12:
                slot, found = Slot(r, kind), [leaf for leaf in leaves_of(group) if leaf.role in ("user", "tool")]
                if found:
                    put_text(r, r.choice(found), slot.text())
                    state.slots.append(slot)
        if "reminder" in self.rates and r.random() < 0.25:
            put_reminder(State({"content": ""}, [], group, reminders=state.reminders), r, r.choice(REMINDERS)(r), True)
        state.messages += group
        return state

    def _tried(self, course: _Course, kind: str, number: int, base: State) -> tuple[State, str, str] | None:
        """A cause on a state: what it makes of it, how, and why that is arguable. The same draws on every state."""
        r = random.Random(f"{self.seed}-{len(self.rows)}-{number}-{kind}")
        if kind == "fork":
            branch = _forked(r, course)
            return (branch, "another branch", "") if branch else None
        state = base.copied()
        change = CAUSES[kind](state, r)
        return (state, *change) if change else None

    def _judged(self, course: _Course, state: State, prompt: Any, tried: list[_Tried]) -> tuple[str | None, str]:
        """The cause that parts the prompts first (None: none does), and why it is not to be scored ("": it is)."""
        if not course.sent:
            return None, ""
        before = self.prompts[course.sent[-1]]
        parted = common(before, prompt)
        merged = 0 if state.written == "messages" else MERGED_TOKENS
        grew = parted >= min(before.size, prompt.size) - merged
        parting = [one for one in tried if one.at < min(before.size, one.prompt.size) - merged or one.kind == "fork"]
        if not parting:
            why = "" if grew else "parts without a cause"
            if grew and any(one.at < before.size for one in tried):
                why = "only its last tokens change"
            return None, why or ("no longer than before" if prompt.size <= before.size else "")
        first = min(one.at for one in parting)
        kinds = {one.kind for one in parting if one.at == first}
        if len(kinds) > 1:
            return None, "two causes at one token"
        truth, chosen = next(iter(kinds)), next(one for one in parting if one.at == first)
        reach = min(first + NEAR_TOKENS, prompt.size, chosen.prompt.size)
        close = sum(one.at < first + NEAR_TOKENS for one in parting) > 1
        if not state.hard and (close or common(chosen.prompt, prompt) < reach):
            return None, "two causes near each other"
        if parted != first:
            return truth, "together they part elsewhere"
        if truth == "reminder" and first >= before.size - 2:
            return truth, "after all that was sent"
        if truth == "compaction" and not _keeps(course.state, state):
            return truth, "keeps none of the messages after where they part"
        if truth == "fork" and self._reverts(course, prompt, parted):
            return truth, "reverts more than the branch"
        return truth, chosen.arguable

    def _reverts(self, course: _Course, prompt: Any, parted: int) -> bool:
        """Whether a fork holds no earlier prompt as a whole, or one that the last prompt no longer holds."""
        sizes = [
            self.prompts[i].size for i in course.sent[:-1] if common(self.prompts[i], prompt) == self.prompts[i].size
        ]
        return not sizes or parted < max(sizes)


def _forked(r: random.Random, course: _Course) -> State | None:
    """An earlier prompt of the session, going on otherwise."""
    if len(course.states) < 2:
        return None
    state = r.choice(course.states[:-1]).copied()
    style = course.session.style if course.session.generated else "openai"
    asked, answered = steps(r, style, "", False, 2)
    ways = [
        answered,
        [{"role": "assistant", "content": paragraph(r)}, asked[0]],
        [{"role": "user", "content": task(r)}],
    ]
    state.messages += r.choice(ways)
    return state


def _keeps(before: State, after: State) -> bool:
    """Whether messages of a prompt are in the next one after the first that differs."""
    was, now = ([orjson.dumps(m) for m in state.messages] for state in (before, after))
    at = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    return any(len(message) > SHORT_MESSAGE for message in set(was[at:]) & set(now[at:]))
