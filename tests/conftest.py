"""Rules of the whole suite: which tests are slow, and that a test skipped for no expected reason fails the run."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.places import ROOT

EXPECTED_SKIPS = (
    "the extra `cluster` is not installed",
    "playwright is not installed",
    "no Chromium",
    "TRACETOWER_CATALOGUES",
)
"""What a reason must contain: things that a machine may lack, or that run on request."""

SLOW = (
    "analysis/export/test_agentic_code.py",
    "analysis/export/test_planners.py",
    "analysis/fleet/test_routing.py",
    "analysis/fleet/test_tower.py",
    "analysis/peers/test_engine_curve.py",
    "analysis/why/test_what_ifs_of_kinds.py",
    "app/pages/",
    "app/test_browser.py",
    "app/test_fleet.py",
    "app/test_misses_command.py",
    "app/test_options.py",
    "app/test_pages.py",
    "app/test_replica.py",
    "traces/dataset/",
    "traces/divergence/",
    "traces/formats/test_all_traces.py",
    "traces/formats/test_fuzz.py",
    "traces/intake/",
    "traces/source/",
    "traces/synth/",
    "traces/usage/test_hidden_meaning.py",
    "whole/",
)
"""Folders and files whose tests take more than a second or two each; `-m "not slow"` leaves them out."""


@pytest.fixture(autouse=True, scope="session")
def _unsynced() -> Iterator[None]:
    """Do not wait for the disk: files of tests need not survive a power cut. Processes that tests start still wait."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda descriptor: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `SLOW`."""
    for item in items:
        place = item.path.relative_to(ROOT / "tests").as_posix()
        if place.startswith(SLOW) and place != "whole/test_architecture.py":
            item.add_marker(pytest.mark.slow)


def unexpected(reports: list[pytest.TestReport]) -> list[str]:
    """The skipped tests, with their reasons, that nothing in `EXPECTED_SKIPS` explains."""
    reasons = {report.nodeid: str(report.longrepr[-1] if report.longrepr else "") for report in reports}
    return [f"{test}: {why}" for test, why in reasons.items() if not any(text in why for text in EXPECTED_SKIPS)]


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail a run that skipped a test for no expected reason."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    found = unexpected(reporter.stats.get("skipped", []))
    if found and exitstatus == 0:
        reporter.write_line("Skipped for no expected reason:\n  " + "\n  ".join(found), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
