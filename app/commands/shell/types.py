"""Option types: sizes, seconds, names, bands."""

from __future__ import annotations

from typing import Any

import click

from app.widgets.sizes import parse_size

MOST_NUMBERS = 10_000


class Size(click.ParamType[int]):
    """One size."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The size as a whole number."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Sizes(click.ParamType[list[int]]):
    """Sizes separated by commas."""

    name = "size,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The sizes as whole numbers."""
        if isinstance(value, list):
            return value
        try:
            return [parse_size(part) for part in str(value).split(",") if part.strip()]
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Numbers(click.ParamType[list[int]]):
    """Whole numbers separated by commas, with ranges: 1..8,12,16."""

    name = "n,n..m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """The numbers, ranges written out."""
        if isinstance(value, list):
            return value
        found: list[int] = []
        try:
            for part in str(value).split(","):
                low, _, high = part.partition("..")
                found += range(int(low), int(high or low) + 1)
                if len(found) > MOST_NUMBERS:
                    self.fail(f"at most {MOST_NUMBERS:,} numbers", param, ctx)
        except (ValueError, OverflowError):
            found = []
        if not found:
            self.fail(f"{value!r} is no list of whole numbers: write 1..32 or 1,2,4,8", param, ctx)
        return found


class Seconds(click.ParamType[list[float]]):
    """Seconds separated by commas."""

    name = "seconds,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """The times in seconds."""
        if isinstance(value, list):
            return value
        try:
            found = [float(part) for part in str(value).split(",") if part.strip()]
        except ValueError:
            self.fail(f"{value!r} is not a list of seconds: write 60,300,3600", param, ctx)
        if any(not 0 <= t < float("inf") for t in found):
            self.fail("a time must be at least 0 seconds", param, ctx)
        return found


class Names(click.ParamType[list[str]]):
    """Names separated by commas."""

    name = "name,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """The names."""
        return value if isinstance(value, list) else [part.strip() for part in str(value).split(",") if part.strip()]


class Band(click.ParamType[tuple[float, float]]):
    """LOW,HIGH or one number for both."""

    name = "low,high"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """A pair of floats."""
        if isinstance(value, tuple):
            return value
        try:
            parts = [float(part) for part in str(value).split(",")]
        except ValueError:
            parts = []
        if len(parts) not in (1, 2):
            self.fail(f"{value!r} is not LOW,HIGH", param, ctx)
        return parts[0], parts[-1]
