"""A store as what more documents are merged into: its names, entities and hyperedges, looked up in their tables.

A look-up passes over one column of numbers or texts, and reads only the rows that it finds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyce_gpu import tables
from hyce_gpu.merge import Entity, Hyperedge
from hyce_gpu.merge_more import KnownName
from hyce_gpu.store import Store
from hyce_gpu.store_files import require_sound
from hyce_gpu.table_files import SUFFIX, read_table

NAMES = f"names{SUFFIX}"


class StoreBefore:
    """`merge_more.Before` of a store that has its table of names."""

    @staticmethod
    def has_names(store: Store) -> bool:
        return NAMES in store.manifest["files"]

    def __init__(self, store: Store) -> None:
        # Too large to be looked at whenever a store is opened.
        require_sound(store.generation, store.manifest, NAMES)
        self._store = store
        self.names_table = read_table(store.generation / NAMES)
        self.entities_table, self.hyperedges_table = store.table("entities"), store.table("hyperedges")
        self._pointer, self._member = store.array("member_pointer"), store.array("member")
        self.num_names, self.num_entities = len(self.names_table), len(self.entities_table)
        claims = self.names_table.column("aliases").combine_chunks()
        self._claimed, self._claimant = claims.flatten().field("key"), pc.list_parent_indices(claims)

    def places(self, table: str, column: str, values: Sequence[str]) -> np.ndarray:
        """For each of different values, its row in the store's table, -1 for none: int64."""
        held = self._store.table(table).column(column)
        rows = _where(held, values)
        known = dict(zip(held.take(pa.array(rows)).to_pylist(), rows.tolist(), strict=True))
        return np.array([known.get(value, -1) for value in values], dtype=np.int64)

    def titles_like(self, keys: Collection[str]) -> list[tuple[int, str]]:
        """Numbers and titles of documents, among them all whose title, or a part of it, is a name of these."""
        titles = self._store.table("documents").column("title")
        # What has its words only in other letters is found by asking for all that is not plain.
        longest = {max(key.split(), key=len) for key in keys if key}
        if not longest:
            return []
        pattern = "|".join(map(re.escape, sorted(longest)))
        alike = pc.match_substring_regex(titles, pattern, ignore_case=True)
        rows = pc.indices_nonzero(pc.or_(alike, pc.invert(pc.string_is_ascii(titles))))
        return list(zip(rows.to_pylist(), titles.take(rows).to_pylist(), strict=True))

    def names(self, keys: Collection[str]) -> dict[str, KnownName]:
        return self._names(_where(self.names_table.column("key"), keys))

    def claiming(self, aliases: Collection[str]) -> dict[str, KnownName]:
        return self._names(np.unique(self._claimant.take(pa.array(_where(self._claimed, aliases))).to_numpy()))

    def entities(self, ids: Collection[int]) -> dict[int, Entity]:
        numbers = sorted(ids)
        rows = self.entities_table.take(pa.array(numbers, pa.int64())).to_pylist()
        return dict(zip(numbers, map(tables.entity_of, rows), strict=True))

    def hyperedges_of(self, members: Collection[tuple[int, ...]]) -> dict[int, Hyperedge]:
        known = [ids for ids in members if ids[-1] < self.num_entities]
        # Ids rise with first appearance, and who came last is rarely in most.
        last = np.unique(np.array([ids[-1] for ids in known], dtype=np.int64))
        places = np.flatnonzero(np.isin(self._member, last))
        rows = np.unique(np.searchsorted(self._pointer, places, side="right") - 1)
        wanted = set(known)
        return self.hyperedges([row for row in rows.tolist() if self._members(row) in wanted])

    def hyperedges_naming(self, names: Collection[str]) -> dict[int, Hyperedge]:
        relations = self.hyperedges_table.column("relations").combine_chunks()
        ends = relations.flatten()
        found = np.union1d(_where(ends.field("head"), names), _where(ends.field("tail"), names))
        return self.hyperedges(np.unique(pc.list_parent_indices(relations).to_numpy()[found]).tolist())

    def _names(self, places: np.ndarray) -> dict[str, KnownName]:
        rows = self.names_table.take(pa.array(places, pa.int64())).to_pylist()
        return {
            row["key"]: KnownName(place, row["entity"], tables.draft_of(row))
            for place, row in zip(places.tolist(), rows, strict=True)
        }

    def _members(self, row: int) -> tuple[int, ...]:
        return tuple(self._member[self._pointer[row] : self._pointer[row + 1]].tolist())

    def hyperedges(self, numbers: Sequence[int]) -> dict[int, Hyperedge]:
        rows = self.hyperedges_table.take(pa.array(numbers, pa.int64())).to_pylist()
        return {
            number: tables.hyperedge_of(row, self._members(number)) for number, row in zip(numbers, rows, strict=True)
        }


def _where(column: pa.ChunkedArray | pa.Array, values: Collection[str]) -> np.ndarray:
    """Places of the values, ascending [n] int64."""
    found = pc.indices_nonzero(pc.is_in(column, value_set=pa.array(sorted(values), pa.string())))
    places: np.ndarray = found.to_numpy().astype(np.int64)
    return places
