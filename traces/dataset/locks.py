"""Who may write a dataset and who reads it: locks of the operating system, which end with their process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from traces.dataset.paths import beside

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL}


class Busy(ValueError):
    """Another process writes the dataset; `process` is its id where it is known."""

    def __init__(self, name: str, process: int | None) -> None:
        self.process = process
        by = "another process" if process is None else f"process {process}"
        super().__init__(f"{name} is being written by {by}")


@contextlib.contextmanager
def writing(path: Path, wait: bool = True, heard: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the right to write the dataset at `path` (a resolved path, which need not exist).

    Args:
        path: the dataset's folder.
        wait: wait for another writer; else raise.
        heard: called once with a sentence when there is someone to wait for.

    Raises:
        Busy: if another process writes and `wait` is off.
    """
    descriptor, lock = _lock_file(path, wait, heard)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()  # before it is released: whoever waits for it notices and makes a new one
        os.close(descriptor)


def _lock_file(path: Path, wait: bool, heard: Callable[[str], None] | None) -> tuple[int, Path]:
    lock = beside(path, "lock")
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(lock, flags, 0o600)
        except OSError as error:
            inner = path / ".lock"
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS) or lock == inner or not path.is_dir():
                raise
            lock = inner  # the parent folder belongs to someone else
            continue
        try:
            if not _taken(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                busy = Busy(path.name, _process(descriptor))
                if not wait:
                    raise busy
                if heard is not None:
                    heard(f"{busy}; waiting until it is done")
                    heard = None
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, lock):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                return descriptor, lock
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its writer has finished and removed the file


def _process(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        there, held = path.lstat(), os.fstat(descriptor)
    except OSError:
        return False
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def _taken(descriptor: int, operation: int) -> bool:
    """Whether a lock was granted; a file system without locks grants every one."""
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    return True


class Lease:
    """A folder that is being read: no writer deletes it before `close`, or before this process ends."""

    def __init__(self, folder: Path) -> None:
        """Take the lease.

        Raises:
            FileNotFoundError: if the folder is gone or about to be deleted.
        """
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        if not _taken(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB) or not _is_at(self._descriptor, folder):
            self.close()
            raise FileNotFoundError(errno.ENOENT, "deleted by a writer", str(folder))

    def close(self) -> None:
        """Give the lease back."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            self.close()


@contextlib.contextmanager
def unread(folder: Path) -> Iterator[bool]:
    """Whether nobody holds a lease on `folder`; if so, nobody gets one until the end of the block."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield False
        return
    try:
        yield _taken(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
