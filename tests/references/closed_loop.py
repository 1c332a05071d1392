"""Seeded closed-loop traces of unequal sessions, a few of them thicc, for routing policies to be judged on."""

from typing import NamedTuple

import numpy as np

from analysis.fleet.routing import Trace

HEADS = (11_000, 14_500, 17_200, 20_300)  # system prompt and tools of four agents, shared by their sessions


class ClosedLoop(NamedTuple):
    """A trace whose sessions wait for their answers, and how to run it."""

    trace: Trace
    population: int  # sessions at once
    window_s: tuple[float, float]  # past the common start, before the last sessions run out


def closed_loop_trace(
    seed: int,
    replicas: int,
    duty: float,
    in_flight: float = 5.0,
    thicc: float = 0.03,
    width: int = 6,
    rounds: float = 4.0,
    most_tokens: int = 200_000,
) -> ClosedLoop:
    """Sessions of 5 to 120 turns that grow to at most `most_tokens`; `thicc` of them run `width` requests at once.

    `duty` is the share of a session's life with a request in flight; the population is such that about `in_flight`
    requests run on each replica. Answers take seconds; gaps are tool calls (short) and, one in fourteen, people (long).
    """
    rng = np.random.default_rng(seed)
    population = round(replicas * in_flight / (duty * (1 + thicc * (width - 1) * 0.75)))
    sessions = round(population * (1 + rounds))
    parent, start, end = [-1], [0], [0]
    for head in HEADS:
        parent.append(0)
        start.append(0)
        end.append(head)
    rows: list[tuple[int, int, float, float, int]] = []  # leaf, session, arrival, duration, output tokens

    def grow(node: int, tokens: int) -> int:
        parent.append(node)
        start.append(end[node])
        end.append(end[node] + tokens)
        return len(parent) - 1

    lives = []
    for s in range(sessions):
        turns = int(np.clip(rng.lognormal(np.log(28), 0.6), 5, 120))
        node = 1 + int(rng.choice(4, p=[0.4, 0.3, 0.2, 0.1]))
        wide = rng.random() < thicc
        pace = rng.lognormal(0, 0.3)  # some sessions answer at length, some call tools quickly
        when = float(s)  # sessions begin one after the other: the population, not this, decides when
        begin = when
        for turn in range(turns):
            new = (
                int(rng.integers(1500, 4000))
                if turn == 0
                else int(np.clip(rng.lognormal(np.log(900), 1.1), 16, 30_000))
            )
            if end[node] + new > most_tokens:
                break
            node = grow(node, new)
            output = int(np.clip(rng.lognormal(np.log(250), 0.8), 8, 4000))
            took = 0.5 + output * 0.015 * pace
            rows.append((node, s, when, took, output))
            over = when + took
            if wide and turn > 0:
                for _ in range(width - 1):
                    late = when + 0.2 * rng.random()
                    part = int(np.clip(rng.lognormal(np.log(250), 0.8), 8, 4000))
                    rows.append((grow(node, int(rng.integers(50, 800))), s, late, 0.5 + part * 0.015 * pace, part))
                    over = max(over, late + rows[-1][3])
            node = grow(node, output)
            idle = (0.5 + 340 * 0.015 * pace) * (1 - duty) / duty
            short = rng.random() < 13 / 14
            when = over + idle * (rng.lognormal(-0.5, 1.0) * 0.6 if short else rng.lognormal(-0.5, 1.0) * 6.2)
        lives.append(rows[-1][2] + rows[-1][3] - begin)
    leaf, session, arrival, duration, output_tokens = (np.array(column) for column in zip(*rows, strict=True))
    length = float(np.mean(lives))
    trace = Trace(
        np.array(parent),
        np.array(start),
        np.array(end),
        leaf,
        np.argsort(arrival, kind="stable"),
        arrival,
        session,
        output_tokens=output_tokens,
        duration_s=duration,
    )
    return ClosedLoop(trace, population, (length, length * (rounds - 0.5)))
