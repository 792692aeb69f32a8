"""The JSON of an extraction → entities and hyperedges (SPEC.md, 1.2), repaired where that is safe.

Pure functions. Knows neither models nor files. What it repaired or dropped, it notes as "kind: detail".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from hyce_gpu.extract.confidence import to_confidence
from hyce_gpu.extract.passage import Passage, is_named
from hyce_gpu.extract.reply import (
    HEAD,
    MEMBERS,
    NAME,
    PREDICATE,
    SEGMENT,
    TAIL,
    ParseError,
    as_list,
    decode_reply,
    first,
    is_triple,
    relation_list,
    sections,
)
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import Chunk, ExtractedEntity, ExtractedHyperedge, Relation

__all__ = ["ParseError", "Parsed", "decode_reply", "join", "parse_extraction"]

# What stands in for a confidence that was given but cannot be read.
_REFUSED_CONFIDENCE = 0.5
_NOTE_CHARACTERS = 80
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


@dataclass(frozen=True)
class Parsed:
    entities: tuple[ExtractedEntity, ...]
    hyperedges: tuple[ExtractedHyperedge, ...]
    # What was repaired or dropped, each "kind: detail"; the kinds of dropped things begin with "dropped".
    notes: list[str]


def parse_extraction(value: object, chunk: Chunk, grounded: bool = True) -> Parsed:
    """Entities and hyperedges of a decoded JSON value.

    `grounded`: drop entities that neither the chunk's text nor its title holds. A segment that stands in the text
    comes back as the text has it, with its offsets; any other one has the chunk's.

    Raises:
        ParseError: the value has none of the known shapes.
    """
    entities, hyperedges, relations = sections(value)
    reader = _Reader(chunk, grounded)
    for raw in entities:
        reader.entity(raw)
    reader.ignore_shared_aliases()
    read = [edge for edge in map(reader.hyperedge, hyperedges) if edge is not None]
    read = reader.with_loose_relations(read, relations)
    return Parsed(tuple(reader.entities.values()), tuple(read), reader.notes)


def join(parts: Sequence[Parsed]) -> Parsed:
    """The parts of one chunk as one: an entity that several name keeps its first spelling everywhere."""
    if len(parts) == 1:
        return parts[0]
    entities: dict[str, ExtractedEntity] = {}
    for entity in (entity for part in parts for entity in part.entities):
        _add(entities, entity)
    spelling = {key: entity.name for key, entity in entities.items()}
    hyperedges = (_respelled(edge, spelling) for part in parts for edge in part.hyperedges)
    return Parsed(tuple(entities.values()), tuple(hyperedges), [note for part in parts for note in part.notes])


def _plain(value: object) -> str:
    """A string or a number as one clean line; "" for anything else."""
    if value is None:
        return ""
    if not isinstance(value, str):
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not abs(value) < 1e15:
            return ""
        value = str(value)
    line = " ".join(value.split())
    return line if line.isprintable() else " ".join(_INVISIBLE.sub("", line).split())


def _shown(value: object) -> str:
    if isinstance(value, dict):
        value = first(value, (*NAME, *SEGMENT))
    return ", ".join(map(_plain, value)) if isinstance(value, list) else _plain(value) or type(value).__name__


def _short(text: str) -> str:
    return text if len(text) <= _NOTE_CHARACTERS else text[: _NOTE_CHARACTERS - 1] + "…"


class _Reader:
    """Collects the entities of one chunk, by canonical name, while it reads what refers to them."""

    def __init__(self, chunk: Chunk, grounded: bool) -> None:
        self.entities: dict[str, ExtractedEntity] = {}
        self.notes: list[str] = []
        # Canonical alias → canonical names of the entities that have it.
        self._owners: dict[str, set[str]] = {}
        self._chunk = chunk
        self._passage = Passage(chunk)
        self._grounded = grounded

    def entity(self, raw: object) -> str:
        """Adds an entity, or unites it with the one of its canonical name; returns that name, or "" if dropped."""
        details = raw if isinstance(raw, dict) else {NAME[0]: raw}
        name, aliases = _plain(first(details, NAME)), [_plain(one) for one in as_list(details.get("aliases"))]
        names = [held for held in (name, *aliases) if canonical_name(held) and self._may_stand(held)]
        if not canonical_name(name) or not names:
            self._note(f"dropped entity {'that the passage does not hold' if name else 'without a name'}", raw)
            return ""
        for alias in {alias: None for alias in aliases if alias and alias not in names}:
            self._note("dropped alias that the passage does not hold", alias)
        if names[0] != name:
            self._note("named an entity by its alias, since the passage does not hold its name", name)
        kind, role, description = (
            _plain(details.get("type")),
            _plain(details.get("role")),
            _plain(details.get("description")),
        )
        entity = ExtractedEntity(names[0], kind, role, tuple(names[1:]), description, self._confidence(details))
        key = _add(self.entities, entity)
        for alias in names[1:]:
            self._owners.setdefault(canonical_name(alias), set()).add(key)
        return key

    def ignore_shared_aliases(self) -> None:
        """Takes off aliases that name another entity: they would make two entities one."""
        for key, entity in self.entities.items():
            others = [alias for alias in entity.aliases if canonical_name(alias) in self.entities]
            if not others:
                continue
            for alias in others:
                self._note("ignored an alias that names another entity", alias)
            self.entities[key] = replace(entity, aliases=tuple(one for one in entity.aliases if one not in others))

    def _may_stand(self, name: str) -> bool:
        return not self._grounded or self._passage.holds(name)

    def hyperedge(self, raw: object) -> ExtractedHyperedge | None:
        if not isinstance(raw, dict):
            self._note("dropped hyperedge of no known shape", raw)
            return None
        relations = self._relations(relation_list(raw) or ([raw] if first(raw, HEAD) is not None else []))
        ends = [end for relation in relations for end in (relation.head, relation.tail)]
        members = self._members(as_list(first(raw, MEMBERS)) or ends)
        if len(members) < 2:
            self._note("dropped hyperedge with fewer than two entities", first(raw, SEGMENT))
            return None
        names = tuple(self.entities[member].name for member in members)
        place = self._segment(raw, names)
        if place is None:
            self._note("dropped hyperedge whose segment is not the passage's and names none of its entities", raw)
            return None
        time, reliability, confidence = _plain(raw.get("time")), self._reliability(raw), self._confidence(raw)
        own = self._own_relations(relations, members)
        segment, start, end = place
        return ExtractedHyperedge(segment, names, start, end, confidence, time, reliability, own)

    def _segment(self, raw: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, int, int] | None:
        given = first(raw, SEGMENT)
        words = _plain(given)
        run = self._passage.find(str(given), raw.get("start")) if words else self._passage.shortest_run(names)
        if run:
            return self._passage.at(run)
        # Small models repeat the prompt's example with this passage's entities; other words for a fact name them.
        is_made_up = self._grounded and not any(is_named(name, words) for name in names)
        return None if is_made_up else (words, self._chunk.start, self._chunk.end)

    def _reliability(self, raw: Mapping[str, Any]) -> float | None:
        given = raw.get("reliability")
        reliability = to_confidence(given)
        if reliability is None and given not in (None, ""):
            self._note("ignored a reliability that is none", given)
        return reliability

    def with_loose_relations(self, edges: list[ExtractedHyperedge], raw: list[Any]) -> list[ExtractedHyperedge]:
        """Puts relations outside of hyperedges into the first that holds both ends, else into new ones."""
        loose: dict[tuple[int, int], list[Relation]] = {}
        for relation in self._relations(raw):
            ends = self._members([relation.head, relation.tail])
            for own in self._own_relations([relation], ends):
                home = next((at for at, edge in enumerate(edges) if {own.head, own.tail} <= set(edge.entities)), None)
                if home is None:
                    loose.setdefault(self._passage.shortest_run((own.head, own.tail)), []).append(own)
                else:
                    edges[home] = replace(edges[home], relations=(*edges[home].relations, own))
        return edges + [self._hyperedge_of(run, relations) for run, relations in loose.items()]

    def _hyperedge_of(self, run: tuple[int, int], relations: list[Relation]) -> ExtractedHyperedge:
        names = tuple(dict.fromkeys(end for relation in relations for end in (relation.head, relation.tail)))
        segment, start, end = self._passage.at(run)
        confidence = fmean(relation.confidence for relation in relations)
        return ExtractedHyperedge(segment, names, start, end, confidence, relations=tuple(relations))

    def _members(self, raw: list[Any]) -> list[str]:
        """Canonical names of the members, each once; those that are no entity yet become one."""
        return list(dict.fromkeys(filter(None, (self._known(member) or self.entity(member) for member in raw))))

    def _known(self, raw: object) -> str:
        """The canonical name of the entity that is meant, by its name or by an alias of its own; "" if none is."""
        key = canonical_name(_plain(first(raw, NAME) if isinstance(raw, dict) else raw))
        if key in self.entities:
            return key
        owners = self._owners.get(key, ())
        return "".join(owners) if len(owners) == 1 else ""

    def _relations(self, raw: list[Any]) -> list[Relation]:
        """As they are spelled, their ends not yet looked up."""
        relations = []
        for item in raw:
            fields = dict(zip(("head", "predicate", "tail"), item, strict=True)) if is_triple(item) else item
            known = fields if isinstance(fields, dict) else {}
            parts = [_plain(first(known, keys)) for keys in (HEAD, PREDICATE, TAIL)]
            if all(parts):
                relations.append(Relation(parts[0], parts[1], parts[2], self._confidence(known)))
            else:
                self._note("dropped relation without head, predicate or tail", item)
        return relations

    def _own_relations(self, relations: list[Relation], members: list[str]) -> tuple[Relation, ...]:
        own: dict[tuple[str, str, str], Relation] = {}
        for relation in relations:
            head, tail = self._known(relation.head), self._known(relation.tail)
            if head not in members or tail not in members or head == tail:
                self._note("dropped relation that joins no two of its entities", f"{relation.head}, {relation.tail}")
                continue
            ends, predicate = (self.entities[head].name, self.entities[tail].name), relation.predicate
            own.setdefault((head, predicate, tail), Relation(ends[0], predicate, ends[1], relation.confidence))
        return tuple(own.values())

    def _confidence(self, details: Mapping[str, Any]) -> float:
        given = first(details, ("confidence", "score"))
        confidence = 1.0 if given is None else to_confidence(given)
        if confidence is None:
            self._note("replaced a confidence that is none", given)
        return _REFUSED_CONFIDENCE if confidence is None else confidence

    def _note(self, kind: str, what: object) -> None:
        self.notes.append(f"{kind}: {_short(_shown(what))}")


def _add(entities: dict[str, ExtractedEntity], entity: ExtractedEntity) -> str:
    key = canonical_name(entity.name)
    entities[key] = _united(entities.get(key), entity)
    return key


def _united(first: ExtractedEntity | None, other: ExtractedEntity) -> ExtractedEntity:
    if first is None:
        # Most names come once; of those with aliases each spelling is kept once.
        if not other.aliases:
            return other
        first = other
    named = {canonical_name(first.name): first.name}
    for alias in (*first.aliases, other.name, *other.aliases):
        named.setdefault(canonical_name(alias), alias)
    return replace(
        first,
        type=first.type or other.type,
        role=first.role or other.role,
        description=first.description or other.description,
        aliases=tuple(named.values())[1:],
        confidence=max(first.confidence, other.confidence),
    )


def _respelled(edge: ExtractedHyperedge, spelling: Mapping[str, str]) -> ExtractedHyperedge:
    def spelled(name: str) -> str:
        return spelling[canonical_name(name)]

    relations = tuple(replace(item, head=spelled(item.head), tail=spelled(item.tail)) for item in edge.relations)
    return replace(edge, entities=tuple(map(spelled, edge.entities)), relations=relations)
