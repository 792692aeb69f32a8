"""Tables on the disk: Arrow IPC files that open by memory map, whatever their size; Parquet in stores of format 2.

Parquet is decoded whole before a row can be had; of these, a question touches only the rows that it shows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

SUFFIX, _OLD_SUFFIX = ".arrow", ".parquet"


def table_file(generation: Path, name: str) -> Path:
    """Where a generation has the table `name`, as the version that wrote it names the file."""
    old = generation / f"{name}{_OLD_SUFFIX}"
    return old if old.exists() else generation / f"{name}{SUFFIX}"


def stem(file: str) -> str:
    """The name of a table by its file's, which depends on the format; other files keep theirs."""
    return file.removesuffix(SUFFIX).removesuffix(_OLD_SUFFIX)


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_table(path: Path) -> pa.Table:
    """Raises:
    OSError, pa.ArrowException: no such file, or no table.
    """
    if path.suffix == _OLD_SUFFIX:
        return pq.read_table(path, memory_map=True)
    return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
