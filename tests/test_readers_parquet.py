"""Corpus files in Parquet: columns, rows, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Document


def parquet(path: Path, columns: dict[str, Any]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_parquet_fields(tmp_path: Path, ledger: Ledger) -> None:
    day = datetime.date(2024, 2, 29)
    columns = {
        "id": ["a", None, "a"],
        "title": ["A", None, ""],
        "text": ["one", "two\ud83d".encode("utf-8", "replace").decode(), "three"],
        "n": [1, None, 3],
        "day": [day, day, day],
        "raw": pa.array([b"x", b"y", b"z"]),
    }
    path = parquet(tmp_path / "c.parquet", columns)
    first, second = read_corpus([path], ledger)
    assert first == Document("a", "A", "one", f"{path}:row 1", {"n": 1, "day": "2024-02-29", "raw": "b'x'"})
    assert (second.id, second.title, second.source) == ("c.parquet:2", "", f"{path}:row 2")
    assert [(entry.where, entry.raw) for entry in ledger] == [(f"{path}:row 3", "three")]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_string_types(kind: pa.DataType, tmp_path: Path, ledger: Ledger) -> None:
    path = parquet(tmp_path / "c.parquet", {"id": pa.array([7]), "text": pa.array(["x"]).cast(kind)})
    assert read_corpus([path], ledger) == [Document("7", "", "x", f"{path}:row 1")]


def test_parquet_rows_that_are_set_aside(tmp_path: Path, ledger: Ledger) -> None:
    texts = pa.array(["ok", None, " ", ""])
    path = parquet(tmp_path / "c.parquet", {"id": [1.5, None, None, None], "text": texts})
    with pytest.raises(InputError, match=r'no usable document in .*row 1: expected a string or a whole number as "id"'):
        read_corpus([path], ledger)
    assert [entry.where for entry in ledger] == [f"{path}:row {row}" for row in (1, 2, 3, 4)]


def test_a_parquet_row_that_is_not_utf_8_is_set_aside_alone(tmp_path: Path, ledger: Ledger) -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a\xff", b"good"]).buffers())
    path = parquet(tmp_path / "c.parquet", {"text": broken})
    assert [document.text for document in read_corpus([path], ledger)] == ["good"]
    assert ledger.entries[0].where == f"{path}:row 1"


def test_parquet_keeps_rows_with_nanoseconds(tmp_path: Path, ledger: Ledger) -> None:
    moment = pa.array([1_000_000_001], pa.timestamp("ns"))
    path = parquet(tmp_path / "c.parquet", {"text": ["x"], "at": moment})
    assert read_corpus([path], ledger)[0].metadata == {"at": "1970-01-01 00:00:01"}


def test_parquet_rows_go_on_counting_across_batches(tmp_path: Path, ledger: Ledger) -> None:
    path = parquet(tmp_path / "c.parquet", {"text": [f"t{row}" for row in range(3000)]})
    documents = read_corpus([path], ledger)
    assert [document.id for document in documents] == [f"c.parquet:{row}" for row in range(1, 3001)]


@pytest.mark.parametrize(
    ("columns", "found"),
    [({"body": ["x"], "id": [1]}, "body (string), id (int64)"), ({"text": [1]}, "text (int64)")],
)
def test_parquet_without_a_text_column(columns: dict[str, Any], found: str, tmp_path: Path, ledger: Ledger) -> None:
    path = parquet(tmp_path / "c.parquet", columns)
    with pytest.raises(InputError) as raised:
        read_corpus([path], ledger)
    assert str(raised.value) == f'{path}: expected one string column "text", found columns: {found}'


@pytest.mark.parametrize("content", [b"", b"PAR1 not really PAR1", b"text"])
def test_broken_parquet(content: bytes, tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "c.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot read .*c\.parquet as Parquet"):
        read_corpus([path], ledger)
