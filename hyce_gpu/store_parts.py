"""The parts of a store as they stand on the disk, each by itself: what can be read is, what cannot is a problem.

Unlike `store`, which opens all or nothing. Knows columns and types; whether the parts fit is `cross_references`'.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa

from hyce_gpu import tables
from hyce_gpu.errors import StoreError
from hyce_gpu.extract.records import record_from_json
from hyce_gpu.file_pieces import base_name, pieces_of, read_array
from hyce_gpu.schema import ExtractionRecord
from hyce_gpu.store_files import BARE_LAST
from hyce_gpu.table_files import read_table, table_file

SCHEMAS = {
    "documents": tables.DOCUMENTS, "chunks": tables.CHUNKS, "entities": tables.ENTITIES,
    "hyperedges": tables.HYPEREDGES, "merges": tables.MERGES, "terms": tables.TERMS,
}  # fmt: skip
# Only a store with decisions has those; stores before format 4 had no table of names.
OPTIONAL = {"decisions": tables.DECISIONS, "names": tables.NAMES}
ARRAYS = {
    "member_pointer": "int64", "member": "int64", "passage": "int64", "subject": "int64", "term_pointer": "int64",
    "term": "int32", "term_count": "int32",
    "entity_vectors": "float32", "hyperedge_vectors": "float32", "chunk_vectors": "float32",
}  # fmt: skip
# What Arrow, NumPy, FAISS and the values themselves raise where a part is not what it should be.
PARSE_ERRORS = (
    OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError, RuntimeError,
    TokenError, StoreError, pa.ArrowException,
)  # fmt: skip


# By the name of a FAISS index: the vectors that it finds.
INDEXED = {"entities": "entity_vectors", "hyperedges": "hyperedge_vectors", "passages": "chunk_vectors"}


@dataclass(frozen=True)
class Problem:
    part: str
    expected: str
    found: str


@dataclass(frozen=True)
class Parts:
    """Tables by their columns' values, arrays and records; only what could be read."""

    generation: Path
    counts: Mapping[str, int]
    dimension: int
    table: dict[str, pa.Table]
    array: dict[str, np.ndarray]
    records: list[ExtractionRecord] | None


Check = Callable[[Parts], Iterator[Problem]]


def guarded(part: str, check: Check, parts: Parts) -> list[Problem]:
    try:
        return list(check(parts))
    except PARSE_ERRORS as error:
        return [Problem(part, "values that can be checked", f"{type(error).__name__}: {error}"[:200])]


def read_parts(generation: Path, manifest: Mapping[str, Any], sound: Collection[str]) -> tuple[Parts, list[Problem]]:
    parts = Parts(generation, manifest["counts"], manifest["encoder"]["dimension"], {}, {}, None)
    problems: list[Problem] = []
    # A piece that is not sound makes the whole of it unreadable.
    listed = set(manifest.get("files", {})) or {path.name for path in generation.iterdir()}
    broken = {base_name(name) for name in listed.difference(sound)}
    sound = {name for name in sound if name not in broken}
    for name in (name for name in (*SCHEMAS, *OPTIONAL) if table_file(generation, name).name in sound):
        problems += guarded(table_file(generation, name).name, _table_reader(name), parts)
    if manifest.get("format") in BARE_LAST and {"hyperedges", "chunks", "documents"} <= set(parts.table):
        problems += guarded("hyperedges", _add_bare_rows, parts)
    for name in (name for name in ARRAYS if f"{name}.npy" in sound):
        problems += guarded(f"{name}.npy", _array_reader(name), parts)
    if "records.jsonl" not in sound:
        return parts, problems
    try:
        return Parts(**{**vars(parts), "records": read_own_records(generation)}), problems
    except PARSE_ERRORS as error:
        return parts, [*problems, Problem("records.jsonl", "one record a line", f"{type(error).__name__}: {error}")]


def read_own_records(generation: Path) -> list[ExtractionRecord]:
    base = generation / "records.jsonl"
    return [
        record_from_json(json.loads(line)) for path in (base, *pieces_of(base)) for line in path.open(encoding="utf-8")
    ]


def _table_reader(name: str) -> Check:
    def read(parts: Parts) -> Iterator[Problem]:
        path = table_file(parts.generation, name)
        table, schema = read_table(path), {**SCHEMAS, **OPTIONAL}[name]
        if table.schema.equals(schema):
            parts.table[name] = table
        else:
            yield Problem(path.name, f"the columns {schema.names}", f"{table.schema.names}, or types")

    return read


def _add_bare_rows(parts: Parts) -> Iterator[Problem]:
    hyperedges, chunks, documents = (parts.table[name] for name in ("hyperedges", "chunks", "documents"))
    passage = np.load(parts.generation / "passage.npy", allow_pickle=False)
    parts.table["hyperedges"] = tables.with_bare_rows(hyperedges, passage, chunks, documents)
    yield from ()


def _array_reader(name: str) -> Check:
    def read(parts: Parts) -> Iterator[Problem]:
        array = read_array(parts.generation / f"{name}.npy")
        axes = 2 if name.endswith("vectors") else 1
        if array.dtype == ARRAYS[name] and array.ndim == axes:
            parts.array[name] = array
        else:
            yield Problem(f"{name}.npy", f"{ARRAYS[name]} with {axes} axes", f"{array.dtype} with {array.ndim}")

    return read
