"""Twenty visitors at once, on one dataset: seconds to a whole page, errors, memory; also while a large file is read.

Run by hand: `python tests/benchmarks/visitors.py DATASET`. Each visitor is a connection of its own that speaks
Streamlit's protocol, so no browser takes part of the two cores. A page is measured from asking for it to the end of its
script; between two pages a visitor reads for one to three seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

APP = Path(__file__).resolve().parents[2] / "app"
PAGES = ("", "overview", "sessions", "cache", "why", "hardware", "routing", "export")
SETTINGS = ("", "window=last:0.5", "window=last:0.25", "by=role", "why-by=role", "why-capacity=1000000", "tp=8")
READS_S = (1.0, 3.0)


class Page(NamedTuple):
    """A page that a visitor was shown."""

    name: str
    seconds: float
    errors: int
    parts: int


async def visit(address: str, dataset: str, pages: int, seed: int) -> list[Page]:
    """One visitor: a connection, and pages one after the other."""
    import websockets
    from streamlit.proto.BackMsg_pb2 import BackMsg
    from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

    choose = random.Random(seed)
    seen = []
    async with websockets.connect(
        f"{address.replace('http', 'ws')}/_stcore/stream", max_size=None, subprotocols=["streamlit"], origin=address
    ) as connection:
        for _ in range(pages):
            name = choose.choice(PAGES)
            asked = BackMsg()
            asked.rerun_script.page_name = name
            asked.rerun_script.query_string = f"dataset={dataset}&arrivals=staggered:600&{choose.choice(SETTINGS)}"
            started, errors, parts = time.monotonic(), 0, 0
            await connection.send(asked.SerializeToString())
            while True:
                message: Any = ForwardMsg()
                data = await asyncio.wait_for(connection.recv(), 300)
                message.ParseFromString(data)
                kind = message.WhichOneof("type")
                errors += kind == "delta" and message.delta.new_element.WhichOneof("type") == "exception"
                errors += any(words in data for words in (b"could not be computed", b"Nothing is open"))
                parts += kind == "delta"
                if kind == "script_finished":
                    break
            seen.append(Page(name or "data", time.monotonic() - started, errors, parts))
            await asyncio.sleep(choose.uniform(*READS_S))
    return seen


async def together(address: str, dataset: str, visitors: int, pages: int) -> list[Page]:
    """All visitors at once."""
    runs = await asyncio.gather(*(visit(address, dataset, pages, seed) for seed in range(visitors)))
    return [page for run in runs for page in run]


def memory_bytes(process: int, field: str = "VmRSS") -> int:
    """What a process holds."""
    lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def serve(dataset: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """The app on a dataset, ready to be visited."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("TRACETOWER_", "STREAMLIT_"))}
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", str(APP), "--server.port", str(port), "--server.headless", "true",
         "--server.address", "127.0.0.1"],
        env=environment | {"TRACETOWER_DATASET": str(dataset.resolve())}, stdout=log.open("wb"),
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    for _ in range(600):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1):
                return server, f"http://127.0.0.1:{port}"
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server did not start")


def reading(path: Path, folder: Path, done: threading.Event) -> None:
    """Read an upload over and over, as the server does for one more visitor."""
    sys.path.insert(0, str(APP.parent))  # before this folder, which has an app.py of its own
    from app.visit.uploads import reading

    class Done(Exception):
        """Enough was measured."""

    def watch(progress: dict[str, Any]) -> None:
        if done.is_set():
            raise Done

    number = 0
    while not done.is_set():
        number += 1
        try:
            reading.read([str(path)], folder / f"upload-{number}", {}, watch)
        except Done:
            return


def main() -> None:
    """Print seconds by page, errors, and memory."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("dataset", type=Path)
    options.add_argument("--visitors", type=int, default=20)
    options.add_argument("--pages", type=int, default=8)
    options.add_argument("--upload", type=Path, help="A file that is read meanwhile in a second round.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server, address = serve(given.dataset, Path(folder) / "log")
        try:
            cold = asyncio.run(together(address, given.dataset.name, 1, len(PAGES) * 2))
            print(f"one visitor: median {statistics.median(p.seconds for p in cold):.2f} s; "
                  f"server {memory_bytes(server.pid) / 1e6:,.0f} MB")  # fmt: skip
            rounds: list[tuple[str, Path | None]] = [("alone", None)]
            rounds += [("while one more sends", given.upload)] if given.upload else []
            for name, upload in rounds:
                done = threading.Event()
                sender = threading.Thread(target=reading, args=(upload, Path(folder), done))
                if upload:
                    sender.start()
                seen = asyncio.run(together(address, given.dataset.name, given.visitors, given.pages))
                done.set()
                if upload:
                    sender.join()
                _print(name, given.visitors, seen)
                print(f"  server {memory_bytes(server.pid) / 1e6:,.0f} MB, at most "
                      f"{memory_bytes(server.pid, 'VmHWM') / 1e6:,.0f} MB")  # fmt: skip
        finally:
            server.terminate()
            server.wait(20)


def _print(name: str, visitors: int, seen: list[Page]) -> None:
    seconds = sorted(page.seconds for page in seen)
    print(f"{visitors} visitors, {name}: {len(seen)} pages, {sum(p.errors for p in seen)} errors; median "
          f"{statistics.median(seconds):.2f} s, p95 {seconds[int(0.95 * (len(seconds) - 1))]:.2f} s, longest "
          f"{seconds[-1]:.2f} s")  # fmt: skip
    for page in dict.fromkeys(p.name for p in seen):
        of = [p.seconds for p in seen if p.name == page]
        print(f"  {page:10} median {statistics.median(of):5.2f} s, longest {max(of):5.2f} s, {len(of)} visits, "
              f"{min(p.parts for p in seen if p.name == page)} parts at least")  # fmt: skip


if __name__ == "__main__":
    main()
