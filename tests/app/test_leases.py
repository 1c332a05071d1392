"""Leases of uploads: found by id alone, kept while somebody looks, read in the background, ended whole."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.runtime.scriptrunner import StopException
from streamlit.testing.v1 import AppTest

from app.visit import state
from app.visit.uploads import leases
from app.visit.uploads.leases import Lease
from tests.places import ROOT

SCRIPT = str(ROOT / "app" / "streamlit_app.py")


def rows(size: int, first: int = 0) -> str:
    lines = [
        {"timestamp": 1000 * n, "input_length": size * n, "hash_ids": list(range(first, first + n))} for n in (3, 5, 9)
    ]
    return "".join(json.dumps(line | {"output_length": 5}) + "\n" for line in lines)


def wait(until: Callable[[], Any]) -> None:
    for _ in range(600):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError("never")


@pytest.fixture
def lease() -> Iterator[Lease]:
    made = leases.new("mine")
    yield made
    made.end()


def test_an_id_cannot_be_guessed_and_leads_to_its_upload_alone(lease: Lease) -> None:
    other = leases.new("other")
    assert len({lease.id, other.id}) == 2
    assert len(lease.id) - len(leases.PREFIX) >= 128 / 6
    assert leases.find(lease.id) is lease
    for wrong in (lease.id[:-1], lease.id + "x", lease.id.swapcase(), "", leases.PREFIX, "ü"):
        assert leases.find(wrong) is None
    assert lease.id.removeprefix(leases.PREFIX) not in str(lease.folder)
    assert lease.folder.stat().st_mode & 0o777 == 0o700
    other.end()
    assert leases.find(other.id) is None
    assert not other.folder.exists()
    assert not other.hold(1)


def test_an_upload_is_kept_while_somebody_looks_and_for_its_lease_after(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert lease.hold(1)
    assert lease.hold(2)
    lease.leave(1)
    now += 10_000
    leases.sweep()
    assert not lease.ended
    lease.leave(2)
    now += 60 * leases.MINUTES
    leases.sweep()
    assert not lease.ended
    monkeypatch.setenv(leases.MINUTES_VARIABLE, "14")
    leases.sweep()
    assert lease.ended
    assert leases.find(lease.id) is None
    assert not lease.folder.exists()


def test_several_uploads_become_one_dataset_and_what_cannot_be_added_changes_nothing(lease: Lease) -> None:
    paths = []
    for name, text in (("a", rows(512)), ("b", rows(512, 50)), ("c", "junk\n")):
        paths.append(str(lease.folder / f"{name}.jsonl"))
        Path(paths[-1]).write_text(text)
    lease.hold(1)
    for number, path in enumerate(paths):
        lease.read((path,), {}, add=number > 0)
        wait(lambda: lease.progress is None)
        if number < 2:
            assert lease.failed is None
            assert lease.receipt is not None
            assert lease.receipt["requests"] == 3
            assert lease.added == number
    assert lease.failed is not None
    assert "nothing usable" in lease.failed[0]
    assert lease.inputs == tuple(paths[:2])
    lease.read(lease.inputs, {"block_tokens": 512})
    wait(lambda: lease.progress is None)
    assert lease.receipt is not None
    assert lease.receipt["requests"] == 6
    assert len(list(lease.folder.glob("dataset-*"))) == 1


@pytest.mark.parametrize("how", ["cancelled", "left", "ended"])
def test_a_reading_that_nobody_waits_for_takes_its_process_along(
    lease: Lease, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (lease.folder / "long.jsonl").write_text(rows(512) * 150_000)  # takes much longer than what follows
    lease.hold(1)
    lease.read((str(lease.folder / "long.jsonl"),), {})
    wait(lambda: _readers(lease.folder))
    if how == "cancelled":
        lease.cancel()
    elif how == "ended":
        lease.end()
    else:
        lease.leave(1)
        monkeypatch.setattr(leases, "LEFT_S", 0.0)
        leases.sweep()
    wait(lambda: lease.progress is None)
    assert not _readers(lease.folder)
    if how == "ended":
        wait(lambda: not lease.folder.exists())
    else:
        assert lease.failed is not None
        assert "cancelled" in lease.failed[0]
        assert not list(lease.folder.glob("dataset-*"))


def _readers(folder: Path) -> list[str]:
    """Reading processes whose temporary folder is this one."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if str(folder).encode() in (place / "environ").read_bytes():
                found.append(place.name)
        except OSError:
            continue
    return found


def test_sign_in_is_asked_for_where_it_is_set_up_and_nothing_is_shown_before() -> None:
    at = AppTest.from_file(SCRIPT, default_timeout=60)
    at.secrets["auth"] = {"client_id": "a", "client_secret": "b", "redirect_uri": "http://x/oauth2callback"}
    at.query_params["dataset"] = "demo"
    at.run()
    assert not at.exception
    assert not at.selectbox
    assert not [b for b in at.button if b.key == "open-demo"]
    assert at.error or [b for b in at.button if b.label == "Sign in"]


def test_a_page_ends_where_its_visitor_leaves() -> None:
    ended = []

    def compute() -> None:
        presence.thread = threading.get_ident()
        try:
            for _ in range(600):
                time.sleep(0.05)
        except StopException:
            ended.append(True)

    presence = state._Presence()
    thread = threading.Thread(target=compute)
    thread.start()
    wait(lambda: presence.thread)
    presence.leave()
    thread.join(10)
    assert ended == [True]
    presence.leave()  # nothing is computed any more


def test_a_link_finds_an_upload_in_a_fresh_session_and_later_says_that_it_has_expired(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRACETOWER_DATASET", raising=False)
    (lease.folder / "a.jsonl").write_text(rows(64))
    lease.read((str(lease.folder / "a.jsonl"),), {})
    wait(lambda: lease.progress is None)

    def visit() -> AppTest:
        at = AppTest.from_file(SCRIPT, default_timeout=60)
        at.query_params["dataset"] = lease.id
        return at.run()

    at = visit()
    assert at.subheader[0].value == "Receipt: mine"
    again = next(b for b in at.button if b.label == "Read again with blocks of 64")
    again.click().run()
    wait(lambda: lease.progress is None)
    assert lease.options == {"block_tokens": 64}
    at.run()
    assert any("block size: 64 tokens" in c.value.replace("\\", "") for c in at.caption)
    lease.end()
    for late in (visit(), at.run()):
        assert not late.exception
        assert not [s for s in late.subheader if s.value.startswith("Receipt")]
        assert "it has expired, or was mistyped" in late.warning[0].value
    fresh = AppTest.from_file(SCRIPT, default_timeout=60).run()
    assert "mine" not in str([s.options for s in fresh.selectbox])
