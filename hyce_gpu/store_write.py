"""What the offline stage leaves → the files of one generation. What they mean to a reader is `store`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hyce_gpu import tables
from hyce_gpu.accounts import Accounts
from hyce_gpu.decisions import Decision
from hyce_gpu.extract.records import write_records
from hyce_gpu.ledger import Ledger
from hyce_gpu.merge import Merged
from hyce_gpu.provenance import Provenance
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store_files import StoreWriter
from hyce_gpu.store_parts import INDEXED
from hyce_gpu.table_files import SUFFIX, write_table
from hyce_gpu.vector_index import FLAT_UP_TO, VectorIndex


@dataclass(frozen=True)
class Contents:
    """What an indexing run leaves, ready to be written."""

    documents: Sequence[Document]
    chunks: Sequence[Chunk]
    records: Sequence[ExtractionRecord]
    merged: Merged
    provenance: Provenance
    entity_vectors: np.ndarray  # [V, d] float32
    row_vectors: np.ndarray  # [R, d] float32
    chunk_vectors: np.ndarray  # [C, d] float32
    decisions: Sequence[Decision] = ()


def write_store(
    writer: StoreWriter,
    contents: Contents,
    manifest: Mapping[str, Any],
    accounts: Accounts | None = None,
    ledger: Ledger | None = None,
) -> dict[str, int]:
    """Writes a new generation of the store; it becomes current whole or not at all.

    Args:
        accounts: of the run, for the manifest; taken when all else is written, since writing costs too.
        ledger: the store's from then on.

    Returns:
        What it holds, by name.

    Raises:
        OutputError: the directory cannot be written.
    """
    merged, rows = contents.merged, contents.provenance.rows
    counts = {
        "documents": len(contents.documents), "chunks": len(contents.chunks),
        "bare_chunks": sum(not row.members for row in rows),
        "entities": len(merged.entities), "hyperedges": len(merged.hyperedges),
        "incidences": sum(len(edge.members) for edge in merged.hyperedges),
        "relations": sum(len(edge.relations) for edge in merged.hyperedges),
        "alias_merges": tables.count_alias_merges(tables.merges_table(merged.merges)),
        "hyperedges_too_small": merged.too_small, "terms": len(contents.provenance.vocabulary),
    }  # fmt: skip
    arrays = _new_arrays(contents)
    indexes = {name: VectorIndex.build(arrays[INDEXED[name]]) for name in indexed(arrays)}
    described = {name: index.described() for name, index in indexes.items()}
    whole: dict[str, Any] = {"counts": counts, "indexes": described, **manifest}
    with writer.generation(whole, ledger=ledger.lines() if ledger else "") as draft:
        write_files(draft, _tables(contents), arrays, indexes)
        write_records(contents.records, draft / "records.jsonl")
        if accounts:
            whole["accounts"] = accounts.described()
    return counts


def write_files(
    draft: Path, tables: Mapping[str, pa.Table], arrays: Mapping[str, np.ndarray], indexes: Mapping[str, VectorIndex]
) -> None:
    """All of a generation but its records."""
    for name, table in tables.items():
        write_table(table, draft / f"{name}{SUFFIX}")
    for name, array in arrays.items():
        np.save(draft / f"{name}.npy", array)
    for name, index in indexes.items():
        index.write(draft / f"{name}.faiss")


def indexed(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Whose vectors are searched by index: entities' always, the rest where there are too many to look at all."""
    return [name for name, vectors in INDEXED.items() if name == "entities" or len(arrays[vectors]) > FLAT_UP_TO]


def _new_arrays(contents: Contents) -> dict[str, np.ndarray]:
    origin = contents.provenance
    members = [row.members for row in origin.rows]
    return {
        "member_pointer": _pointer(members), "member": _flat(members),
        "passage": np.asarray(origin.passage, dtype=np.int64), "subject": np.asarray(origin.subject, dtype=np.int64),
        "term_pointer": origin.terms.pointer, "term": origin.terms.term, "term_count": origin.terms.count,
        "entity_vectors": contents.entity_vectors,
        "hyperedge_vectors": contents.row_vectors,
        "chunk_vectors": contents.chunk_vectors,
    }  # fmt: skip


def _pointer(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.cumsum([0, *map(len, rows)], dtype=np.int64)


def _flat(rows: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter((value for row in rows for value in row), np.int64, sum(map(len, rows)))


def _tables(contents: Contents) -> dict[str, pa.Table]:
    # Without decisions there is no table of them, as in stores of earlier versions.
    decided = {"decisions": tables.decisions_table(contents.decisions)} if contents.decisions else {}
    return {
        **decided,
        "documents": tables.documents_table(contents.documents),
        "chunks": tables.chunks_table(contents.chunks, contents.documents),
        "entities": tables.entities_table(contents.merged.entities),
        "hyperedges": tables.hyperedges_table(contents.provenance.rows),
        "merges": tables.merges_table(contents.merged.merges),
        "names": tables.names_table(
            [(key, draft, contents.merged.ids[key]) for key, draft in contents.merged.drafts.items()]
        ),
        "terms": pa.table({"word": list(contents.provenance.vocabulary)}, tables.TERMS),
    }
