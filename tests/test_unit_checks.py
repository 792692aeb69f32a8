"""Files of finished units that were damaged: no wrong unit counts as finished, it is named, and the rest is kept."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from hyce_gpu.errors import OutputError
from hyce_gpu.unit_checks import damage, mend
from hyce_gpu.units import FinishedUnits, unit_key

# Of some bytes, of half a page, and of several pages, which SQLite links by numbers.
VALUES = {unit_key(n): json.dumps({"n": n, "text": "富士山 Fuji " * (1, 60, 700)[n % 3]}) for n in range(40)}
DIGEST = 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with FinishedUnits(tmp_path / "units.sqlite") as units:
        for key, value in VALUES.items():
            units.put(key, value)
    return tmp_path / "units.sqlite"


def _found(path: Path) -> dict[bytes, str]:
    with FinishedUnits(path) as units:
        keys = [key for key, done in zip(VALUES, units.are_finished(list(VALUES)), strict=True) if done]
        return {key: units[key] for key in keys}


def _row(path: Path, key: bytes) -> int:
    with closing(sqlite3.connect(path)) as database:
        return int(database.execute("SELECT rowid FROM units WHERE key = ?", (key,)).fetchone()[0])


def test_a_sound_file_and_none_have_no_damage_and_are_left_alone(path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    assert damage(path) is None
    assert damage(tmp_path / "none.sqlite") is None
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["units.sqlite"]


def test_a_flipped_bit_in_a_text_unfinishes_that_unit_alone_and_is_named_with_its_row(path: Path) -> None:
    hurt = list(VALUES)[3]
    data = bytearray(path.read_bytes())
    at = data.find(VALUES[hurt].encode()) + 7
    data[at] ^= 1
    path.write_bytes(bytes(data))
    assert _found(path) == {key: value for key, value in VALUES.items() if key != hurt}
    with FinishedUnits(path) as units:
        assert hurt not in units
        with pytest.raises(KeyError):
            units[hurt]
    expected = "records that are what their checksums say"
    found = f"1 that are not, the first in row {_row(path, hurt)}, key {hurt.hex()[:12]}…"
    assert damage(path) == (expected, found)
    assert mend(path) == (39, 1)
    assert damage(path) is None
    assert _found(path) == {key: value for key, value in VALUES.items() if key != hurt}
    # Done again, it is whole again.
    with FinishedUnits(path) as units:
        units.put(hurt, VALUES[hurt])
    assert _found(path) == VALUES


def _used(path: Path) -> dict[bytes, str] | str:
    """What a job finds in it, or with what it stops."""
    try:
        return _found(path)
    except OutputError as error:
        return str(error)


def test_no_flipped_bit_anywhere_gives_a_wrong_text_or_a_traceback(path: Path, tmp_path: Path) -> None:
    whole, rng, named = path.read_bytes(), random.Random(6), 0
    places = [*range(0, 108, 3), *(rng.randrange(len(whole)) for _ in range(300))]
    for at in places:
        flipped = tmp_path / "flipped.sqlite"
        flipped.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        told = damage(flipped)
        mended = Path(shutil.copy(flipped, tmp_path / "mended.sqlite"))
        used = _used(flipped)
        if isinstance(used, str):
            assert "\n" not in used
        else:
            assert used.items() <= VALUES.items(), at
        assert told or used == VALUES, (at, used)
        named += told is not None
        kept, _ = mend(mended)
        assert damage(mended) is None
        found = _found(mended)
        assert (len(found), found.items() <= VALUES.items()) == (kept, True), at
        # Some 39 of 40, where a page can be read at all.
        assert kept == 0 or kept >= len(VALUES) - 12, at
    # Of the rest, most lie where a page is empty.
    assert named > len(places) // 2


@pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.9])
def test_of_a_file_that_was_cut_short_what_can_be_read_is_kept(path: Path, share: float) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])
    assert (damage(path) is None) == (share == 0)
    mend(path)
    assert damage(path) is None
    assert not path.exists() or _found(path).items() <= VALUES.items()


def test_a_file_without_its_last_byte_lacks_one_unit(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])
    assert damage(path) is not None
    assert mend(path)[0] >= len(VALUES) - 1
    assert damage(path) is None


def test_what_a_kill_left_behind_the_last_commit_is_no_damage(path: Path, tmp_path: Path) -> None:
    before, extra = path.read_bytes(), unit_key("extra")
    with FinishedUnits(path) as units:
        units.put(extra, "kept")
        units.flush()
        log = path.with_name(path.name + "-wal").read_bytes()
    # As a kill leaves the two files, and as a write that did not come to its end leaves the second.
    for number, left in enumerate((log, log[:-1], log[: len(log) // 2], b"")):
        copy = tmp_path / f"{number}.sqlite"
        copy.write_bytes(before)
        copy.with_name(copy.name + "-wal").write_bytes(left)
        assert damage(copy) is None
        with FinishedUnits(copy) as units:
            assert (extra in units) == (left == log)
        assert _found(copy) == VALUES


def test_a_file_of_an_earlier_version_is_used_and_gets_checksums(tmp_path: Path) -> None:
    old = tmp_path / "old.sqlite"
    a, b = list(VALUES)[:2]
    with closing(sqlite3.connect(old, isolation_level=None)) as database:
        database.execute("CREATE TABLE units (key BLOB PRIMARY KEY, value TEXT NOT NULL)")
        database.execute("INSERT INTO units VALUES (?, ?)", (a, VALUES[a]))
    assert damage(old) is None
    with FinishedUnits(old) as units:
        units.put(b, VALUES[b])
    assert _found(old) == {a: VALUES[a], b: VALUES[b]}
    with closing(sqlite3.connect(old)) as database:
        checksums = dict(database.execute("SELECT key, checksum FROM units"))
    assert (checksums[a], len(checksums[b])) == (None, DIGEST)
