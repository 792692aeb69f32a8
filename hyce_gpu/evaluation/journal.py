"""A result file that is also the record of how far a run came: whole lines, appended in order, flushed to the disk.

Beside `NAME.jsonl` stands `NAME.key.json`: what the lines were made from. Knows lines and keys, not what they hold.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from hyce_gpu.atomic import atomic_text
from hyce_gpu.errors import OutputError
from hyce_gpu.lock import only_writer
from hyce_gpu.progress import say


def digest(made_from: Mapping[str, Any]) -> str:
    """The SHA-256 of what a result is made from, independent of the order of its keys."""
    text = json.dumps(made_from, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Journal:
    """Use `open_journal`."""

    def __init__(self, path: Path, rows: list[dict[str, Any]]) -> None:
        self.path, self.rows = path, rows

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds the rows; when it returns, they are on the disk.

        Raises:
            OutputError: the file cannot be written.
        """
        text = "".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows)
        with _writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rows += [dict(row) for row in rows]


def open_journal(path: Path, made_from: Mapping[str, Any]) -> Journal:
    """Opens the journal at `path` (.jsonl) where it was left off.

    A last line that was cut off is dropped. A journal that was made from something else is moved to `NAME.jsonl.old`.

    Raises:
        OutputError: the file cannot be written.
    """
    key_file, key = path.with_suffix(".key.json"), digest(made_from)
    with _writing(path):
        if path.exists() and _key(key_file) != key:
            older = path.with_name(path.name + ".old")
            path.replace(older)
            say(f"{path.name}: made from something else; moved to {older.name}, starting anew")
        # The key stands before the first line: lines without a key would be thrown away.
        if _key(key_file) != key:
            with atomic_text(key_file, "the key") as file:
                file.write(json.dumps({"key": key, "made_from": made_from}, indent=2, ensure_ascii=True) + "\n")
        path.touch()
        return Journal(path, _whole_rows(path))


def _key(path: Path) -> str:
    try:
        return str(json.loads(path.read_bytes())["key"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _whole_rows(path: Path) -> list[dict[str, Any]]:
    """The rows up to the first line that is not whole; the file is cut there."""
    rows: list[dict[str, Any]] = []
    end = 0
    for line in path.read_bytes().splitlines(keepends=True):
        row = _row(line)
        if row is None:
            say(f"{path.name}: line {len(rows) + 1} was cut off; going on from there")
            os.truncate(path, end)
            break
        rows.append(row)
        end += len(line)
    return rows


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


@contextmanager
def only_process(out: Path) -> Iterator[None]:
    """Holds the directory `out`, which is made where it is missing, for this process.

    Raises:
        OutputError: another process holds it, or it cannot be written.
    """
    with ExitStack() as held:
        with _writing(out):
            out.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_writer(out, str(out)))
        yield


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
