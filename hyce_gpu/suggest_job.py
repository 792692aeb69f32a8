"""The suggest command: proposals from a store, with an example for each entity and nothing that was decided already."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyce_gpu.decisions import Verdicts
from hyce_gpu.entity_likeness import Company, Evidence, Named, Proposal, propose
from hyce_gpu.errors import ConfigError
from hyce_gpu.names import canonical_name
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in, merges_in
from hyce_gpu.table_files import read_table, table_file


@dataclass(frozen=True)
class Suggestion:
    first: str
    second: str
    score: float
    evidence: Evidence
    types: tuple[str, str]
    # A segment that names the one, and one that names the other; "" where no hyperedge does.
    examples: tuple[str, str]

    def as_json(self) -> dict[str, Any]:
        """What `hyce entities apply` takes, and why."""
        evidence = self.evidence
        names = {**vars(evidence.names), "contained": bool(evidence.names.contained)}
        told = {
            "names": {key: round(value, 4) if isinstance(value, float) else value for key, value in names.items()},
            "aliases": list(evidence.aliases), "cosine": round(evidence.cosine, 4),
            "neighbours": {"shared": evidence.shared_neighbours, "jaccard": round(evidence.jaccard, 4)},
            "together": evidence.together,
        }  # fmt: skip
        return {
            "first": self.first, "second": self.second, "score": self.score, "evidence": told,
            "types": list(self.types), "examples": list(self.examples),
        }  # fmt: skip


def suggest(root: Path, least: float, limit: int) -> list[Suggestion]:
    """The `limit` best pairs of entities that may be one, of a score of at least `least`.

    Raises:
        StoreError: no store. ConfigError: `least` is not from 0 to 1.
    """
    if not 0 <= least <= 1:
        raise ConfigError(f"--min-score takes a number from 0 to 1, found {least:g}")
    store = Store.open(root)
    columns = read_table(table_file(store.generation, "entities")).select(["name", "type", "aliases"])
    entities = [Named(**row) for row in columns.to_pylist()]
    hypergraph, verdicts = store.hypergraph(), Verdicts(decisions_in(store))
    joined = {name for one in merges_in(store) for name in (one.first, one.second)}
    examples = _Examples(store, Company(hypergraph))
    found: list[Suggestion] = []
    for proposal in propose(entities, hypergraph, store.entity_index().nearest, least):
        one, other = entities[proposal.first], entities[proposal.second]
        if len(found) == limit:
            break
        if not verdicts.are_apart(_names(one, joined), _names(other, joined)):
            found.append(_suggestion(proposal, one, other, examples))
    return found


def _names(entity: Named, joined: Collection[str]) -> list[str]:
    """Its own, and those that were joined into it: they stand among its aliases."""
    aliases = (canonical_name(alias) for alias in entity.aliases)
    return [canonical_name(entity.name), *(alias for alias in aliases if alias in joined)]


class _Examples:
    def __init__(self, store: Store, company: Company) -> None:
        self._store, self._company = store, company

    def of(self, proposal: Proposal) -> tuple[str, str]:
        """Of each entity its first segment, rather one without the other."""
        left, right = (self._company.hyperedges(one).tolist() for one in (proposal.first, proposal.second))
        return self._segment(left, right), self._segment(right, left)

    def _segment(self, own: list[int], others: list[int]) -> str:
        best = next((edge for edge in own if edge not in others), own[0] if own else None)
        return "" if best is None else str(self._store.hyperedge(best)["segment"])


def _suggestion(proposal: Proposal, one: Named, other: Named, examples: _Examples) -> Suggestion:
    types = one.type, other.type
    return Suggestion(one.name, other.name, proposal.score, proposal.evidence, types, examples.of(proposal))
