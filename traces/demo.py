"""The bundled demo: ten real coding-agent sessions (kv-cache-tester, Apache-2.0; see NOTICE)."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def demo_inputs() -> list[str]:
    """Paths of the bundled sessions, in name order."""
    folder = Path(str(files("traces.data"))) / "demo"
    return sorted(str(p) for p in folder.glob("*.json.gz"))
