"""Files that appear whole or not at all: written beside, flushed to the disk, then renamed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from hyce_gpu.errors import OutputError


@contextmanager
def atomic_text(path: Path, what: str) -> Iterator[IO[str]]:
    """Opens `path` for UTF-8 text; it gets its name only when the block ends well, else an older file stays.

    Args:
        what: what is being written, for the message: "the answers".

    Raises:
        OutputError: the file cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {what} to {path}: it is a directory")
        try:
            with partial.open("w", encoding="utf-8") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {what} to {path}: {error.strerror or error}") from error
