"""tau-bench results: the agent's conversation with a simulated user, as OpenAI messages (JSON, one result or a list).

The domain's tools are not logged; there is no usage and no time. The system prompt (the policy) is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from traces.records import Context, Record
from traces.transcripts.ledger import Ledger, objects, opening
from traces.transcripts.parts import PartMaker, as_dict, as_list
from traces.transcripts.requests import records_of
from traces.transcripts.turns import Thread

if TYPE_CHECKING:
    from traces.source.sources import Source

NAME = "tau_bench"
SUMMARY = {
    "carries": "system prompt, messages, tool calls and results",
    "time": "none",
    "computes": "achievable hit rates; lengths are the tokenizer's",
    "notes": "prompts are derived: all messages before an answer; no usage; tool schemas are not logged",
}


def sniff(head: Any, name: str) -> float:
    """Sure of a result's task, reward and trajectory."""
    first = as_dict(opening(head))
    return 0.95 if "task_id" in first and "reward" in first and isinstance(first.get("traj"), list) else 0.0


def read(source: Source, context: Context) -> Iterator[Record]:
    """Yield a session for each result, and its requests."""
    ledger, make, threads, ordinal = Ledger(), PartMaker(context, exact=True), [], 0
    for number, result in objects(source, ledger):
        thread = Thread(f"result-{number}", NAME, time_basis="none")
        for message in as_list(result.get("traj")):
            ordinal += 1
            ledger.used += 1
            contents = make.message(as_dict(message))
            if as_dict(message).get("role") == "assistant":
                thread.add_reply(contents.parts, contents.tools)
                thread.close(f"{number}:{ordinal}", ordinal)
            elif as_dict(message).get("role") == "system" and not thread.turns:
                thread.head += contents.parts
            else:
                thread.add_input(contents.parts, None, "tool" if contents.results else "user")
        threads.append(thread)
    yield from records_of(threads, context, ledger)
