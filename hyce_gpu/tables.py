"""Nouns ↔ Arrow tables: documents, chunks, entities, hyperedges, merges and decisions as columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyce_gpu.decisions import Decision
from hyce_gpu.merge import AliasMerge, Entity, Hyperedge, representation
from hyce_gpu.schema import Chunk, Document, Relation, Source

_SOURCE = pa.struct({"doc_id": pa.string(), "chunk_id": pa.string(), "start": pa.int64(), "end": pa.int64()})
_RELATION = pa.struct({"head": pa.string(), "predicate": pa.string(), "tail": pa.string(), "confidence": pa.float64()})

DOCUMENTS = pa.schema(
    {"id": pa.string(), "title": pa.string(), "source": pa.string(), "metadata": pa.string(), "text": pa.string()}
)
CHUNKS = pa.schema(
    {
        "id": pa.string(),
        "document": pa.int64(),
        "order": pa.int64(),
        "start": pa.int64(),
        "end": pa.int64(),
    }
)
ENTITIES = pa.schema(
    {
        "name": pa.string(), "canonical": pa.string(), "type": pa.string(), "role": pa.string(),
        "aliases": pa.list_(pa.string()), "description": pa.string(), "confidence": pa.float64(),
    }
)  # fmt: skip
HYPEREDGES = pa.schema(
    {
        "segment": pa.string(), "confidence": pa.float64(), "time": pa.string(), "reliability": pa.float64(),
        "relations": pa.list_(_RELATION), "sources": pa.list_(_SOURCE),
    }
)  # fmt: skip
TERMS = pa.schema({"word": pa.string()})
MERGES = pa.schema({"first": pa.string(), "second": pa.string(), "alias": pa.string()})
DECISIONS = pa.schema({"first": pa.string(), "second": pa.string(), "verdict": pa.string()})


def documents_table(documents: Sequence[Document]) -> pa.Table:
    rows = [
        {
            "id": d.id,
            "title": d.title,
            "source": d.source,
            "metadata": json.dumps(dict(d.metadata), default=str),
            "text": d.text,
        }
        for d in documents
    ]
    return pa.Table.from_pylist(rows, DOCUMENTS)


def chunks_table(chunks: Sequence[Chunk], documents: Sequence[Document]) -> pa.Table:
    number = {document.id: place for place, document in enumerate(documents)}
    rows = [
        {
            "id": c.id,
            "document": number[c.doc_id],
            "order": c.order,
            "start": c.start,
            "end": c.end,
        }
        for c in chunks
    ]
    return pa.Table.from_pylist(rows, CHUNKS)


def documents_of(table: pa.Table) -> list[Document]:
    return [Document(**{**row, "metadata": json.loads(row["metadata"])}) for row in table.to_pylist()]


def chunks_of(table: pa.Table, documents: Sequence[Document]) -> list[Chunk]:
    chunks = []
    for row in table.to_pylist():
        document, place = documents[row.pop("document")], (row["start"], row["end"])
        chunks.append(Chunk(**row, doc_id=document.id, text=document.text[slice(*place)], title=document.title))
    return chunks


def entities_table(entities: Sequence[Entity]) -> pa.Table:
    return pa.Table.from_pylist([vars(entity) for entity in entities], ENTITIES)


def entity_texts(table: pa.Table) -> list[str]:
    """What of each entity is embedded."""
    return [representation(Entity(**{**row, "aliases": tuple(row["aliases"])})) for row in table.to_pylist()]


def hyperedges_table(hyperedges: Sequence[Hyperedge]) -> pa.Table:
    rows = [
        {
            "segment": edge.segment, "confidence": edge.confidence, "time": edge.time, "reliability": edge.reliability,
            "relations": [vars(relation) for relation in edge.relations], "sources": [vars(s) for s in edge.sources],
        }
        for edge in hyperedges
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, HYPEREDGES)


def mean_relation_confidences(hyperedges: pa.Table) -> np.ndarray:
    """Of each hyperedge [E] float64, 0 for one without relations."""
    relations = hyperedges.column("relations").combine_chunks()
    confidence = relations.flatten().field("confidence").to_numpy()
    count = pc.list_value_length(relations).to_numpy(zero_copy_only=False)
    edge = np.repeat(np.arange(len(count)), count)
    means: np.ndarray = np.bincount(edge, weights=confidence, minlength=len(count)) / np.maximum(count, 1)
    return means


def merges_table(merges: Sequence[AliasMerge]) -> pa.Table:
    return pa.Table.from_pylist([vars(merge) for merge in merges], MERGES)


def merges_of(table: pa.Table) -> list[AliasMerge]:
    return [AliasMerge(**row) for row in table.to_pylist()]


def decisions_table(decisions: Iterable[Decision]) -> pa.Table:
    return pa.Table.from_pylist([vars(one) for one in sorted(set(decisions))], DECISIONS)


def decisions_of(table: pa.Table) -> tuple[Decision, ...]:
    return tuple(Decision(**row) for row in table.to_pylist())


def relations_of(row: dict[str, Any]) -> tuple[Relation, ...]:
    return tuple(Relation(**relation) for relation in row["relations"])


def sources_of(row: dict[str, Any]) -> tuple[Source, ...]:
    return tuple(Source(**source) for source in row["sources"])
