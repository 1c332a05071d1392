"""Where tests find things."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "tests" / "samples"
SHARED = ROOT.parent / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "golden.json").exists(), reason="the shared traces and figures are not beside the checkout"
)
