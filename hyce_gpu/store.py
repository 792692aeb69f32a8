"""The store: one directory with the hypergraph, the vectors, the texts and a manifest. Opens by memory map."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
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
from hyce_gpu.extract.records import record_from_json
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.lexical import Vocabulary
from hyce_gpu.passages import Terms
from hyce_gpu.provenance import titled
from hyce_gpu.schema import Chunk, Document, EvidencePath, ExtractionRecord, Source
from hyce_gpu.store_files import current_generation, read_manifest
from hyce_gpu.store_parts import ARRAYS, SCHEMAS
from hyce_gpu.table_files import read_table, table_file
from hyce_gpu.vector_index import Indexes, VectorIndex


class Store:
    """One generation of a store, read-only. Arrays stay memory-mapped until they are used."""

    def __init__(self, root: Path, generation: Path, manifest: dict[str, Any]) -> None:
        self.root, self.generation, self.manifest = root, generation, manifest
        self._arrays = {name: self._array(name) for name in ARRAYS}
        self._tables = {name: self._table(name) for name in SCHEMAS}
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

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.manifest["counts"])

    def array(self, name: str) -> np.ndarray:
        """One of `store_parts.ARRAYS`, memory-mapped."""
        return self._arrays[name]

    def hypergraph(self) -> Hypergraph:
        """The hyperedges, followed by the chunks that gave none as rows without entities."""
        arrays, edges = self._arrays, self._tables["hyperedges"]
        bare = np.zeros(self.counts["bare_chunks"])
        confidence = np.concatenate((edges.column("confidence").to_numpy(), bare))
        means = np.concatenate((tables.mean_relation_confidences(edges), bare))
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
        return Vocabulary(self._tables["terms"].column("word").to_pylist())

    def entity_index(self, device: str = "cpu") -> VectorIndex:
        return VectorIndex.open(self.generation / "entities.faiss", self._arrays["entity_vectors"], device)

    def indexes(self, device: str = "cpu") -> Indexes:
        """Those of hyperedges and passages that the store has."""
        vectors = {"hyperedges": self._arrays["hyperedge_vectors"], "passages": self._arrays["chunk_vectors"]}
        paths = {name: self.generation / f"{name}.faiss" for name in vectors}
        return Indexes(
            **{name: VectorIndex.open(path, vectors[name], device) for name, path in paths.items() if path.exists()}
        )

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
        """A row of the hyperedge table: segment, confidence, time, reliability, relations, sources."""
        return _row(self._tables["hyperedges"], number)

    def bare_chunks(self) -> np.ndarray:
        """Numbers of the chunks without hyperedges, in the order of their rows."""
        return self._arrays["passage"][self.counts["hyperedges"] :]

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

    def chunks(self) -> list[Chunk]:
        return tables.chunks_of(self._tables["chunks"], self.documents())

    def records(self) -> list[ExtractionRecord]:
        """What each chunk gave, in the chunks' order."""
        with (self.generation / "records.jsonl").open(encoding="utf-8") as file:
            return [record_from_json(json.loads(line)) for line in file]

    def embedded(self) -> Iterator[tuple[list[str], np.ndarray]]:
        """The texts of entities, hyperedges and chunks, as they were embedded, and their vectors [n, d]."""
        chunks = self.chunks()
        edges = self._tables["hyperedges"].column("segment").to_pylist()
        places = self._arrays["passage"][: len(edges)]
        yield tables.entity_texts(self._tables["entities"]), self._arrays["entity_vectors"]
        titled_edges = [titled(chunks[place].title, edge) for place, edge in zip(places, edges, strict=True)]
        yield titled_edges, self._arrays["hyperedge_vectors"][: len(edges)]
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
            # Copy-on-write, since torch warns of read-only memory; nothing writes, so no page is copied.
            array: np.ndarray = np.load(path, mmap_mode="c", allow_pickle=False)
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
            "entities": len(arrays["entity_vectors"]), "hyperedges": len(self._tables["hyperedges"]),
            "incidences": len(arrays["member"]), "terms": len(self._tables["terms"]),
        }  # fmt: skip
        rows = counts["hyperedges"] + counts["bare_chunks"]
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
