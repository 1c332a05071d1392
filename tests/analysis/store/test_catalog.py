"""Every query is documented, ordered, and written as one table macro of its file's name."""

from __future__ import annotations

import re

import pytest

from analysis.store.catalog import Query, help_of, queries, views


@pytest.mark.parametrize("query", queries().values(), ids=lambda q: q.name)
def test_queries_are_documented_macros(query: Query) -> None:
    assert len(query.help) > 20
    assert query.help[0].isupper()
    assert re.search(rf"^CREATE MACRO {query.name}\(", query.sql, re.M)
    assert query.sql.count("CREATE") == 1
    assert len(query.sql.splitlines()) <= 110
    one_row = not re.search(r"GROUP BY|JOIN|UNION", query.sql.upper().rsplit("SELECT", 1)[-1])
    assert "ORDER BY" in query.sql or one_row, "results are compared: their order is part of them"


def test_help_is_the_leading_comment() -> None:
    assert help_of("-- One.\n-- Two.\nSELECT 1 -- three") == "One. Two."
    assert views().startswith("--")
