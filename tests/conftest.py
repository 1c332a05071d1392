"""Rules of the whole suite: a test that is skipped for a reason nobody expects fails the run."""

from __future__ import annotations

import pytest

EXPECTED_SKIPS = (
    "the extra `cluster` is not installed",
    "playwright is not installed",
    "no Chromium",
    "TRACETOWER_CATALOGUES",
)
"""What a reason must contain: things that a machine may lack, or that run on request."""


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
