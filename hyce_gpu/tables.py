"""Nouns ↔ Arrow tables: documents, chunks, entities, hyperedges, merges and decisions as columns."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyce_gpu.decisions import Decision
from hyce_gpu.drafts import AliasMerge, Draft
from hyce_gpu.merge import Entity, Hyperedge, representation
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
_COUNT = pa.struct({"value": pa.string(), "count": pa.int64()})
_ALIAS = pa.struct({"key": pa.string(), "spelling": pa.string()})
NAMES = pa.schema(
    {
        "key": pa.string(), "entity": pa.int64(), "spellings": pa.list_(_COUNT), "types": pa.list_(_COUNT),
        "role": pa.string(), "description": pa.string(), "aliases": pa.list_(_ALIAS), "confidence": pa.float64(),
    }
)  # fmt: skip
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


def chunks_table(chunks: Sequence[Chunk], documents: Sequence[Document], first: int = 0) -> pa.Table:
    """`first`: the number of the first of the documents."""
    number = {document.id: place for place, document in enumerate(documents, first)}
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
    return [representation(entity_of(row)) for row in table.to_pylist()]


def hyperedges_table(hyperedges: Sequence[Hyperedge]) -> pa.Table:
    rows = [
        {
            "segment": edge.segment, "confidence": edge.confidence, "time": edge.time, "reliability": edge.reliability,
            "relations": [vars(relation) for relation in edge.relations], "sources": [vars(s) for s in edge.sources],
        }
        for edge in hyperedges
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, HYPEREDGES)


def with_bare_rows(hyperedges: pa.Table, passage: np.ndarray, chunks: pa.Table, documents: pa.Table) -> pa.Table:
    """Stores before format 4 had no rows for chunks without hyperedges, which came last: here they are."""
    bare = chunks.take(pa.array(passage[len(hyperedges) :]))
    names = documents.column("id").take(bare.column("document")).to_pylist()
    places = zip(names, *(bare.column(name).to_pylist() for name in ("id", "start", "end")), strict=True)
    rows = [Hyperedge("", (), 0.0, "", None, (), (Source(*place),)) for place in places]
    return pa.concat_tables([hyperedges, hyperedges_table(rows)])


def hyperedge_of(row: Mapping[str, Any], members: tuple[int, ...]) -> Hyperedge:
    return Hyperedge(members=members, **{**row, "relations": relations_of(row), "sources": sources_of(row)})


def mean_relation_confidences(hyperedges: pa.Table) -> np.ndarray:
    """Of each hyperedge [E] float64, 0 for one without relations."""
    relations = hyperedges.column("relations").combine_chunks()
    confidence = relations.flatten().field("confidence").to_numpy()
    count = pc.list_value_length(relations).to_numpy(zero_copy_only=False)
    edge = np.repeat(np.arange(len(count)), count)
    means: np.ndarray = np.bincount(edge, weights=confidence, minlength=len(count)) / np.maximum(count, 1)
    return means


def names_table(rows: Sequence[tuple[str, Draft, int]]) -> pa.Table:
    """Canonical names, what was said of each, and its entity."""
    said = [draft for _, draft, _ in rows]
    columns = {
        "key": [key for key, _, _ in rows], "entity": [entity for _, _, entity in rows],
        "spellings": _lists([one.names for one in said], _COUNT), "types": _lists([one.types for one in said], _COUNT),
        "role": [one.role for one in said], "description": [one.description for one in said],
        "aliases": _lists([one.aliases for one in said], _ALIAS), "confidence": [one.confidence for one in said],
    }  # fmt: skip
    return pa.table(columns, NAMES)


def _lists(rows: Sequence[Mapping[str, Any]], kind: pa.StructType) -> pa.ListArray:
    """Items of mappings as lists of structs; a million rows of Python dictionaries would take minutes."""
    pairs = [item for row in rows for item in row.items()]
    columns = [pa.array([pair[place] for pair in pairs], kind.field(place).type) for place in (0, 1)]
    offsets = pa.array(np.cumsum([0, *map(len, rows)], dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(kind)), pa.list_(kind))


def draft_of(row: Mapping[str, Any]) -> Draft:
    """What a row of the table of names says."""
    names, types = (Counter({one["value"]: one["count"] for one in row[name]}) for name in ("spellings", "types"))
    aliases = {one["key"]: one["spelling"] for one in row["aliases"]}
    return Draft(names, types, row["role"], row["description"], aliases, row["confidence"])


def entity_of(row: Mapping[str, Any]) -> Entity:
    return Entity(**{**row, "aliases": tuple(row["aliases"])})


def merges_table(merges: Iterable[AliasMerge]) -> pa.Table:
    """In the order of the names, whichever documents brought them."""
    return in_order(pa.Table.from_pylist([vars(merge) for merge in merges], MERGES))


def in_order(table: pa.Table) -> pa.Table:
    """Sorted by all columns of texts, from the first."""
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def count_alias_merges(merges: pa.Table) -> int:
    """Those that no decision made."""
    return pc.sum(pc.not_equal(merges.column("alias"), "")).as_py() or 0


def merges_of(table: pa.Table) -> list[AliasMerge]:
    return [AliasMerge(**row) for row in table.to_pylist()]


def decisions_table(decisions: Iterable[Decision]) -> pa.Table:
    return pa.Table.from_pylist([vars(one) for one in sorted(set(decisions))], DECISIONS)


def decisions_of(table: pa.Table) -> tuple[Decision, ...]:
    return tuple(Decision(**row) for row in table.to_pylist())


def relations_of(row: Mapping[str, Any]) -> tuple[Relation, ...]:
    return tuple(Relation(**relation) for relation in row["relations"])


def sources_of(row: Mapping[str, Any]) -> tuple[Source, ...]:
    return tuple(Source(**source) for source in row["sources"])
