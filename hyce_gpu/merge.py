"""Extraction records → one corpus-wide hypergraph of named entities (SPEC.md, 1.3). Pure: no vectors, no files.

Confidences are never added up: what is merged keeps the highest.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hyce_gpu.decisions import Decision, Verdicts
from hyce_gpu.drafts import AliasMerge, Draft, collect, join, most_common
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import ExtractedHyperedge, ExtractionRecord, Relation, Source


@dataclass(frozen=True)
class Entity:
    name: str
    canonical: str
    type: str
    role: str
    aliases: tuple[str, ...]
    description: str
    confidence: float


def representation(entity: Entity) -> str:
    """r(v): name, aliases, type and description as one text (equation 6)."""
    names = ", ".join((entity.name, *entity.aliases))
    return "; ".join(part for part in (names, entity.type, entity.description) if part)


@dataclass(frozen=True)
class Hyperedge:
    segment: str
    # Entity ids, distinct, ascending.
    members: tuple[int, ...]
    confidence: float
    time: str
    reliability: float | None
    relations: tuple[Relation, ...]
    sources: tuple[Source, ...]


# What hyperedges that are one agree in: the normalised segment and the members.
HyperedgeKey = tuple[str, tuple[int, ...]]


def key_of(edge: Hyperedge) -> HyperedgeKey:
    return " ".join(unicodedata.normalize("NFKC", edge.segment).casefold().split()), edge.members


@dataclass(frozen=True)
class Merged:
    entities: tuple[Entity, ...]
    hyperedges: tuple[Hyperedge, ...]
    merges: tuple[AliasMerge, ...]
    # Hyperedges that were left with fewer than two entities, and so are not part of the hypergraph.
    too_small: int
    # What was said of each canonical name, and the entity that it became: what more records come on top of.
    drafts: Mapping[str, Draft] = field(default_factory=dict, repr=False, compare=False)
    ids: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)


def merge(records: Iterable[ExtractionRecord], decisions: Iterable[Decision] = ()) -> Merged:
    """Gives local records global ids, in the order of their first appearance.

    Args:
        decisions: beat types and aliases; in any order. What they say of names that no record has changes nothing.

    Raises:
        InputError: the decisions contradict each other.
    """
    records = list(records)
    drafts: dict[str, Draft] = {}
    collect(records, drafts)
    merges, owner = join(drafts, Verdicts(decisions))
    entities = tuple(entities_of(drafts, owner).values())
    place = {entity.canonical: number for number, entity in enumerate(entities)}
    ids = {key: place[owner[key]] for key in drafts}
    hyperedges: dict[HyperedgeKey, Hyperedge] = {}
    too_small = merge_hyperedges(records, ids, [entity.name for entity in entities], hyperedges)
    return Merged(entities, tuple(hyperedges.values()), tuple(merges), too_small, drafts, ids)


def entities_of(drafts: Mapping[str, Draft], owner: Mapping[str, str]) -> dict[str, Entity]:
    """The entity of each owner, in the drafts' order."""
    absorbed: dict[str, list[Draft]] = {}
    for key, draft in drafts.items():
        if owner[key] != key:
            absorbed.setdefault(owner[key], []).append(draft)
    kept = (key for key in drafts if owner[key] == key)
    return {key: _entity(key, drafts[key].with_all(absorbed[key]) if key in absorbed else drafts[key]) for key in kept}


def _entity(key: str, draft: Draft) -> Entity:
    aliases = tuple(name for alias, name in draft.aliases.items() if alias != key)
    name = most_common(draft.names)
    return Entity(name, key, draft.known_type(), draft.role, aliases, draft.description, draft.confidence)


def merge_hyperedges(
    records: Iterable[ExtractionRecord],
    ids: Mapping[str, int],
    names: Sequence[str] | Mapping[int, str],
    merged: dict[HyperedgeKey, Hyperedge],
) -> int:
    """Puts the records' hyperedges into `merged`: one for each key, which keeps all its sources.

    Args:
        ids: the entity of each canonical name.
        names: of each entity, as it is shown.

    Returns:
        How many were left out, with fewer than two entities.
    """
    too_small = 0
    for record in records:
        for found in record.hyperedges:
            members = tuple(sorted({ids[name] for name in map(canonical_name, found.entities) if name in ids}))
            if len(members) < 2:
                too_small += 1
                continue
            edge = _hyperedge(record, found, members, ids, names)
            key = key_of(edge)
            merged[key] = _united(merged[key], edge) if key in merged else edge
    return too_small


def _hyperedge(
    record: ExtractionRecord,
    found: ExtractedHyperedge,
    members: tuple[int, ...],
    ids: Mapping[str, int],
    names: Sequence[str] | Mapping[int, str],
) -> Hyperedge:
    def name(spelled: str) -> str:
        return names[ids[canonical_name(spelled)]]

    known = (r for r in found.relations if canonical_name(r.head) in ids and canonical_name(r.tail) in ids)
    relations = tuple(replace(r, head=name(r.head), tail=name(r.tail)) for r in known)
    source = Source(record.doc_id, record.chunk_id, found.start, found.end)
    return Hyperedge(found.segment, members, found.confidence, found.time, found.reliability, relations, (source,))


def _united(first: Hyperedge, second: Hyperedge) -> Hyperedge:
    relations: dict[tuple[str, str, str], Relation] = {}
    for relation in (*first.relations, *second.relations):
        key = (relation.head, relation.predicate, relation.tail)
        best = max(relation.confidence, relations[key].confidence) if key in relations else relation.confidence
        relations[key] = replace(relation, confidence=best)
    known = [value for value in (first.reliability, second.reliability) if value is not None]
    return Hyperedge(
        first.segment,
        first.members,
        max(first.confidence, second.confidence),
        first.time or second.time,
        max(known, default=None),
        tuple(relations.values()),
        tuple(dict.fromkeys((*first.sources, *second.sources))),
    )
