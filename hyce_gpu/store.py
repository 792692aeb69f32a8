"""The store: one directory with the hypergraph, the vectors, the texts and a manifest. Opens by memory map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from hyce_gpu import tables
from hyce_gpu.entity_index import EntityIndex
from hyce_gpu.errors import StoreError
from hyce_gpu.extract.records import write_records
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.merge import Merged
from hyce_gpu.schema import Chunk, Document, ExtractionRecord, Source
from hyce_gpu.store_files import current_generation, new_generation, read_manifest

_TABLES = ("documents", "chunks", "entities", "hyperedges", "merges")
_ARRAYS = ("member_pointer", "member", "entity_vectors", "hyperedge_vectors", "chunk_vectors")


@dataclass(frozen=True)
class Contents:
    """What an indexing run leaves, ready to be written."""

    documents: Sequence[Document]
    chunks: Sequence[Chunk]
    records: Sequence[ExtractionRecord]
    merged: Merged
    entity_vectors: np.ndarray  # [V, d] float32
    hyperedge_vectors: np.ndarray  # [E, d] float32
    # Ids of the chunks that gave no hyperedge, and their vectors.
    bare: Sequence[str]
    chunk_vectors: np.ndarray  # [bare chunks, d] float32


def write_store(root: Path, contents: Contents, manifest: Mapping[str, Any]) -> None:
    """Writes a new generation of the store at `root`; it becomes current whole or not at all.

    Raises:
        OutputError: the directory cannot be written, is no store, or is being written by another process.
    """
    merged = contents.merged
    members = [edge.members for edge in merged.hyperedges]
    counts = {
        "documents": len(contents.documents), "chunks": len(contents.chunks), "bare_chunks": len(contents.bare),
        "entities": len(merged.entities), "hyperedges": len(members), "incidences": sum(map(len, members)),
        "relations": sum(len(edge.relations) for edge in merged.hyperedges), "alias_merges": len(merged.merges),
        "hyperedges_too_small": merged.too_small,
    }  # fmt: skip
    with new_generation(root, {"counts": counts, **manifest}) as draft:
        for name, table in _tables(contents).items():
            pq.write_table(table, draft / f"{name}.parquet", compression="zstd")
        pointer = np.concatenate(([0], np.cumsum([len(row) for row in members]))).astype(np.int64)
        np.save(draft / "member_pointer.npy", pointer)
        np.save(
            draft / "member.npy", np.fromiter((entity for row in members for entity in row), np.int64, int(pointer[-1]))
        )
        for name in ("entity_vectors", "hyperedge_vectors", "chunk_vectors"):
            np.save(draft / f"{name}.npy", getattr(contents, name))
        EntityIndex.build(contents.entity_vectors).write(draft / "entities.faiss")
        write_records(contents.records, draft / "records.jsonl")


def _tables(contents: Contents) -> dict[str, pa.Table]:
    return {
        "documents": tables.documents_table(contents.documents),
        "chunks": tables.chunks_table(contents.chunks, contents.documents, set(contents.bare)),
        "entities": tables.entities_table(contents.merged.entities),
        "hyperedges": tables.hyperedges_table(contents.merged.hyperedges),
        "merges": tables.merges_table(contents.merged.merges),
    }


class Store:
    """One generation of a store, read-only. Arrays stay memory-mapped until they are used."""

    def __init__(self, root: Path, generation: Path, manifest: dict[str, Any]) -> None:
        self.root, self.generation, self.manifest = root, generation, manifest
        self._arrays = {name: self._array(name) for name in _ARRAYS}
        self._tables = {name: self._table(name) for name in _TABLES}
        self._document_number = {
            name: number for number, name in enumerate(self._tables["documents"].column("id").to_pylist())
        }
        self._check()

    @classmethod
    def open(cls, root: str | Path) -> Store:
        """Opens the current generation.

        Raises:
            StoreError: no store there, another format version, a missing or cut file, or counts that do not fit.
        """
        generation = current_generation(Path(root))
        return cls(Path(root), generation, read_manifest(generation))

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.manifest["counts"])

    def hypergraph(self) -> Hypergraph:
        arrays, edges = self._arrays, self._tables["hyperedges"]
        relations = edges.column("relations").to_pylist()
        means = [sum(r["confidence"] for r in found) / len(found) if found else 0.0 for found in relations]
        return Hypergraph.from_arrays(
            self.counts["entities"],
            torch.from_numpy(arrays["member_pointer"]),
            torch.from_numpy(arrays["member"]),
            torch.tensor(edges.column("confidence").to_pylist(), dtype=torch.float64),
            torch.tensor(means, dtype=torch.float64),
            torch.from_numpy(arrays["entity_vectors"]),
            torch.from_numpy(arrays["hyperedge_vectors"]),
        )

    def entity_index(self, device: str = "cpu") -> EntityIndex:
        return EntityIndex.open(self.generation / "entities.faiss", self._arrays["entity_vectors"], device)

    def entity_names(self) -> list[str]:
        names: list[str] = self._tables["entities"].column("name").to_pylist()
        return names

    def names_and_aliases(self) -> tuple[list[str], list[list[str]]]:
        """Canonical name and alias spellings of each entity."""
        entities = self._tables["entities"]
        return entities.column("canonical").to_pylist(), entities.column("aliases").to_pylist()

    def hyperedge(self, number: int) -> dict[str, Any]:
        """A row of the hyperedge table: segment, confidence, time, reliability, relations, sources."""
        return _row(self._tables["hyperedges"], number)

    def bare_chunks(self) -> tuple[np.ndarray, np.ndarray]:
        """(numbers [B] of the chunks without hyperedges, their unit vectors [B, d])."""
        bare = self._tables["chunks"].column("bare").to_numpy()
        return np.flatnonzero(bare), self._arrays["chunk_vectors"]

    def chunk(self, number: int) -> tuple[Source, str]:
        """Where a chunk stands, and its text."""
        row = _row(self._tables["chunks"], number)
        document = _row(self._tables["documents"], row["document"])
        source = Source(document["id"], row["id"], row["start"], row["end"])
        return source, document["text"][row["start"] : row["end"]]

    def document(self, doc_id: str) -> dict[str, Any]:
        """A row of the document table: id, title, source, metadata, text."""
        return _row(self._tables["documents"], self._document_number[doc_id])

    def title(self, doc_id: str) -> str:
        title: str = self._tables["documents"].column("title")[self._document_number[doc_id]].as_py()
        return title

    def _array(self, name: str) -> np.ndarray:
        path = self.generation / f"{name}.npy"
        try:
            # Copy-on-write, since torch warns of read-only memory; nothing writes, so no page is copied.
            array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise StoreError(f"broken store: cannot read {path} ({error}); build the store again") from error
        return array

    def _table(self, name: str) -> pa.Table:
        path = self.generation / f"{name}.parquet"
        try:
            return pq.read_table(path, memory_map=True)
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"broken store: cannot read {path} ({error}); build the store again") from error

    def _check(self) -> None:
        counts, arrays = self.counts, self._arrays
        found = {
            "documents": len(self._tables["documents"]), "chunks": len(self._tables["chunks"]),
            "entities": len(arrays["entity_vectors"]), "hyperedges": len(arrays["hyperedge_vectors"]),
            "incidences": len(arrays["member"]), "bare_chunks": len(arrays["chunk_vectors"]),
        }  # fmt: skip
        for name, number in found.items():
            if counts[name] != number:
                raise StoreError(f"broken store {self.root}: {number} {name}, the manifest says {counts[name]}")


def _row(table: pa.Table, number: int) -> dict[str, Any]:
    row: dict[str, Any] = table.slice(number, 1).to_pylist()[0]
    return row
