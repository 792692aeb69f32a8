"""Which entities may be one, with the evidence: names, aliases, vectors and neighbours. Pure: no store, no files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hyce_gpu.entity_candidates import Nearest, candidates
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.name_likeness import NameEvidence, Rarity, compare, looks
from hyce_gpu.names import canonical_name
from hyce_gpu.progress import progress

# How much each kind of evidence says alone. By eye, on the 40 best of MuSiQue's and HotpotQA's entities (13,287 and
# 8,692, spaCy) and of a store of a small LLM's (740): a name that is the same but for accents and points is nearly
# enough; vectors alone (North and South Korea) and neighbours alone (all that stand in one list) never are.
_NAME, _VECTOR, _NEIGHBOURS, _ALIAS = 0.75, 0.35, 0.5, 0.5
# Cosines of names that have nothing to do with each other reach the first; those of spellings of one exceed the second.
_NOTHING, _EVERYTHING = 0.5, 0.9
# Neighbours are few: two that share their only one are not yet known to keep the same company.
_FEW_NEIGHBOURS = 2
# The types differ, or one sentence names both: an author would hardly call one thing by two names there.
_OTHER_TYPE, _TOGETHER = 0.75, 0.7
_INITIALS, _CONTAINED, _OTHER_WORDS = 0.75, 0.7, 0.3


@dataclass(frozen=True)
class Named:
    """An entity by what is said of it."""

    name: str
    type: str
    aliases: Sequence[str]


@dataclass(frozen=True)
class Evidence:
    names: NameEvidence
    # Canonical names and aliases that both have.
    aliases: tuple[str, ...]
    # 1 / (entities that have it, less one), of the shared alias with the fewest; 0 without any.
    alias_rarity: float
    cosine: float
    # Entities in a hyperedge with both, their share in all neighbours, and in those of the one with fewer.
    shared_neighbours: int
    jaccard: float
    overlap: float
    # Hyperedges that hold both.
    together: int
    types_differ: bool


@dataclass(frozen=True)
class Proposal:
    # Entity ids, ascending.
    first: int
    second: int
    score: float
    evidence: Evidence


def propose(entities: Sequence[Named], hypergraph: Hypergraph, nearest: Nearest, least: float) -> list[Proposal]:
    """Pairs of entities that may be one, from the highest score down.

    Args:
        nearest: the k most similar entities for each of some vectors [n, d].
        least: the lowest score that counts, from 0 to 1.
    """
    aliases = [_claims(entity) for entity in entities]
    vectors = hypergraph.entity_vectors.numpy()
    pairs, cosine = candidates([one.name for one in entities], [one.aliases for one in entities], vectors, nearest)
    compared = _Compared(entities, aliases, hypergraph)
    found = []
    with progress("compare", len(pairs), "pairs") as advance:
        for (first, second), alike in zip(pairs.tolist(), cosine.tolist(), strict=True):
            evidence = compared.evidence(first, second, alike, least)
            if evidence is not None and (value := score(evidence)) >= least:
                found.append(Proposal(first, second, round(value, 4), evidence))
            advance()
    return sorted(found, key=lambda one: (-one.score, one.first, one.second))


def score(evidence: Evidence) -> float:
    """From 0 to 1: 1 - Π (1 - weight · evidence) over names, vectors, neighbours and aliases, less what speaks against.

    Every piece of evidence adds to the rest, and none is needed.
    """
    alike = _between(evidence.cosine, _NOTHING, _EVERYTHING)
    doubt = (1 - _NAME * _name(evidence.names, alike)) * (1 - _VECTOR * alike**2)
    doubt *= (1 - _NEIGHBOURS * evidence.overlap) * (1 - _ALIAS * evidence.alias_rarity)
    return (1 - doubt) * _against(evidence)


def _against(evidence: Evidence) -> float:
    if evidence.names.letters == 1:
        # "Kim Jong-un", "Kim Jong - un": an extractor's slip, whatever type it gave.
        return 1.0
    # "United Nations (UN)" is how a text brings in initials.
    apart = _TOGETHER if evidence.together and not evidence.names.initials else 1.0
    return apart * (_OTHER_TYPE if evidence.types_differ else 1.0)


def _name(names: NameEvidence, alike: float) -> float:
    if names.words == 1 and names.letters == 1:
        return 1.0
    if names.letters == 1 or names.respelled:
        # "India" and "Indiana" are one letter pair from each other, and far in meaning.
        return names.letters * (0.4 + 0.6 * alike)
    if names.initials:
        return _INITIALS
    if names.contained:
        return _CONTAINED * (names.contained * 0.5 + names.words * 0.5)
    return _OTHER_WORDS * names.letters


def _between(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))


def _claims(entity: Named) -> frozenset[str]:
    return frozenset({canonical_name(entity.name), *map(canonical_name, entity.aliases)})


class _Compared:
    def __init__(self, entities: Sequence[Named], aliases: Sequence[frozenset[str]], hypergraph: Hypergraph) -> None:
        self._entities, self._aliases = entities, aliases
        self._looks = [looks(entity.name) for entity in entities]
        self._rarity = Rarity(self._looks)
        self._claimants = Counter(alias for claimed in aliases for alias in claimed)
        self._company = Company(hypergraph)

    def evidence(self, first: int, second: int, cosine: float, least: float) -> Evidence | None:
        """None where no neighbours could bring the score to `least`, or where numbers differ and no alias is shared."""
        names = compare(self._looks[first], self._looks[second], self._rarity)
        shared = tuple(sorted(self._aliases[first] & self._aliases[second]))
        if names.numbers_differ and not shared:
            return None
        rarity = max((1 / (self._claimants[alias] - 1) for alias in shared), default=0.0)
        types = {self._entities[first].type, self._entities[second].type} - {""}
        best = Evidence(names, shared, rarity, cosine, 0, 1.0, 1.0, 0, len(types) > 1)
        if score(best) < least:
            return None
        number, jaccard, overlap, together = self._company.shared(first, second)
        return Evidence(names, shared, rarity, cosine, number, jaccard, overlap, together, len(types) > 1)


class Company:
    """With whom an entity stands in hyperedges."""

    def __init__(self, hypergraph: Hypergraph) -> None:
        tensors = hypergraph.member_pointer, hypergraph.member, hypergraph.incident_pointer, hypergraph.incident
        self._start, self._member, self._of, self._incident = (tensor.numpy() for tensor in tensors)
        self._cached = lru_cache(maxsize=1 << 16)(self._neighbours)

    def hyperedges(self, entity: int) -> np.ndarray:
        return self._incident[self._of[entity] : self._of[entity + 1]]

    def shared(self, first: int, second: int) -> tuple[int, float, float, int]:
        """Shared neighbours, their Jaccard index, their share in the fewer ones, and the hyperedges of both."""
        left, right = self._cached(first) - {second}, self._cached(second) - {first}
        number = len(left & right)
        union, fewer = len(left) + len(right) - number, min(len(left), len(right))
        together = len(np.intersect1d(self.hyperedges(first), self.hyperedges(second), assume_unique=True))
        return number, number / union if union else 0.0, number / (fewer + _FEW_NEIGHBOURS), together

    def _neighbours(self, entity: int) -> frozenset[int]:
        return frozenset(self._members(entity)) - {entity}

    def _members(self, entity: int) -> Iterator[int]:
        for edge in self.hyperedges(entity):
            yield from self._member[self._start[edge] : self._start[edge + 1]].tolist()
