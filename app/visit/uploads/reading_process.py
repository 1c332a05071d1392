"""The process that reads what a visitor sent; `app.visit.uploads.reading` starts it. An order in, JSON lines out."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 << 30
NICENESS = 19


def main() -> None:
    """Read the order on stdin, ingest, and print progress, then the receipt or why there is none."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    _go_first()
    order = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    say("receipt", _receipt(order))


def _receipt(order: dict[str, Any]) -> dict[str, Any]:
    from traces.intake.ingest import NothingUsable, Options, Progress, ingest
    from traces.source.limits import UPLOAD_LIMITS

    def watch(progress: Progress) -> None:
        say("progress", progress._asdict())

    try:
        options = Options(limits=UPLOAD_LIMITS, **order["options"])
        return ingest(order["inputs"], Path(order["dataset"]), options, watch)
    except NothingUsable as error:
        refuse(str(error), error.receipt)
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)  # the server knows this end: more memory than one visitor gets
    except ValueError as error:
        refuse(str(error))
    raise SystemExit(0)


def say(kind: str, value: Any) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps([kind, value]) + "\n")
    sys.stdout.flush()


def refuse(message: str, receipt: dict[str, Any] | None = None) -> None:
    """Say that there is no dataset, and why."""
    say("refused", {"message": message, "receipt": receipt})


def _go_first() -> None:
    """Where the machine runs out of memory, this process is the one to end."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("600", "ascii")


def _end_with_the_server() -> None:
    """End this process, and the pool it may have started, when the server closes its end of the pipe or is gone."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
