"""What the page Sessions computes: misses of the chosen cache, losses, the table of sessions, the turns of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl

    from analysis.why.caches.cache import Cache
    from analysis.why.misses import Misses
    from app.visit.question import Asked


class Answers(NamedTuple):
    """The figures of a question and a cache; each part is made once and kept by the desk."""

    asked: Asked
    found: Misses
    flags: tuple[str, ...]
    values: dict[str, object] | None

    @property
    def key(self) -> str:
        """What the answers belong to."""
        return f"{self.asked.question!r} {self.found.causes}"

    def losses(self) -> pl.DataFrame:
        """Tokens lost by request and remedy."""
        from analysis.why.session_losses import request_losses

        desk, question = self.asked.desk, self.asked.question
        return desk.answer(f"losses {self.key}", lambda: request_losses(desk.warehouse, question, self.found))

    def table(self) -> pl.DataFrame:
        """All sessions."""
        from analysis.sessions.session_table import session_table

        desk, question = self.asked.desk, self.asked.question
        return desk.answer(
            f"sessions {self.key}", lambda: session_table(desk.warehouse, question, self.found, self.losses())
        )

    def turns(self, session_id: int) -> pl.DataFrame:
        """The turns of one session."""
        from analysis.sessions.session_turns import session_turns

        desk, question = self.asked.desk, self.asked.question
        return desk.answer(
            f"turns {session_id} {self.key}",
            lambda: session_turns(desk.warehouse, question, self.found, self.losses(), session_id),
        )


def answers(asked: Asked, cache: Cache) -> Answers:
    """The answers for a cache.

    Raises:
        NeedsArrivals: they depend on when sessions start, and the dataset does not say that.
    """
    from analysis.why.misses import misses
    from app.views.why.controls import cache_flags, cache_values

    found = asked.desk.answer(
        f"misses {asked.question!r} {cache!r}", lambda: misses(asked.desk.warehouse, asked.question, cache)
    )
    return Answers(asked, found, tuple(cache_flags(cache)), cache_values(cache, asked.block_size))
