"""Finished units of a job (chunks, questions), by content key, on the disk as soon as they count as finished.

One SQLite file: a kill or a power cut leaves it as it was after its last commit, and two jobs may share it. Each unit
has a checksum, for SQLite has none: one that was damaged does not count as finished. Knows keys and texts; what a unit
is, and what its key is made of, is the job's.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hyce_gpu.errors import OutputError

_LAYOUT = "CREATE TABLE IF NOT EXISTS units (key BLOB PRIMARY KEY, value TEXT NOT NULL, checksum BLOB)"
# Files of earlier versions had no checksums; what they hold counts as it stands.
_ADD_CHECKSUM = "ALTER TABLE units ADD COLUMN checksum BLOB"
# A damaged text may be no UTF-8.
FIELDS = "key, CAST(value AS BLOB), checksum"
# A commit takes some milliseconds of disk. Units that finish faster share one, so that commits take a tenth of the time
# at most; the replies of a model are slower, and each is on the disk before the next one is waited for.
_PAUSE_PER_COMMIT = 9.0
_UNITS_BETWEEN_COMMITS = 256
# SQLite takes 999 variables a query where it was built long ago.
_KEYS_A_QUERY = 500
# How long another job that shares the file may take for its commit.
_PATIENCE_S = 60.0

Committed = Callable[[Collection[bytes]], object]


def unit_key(*made_from: Any) -> bytes:
    """The SHA-256 [32] of what a unit is made from: JSON values."""
    return hashlib.sha256(json.dumps(made_from, sort_keys=True, ensure_ascii=True).encode()).digest()


def is_sound(key: object, value: object, checksum: object) -> bool:
    """Whether a row of `FIELDS` is what was written, as far as is known; damage may change types."""
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return False
    return checksum is None or checksum == hashlib.sha256(key + value).digest()


def columns_of(database: sqlite3.Connection) -> list[str]:
    return [row[1] for row in database.execute("PRAGMA table_info(units)")]


class FinishedUnits:
    """A map from keys to texts. `put` commits, alone or with the units of the last milliseconds.

    Args:
        committed: called with the keys of the units that have just reached the disk.

    Raises:
        OutputError: the file cannot be read or written: a full disk, a broken file; every commit before it stays.
    """

    def __init__(self, path: Path, committed: Committed = lambda _: None) -> None:
        self.path = path
        self.committed = committed
        self._pending: dict[bytes, str] = {}
        self._next_commit = 0.0
        with self._guarded():
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
            # WAL where the file system can do it; elsewhere SQLite says so and keeps its rollback journal.
            self._database.execute("PRAGMA journal_mode=WAL").fetchone()
            self._database.execute("PRAGMA synchronous=EXTRA")
            self._database.execute(_LAYOUT)
            if "checksum" not in columns_of(self._database):
                self._add_checksums()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # What was finished before an error is finished; if the disk is the error, that one is told.
            if kind is None or not issubclass(kind, OutputError):
                self.flush()
        finally:
            self._database.close()

    def __contains__(self, key: bytes) -> bool:
        return next(self.are_finished([key]))

    def are_finished(self, keys: Sequence[bytes]) -> Iterator[bool]:
        """For each key, whether it is finished: as `in`, at a fraction of its time where there are many."""
        for begin in range(0, len(keys), _KEYS_A_QUERY):
            batch = keys[begin : begin + _KEYS_A_QUERY]
            query = f"SELECT {FIELDS} FROM units WHERE key IN ({', '.join('?' * len(batch))})"
            with self._guarded():
                found = {row[0] for row in self._database.execute(query, batch) if is_sound(*row)}
            yield from (key in found or key in self._pending for key in batch)

    def __getitem__(self, key: bytes) -> str:
        """Raises KeyError for a unit that is not finished."""
        if key in self._pending:
            return self._pending[key]
        with self._guarded():
            row = self._database.execute(f"SELECT {FIELDS} FROM units WHERE key = ?", (key,)).fetchone()
        if row is None or not is_sound(*row):
            raise KeyError(key.hex())
        return str(row[1], "utf-8")

    def put(self, key: bytes, value: str) -> None:
        self._pending[key] = value
        if time.monotonic() >= self._next_commit or len(self._pending) >= _UNITS_BETWEEN_COMMITS:
            self.flush()

    def flush(self) -> None:
        """When it returns, every unit that was put is on the disk."""
        if not self._pending:
            return
        started = time.monotonic()
        with self._transaction() as database:
            rows = ((key, value, hashlib.sha256(key + value.encode()).digest()) for key, value in self._pending.items())
            database.executemany("INSERT OR REPLACE INTO units (key, value, checksum) VALUES (?, ?, ?)", rows)
        ended = time.monotonic()
        self._next_commit = ended + _PAUSE_PER_COMMIT * (ended - started)
        keys = list(self._pending)
        self._pending.clear()
        self.committed(keys)

    def forget(self, keys: Iterable[bytes]) -> None:
        """Takes units out, so that they are done again."""
        self.flush()
        with self._transaction() as database:
            database.executemany("DELETE FROM units WHERE key = ?", ((key,) for key in keys))

    def _add_checksums(self) -> None:
        with self._transaction() as database:
            # Another job that shares the file may have been first.
            if "checksum" not in columns_of(database):
                database.execute(_ADD_CHECKSUM)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guarded():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        except sqlite3.DatabaseError as error:
            advice = (
                "; move it away to start anew" if "not a database" in str(error) or "malformed" in str(error) else ""
            )
            raise OutputError(f"cannot use {self.path}: {error}{advice}") from error
