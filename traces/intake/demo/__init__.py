"""The bundled demo: ten real coding-agent sessions (kv-cache-tester, Apache-2.0; see NOTICE)."""

from __future__ import annotations

from pathlib import Path


def demo_inputs() -> list[str]:
    """Paths of the bundled sessions, in name order."""
    return sorted(str(p) for p in Path(__file__).parent.glob("*.json.gz"))
