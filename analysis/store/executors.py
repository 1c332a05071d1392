"""Where stages run: this process, a pool of processes, or a Ray cluster. The only module that imports ray."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class RayExecutor(Executor):
    """A `concurrent.futures.Executor` over Ray tasks."""

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise ValueError("the ray executor needs the extra: pip install 'tracetower[cluster]'") from None
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            options: dict[str, Any] = {"log_to_driver": False, "include_dashboard": False}
            if address is None:
                options["num_cpus"] = workers
            ray.init(address=address, **options)
        self._stored: dict[int, tuple[Any, Any]] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` as a Ray task. Tuples of arrays go to the cluster once, however many tasks read them."""
        return self._ray.remote(fn).remote(*map(self._stored_once, args), **kwargs).future()

    def _stored_once(self, value: Any) -> Any:
        if not (isinstance(value, tuple) and any(hasattr(part, "nbytes") for part in value)):
            return value
        if id(value) not in self._stored:  # storing the value keeps it alive, so no other object can get its id
            self._stored[id(value)] = value, self._ray.put(value)
        return self._stored[id(value)][1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster if this executor joined it."""
        self._stored.clear()
        if self._started:
            self._ray.shutdown()


WORTH_A_POOL_BYTES = 24 << 20
"""Below this size, starting processes costs more time than they save."""
WORTH_A_POOL_CPUS = 4
"""Processors that one process keeps busy: the reader's thread, and one that counts texts."""


def workers_for(inputs: list[str]) -> int:
    """How many processes should read `inputs`: 1 for little data, few files or few processors."""
    cpus = os.cpu_count() or 1
    if cpus < WORTH_A_POOL_CPUS:
        return 1
    files = bytes_seen = 0
    for text in inputs:
        root = Path(text)
        for path in root.rglob("*") if root.is_dir() else [root]:
            if path.is_file() and not path.is_symlink():
                size = path.stat().st_size
                if size <= 64 << 20:  # a larger file streams in the main process
                    files += 1
                    bytes_seen += size
    return min(cpus, 8) if files >= 8 and bytes_seen >= WORTH_A_POOL_BYTES else 1


@contextmanager
def executor_for(name: str, workers: int | None = None) -> Iterator[Executor | None]:
    """The executor called `name`: local (None for one worker: run here), or ray[:ADDRESS].

    Raises:
        ValueError: for another name, or ray without its extra.
    """
    if name == "local":
        if not workers or workers == 1:
            yield None
            return
        # spawn: forking a process that has used polars can deadlock
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
        return
    kind, _, address = name.partition(":")
    if kind != "ray":
        raise ValueError(f"unknown executor {name!r}: local or ray[:ADDRESS]")
    executor = RayExecutor(address or None, workers)
    try:
        yield executor
    finally:
        executor.shutdown()
