"""Where consecutive prompts of a chain part."""

from __future__ import annotations

from typing import Any

from analysis.question import Question
from analysis.warehouse import Warehouse


def divergences(warehouse: Warehouse, question: Question) -> list[dict[str, Any]]:
    """Placeholder until the table is there."""
    return []
