"""Is a file of finished units what was written, and what can be kept of one that is not? Changes nothing but to mend.

Knows SQLite's pages and the units' checksums. What a unit holds is the job's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from hyce_gpu.errors import OutputError
from hyce_gpu.units import FIELDS, FinishedUnits, columns_of, is_sound

_SIDE_FILES = ("-wal", "-shm", "-journal")


def damage(path: Path) -> tuple[str, str] | None:
    """What was expected of the file and what was found; None for a sound file, and for none.

    What a kill left unfinished behind the last commit is no damage.
    """
    if not path.exists():
        return None
    try:
        with closing(_open(path)) as database:
            problem = database.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if problem != "ok":
                return "a sound SQLite file", " ".join(str(problem).split())
            if database.execute("PRAGMA page_count").fetchone()[0] <= 1:
                # A job was killed before it had laid out its table.
                return None
            wrong = [(row, key) for row, key, *rest in _rows(database) if not is_sound(key, *rest)]
    except sqlite3.Error as error:
        return "a sound SQLite file", str(error)
    if not wrong:
        return None
    row, key = wrong[0]
    name = f", key {key.hex()[:12]}…" if isinstance(key, bytes) else ""
    return "records that are what their checksums say", f"{len(wrong):,} that are not, the first in row {row}{name}"


def mend(path: Path) -> tuple[int, int | None]:
    """Keeps what is sound, in a new file of that name; no file where nothing can be read. The caller is its one user.

    Returns:
        The records that were kept, and those that were seen and dropped; None for "unknown", of a broken file.

    Raises:
        OutputError: the new file cannot be written.
    """
    kept, dropped = _readable(path)
    fresh = path.with_name(path.name + ".partial")
    try:
        _remove(fresh, ("", *_SIDE_FILES))
        if kept:
            with FinishedUnits(fresh) as units:
                for key, value in kept.items():
                    units.put(key, value)
        # First: what lies beside the old file is not the new one's.
        _remove(path, _SIDE_FILES)
        if kept:
            fresh.replace(path)
        else:
            path.unlink()
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    return len(kept), dropped


def _readable(path: Path) -> tuple[dict[bytes, str], int | None]:
    """Sound records, read from both ends where a page between cannot be, and how many others there were."""
    kept: dict[bytes, str] = {}
    dropped, whole = set(), False
    for order in ("", " DESC"):
        try:
            with closing(_open(path)) as database:
                for row, key, value, checksum in _rows(database, order):
                    if is_sound(key, value, checksum):
                        kept[key] = str(value, "utf-8", "replace")
                    else:
                        dropped.add(row)
                whole = True
                break
        except sqlite3.Error:
            continue
    return kept, len(dropped) if whole else None


def _rows(database: sqlite3.Connection, order: str = "") -> Iterator[tuple[int, bytes, bytes, bytes | None]]:
    # Not through the index, which may be damaged by itself.
    fields = FIELDS if "checksum" in columns_of(database) else FIELDS.replace("checksum", "NULL")
    yield from database.execute(f"SELECT rowid, {fields} FROM units NOT INDEXED ORDER BY rowid{order}")


def _open(path: Path) -> sqlite3.Connection:
    """Read-only; on a read-only disk as well, where SQLite wants to lock a file that no one writes."""
    journal = path.with_name(path.name + "-wal")
    is_still = not journal.exists() or journal.stat().st_size == 0
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_still else ''}"
    database = sqlite3.connect(uri, uri=True)
    # Names of damaged columns are no UTF-8 either.
    database.text_factory = lambda text: str(text, "utf-8", "replace")
    return database


def _remove(path: Path, suffixes: Iterable[str]) -> None:
    for suffix in suffixes:
        path.with_name(path.name + suffix).unlink(missing_ok=True)
