"""The store: one directory with the hypergraph, the vectors, the texts and a manifest. Opens by memory map."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from hyce_gpu import tables
from hyce_gpu.context import Passage
from hyce_gpu.errors import StoreError
from hyce_gpu.file_pieces import read_array
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.passages import Terms
from hyce_gpu.provenance import titled
from hyce_gpu.schema import Chunk, Document, EvidencePath, ExtractionRecord, Source
from hyce_gpu.store_files import BARE_LAST, current_generation, read_manifest
from hyce_gpu.store_parts import ARRAYS, INDEXED, SCHEMAS, read_own_records
from hyce_gpu.table_files import read_table, table_file
from hyce_gpu.vector_index import Indexes, Since, VectorIndex
from hyce_gpu.vocabulary import Vocabulary


class Store:
    """One generation of a store, read-only. Arrays stay memory-mapped until they are used."""

    def __init__(self, root: Path, generation: Path, manifest: dict[str, Any]) -> None:
        self.root, self.generation, self.manifest = root, generation, manifest
        self._arrays = {name: self._array(name) for name in ARRAYS}
        self._tables = {name: self._table(name) for name in SCHEMAS}
        if manifest["format"] in BARE_LAST:
            self._tables["hyperedges"] = tables.with_bare_rows(
                self._tables["hyperedges"], self._arrays["passage"], self._tables["chunks"], self._tables["documents"]
            )
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
    def checksum(self) -> str:
        """The SHA-256 of what it holds; what its making cost does not count."""
        made = {name: value for name, value in self.manifest.items() if name != "accounts"}
        return hashlib.sha256(json.dumps(made, sort_keys=True, ensure_ascii=True).encode()).hexdigest()

    @cached_property
    def _document_number(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self._tables["documents"].column("id").to_pylist())}

    @cached_property
    def _document_of_chunk(self) -> np.ndarray:
        """The number of each chunk's document, rising."""
        numbers: np.ndarray = self._tables["chunks"].column("document").to_numpy()
        return numbers

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.manifest["counts"])

    def array(self, name: str) -> np.ndarray:
        """One of `store_parts.ARRAYS`, memory-mapped."""
        return self._arrays[name]

    def table(self, name: str) -> pa.Table:
        """One of `store_parts.SCHEMAS`; of hyperedges with a row for each chunk that gave none."""
        return self._tables[name]

    def hypergraph(self) -> Hypergraph:
        """The hyperedges, and the chunks that gave none as rows without entities."""
        arrays, edges = self._arrays, self._tables["hyperedges"]
        # A copy, since torch warns of read-only memory.
        confidence, means = edges.column("confidence").to_numpy().copy(), tables.mean_relation_confidences(edges)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        words = arrays["term_pointer"], arrays["term"], arrays["term_count"]
        return Hypergraph.from_arrays(
            self.counts["entities"], tensors["member_pointer"], tensors["member"],
            torch.from_numpy(confidence), torch.from_numpy(means),
            tensors["entity_vectors"], tensors["hyperedge_vectors"],
            tensors["passage"], tensors["subject"], tensors["chunk_vectors"],
            Terms.from_arrays(*words, self.counts["terms"]),
        )  # fmt: skip

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self._tables["terms"].column("word"))

    def entity_index(self, device: str = "cpu") -> VectorIndex:
        return self._index("entities", device)

    def indexes(self, device: str = "cpu") -> Indexes:
        """Those of hyperedges and passages that the store has."""
        there = (name for name in ("hyperedges", "passages") if (self.generation / f"{name}.faiss").exists())
        return Indexes(**{name: self._index(name, device) for name in there})

    def _index(self, name: str, device: str) -> VectorIndex:
        vectors = INDEXED[name]
        since = Since.of(self.generation / f"{vectors}.npy")
        return VectorIndex.open(self.generation / f"{name}.faiss", self._arrays[vectors], device, since)

    def entity_names(self) -> list[str]:
        names: list[str] = self._tables["entities"].column("name").to_pylist()
        return names

    def names_and_aliases(self) -> tuple[list[str], list[list[str]]]:
        """Canonical name and alias spellings of each entity."""
        entities = self._tables["entities"]
        aliases: list[list[str]] = [[]] * len(entities)
        # Few have any, and lists of lists are slow to read.
        having = pc.indices_nonzero(pc.list_value_length(entities.column("aliases")))
        for entity, names in zip(having.to_pylist(), entities.column("aliases").take(having).to_pylist(), strict=True):
            aliases[entity] = names
        return entities.column("canonical").to_pylist(), aliases

    def hyperedge(self, number: int) -> dict[str, Any]:
        """A row of the hyperedge table: segment, confidence, time, reliability, relations, sources.

        Of a chunk without hyperedges, only its source.
        """
        return _row(self._tables["hyperedges"], number)

    def bare_chunks(self) -> np.ndarray:
        """Numbers of the chunks without hyperedges, ascending."""
        bare: np.ndarray = self._arrays["passage"][np.diff(self._arrays["member_pointer"]) == 0]
        return bare

    def chunk_vectors(self) -> np.ndarray:
        """Unit vectors of all chunks with their titles [C, d]."""
        return self._arrays["chunk_vectors"]

    def chunk(self, number: int) -> tuple[Source, str]:
        """Where a chunk stands, and its text."""
        row = _row(self._tables["chunks"], number)
        document = _row(self._tables["documents"], row["document"])
        source = Source(document["id"], row["id"], row["start"], row["end"])
        return source, document["text"][row["start"] : row["end"]]

    def chunk_sources(self) -> list[Source]:
        """Where each chunk stands, without reading its text."""
        names = self._tables["documents"].column("id").to_pylist()
        rows = self._tables["chunks"].to_pylist()
        return [Source(names[row["document"]], row["id"], row["start"], row["end"]) for row in rows]

    def documents(self) -> list[Document]:
        """All documents, with their texts, in the corpus' order."""
        return tables.documents_of(self._tables["documents"])

    def find_documents(self, ids: Sequence[str]) -> dict[str, Document]:
        """Those of these ids that the store has, by id."""
        table = self._tables["documents"]
        rows = pc.indices_nonzero(pc.is_in(table.column("id"), value_set=pa.array(ids, pa.string())))
        return {document.id: document for document in tables.documents_of(table.take(rows))}

    def chunks_of(self, document: int) -> list[Chunk]:
        """The chunks of the document of that number."""
        rows = self._tables["chunks"]
        first, last = np.searchsorted(self._document_of_chunk, (document, document + 1))
        own = tables.documents_of(self._tables["documents"].slice(document, 1))
        chunks = rows.slice(first, last - first)
        places = pa.array(np.zeros(len(chunks), dtype=np.int64))
        return tables.chunks_of(chunks.set_column(chunks.column_names.index("document"), "document", places), own)

    def chunks(self) -> list[Chunk]:
        return tables.chunks_of(self._tables["chunks"], self.documents())

    def records(self) -> list[ExtractionRecord]:
        """What each chunk gave, in the chunks' order."""
        return read_own_records(self.generation)

    def embedded(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """The texts of entities, hyperedges and chunks, as they were embedded, and their vectors [n, d]."""
        chunks = self.chunks()
        rows = np.flatnonzero(np.diff(self._arrays["member_pointer"]))
        edges = self._tables["hyperedges"].column("segment").take(rows).to_pylist()
        places = self._arrays["passage"][rows].tolist()
        yield tables.entity_texts(self._tables["entities"]), self._arrays["entity_vectors"]
        titled_edges = [titled(chunks[place].title, edge) for place, edge in zip(places, edges, strict=True)]
        yield titled_edges, self._arrays["hyperedge_vectors"][rows]
        yield [titled(chunk.title, chunk.text) for chunk in chunks], self._arrays["chunk_vectors"]

    def document(self, doc_id: str) -> dict[str, Any]:
        """A row of the document table: id, title, source, metadata, text."""
        return _row(self._tables["documents"], self._document_number[doc_id])

    def title(self, doc_id: str) -> str:
        title: str = self._tables["documents"].column("title")[self._document_number[doc_id]].as_py()
        return title

    def passage(self, path: EvidencePath) -> Passage:
        """The chunk that a path stands in, under the title of its document."""
        title = self.title(path.sources[0].doc_id)
        if path.hyperedge < 0:
            return Passage(title, path.segment)
        return Passage(title, self.chunk(int(self._arrays["passage"][path.hyperedge]))[1])

    def titles(self, paths: Iterable[EvidencePath]) -> dict[str, str]:
        """Titles of the documents that the paths come from, by id."""
        return {source.doc_id: self.title(source.doc_id) for path in paths for source in path.sources}

    def _array(self, name: str) -> np.ndarray:
        path = self.generation / f"{name}.npy"
        try:
            array = read_array(path)
        except (OSError, ValueError, TokenError) as error:
            raise _unreadable(path, error) from error
        if array.dtype != ARRAYS[name]:
            raise StoreError(f"broken store: {path} holds {array.dtype}, expected {ARRAYS[name]}; see hyce verify")
        return array

    def _table(self, name: str) -> pa.Table:
        path = table_file(self.generation, name)
        try:
            return read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error

    def _check(self) -> None:
        counts, arrays = self.counts, self._arrays
        found = {
            "documents": len(self._tables["documents"]), "chunks": len(self._tables["chunks"]),
            "entities": len(arrays["entity_vectors"]),
            "hyperedges": int(np.count_nonzero(np.diff(arrays["member_pointer"]))),
            "incidences": len(arrays["member"]), "terms": len(self._tables["terms"]),
        }  # fmt: skip
        rows = counts["hyperedges"] + counts["bare_chunks"]
        if len(self._tables["hyperedges"]) != rows:
            raise StoreError(f"broken store {self.root}: {len(self._tables['hyperedges'])} rows, expected {rows}")
        for name, length in (("hyperedge_vectors", rows), ("passage", rows), ("chunk_vectors", counts["chunks"])):
            if len(arrays[name]) != length:
                raise StoreError(f"broken store {self.root}: {name} has {len(arrays[name])} rows, expected {length}")
        for name, number in found.items():
            if counts[name] != number:
                raise StoreError(f"broken store {self.root}: {number} {name}, the manifest says {counts[name]}")


def _unreadable(path: Path, error: Exception) -> StoreError:
    # Arrow's and NumPy's messages have several lines.
    return StoreError(f"broken store: cannot read {path} ({' '.join(str(error).split())}); see hyce verify")


def _row(table: pa.Table, number: int) -> dict[str, Any]:
    row: dict[str, Any] = table.slice(number, 1).to_pylist()[0]
    return row
