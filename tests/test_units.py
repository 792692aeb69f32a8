"""Finished units: what was put is there after any end of the process, and what was not whole is not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hyce_gpu import units
from hyce_gpu.errors import OutputError
from hyce_gpu.units import FinishedUnits, unit_key

A, B, C = (unit_key(name) for name in "abc")


def _held(path: Path) -> list[bool]:
    with FinishedUnits(path) as found:
        return [key in found for key in (A, B, C)]


def test_a_key_is_made_of_values_and_not_of_their_order() -> None:
    assert unit_key({"a": 1, "b": [2]}, "x") == unit_key({"b": [2], "a": 1}, "x")
    assert len({unit_key("a", "b"), unit_key("ab"), unit_key("b", "a"), unit_key(["a", "b"])}) == 4


def test_what_was_put_is_there_again(tmp_path: Path) -> None:
    told: list[bytes] = []
    with FinishedUnits(tmp_path / "deep" / "u.sqlite", told.extend) as finished:
        finished.put(A, "alpha")
        finished.put(B, "富士山")
        assert (finished[A], finished[B]) == ("alpha", "富士山")
        with pytest.raises(KeyError):
            finished[C]
    assert sorted(told) == sorted([A, B])
    with FinishedUnits(tmp_path / "deep" / "u.sqlite") as finished:
        assert finished[B] == "富士山"
        finished.forget([A, C])
    assert _held(tmp_path / "deep" / "u.sqlite") == [False, True, False]


def test_many_keys_are_looked_up_as_one_by_one(tmp_path: Path) -> None:
    """Across the bounds of a query, with units that are on the disk, others that are not yet, and none for the rest."""
    keys = [unit_key(number) for number in range(1201)]
    with FinishedUnits(tmp_path / "u.sqlite") as finished:
        for number in (0, 499, 500, 1200):
            finished.put(keys[number], "x")
        finished.flush()
        finished.put(keys[7], "first")
        finished.put(keys[8], "waits for the next commit")
        assert [at for at, is_finished in enumerate(finished.are_finished(keys)) if is_finished] == [
            0, 7, 8, 499, 500, 1200,
        ]  # fmt: skip
        assert list(finished.are_finished([])) == []


def test_a_unit_that_took_its_time_is_on_the_disk_when_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(units.time, "monotonic", lambda: now[0])
    path = tmp_path / "u.sqlite"
    with FinishedUnits(path) as finished:
        for key in (A, B):
            now[0] += 60
            finished.put(key, "x")
            # As a kill would leave it: another process sees it.
            assert key in FinishedUnits(path)


def test_units_that_come_fast_share_a_commit(tmp_path: Path) -> None:
    commits: list[int] = []
    with FinishedUnits(tmp_path / "u.sqlite", lambda keys: commits.append(len(keys))) as finished:
        for number in range(2000):
            finished.put(unit_key(number), "x" * 100)
    assert sum(commits) == 2000
    assert len(commits) < 1000
    assert max(commits) <= 256


def test_a_commit_that_was_torn_is_dropped_and_those_before_it_stay(tmp_path: Path) -> None:
    path, copy = tmp_path / "u.sqlite", tmp_path / "copy.sqlite"
    finished = FinishedUnits(path)
    for key in (A, B):
        finished.put(key, "x" * 5000)
        finished.flush()
    # What lies on the disk at a power cut: the log, its last page half written.
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    log = Path(f"{copy}-wal")
    log.write_bytes(log.read_bytes()[:-2000])
    assert _held(copy) == [True, False, False]
    assert _held(path) == [True, True, False]


def test_two_jobs_may_share_a_file(tmp_path: Path) -> None:
    with FinishedUnits(tmp_path / "u.sqlite") as one, FinishedUnits(tmp_path / "u.sqlite") as other:
        one.put(A, "x")
        one.flush()
        assert A in other
        other.put(B, "y")
        one.put(C, "z")
    assert _held(tmp_path / "u.sqlite") == [True, True, True]


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at" * 100, b"{}\n"])
def test_a_file_that_is_something_else_is_named_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "u.sqlite"
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"u\.sqlite: file is not a database; move it away to start anew"):
        FinishedUnits(path)
    assert path.read_bytes() == content


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file/deep"):
        FinishedUnits(tmp_path / "file" / "deep" / "u.sqlite")
