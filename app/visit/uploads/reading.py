"""Reading what a visitor sends, in a process of its own: low priority, limited memory, gone when the visitor leaves."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
TICK_S = 0.25
LONGEST_S = 3600.0

NOTHING_YET = {"stage": "starting", "done": 0, "total": 0, "bytes_read": 0, "requests": 0, "seconds": 0.0}

Watch = Callable[[dict[str, Any]], None]


class NotRead(Exception):
    """The inputs gave no dataset. `receipt` says why, where the reading came that far."""

    def __init__(self, message: str, receipt: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.receipt = receipt


class Again(NamedTuple):
    """A way on that a receipt names: an option of `ingest`, its value, and what a button says."""

    option: str
    value: str
    words: str


_WORDS = {"block-size": "blocks of {}", "format": "the format {}", "time-unit": "times in {}"}
_UNITS = ("s", "ms", "us", "ns")
_OPTIONS = {"block-size": "block_tokens", "format": "format", "time-unit": "time_unit"}


def ways_on(receipt: dict[str, Any]) -> list[Again]:
    """The options that the receipt's warnings and rejects name with a value, each once."""
    texts = [*receipt.get("warnings", ()), *(reject["reason"] for reject in receipt.get("rejects", ()))]
    value = r"[a-z0-9_-]+"
    named = dict.fromkeys(
        (flag, found)
        for text in texts
        for flag, values in re.findall(rf"--(block-size|format|time-unit) ({value}(?:(?:, | or ){value}\b)*)", text)
        for found in re.findall(value, re.sub(r" or |, ", " ", values))
        if found in _UNITS or flag != "time-unit"
    )
    return [Again(_OPTIONS[flag], value, _WORDS[flag].format(value)) for flag, value in named]


def read(inputs: list[str], dataset: Path, options: dict[str, Any], watch: Watch) -> dict[str, Any]:
    """Ingest `inputs` into `dataset` and return the receipt.

    Args:
        inputs: paths.
        dataset: the folder to make.
        options: fields of `traces.intake.ingest.Options` beside the limits of uploads.
        watch: gets the fields of `traces.intake.ingest.Progress`, four times a second at least. What it raises ends the
            reading: a page that is left ends here.

    Raises:
        NotRead: nothing was usable, or the reading failed.
    """
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": str(ROOT), "TMPDIR": str(dataset.parent)}
    process = subprocess.Popen(
        [sys.executable, "-m", "app.visit.uploads.reading_process"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        return _answer(process, {"inputs": inputs, "dataset": str(dataset), "options": options}, watch)
    finally:
        _end(process)


def _answer(process: subprocess.Popen[bytes], order: dict[str, Any], watch: Watch) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()  # it stays open: the process ends when this end of the pipe does
    started, held = time.monotonic(), b""
    progress = dict(NOTHING_YET)
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while True:
            if ready.select(TICK_S):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    raise NotRead(_died(process.wait()))
                *lines, held = (held + chunk).split(b"\n")
                for line in lines:
                    kind, value = json.loads(line)
                    if kind == "receipt":
                        receipt: dict[str, Any] = value
                        return receipt
                    if kind == "refused":
                        raise NotRead(value["message"], value["receipt"])
                    progress = value
            seconds = time.monotonic() - started
            if seconds > LONGEST_S:
                raise NotRead("this took more than an hour: read it with the command line and open the dataset")
            watch({**progress, "seconds": seconds})


def _died(code: int) -> str:
    if code in (-signal.SIGKILL, -signal.SIGABRT, 137, 134):
        return (
            "reading needed more memory than this server gives one visitor. Read it with the command line "
            "(tracetower ingest) and send the zip of tracetower bundle"
        )
    return f"the reading process ended by itself (code {code}). Send a smaller part, or read it with the command line"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
