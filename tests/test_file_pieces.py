"""Tables and arrays in a base and pieces: the same as if they had been written at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from hyce_gpu import file_pieces as pieces
from hyce_gpu import table_files


@pytest.mark.parametrize("width", [(), (3,), (384,)])
@pytest.mark.parametrize("counts", [[5, 1, 0, 7], [0, 2, 3], [60_000, 1, 30_000, 2], [16_376, 8, 8]])
def test_an_array_in_pieces_is_one(tmp_path: Path, counts: list[int], width: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.random((count, *width)).astype(np.float32) for count in counts]
    base = tmp_path / "a.npy"
    np.save(base, parts[0])
    for number, part in enumerate(parts[1:], 1):
        pieces.append_rows(base, number, part)
    np.testing.assert_array_equal(pieces.read_array(base), np.concatenate(parts))
    assert pieces.rows_in_base(base) == counts[0]


def test_replaced_rows_count_in_the_order_of_the_changes_and_reach_no_file(tmp_path: Path) -> None:
    base = tmp_path / "a.npy"
    np.save(base, np.arange(4, dtype=np.int64))
    pieces.append_rows(base, 1, np.array([4, 5]))
    pieces.replace_rows(base, 2, np.array([1, 5]), np.array([10, 50]))
    pieces.append_rows(base, 3, np.array([6]))
    pieces.replace_rows(base, 12, np.array([1]), np.array([100]))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    found = pieces.read_array(base)
    assert found.tolist() == [0, 100, 2, 3, 4, 50, 6]
    assert pieces.rows_replaced(base).tolist() == [1, 5]
    found[:] = 0
    del found
    assert before == {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert pieces.read_array(base)[1] == 100


def test_an_array_outlives_the_names_of_its_files(tmp_path: Path) -> None:
    base = tmp_path / "a.npy"
    np.save(base, np.ones((1000, 7), dtype=np.float32))
    pieces.append_rows(base, 1, np.full((1000, 7), 2, dtype=np.float32))
    found = pieces.read_array(base)[1500:]
    for path in tmp_path.iterdir():
        path.unlink()
    assert found.sum() == 2 * 7 * 500


def test_a_table_in_pieces_is_one() -> None:
    base = pa.table({"a": ["x", "y", "z"]})
    first = table_files.with_numbers([1, 3, 4], pa.table({"a": ["Y", "3", "4"]}))
    second = table_files.with_numbers([0, 4, 5], pa.table({"a": ["X", "four", "5"]}))
    found = table_files.together(base, [first, second])
    assert found.column_names == ["a"]
    assert found["a"].to_pylist() == ["X", "Y", "z", "3", "four", "5"]
    assert table_files.together(base, []) is base
    empty = pa.table({"a": pa.array([], pa.string())})
    assert table_files.together(empty, [table_files.with_numbers([0], pa.table({"a": ["x"]}))])["a"].to_pylist() == [
        "x"
    ]


def test_names_of_pieces() -> None:
    assert pieces.base_name("entities+12.arrow") == "entities.arrow"
    assert pieces.base_name("member+1.raw") == pieces.base_name("member+3.npz") == "member.npy"
    assert pieces.base_name("entity_vectors.npy") == "entity_vectors.npy"
    assert [pieces.number_of(name) for name in ("records+7.jsonl", "records.jsonl")] == [7, 0]
