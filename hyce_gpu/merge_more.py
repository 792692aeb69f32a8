"""Records of further documents, merged into a hypergraph that is there: only what shares a name with them is looked at.

The result is what `merge` makes of all records in that order. Where it would regroup names that are entities already,
there is none: all is merged anew then. Knows the hypergraph through `Before`, not where it lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from hyce_gpu.decisions import Decision, Verdicts
from hyce_gpu.drafts import AliasMerge, Draft, collect, join
from hyce_gpu.merge import Entity, Hyperedge, HyperedgeKey, entities_of, key_of, merge_hyperedges
from hyce_gpu.schema import ExtractionRecord, Relation


@dataclass(frozen=True)
class KnownName:
    # Its place among all canonical names, in the order of first appearance.
    place: int
    entity: int
    draft: Draft


class Before(Protocol):
    """What was merged before, by lookups whose cost is that of what is found."""

    num_names: int
    num_entities: int

    def names(self, keys: Collection[str]) -> dict[str, KnownName]:
        """Those of the canonical names that are known."""

    def claiming(self, aliases: Collection[str]) -> dict[str, KnownName]:
        """The canonical names that have one of these, canonical as well, as an alias."""

    def entities(self, ids: Collection[int]) -> dict[int, Entity]: ...

    def hyperedges_of(self, members: Collection[tuple[int, ...]]) -> dict[int, Hyperedge]:
        """By row, the hyperedges with exactly one of these member sets."""

    def hyperedges_naming(self, names: Collection[str]) -> dict[int, Hyperedge]:
        """By row, the hyperedges with a relation that begins or ends at one of these names."""


@dataclass(frozen=True)
class More:
    """What comes on top: names and entities by numbers, which go on where those that were there end."""

    # By place among the canonical names.
    names: Mapping[int, tuple[str, Draft, int]]
    entities: Mapping[int, Entity]
    # Those that are new, in the order in which they are first met; and by row those that are others now.
    hyperedges: Sequence[Hyperedge]
    changed: Mapping[int, Hyperedge]
    # All that joined any of these names.
    merges: Sequence[AliasMerge]
    too_small: int


def merge_more(records: Sequence[ExtractionRecord], decisions: Iterable[Decision], before: Before) -> More | None:
    """Args:
        records: of documents that come behind those that are there.
        decisions: all of them, as `before` was made with.

    Returns:
        None where names that are entities would be regrouped, or an entity would be called by another name.
    """
    verdicts = Verdicts(decisions)
    known = _component(records, verdicts, before)
    drafts = {key: one.draft for key, one in known.items()}
    collect(records, drafts)
    merges, owner = join(drafts, verdicts)
    entities = entities_of(drafts, owner)
    old = before.entities({one.entity for one in known.values()})
    of_owner = _entity_of_owner(owner, known, old, before.num_entities)
    if of_owner is None:
        return None
    by_id = {of_owner[key]: entity for key, entity in entities.items()}
    ids = {key: of_owner[owner[key]] for key in drafts}
    hyperedges, changed, too_small = _hyperedges(records, ids, by_id, old, before)
    places = {key: before.num_names + at for at, key in enumerate(key for key in drafts if key not in known)}
    places |= {key: one.place for key, one in known.items()}
    return More(
        {places[key]: (key, draft, ids[key]) for key, draft in drafts.items()},
        {number: entity for number, entity in by_id.items() if old.get(number) != entity},
        hyperedges, changed, merges, too_small,
    )  # fmt: skip


def _component(records: Sequence[ExtractionRecord], verdicts: Verdicts, before: Before) -> dict[str, KnownName]:
    """The known names that the records' names may become one with, over any number of aliases, in their order."""
    fresh: dict[str, Draft] = {}
    collect(records, fresh)
    found: dict[str, KnownName] = {}
    reached: set[str] = set()
    waiting = {name for key, draft in fresh.items() for name in (key, *draft.aliases)}
    while waiting:
        waiting = {other for name in waiting for other in verdicts.same_as(name)} - reached
        reached |= waiting
        met = {**before.names(waiting), **before.claiming(waiting)}
        found |= met
        waiting = {name for key, one in met.items() for name in (key, *one.draft.aliases)} - reached
    return dict(sorted(found.items(), key=lambda item: item[1].place))


def _entity_of_owner(
    owner: Mapping[str, str], known: Mapping[str, KnownName], old: Mapping[int, Entity], count: int
) -> dict[str, int] | None:
    """The entity of each owner; None where one that was there is not what it was."""
    found: dict[str, int] = {}
    for key, one in known.items():
        # Whoever owns one of its names must own all of them, nothing else, and have owned them before.
        if found.setdefault(owner[key], one.entity) != one.entity or old[one.entity].canonical != owner[key]:
            return None
    for key in (key for key in owner if owner[key] == key and key not in found):
        found[key] = count
        count += 1
    return found


def _hyperedges(
    records: Sequence[ExtractionRecord],
    ids: Mapping[str, int],
    entities: Mapping[int, Entity],
    old: Mapping[int, Entity],
    before: Before,
) -> tuple[list[Hyperedge], dict[int, Hyperedge], int]:
    names = {number: entity.name for number, entity in entities.items()}
    own: dict[HyperedgeKey, Hyperedge] = {}
    too_small = merge_hyperedges(records, ids, names, own)
    renamed = {entity.name: names[number] for number, entity in old.items() if names[number] != entity.name}
    changed = before.hyperedges_naming(renamed) if renamed else {}
    there = before.hyperedges_of({members for _, members in own}) | changed
    rows = {number: _with_names(edge, renamed) for number, edge in there.items()}
    number_of = {key_of(edge): number for number, edge in rows.items()}
    merged = {key: rows[number] for key, number in number_of.items()}
    merge_hyperedges(records, ids, names, merged)
    fresh = [edge for key, edge in merged.items() if key not in number_of]
    changed = {row: merged[key] for key, row in number_of.items() if merged[key] != there[row]}
    return fresh, changed, too_small


def _with_names(edge: Hyperedge, renamed: Mapping[str, str]) -> Hyperedge:
    def new(relation: Relation) -> Relation:
        ends = renamed.get(relation.head, relation.head), renamed.get(relation.tail, relation.tail)
        return replace(relation, head=ends[0], tail=ends[1])

    return replace(edge, relations=tuple(map(new, edge.relations)))
