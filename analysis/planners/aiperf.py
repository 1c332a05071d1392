"""AIPerf: dag_jsonl conversations with sub-agents, and the configuration of its agentic-code generator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from analysis.outgoing import Outgoing
from analysis.planners import Written
from analysis.planners.chains import Chains
from analysis.planners.conversations import Conversation, conversations, words
from analysis.planners.figures import Profile, lognormal, need, whole, write_text
from analysis.planners.output import milliseconds, new_file
from analysis.planners.vllm import PLACEHOLDER


def write_dag(out: Outgoing, path: Path) -> Written:
    """Write a conversation a line. A sub-agent, or a session that goes on with another prompt, is a spawn."""
    chains = Chains(out.block)
    count = loose = 0
    with new_file(path) as file:
        for family in conversations(out, chains):
            known = {c.name: c for c in family}
            children: dict[tuple[str, int], list[Conversation]] = {}
            for conversation in family:
                if conversation.after is not None:
                    children.setdefault(conversation.after, []).append(conversation)
            for conversation in family:
                loose += conversation.after is None and conversation is not family[0]
                turns = [
                    _turn(out, conversation, place, children.get((conversation.name, place), []))
                    for place in range(len(conversation.turns))
                ]
                record = {"session_id": conversation.name, "turns": turns}
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                count += 1
            assert all(after[0] in known for after in children)
    notes = [
        *chains.notes(),
        PLACEHOLDER,
        "when top-level sessions start is for AIPerf to say (--concurrency, --request-rate)",
    ]
    if loose:
        notes.append(f"{loose:,} sub-agents have no known spawning request: they run as sessions of their own")
    return Written(
        count, notes,
        [
            f"aiperf profile --custom-dataset-type dag_jsonl --input-file {path} --url URL --model MODEL "
            "--endpoint-type chat --concurrency 8"
        ],
    )  # fmt: skip


def _turn(out: Outgoing, conversation: Conversation, place: int, children: list[Conversation]) -> dict[str, Any]:
    turn = conversation.turns[place]
    found: dict[str, Any] = {"messages": [{"role": "user", "content": words(out, turn, place == 0)}]}
    if turn.row.output:
        found["max_tokens"] = turn.row.output
        found["extra"] = {"ignore_eos": True, "min_tokens": turn.row.output}
    if turn.delay_s is not None and place:
        found["delay"] = milliseconds(turn.delay_s)
    if children:
        found["spawns"] = [_spawn(conversation, place, child) for child in children]
    return found


def _spawn(conversation: Conversation, place: int, child: Conversation) -> dict[str, Any]:
    """The child, joined by the first turn that was sent after it ended; by none where no turn was."""
    last = child.turns[-1].row
    spawn: dict[str, Any] = {"children": [child.name]}
    if last.arrival_s is None or place + 1 >= len(conversation.turns):
        return spawn
    end = last.arrival_s + (last.duration_s or 0.0)
    later = range(place + 1, len(conversation.turns))
    arrivals = [(t, conversation.turns[t].row.arrival_s) for t in later]
    spawn["join_at"] = next((t for t, a in arrivals if a is not None and a >= end), later[-1])
    return spawn


def write_agentic_code(profile: Profile, path: Path) -> Written:
    """Write the configuration of `aiperf synthesize agentic-code`: lognormals, layers of prefixes, turns."""
    notes: list[str] = []
    overall, layers = profile["overall"], profile["prefix_layers"]
    turns, output, first = need(profile, "turns"), need(profile, "output_tokens"), need(profile, "first_input_tokens")
    added = overall["added_tokens_per_turn"]
    shared = layers["global_tokens"] if layers else 0
    group = whole(layers["group_tokens"]["p50"]) if layers and layers["groups"] else 0
    own = {k: max(1.0, first[k] - shared - group) for k in ("mean", "p50")}
    tool, human = overall["gap_s"]["tool"], overall["gap_s"]["human"]
    rest = overall["gap_s"]["all"]
    counts = [(tool or {}).get("count", 0), (human or {}).get("count", 0)]
    delay: dict[str, Any] = {"agentic_fraction": counts[0] / sum(counts) if sum(counts) else 1.0}
    for name, figures in (("agentic_delay", tool or rest), ("human_delay", human or rest)):
        if figures is not None and figures["mean"] > 0:
            delay[name] = lognormal(figures, 1000, notes, name)
    if rest is not None and rest["max"] > 0:
        delay["max"] = round(rest["max"] * 1000, 3)
    longest = max(overall["context_max_tokens"], shared + group + 2)
    document = {
        "new_tokens_per_turn": lognormal(added, 1, notes, "new_tokens_per_turn") if added else {"mean": 1, "median": 1},
        "generation_length": lognormal(output, 1, notes, "generation_length"),
        "inter_turn_delay": delay,
        "turns": _turns(turns, notes),
        "max_prompt_tokens": longest,
        "block_size": profile["definition"]["block_size"],
        "cache": {
            "layer1_tokens": shared,
            "layer1_5_tokens": group,
            "layer2": lognormal(own, 1, notes, "layer2"),
            "layer1_5_groups": {
                "num_groups": max(1, layers["groups"]) if layers else 1,
                "zipf_alpha": round((layers["zipf_alpha"] if layers else None) or 0.0, 4),
            },
        },
    }
    notes.append("a turn adds to the previous prompt and its answer; compactions end a session in AIPerf's generator")
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"
    return write_text(path, text, notes, [f"aiperf synthesize agentic-code --config {path} --num-sessions 100"])


def _turns(figures: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    found = lognormal(figures, 1, notes, "turns")
    mean, median = whole(found["mean"], 1), whole(found["median"], 1)
    return {
        "mean": max(mean, median), "median": median, "min": min(whole(figures["min"], 1), median),
        "max": max(whole(figures["max"], 1), mean), "allow_truncation": True,
    }  # fmt: skip
