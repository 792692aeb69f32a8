"""Extraction records → one corpus-wide hypergraph of named entities (SPEC.md, 1.3). Pure: no vectors, no files.

Confidences are never added up: what is merged keeps the highest.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from hyce_gpu.decisions import Decision, Verdicts
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


@dataclass(frozen=True)
class AliasMerge:
    """Two canonical names that became one entity. Undone by deciding that they are apart."""

    first: str
    second: str
    # What joined them; "" where that was a decision.
    alias: str


@dataclass(frozen=True)
class Merged:
    entities: tuple[Entity, ...]
    hyperedges: tuple[Hyperedge, ...]
    merges: tuple[AliasMerge, ...]
    # Hyperedges that were left with fewer than two entities, and so are not part of the hypergraph.
    too_small: int


def merge(records: Iterable[ExtractionRecord], decisions: Iterable[Decision] = ()) -> Merged:
    """Gives local records global ids, in the order of their first appearance.

    Args:
        decisions: beat types and aliases; in any order. What they say of names that no record has changes nothing.

    Raises:
        InputError: the decisions contradict each other.
    """
    records = list(records)
    drafts = _collect(records)
    clusters = _Clusters(drafts, Verdicts(decisions))
    merges = (*clusters.join_decided(), *_join_aliases(drafts, clusters))
    owner = clusters.owner()
    ids, entities = _entities(drafts, owner)
    hyperedges, too_small = _hyperedges(records, ids, entities)
    return Merged(entities, hyperedges, merges, too_small)


@dataclass
class _Draft:
    """All that was said of one canonical name."""

    names: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    role: str = ""
    description: str = ""
    aliases: dict[str, str] = field(default_factory=dict)
    confidence: float = 0.0

    def known_type(self) -> str:
        return _most_common(self.types)

    def absorb(self, other: _Draft) -> None:
        self.types += other.types
        self.role = self.role or other.role
        self.description = self.description or other.description
        self.confidence = max(self.confidence, other.confidence)
        for name in (*other.names, *other.aliases.values()):
            self.aliases.setdefault(canonical_name(name), name)


def _most_common(counts: Counter[str]) -> str:
    # The first seen wins a tie: a Counter keeps the order of insertion.
    return max(counts, key=lambda item: counts[item]) if counts else ""


def _collect(records: Sequence[ExtractionRecord]) -> dict[str, _Draft]:
    drafts: dict[str, _Draft] = {}
    for record in records:
        for entity in record.entities:
            key = canonical_name(entity.name)
            if not key:
                continue
            draft = drafts.setdefault(key, _Draft())
            draft.names[entity.name] += 1
            if entity.type:
                draft.types[entity.type.strip().casefold()] += 1
            draft.role = draft.role or entity.role
            draft.description = draft.description or entity.description
            draft.confidence = max(draft.confidence, entity.confidence)
            for alias in entity.aliases:
                if canonical_name(alias) not in ("", key):
                    draft.aliases.setdefault(canonical_name(alias), alias)
        for name in (name for edge in record.hyperedges for name in edge.entities):
            if canonical_name(name) and canonical_name(name) not in drafts:
                drafts[canonical_name(name)] = _Draft(names=Counter([name]), confidence=1.0)
    return drafts


def _join_aliases(drafts: dict[str, _Draft], clusters: _Clusters) -> list[AliasMerge]:
    claims: dict[str, list[str]] = {}
    for key, draft in drafts.items():
        for alias in draft.aliases:
            claims.setdefault(alias, []).append(key)
    merges = []
    for alias, claimants in claims.items():
        # A name that is an entity's own may stand for that entity, but never joins two others through it.
        if alias in drafts and len(claimants) > 1:
            continue
        first, *rest = [alias, *claimants] if alias in drafts else claimants
        merges += [AliasMerge(first, other, alias) for other in rest if clusters.join(first, other)]
    return merges


class _Clusters:
    """Canonical names that stand for one entity; only decisions join types that differ, and none is kept apart."""

    def __init__(self, drafts: dict[str, _Draft], verdicts: Verdicts) -> None:
        self._of = {key: [key] for key in drafts}
        self._drafts = drafts
        self._verdicts = verdicts

    def join_decided(self) -> list[AliasMerge]:
        classes: dict[str, list[str]] = {}
        for key in self._drafts:
            classes.setdefault(self._verdicts.class_of(key), []).append(key)
        merges = []
        for first, *rest in classes.values():
            for other in rest:
                self._unite(self._of[first], self._of[other])
                merges.append(AliasMerge(first, other, ""))
        return merges

    def join(self, first: str, second: str) -> bool:
        left, right = self._of[first], self._of[second]
        if left is right:
            return False
        # A cluster that a decision made may have several types: one of them is enough.
        types, others = self._types(left), self._types(right)
        if (types and others and types.isdisjoint(others)) or self._verdicts.are_apart(left, right):
            return False
        self._unite(left, right)
        return True

    def _unite(self, left: list[str], right: list[str]) -> None:
        left += right
        for key in right:
            self._of[key] = left

    def _types(self, cluster: Sequence[str]) -> set[str]:
        return {kind for key in cluster if (kind := self._drafts[key].known_type())}

    def owner(self) -> dict[str, str]:
        """The name that was met most often stands for its cluster; the first seen where that ties."""
        place = {key: number for number, key in enumerate(self._drafts)}
        best = {
            id(cluster): min(cluster, key=lambda key: (-self._drafts[key].names.total(), place[key]))
            for cluster in self._of.values()
        }
        return {key: best[id(cluster)] for key, cluster in self._of.items()}


def _entities(drafts: dict[str, _Draft], owner: dict[str, str]) -> tuple[dict[str, int], tuple[Entity, ...]]:
    for key, draft in drafts.items():
        if owner[key] != key:
            drafts[owner[key]].absorb(draft)
    kept = [key for key in drafts if owner[key] == key]
    ids = {key: number for number, key in enumerate(kept)}
    entities = tuple(_entity(key, drafts[key]) for key in kept)
    return {key: ids[owner[key]] for key in drafts}, entities


def _entity(key: str, draft: _Draft) -> Entity:
    aliases = tuple(name for alias, name in draft.aliases.items() if alias != key)
    name = _most_common(draft.names)
    return Entity(name, key, draft.known_type(), draft.role, aliases, draft.description, draft.confidence)


def _hyperedges(
    records: Sequence[ExtractionRecord], ids: dict[str, int], entities: Sequence[Entity]
) -> tuple[tuple[Hyperedge, ...], int]:
    """One hyperedge for each normalised segment and entity set; it keeps all its sources."""
    merged: dict[tuple[str, tuple[int, ...]], Hyperedge] = {}
    too_small = 0
    for record in records:
        for found in record.hyperedges:
            members = tuple(sorted({ids[key] for name in found.entities if (key := canonical_name(name)) in ids}))
            if len(members) < 2:
                too_small += 1
                continue
            edge = _hyperedge(record, found, members, ids, entities)
            same = (_normalised(found.segment), members)
            merged[same] = _united(merged[same], edge) if same in merged else edge
    return tuple(merged.values()), too_small


def _hyperedge(
    record: ExtractionRecord,
    found: ExtractedHyperedge,
    members: tuple[int, ...],
    ids: dict[str, int],
    entities: Sequence[Entity],
) -> Hyperedge:
    def name(spelled: str) -> str:
        return entities[ids[canonical_name(spelled)]].name

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


def _normalised(segment: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", segment).casefold().split())
