"""What is kept by names from files is bounded in characters, not only in entries."""

from __future__ import annotations

from traces.usage.name_cache import MOST_CHARS, by_names


def test_short_names_are_looked_at_once_and_long_ones_are_not_kept() -> None:
    calls: list[object] = []

    @by_names(8)
    def size(names: tuple[object, ...]) -> int:
        calls.append(names)
        return len(names)

    short, long = ("a", ("b", "c")), ("a", ("x" * MOST_CHARS,))
    assert [size(names) for names in (short, short, long, long)] == [2, 2, 2, 2]
    assert calls == [short, long, long]
