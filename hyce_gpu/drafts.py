"""What records say of each canonical name, and which names stand for one entity (SPEC.md, 1.3). Pure.

Both are folds: what further records say comes on top of what earlier ones said, and only names that share an alias or a
decision with each other can become one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hyce_gpu.decisions import Verdicts
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import ExtractionRecord


@dataclass(slots=True)
class Draft:
    """All that was said of one canonical name. What ties or contradicts is settled by what was said first."""

    names: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    role: str = ""
    description: str = ""
    # By canonical name, as spelled.
    aliases: dict[str, str] = field(default_factory=dict)
    confidence: float = 0.0

    def known_type(self) -> str:
        return most_common(self.types)

    def with_all(self, others: Iterable[Draft]) -> Draft:
        """One draft of an entity with several names, under this one's."""
        types, aliases, confidence = Counter(self.types), dict(self.aliases), self.confidence
        role, description = self.role, self.description
        for other in others:
            types += other.types
            role, description = role or other.role, description or other.description
            confidence = max(confidence, other.confidence)
            for name in (*other.names, *other.aliases.values()):
                aliases.setdefault(canonical_name(name), name)
        return Draft(self.names, types, role, description, aliases, confidence)


@dataclass(frozen=True)
class AliasMerge:
    """Two canonical names that became one entity. Undone by deciding that they are apart."""

    first: str
    second: str
    # What joined them; "" where that was a decision.
    alias: str


def most_common(counts: Counter[str]) -> str:
    # The first seen wins a tie: a Counter keeps the order of insertion.
    return max(counts, key=lambda item: counts[item]) if counts else ""


def collect(records: Iterable[ExtractionRecord], drafts: dict[str, Draft]) -> None:
    """Puts what the records say on top of `drafts`, by canonical name in the order of first appearance."""
    for record in records:
        for entity in record.entities:
            key = canonical_name(entity.name)
            if not key:
                continue
            draft = drafts.setdefault(key, Draft())
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
                drafts[canonical_name(name)] = Draft(names=Counter([name]), confidence=1.0)


def join(drafts: Mapping[str, Draft], verdicts: Verdicts) -> tuple[list[AliasMerge], dict[str, str]]:
    """Which names become one, and for each name the one that stands for its entity."""
    clusters = _Clusters(drafts, verdicts)
    merges = [*clusters.join_decided(), *_join_aliases(drafts, clusters)]
    return merges, clusters.owner()


def _join_aliases(drafts: Mapping[str, Draft], clusters: _Clusters) -> list[AliasMerge]:
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

    def __init__(self, drafts: Mapping[str, Draft], verdicts: Verdicts) -> None:
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
