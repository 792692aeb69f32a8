"""Tables on the disk: Arrow IPC files that open by memory map, whatever their size; Parquet in stores of format 2.

Parquet is decoded whole before a row can be had; of these, a question touches only the rows that it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hyce_gpu.file_pieces import base_name, pieces_of

# Of a piece: the numbers of its rows.
ROW = "row"
SUFFIX, _OLD_SUFFIX = ".arrow", ".parquet"


def table_file(generation: Path, name: str) -> Path:
    """Where a generation has the table `name`, as the version that wrote it names the file."""
    old = generation / f"{name}{_OLD_SUFFIX}"
    return old if old.exists() else generation / f"{name}{SUFFIX}"


def stem(file: str) -> str:
    """The name of a table by its file's, which depends on the format; other files keep that of their base."""
    return base_name(file).removesuffix(SUFFIX).removesuffix(_OLD_SUFFIX)


def write_table(table: pa.Table, path: Path) -> None:
    # A file of that name may be linked from elsewhere.
    path.unlink(missing_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_table(path: Path) -> pa.Table:
    """The table of a base file with its pieces.

    Raises:
        OSError, pa.ArrowException: no such file, or no table.
    """
    if path.suffix == _OLD_SUFFIX:
        return pq.read_table(path, memory_map=True)
    return together(_read(path), [_read(piece) for piece in pieces_of(path)])


def _read(path: Path) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()


def together(base: pa.Table, pieces: Sequence[pa.Table]) -> pa.Table:
    """The table with the rows that the pieces add or replace, by their numbers in the column "row"; copies none."""
    if not pieces:
        return base
    place = np.arange(len(base))
    start = len(base)
    for one in pieces:
        rows = one[ROW].to_numpy()
        place = np.concatenate((place, np.full(max(0, int(rows.max(initial=-1)) + 1 - len(place)), -1)))
        place[rows] = start + np.arange(len(rows))
        start += len(rows)
    whole = pa.concat_tables([base, *(one.drop_columns([ROW]) for one in pieces)])
    begins = np.flatnonzero(np.diff(place, prepend=-2) != 1)
    lengths = np.diff(begins, append=len(place))
    return pa.concat_tables(
        [whole.slice(place[begin], length) for begin, length in zip(begins, lengths.tolist(), strict=True)]
    )


def with_numbers(rows: Sequence[int], table: pa.Table) -> pa.Table:
    """What `together` takes for a piece: `table` as the rows of these numbers, ascending."""
    return table.add_column(0, ROW, pa.array(rows, pa.int64()))
