"""Sizes as people write them."""

from __future__ import annotations

import re

UNITS = {"": 1, "b": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
UNITS |= {f"{u}b": n for u, n in list(UNITS.items()) if u in ("k", "m", "g", "t")}
UNITS |= {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}


def parse_size(text: str) -> int:
    """A whole number, or one with a unit: 16k and 4M are decimal, 80GiB is binary.

    Raises:
        ValueError: for anything else.
    """
    found = re.fullmatch(r"\s*(-?[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].lower() not in UNITS:
        raise ValueError(f"{text!r} is not a size: write 16384, 16k, 4M or 80GiB")
    return round(float(found[1].replace("_", "")) * UNITS[found[2].lower()])
