"""What is known by the names in a record is kept, so that records with the same names are not looked at anew."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

MOST_CHARS = 4096
"""Names of more characters are not kept: names come from files, and a file may hold any."""

F = TypeVar("F", bound=Callable[[Any], Any])


class _TooLong(Exception):
    """Carries what must not be kept past the cache, which keeps no exceptions."""


def by_names(entries: int) -> Callable[[F], F]:
    """Keep what a function of a name, or of nested tuples of names, gives: at most `entries`, each of short names."""

    def decorate(function: F) -> F:
        @functools.lru_cache(entries)
        def kept(names: Any) -> Any:
            value = function(names)
            if _chars(names) > MOST_CHARS:
                raise _TooLong(value)
            return value

        @functools.wraps(function)
        def known(names: Any) -> Any:
            try:
                return kept(names)
            except _TooLong as long:
                return long.args[0]

        return cast(F, known)

    return decorate


def _chars(names: Any) -> int:
    return len(names) if isinstance(names, str) else 1 + sum(map(_chars, names)) if isinstance(names, tuple) else 1
