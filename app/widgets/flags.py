"""Parameters of the library as flags of the command line: the one map, for messages and for pages."""

from __future__ import annotations

from collections.abc import Iterable

FLAGS = {
    "axis": "--by",
    "axes": "--by",
    "params": "--param",
    "events": "--event",
    "policies": "--policy",
    "ttl_s": "--ttl",
    "tiers_blocks": "--tiers",
    "block_tokens": "--block-size",
    "mapping": "--map",
    "target": "--to",
    "weights_scheme": "--weights",
    "link_bytes_per_s": "--link-gbps",
    "path": "-o",
    "shown": "--show",
    "as_json": "--json",
    "name": "NAME",
    "parameters": "KEY=VALUE",
}
"""Parameter -> flag, where the flag is not the parameter's name with dashes."""


def flag_of(parameter: str) -> str:
    """The flag of a parameter: block_size -> --block-size."""
    return FLAGS.get(parameter, "--" + parameter.replace("_", "-"))


def question_flags(block_size: int | None, arrivals: str, window: str, where: Iterable[tuple[str, str]]) -> list[str]:
    """The options that ask the same question; what stands at its default is left out."""
    given = [("block_size", block_size, None), ("arrivals", arrivals, "recorded"), ("window", window, "all")]
    words = [word for name, value, default in given if value != default for word in (flag_of(name), str(value))]
    return words + [word for axis, value in where for word in ("--where", f"{axis}={value}")]
