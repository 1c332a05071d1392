"""The configuration of AIPerf's agentic-code generator, chosen so that the generated sessions have the profile's
figures.

The generator (aiperf 0.13) draws a number of turns, a first prompt (a global, a group and an own part), and for each
turn the tokens added to the previous prompt and its answer. A session ends early if its prompt would reach
max_prompt_tokens. Delays come from two lognormals, shrink as the prompt grows (by the factor 1 - 0.8 prompt /
max_prompt_tokens, at least 0.2) and are capped. These rules shift the configured figures, so the writer simulates them
with random numbers of its own and corrects the configuration.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from analysis.export.planners import Written
from analysis.export.planners.profiles.bounded_lognormal import Lognormal, fitted, standard
from analysis.export.planners.profiles.figures import Profile, need, whole, write_text
from analysis.export.planners.profiles.turn_counts import Turns, fitted_turns
from analysis.store.question import BadQuestion

SHORTEST_OUTPUT = 30
"""The generator raises shorter outputs to this length, if outputs may be that long."""

MOST_SESSION_BLOCKS, MOST_GROUP_BLOCKS, MOST_GROUPS = 4000, 200, 1000
"""The most blocks of a session, the most blocks of a group, and the most groups."""

SESSIONS, ROUNDS, LONGEST = 1500, 6, 4000
"""Simulated sessions, rounds of correction, and the most simulated turns."""

NEAR = 0.03
"""The notes list figures that are off by more than this."""


class Played(NamedTuple):
    """Simulated sessions. Per later turn: `added` tokens and the prompt `before` them; per turn: `input` and `output`;
    per session: `turns` and its `first` prompt."""

    added: NDArray[np.float64]
    before: NDArray[np.float64]
    input: NDArray[np.float64]
    output: NDArray[np.float64]
    turns: NDArray[np.float64]
    first: NDArray[np.float64]
    cut: float  # share of sessions that end early because they reach the longest prompt


def write_agentic_code(profile: Profile, path: Path) -> Written:
    """Write the configuration of `aiperf synthesize agentic-code`."""
    notes: list[str] = []
    overall = profile["overall"]
    turns, output, first = need(profile, "turns"), need(profile, "output_tokens"), need(profile, "first_input_tokens")
    added = overall["added_tokens_per_turn"]
    block, longest = _block(profile, overall["context_max_tokens"], notes)
    shared, group, groups = _layers(profile, block, notes)
    fixed = math.ceil(shared / block) * block + math.ceil(group / block) * block
    if first["min"] <= fixed:
        notes.append(f"some first prompts are shorter than the layers that others share: none is below {fixed + 1:,}")
    asked = {
        "first": (first["mean"] - fixed, first["p50"] - fixed),
        "added": (1.0, 1.0) if added is None else (added["mean"], added["p50"]),
        "output": (output["mean"], output["p50"]),
    }
    few, many = int(max(1, turns["min"])), int(max(1, turns["max"]))
    count = fitted_turns(turns["mean"], turns["p50"], turns["p90"], few, many)
    own = fitted(max(1.5, asked["first"][0] + 0.5), max(1.5, asked["first"][1] + 0.5), max(1.0, first["min"] - fixed),
                 max(2.0, first["max"] - fixed + 1))  # fmt: skip
    floor = float(min(SHORTEST_OUTPUT, int(max(1.0, output["max"]))))
    bounds = {
        "added": (1.0, 2.0 if added is None else added["max"] + 1, 1.0),
        "output": (1.0, output["max"] + 1, floor),
    }
    want = dict(asked)
    for _ in range(ROUNDS):
        grown, answers = (
            fitted(want[name][0] + 0.5, want[name][1] + 0.5, *bounds[name]) for name in ("added", "output")
        )
        made = play(own, grown, answers, count, fixed, floor, longest)
        for name, values in (("added", made.added), ("output", made.output)):
            want[name] = _corrected(want[name], asked[name], values)
    delay = _delays(overall["gap_s"], made, longest, notes)
    document = {
        "new_tokens_per_turn": grown.document(),
        "generation_length": answers.document(),
        "inter_turn_delay": delay,
        "turns": {**count._asdict(), "allow_truncation": True},
        "max_prompt_tokens": longest,
        "block_size": block,
        "cache": {
            "layer1_tokens": shared,
            "layer1_5_tokens": group,
            "layer2": own.document(),
            "layer1_5_groups": groups,
        },
    }
    notes += _differences(overall, made, fixed, longest)
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    commands = [
        f"aiperf synthesize agentic-code --config {path} --num-sessions 100",
        f"tracetower ingest RUN/dataset.jsonl --format mooncake-delta --block-size {block} -o DATASET",
    ]
    return write_text(path, text, notes, commands)


def _block(profile: Profile, context: int | None, notes: list[str]) -> tuple[int, int]:
    """(block size, longest prompt). The block size is the profile's if a session can hold its longest prompt."""
    block = int(profile["definition"]["block_size"])
    if context is None:
        raise BadQuestion("this target needs prompt lengths, which this dataset does not know")
    longest = int(context) + 1
    if longest > MOST_SESSION_BLOCKS * block:
        least = math.ceil(longest / (MOST_SESSION_BLOCKS * block))
        notes.append(
            f"a session has {MOST_SESSION_BLOCKS:,} blocks at most: prompts of {context:,} tokens need blocks of "
            f"{block * least} tokens instead of {block}"
        )
        block *= least
    return block, longest


def _layers(profile: Profile, block: int, notes: list[str]) -> tuple[int, int, dict[str, Any]]:
    """(global tokens, group tokens, groups)."""
    layers, first = profile["prefix_layers"], profile["overall"]["first_input_tokens"]
    none = {"num_groups": 1, "zipf_alpha": 0.0}
    if layers is None:
        return 0, 0, none
    shared = min(int(layers["global_tokens"]), whole(first["p50"]) // block * block)
    group = whole(layers["group_tokens"]["p50"]) if layers["groups"] else 0
    room = max(0, min(MOST_GROUP_BLOCKS * block, whole(first["p50"]) // block * block - shared - block))
    if group > room:
        notes.append(f"what groups share is {room:,} tokens at most, not {group:,}")
        group = room
    if layers["groups"] > MOST_GROUPS:
        notes.append(f"{MOST_GROUPS:,} groups at most, not {layers['groups']:,}")
    return shared, group, {
        "num_groups": min(MOST_GROUPS, max(1, layers["groups"])), "zipf_alpha": round(layers["zipf_alpha"] or 0.0, 4),
    }  # fmt: skip


def play(
    own: Lognormal, grown: Lognormal, answers: Lognormal, turns: Turns, fixed: int, floor: float, longest: int
) -> Played:
    """Sessions simulated by the generator's rules, with the same random numbers every time."""
    random = np.random.default_rng(0)
    target = turns.drawn(random, SESSIONS)
    first = np.minimum(fixed + np.floor(_drawn(own, random, SESSIONS)), longest - 1)
    going = np.arange(SESSIONS)
    ended = np.zeros(SESSIONS)
    before, answer = first, np.floor(np.maximum(_drawn(answers, random, SESSIONS), floor))
    inputs, outputs = [first], [answer]
    added: list[NDArray[np.float64]] = []
    earlier: list[NDArray[np.float64]] = []
    reached = np.ones(SESSIONS)
    for turn in range(1, min(LONGEST, int(target.max()))):
        new = np.maximum(1.0, np.floor(_drawn(grown, random, SESSIONS)))
        output = np.floor(np.maximum(_drawn(answers, random, SESSIONS), floor))
        prompt = before[going] + answer[going] + new[going]
        wanted = target[going] > turn
        stays = wanted & (prompt < longest)
        ended[going[wanted & ~stays]] = 1
        going, prompt = going[stays], prompt[stays]
        if not going.size:
            break
        added.append(new[going])
        earlier.append(before[going])
        before, answer = before.copy(), answer.copy()
        before[going], answer[going] = prompt, output[going]
        inputs.append(prompt)
        outputs.append(output[going])
        reached[going] += 1
    empty = np.zeros(0)
    return Played(
        np.concatenate([empty, *added]), np.concatenate([empty, *earlier]), np.concatenate(inputs),
        np.concatenate(outputs), reached, first, float(ended.mean()),
    )  # fmt: skip


def _drawn(shape: Lognormal, random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """`count` draws; draws out of bounds are replaced by draws inside them."""
    scores = standard()[((random.permutation(count) + random.random(count)) / count * standard().size).astype(np.int64)]
    values = np.exp(np.clip(shape.mu + shape.sigma * scores, -60.0, 60.0))
    inside = (values >= shape.low) & (values <= shape.high)
    if not inside.any():
        return np.clip(values, shape.low, shape.high)
    return np.where(inside, values, values[inside][random.integers(0, int(inside.sum()), count)])


def _corrected(
    want: tuple[float, float], asked: tuple[float, float], values: NDArray[np.float64]
) -> tuple[float, float]:
    """The corrected mean and median to configure, from the figures that the last simulation gave."""
    if not values.size:
        return want
    got = float(values.mean()), float(np.median(values))
    mean, median = (
        w * min(2.0, max(0.5, a / g)) if g > 0 and a > 0 else w for w, a, g in zip(want, asked, got, strict=True)
    )
    return mean, median


def _delays(gaps: dict[str, Any], made: Played, longest: int, notes: list[str]) -> dict[str, Any]:
    """The mixture of tool and human delays in ms; one lognormal where most gaps have no known trigger."""
    tool, human, every = gaps["tool"], gaps["human"], gaps["all"]
    if every is None or every["max"] <= 0:
        notes.append("gaps are unknown: delays are 1 ms")
        return {"agentic_fraction": 1.0, "agentic_delay": {"mean": 1.0, "median": 1.0}}
    shorter = np.maximum(0.2, 1 - 0.8 * made.before / longest) if made.before.size else np.ones(1)
    known = sum(g["count"] for g in (tool, human) if g is not None)
    if known < 0.95 * every["count"]:
        fraction, parts = 1.0, {"agentic_delay": every}
        if known:
            notes.append("gaps of known and unknown trigger are one lognormal")
    else:
        fraction = (tool["count"] if tool else 0) / known
        parts = {name: g for name, g in (("agentic_delay", tool), ("human_delay", human)) if g is not None}
    most = 1000 * every["max"]
    found: dict[str, Any] = {"agentic_fraction": round(fraction, 6)}
    whole_median, scale = 1000 * every["p50"], 1.0
    # scale the medians of both kinds equally until all delays together have the target median
    for _ in range(1 if len(parts) < 2 else 3):
        random = np.random.default_rng(1)
        drawn = []
        for name, figures in parts.items():
            asked = max(1.0, 1000 * figures["mean"]), max(1.0, scale * 1000 * figures["p50"])
            shape, values = _fitted_delays(asked, 1000 * figures["max"], most, shorter, random)
            found[name] = shape.document()
            share = fraction if name == "agentic_delay" else 1 - fraction
            drawn.append(values[: max(1, round(share * values.size))])
        got = float(np.median(np.concatenate(drawn)))
        scale *= min(2.0, max(0.5, whole_median / got)) if got > 0 and whole_median > 0 else 1.0
    return found | {"max": round(most, 3)}


def _fitted_delays(
    asked: tuple[float, float], longest: float, most: float, shorter: NDArray[np.float64], random: np.random.Generator
) -> tuple[Lognormal, NDArray[np.float64]]:
    """The lognormal whose delays have this mean and median (ms) after shortening and capping, and those delays."""
    want = asked
    shape = fitted(*want, 0.5, 2 * max(2.0, longest))
    drawn = np.zeros(0)
    for _ in range(ROUNDS):
        shape = fitted(*want, 0.5, 2 * max(2.0, longest))
        drawn = np.minimum(np.minimum(_drawn(shape, random, 20_000), most) * random.choice(shorter, 20_000), most)
        want = _corrected(want, asked, drawn)
    return shape, drawn


def _differences(overall: dict[str, Any], made: Played, fixed: int, longest: int) -> list[str]:
    """Figures that the generator will miss, according to the simulation, and what it cannot express at all."""
    off = []
    for name, values in (
        ("turns", made.turns), ("first_input_tokens", made.first), ("added_tokens_per_turn", made.added),
        ("output_tokens", made.output), ("input_tokens", made.input),
    ):  # fmt: skip
        figures = overall[name]
        if figures is None or not values.size:
            continue
        got = {"mean": values.mean(), **{f"p{q}": np.quantile(values, q / 100) for q in (50, 90, 99)}}
        off += [
            f"{name} {figure} {got[figure]:,.0f} (here {figures[figure]:,.0f})"
            for figure in got
            if abs(got[figure] - figures[figure]) > max(0.5, NEAR * abs(figures[figure]))
        ]
    notes = []
    if off:
        notes.append("AIPerf's lognormals miss these figures: " + ", ".join(off))
    if made.cut > 0.01:
        notes.append(
            f"{100 * made.cut:.0f} % of its sessions end before their last turn, where their prompt would reach "
            f"{longest:,} tokens: it cannot compact, so turns, prompts and reuse differ"
        )
    return [
        *notes,
        "its generator has no sub-agents, compactions, edits, branches or retries (every turn appends), no arrival "
        "times of sessions, no dependence between the turns of a session; figures of reuse follow from its layers",
    ]
