"""Answers of a transcript that the provider made in several passes (traces.usage.passes): a turn for each."""

from __future__ import annotations

from traces.transcripts.turns import Turn
from traces.usage.passes import APART, Pass


def in_passes(turn: Turn) -> list[Turn]:
    """The turns of `turn.passes` in their order, `turn` itself as the last of them.

    A transcript has the counts of the passes, not what each was sent: the first ones are sent the turn's prompt; one
    after a compaction is sent what it left, one after a server-side tool what the tool found, both unobserved.
    """
    if len(turn.passes) < 2:
        if turn.passes:
            turn.usage = turn.passes[0].usage
        return [turn]
    found: list[Turn] = []
    parent, inputs, whole, compaction = turn.parent, turn.inputs, turn.whole, turn.compaction
    declined = any(one.kind == "fallback_message" for one in turn.passes)
    for place, one in enumerate(turn.passes):
        last = place == len(turn.passes) - 1
        made = turn if last else _turn(turn, one, place)
        made.parent, made.inputs, made.whole, made.compaction = parent, inputs, whole, compaction
        made.usage, made.model = one.usage, one.model or turn.model
        found.append(made)
        if one.kind == "compaction":
            parent, inputs, whole, compaction = None, [], None, True
        elif one.kind not in APART and not declined:
            parent, inputs, whole, compaction = made, [], None, False
    turn.passes = []
    return found


def _turn(turn: Turn, one: Pass, place: int) -> Turn:
    return Turn(
        key=f"{turn.key}|{place}",
        ordinal=turn.ordinal,
        thread=turn.thread,
        arrival_s=turn.arrival_s,
        trigger=turn.trigger,
        stop_reason="tool_use" if one.kind == "message" else one.kind,
        dedupe_key=None if turn.dedupe_key is None else f"{turn.dedupe_key}|{place}",
        copy_rank=turn.copy_rank,
    )
