"""What further documents bring → pieces beside a store's files, as its next generation. Knows rows, not their making.

Nothing that is there is written again. After some dozens of additions, or where an index lacks too many rows, the
pieces become one with their base.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from hyce_gpu.accounts import Accounts
from hyce_gpu.extract.records import write_records
from hyce_gpu.file_pieces import append_rows, number_of, piece, pieces_of, replace_rows
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import ExtractionRecord
from hyce_gpu.store import Store
from hyce_gpu.store_files import StoreWriter
from hyce_gpu.store_parts import ARRAYS, INDEXED, OPTIONAL, SCHEMAS
from hyce_gpu.store_write import indexed, write_files
from hyce_gpu.table_files import SUFFIX, read_table, with_numbers, write_table
from hyce_gpu.vector_index import FLAT_UP_TO, Since, VectorIndex

# Of a table, so many pieces are one file each to open.
MAX_PIECES = 32
# Rows that an index does not know are all looked at: as many as this share of those that it knows, but always some.
_LOOSE_SHARE, _LOOSE_ALWAYS = 0.1, 10_000


@dataclass(frozen=True)
class Growth:
    # By table: rows by number, new ones from the number of those that are there.
    rows: Mapping[str, tuple[Sequence[int], pa.Table]]
    # Tables that are small, as they are now.
    whole: Mapping[str, pa.Table]
    # By array: what follows, and the values of rows that are replaced.
    appended: Mapping[str, np.ndarray]
    replaced: Mapping[str, tuple[np.ndarray, np.ndarray]]
    records: Sequence[ExtractionRecord]


def write_growth(
    writer: StoreWriter,
    store: Store,
    growth: Growth,
    manifest: Mapping[str, Any],
    accounts: Accounts,
    ledger: Ledger,
) -> None:
    """Writes the generation that follows `store`'s.

    Args:
        manifest: of the new generation, apart from format, files and accounts.

    Raises:
        OutputError: the directory cannot be written.
    """
    whole = dict(manifest)
    with writer.generation(whole, store.generation, ledger.lines()) as draft:
        number = 1 + max(number_of(path.name) for path in draft.iterdir())
        for name, (rows, table) in growth.rows.items():
            if len(table):
                write_table(with_numbers(rows, table), piece(draft / f"{name}{SUFFIX}", number))
        for name, table in growth.whole.items():
            write_table(table, draft / f"{name}{SUFFIX}")
        for name, values in growth.appended.items():
            if len(values):
                append_rows(draft / f"{name}.npy", number, values)
        for name, (numbers, values) in growth.replaced.items():
            if len(numbers):
                replace_rows(draft / f"{name}.npy", number, numbers, values)
        write_records(growth.records, piece(draft / "records.jsonl", number))
        whole["accounts"] = accounts.described()


def has_pieces(store: Store) -> bool:
    return any(map(number_of, store.manifest["files"]))


def has_many_pieces(store: Store) -> bool:
    """Whether it is time for `write_as_one`."""
    if max(map(number_of, store.manifest["files"])) >= MAX_PIECES:
        return True
    there = [name for name in INDEXED if f"{name}.faiss" in store.manifest["files"]]
    arrays = {name: store.array(name) for name in INDEXED.values()}
    return there != indexed(arrays) or any(_has_many_loose(store, name) for name in there)


def _has_many_loose(store: Store, name: str) -> bool:
    since, count = _since(store, name), len(store.array(INDEXED[name]))
    if count <= FLAT_UP_TO:
        return False
    return since.built_of <= FLAT_UP_TO or len(since.loose(count)) > max(_LOOSE_ALWAYS, _LOOSE_SHARE * since.built_of)


def write_as_one(writer: StoreWriter, store: Store) -> None:
    """Writes the same store again without pieces, as its next generation.

    Raises:
        OutputError: the directory cannot be written.
    """
    arrays = {name: store.array(name) for name in ARRAYS}
    tables = {name: store.table(name).combine_chunks() for name in SCHEMAS}
    for name in OPTIONAL:
        if f"{name}{SUFFIX}" in store.manifest["files"]:
            tables[name] = read_table(store.generation / f"{name}{SUFFIX}").combine_chunks()
    indexes = {name: _index(store, name) for name in indexed(arrays)}
    described = {name: index.described() for name, index in indexes.items()}
    with writer.generation({**about(store.manifest), "indexes": described}) as draft:
        write_files(draft, tables, arrays, indexes)
        records = store.generation / "records.jsonl"
        with (draft / records.name).open("wb") as out:
            for path in (records, *pieces_of(records)):
                with path.open("rb") as file:
                    shutil.copyfileobj(file, out)


def about(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What a manifest says, apart from the files."""
    return {name: value for name, value in manifest.items() if name not in ("format", "files", "sha256")}


def _index(store: Store, name: str) -> VectorIndex:
    vectors, path = store.array(INDEXED[name]), store.generation / f"{name}.faiss"
    return VectorIndex.grown(path, vectors, _since(store, name)) if path.exists() else VectorIndex.build(vectors)


def _since(store: Store, name: str) -> Since:
    return Since.of(store.generation / f"{INDEXED[name]}.npy")
