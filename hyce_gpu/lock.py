"""One writer of a directory at a time. The lock goes with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hyce_gpu.errors import OutputError

LOCK = "LOCK"


@contextmanager
def only_writer(directory: Path, what: str) -> Iterator[None]:
    """Holds the directory for this process. `what`: the directory, as a message names it.

    Raises:
        OutputError: another process holds it; says which.
        OSError: the lock file cannot be written.
    """
    while True:
        with (directory / LOCK).open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                file.seek(0)
                raise OutputError(f"{what} is being written by {file.read().strip()}; wait for it") from error
            if not _is_current(file.fileno(), directory / LOCK):
                # The writer before has just taken its directory away: this lock holds nothing.
                continue
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            yield
            return


def _is_current(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
