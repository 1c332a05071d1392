"""curve: hit rate over capacity, TTL and tiers."""

from __future__ import annotations

from typing import Any

import click

from app.commands.questions.printed import print_definition
from app.commands.shell.command import command
from app.commands.shell.options import dataset_argument, json_option, opened, question_of, question_options
from app.commands.shell.rules import Rule, excludes, needs
from app.commands.shell.terminal import emit_frame, emit_json, note, say
from app.commands.shell.types import Seconds, Sizes

CAPACITIES = ("capacity_blocks", "capacity_tokens", "capacity_bytes")
RULES = (
    needs("capacity_bytes", "model", says="--capacity-bytes needs --model: bytes per token depend on it"),
    needs("kv_dtype", "model"),
    needs("tp", "model"),
    needs("cross", "ttl"),
    needs("cross", *CAPACITIES),
    excludes("cross", "tiers"),
    excludes("policies", "ttl", "tiers", "cross"),
    needs("tier_mode", "tiers"),
    Rule(lambda given, _: "model" in given and "ttl" in given and not given & {*CAPACITIES, "tiers"},
         "--model turns capacities into bytes: it means nothing for --ttl alone"),
)  # fmt: skip


@command("curve", *RULES)
@dataset_argument
@click.option("--capacity-blocks", type=Sizes(), help="Capacities in blocks.")
@click.option("--capacity-tokens", type=Sizes(), help="Capacities in tokens (rounded down to blocks).")
@click.option("--capacity-bytes", type=Sizes(), help="Capacities in bytes; needs --model.")
@click.option("--model", help="Model whose KV bytes per token to use (kv-budget --list).")
@click.option("--kv-dtype", default="bf16", show_default=True, help="Precision of the KV cache.")
@click.option("--tp", type=click.IntRange(1), default=1, show_default=True, help="GPUs that share the cache.")
@click.option("--ttl", type=Seconds(), help="Seconds a block outlives its last touch.")
@click.option("--tiers", type=Sizes(), help="Capacities of tiers in blocks, nearest first.")
@click.option(
    "--tier-mode", default="exclusive", show_default=True,
    help="What tiers hold of each other: exclusive (each block once: an upper bound) | inclusive (copies, as HiCache's "
    "write-through).",
)  # fmt: skip
@click.option("--cross", is_flag=True, help="Every capacity with every TTL.")
@click.option(
    "--policy", "policies", multiple=True,
    help="What leaves a full cache first: lru | belady (the optimum) | lfu | slru | fifo | mru | filo | session | "
    "heads (repeatable).",
)  # fmt: skip
@click.option("--by", "axis", default="all", help="An axis to group by.")
@question_options
@json_option
def curve_command(
    dataset: str, capacity_blocks: list[int] | None, capacity_tokens: list[int] | None,
    capacity_bytes: list[int] | None, model: str | None, kv_dtype: str, tp: int, ttl: list[float] | None,
    tiers: list[int] | None, tier_mode: str, cross: bool, policies: tuple[str, ...], axis: str, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Hit rate of DATASET over cache capacity, TTL and tiers: exact at every point.

    \b
    Examples:
      tracetower curve mine --arrivals staggered:600
      tracetower curve mine --capacity-tokens 1M,4M --ttl 300,3600 --cross
      tracetower curve mine --capacity-bytes 80GiB,640GiB --model kimi-k2.6 --kv-dtype fp8
      tracetower curve mine --tiers 100k,1M --by trajectory_type
      tracetower curve mine --policy lru --policy belady --policy session
      tracetower curve mine --definition vllm --block-size 16 --capacity-tokens 1M
    """
    from analysis.headline.curves import TIER_MODES, curve, with_bytes
    from analysis.headline.report import definition
    from analysis.peers.engine_curve import replies_unknown
    from analysis.store.axes import check_axis
    from analysis.store.question import engine_of

    question = question_of(options, (axis,))
    warehouse = opened(dataset)
    if axis != "all":
        check_axis(axis)
    prepared = warehouse.prepare(question)
    per_token = _bytes_per_token(model, kv_dtype, tp) if model else None
    blocks = list(capacity_blocks or [])
    blocks += [tokens // prepared.block_size for tokens in capacity_tokens or []]
    blocks += [int(size / (per_token or 1)) // prepared.block_size for size in capacity_bytes or []]
    sized = capacity_blocks is not None or capacity_tokens is not None or capacity_bytes is not None
    chosen = blocks if sized else None
    if policies:
        from analysis.policies.policy_curve import policy_curve

        frame = policy_curve(warehouse, question, policies, axis, chosen)
    else:
        frame = curve(warehouse, question, axis, chosen, ttl, tiers, cross, tier_mode)
    if per_token is not None:
        frame = with_bytes(frame, per_token)
    means = definition(prepared) | ({"tiers": f"{tier_mode}: {TIER_MODES[tier_mode]}"} if tiers else {})
    if engine_of(question.definition):
        means |= replies_unknown(warehouse)
        if means["replies_unknown"]:
            note(f"{means['replies_unknown']:,} replies have no known content: nobody can hit them")
    more = _policies(frame, policies) if policies else {}
    if as_json:
        emit_json({"definition": means | more.pop("definition", {}), "rows": frame.to_dicts(), **more})
    else:
        emit_frame(frame)
        if more.get("sentence"):
            say(f"\n{more['sentence']}")
        print_definition(means)
        for name, says in more.get("definition", {}).get("policies", {}).items():
            say(f"Leaves first under {name}: {says}.")


def _policies(frame: Any, policies: tuple[str, ...]) -> dict[str, Any]:
    """What is said of eviction policies beside their rows."""
    from analysis.policies.eviction import RULES as EVICTION
    from analysis.policies.policy_curve import closed, in_words

    means = {"policies": {name: EVICTION[name] for name in policies}}
    return {"definition": means, "closed": closed(frame), "sentence": in_words(frame)}


def _bytes_per_token(model: str, kv_dtype: str, tp: int) -> float:
    """Bytes that a token takes over the whole replica: on each GPU, times the GPUs (MLA is held on every one)."""
    from analysis.replica.models.catalog import load_model
    from analysis.replica.models.kv_layout import Sharding, token_bytes
    from analysis.replica.states import ATTENTION_ONLY, has_states

    try:
        if has_states(load_model(model)):
            note(ATTENTION_ONLY.format(model=model))
        found = token_bytes(load_model(model).groups, kv_dtype, shards=Sharding(tp, 1, 1))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return found.per_token_per_gpu * tp
