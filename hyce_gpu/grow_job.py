"""Documents come into a store at the cost of what they bring: only what shares names with them is looked at.

The result is, row by row, the store of all documents. Knows the order of the steps; what becomes of names and
hyperedges is `merge_more`'s, and how rows reach the disk `store_grow`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hyce_serving.encoder import Encoder

from hyce_gpu import tables
from hyce_gpu.accounts import Accounts, Stage
from hyce_gpu.indexing import Extraction, chained, row_vectors, warn_without_hyperedges
from hyce_gpu.ledger import Ledger
from hyce_gpu.lexical import TermCounts, count_terms
from hyce_gpu.merge import Hyperedge, representation
from hyce_gpu.merge_more import More, merge_more
from hyce_gpu.progress import progress
from hyce_gpu.provenance import entity_named, row_text, rows_of, title_keys, titled
from hyce_gpu.store import Store
from hyce_gpu.store_before import StoreBefore
from hyce_gpu.store_files import StoreWriter
from hyce_gpu.store_grow import Growth, about, has_many_pieces, write_as_one, write_growth

# Up to so many chunks are always added; more, up to this share of those that are there.
_ALWAYS_ADDED, _LARGE_SHARE = 1_000, 0.1

_Row = TypeVar("_Row")


def grow(
    writer: StoreWriter, store: Store, new: Extraction, encoder: Encoder, accounts: Accounts, ledger: Ledger
) -> dict[str, int] | None:
    """Writes the generation of `store` with the documents of `new` behind its own.

    Args:
        new: of these documents alone; its decisions are the store's.
        ledger: of the whole store, but for what the merge sets aside.

    Returns:
        The counts of what was written; None, and nothing is written, where names of the store would be regrouped, for a
        store of an earlier format, and where so much is new that building all of it anew takes about as long.

    Raises:
        OutputError, StoreError: as `index_corpus`.
    """
    is_large = len(new.chunks) > max(_ALWAYS_ADDED, _LARGE_SHARE * store.counts["chunks"])
    if is_large or not StoreBefore.has_names(store):
        return None
    if has_many_pieces(store):
        write_as_one(writer, store)
        store = Store.open(store.root)
    before = StoreBefore(store)
    with accounts.stage("merge") as account:
        more = merge_more(new.records, new.decisions, before)
        if more is None:
            return None
        account.units = len(more.hyperedges)
    addition = _Addition(store, before, new, more)
    with accounts.stage("embed") as account:
        vectors, replaced = addition.vectors(encoder, account)
    with accounts.stage("write"):
        return addition.write(writer, vectors, replaced, accounts, ledger)


class _Addition:
    """What is written of the new documents, as rows of the store's tables and arrays."""

    def __init__(self, store: Store, before: StoreBefore, new: Extraction, more: More) -> None:
        self._store, self._before, self._new, self._more = store, before, new, more
        self._rows = list(rows_of(new.chunks, more.hyperedges, more.changed.values()))
        number = {chunk.id: place for place, chunk in enumerate(new.chunks)}
        # Numbers among the new chunks.
        self._passage = [number[row.sources[0].chunk_id] for row in self._rows]
        chunks = (new.chunks[place] for place in self._passage)
        self._texts = [row_text(row, chunk) for row, chunk in zip(self._rows, chunks, strict=True)]

    def vectors(self, encoder: Encoder, account: Stage) -> tuple[dict[str, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """The vectors of what is new, by array, and those of entities that are described in other words now."""
        entities, first = self._more.entities, self._before.num_entities
        old = self._before.entities([number for number in entities if number < first])
        changed = sorted(n for n, entity in old.items() if representation(entity) != representation(entities[n]))
        texts = {
            "changed": [representation(entities[number]) for number in changed],
            "entities": [representation(entities[number]) for number in sorted(entities) if number >= first],
            "hyperedges": [text for text, row in zip(self._texts, self._rows, strict=True) if row.members],
            "chunks": [titled(chunk.title, chunk.text) for chunk in self._new.chunks],
        }
        account.units = sum(map(len, texts.values()))
        with progress("embed", account.units, "texts") as advance:
            found = {name: encoder.encode(part, advance) for name, part in texts.items()}
        rows = row_vectors(self._rows, self._passage, found["hyperedges"], found["chunks"])
        vectors = {"entity_vectors": found["entities"], "hyperedge_vectors": rows, "chunk_vectors": found["chunks"]}
        return vectors, (np.asarray(changed, dtype=np.int64), found["changed"])

    def write(
        self,
        writer: StoreWriter,
        vectors: Mapping[str, np.ndarray],
        changed: tuple[np.ndarray, np.ndarray],
        accounts: Accounts,
        ledger: Ledger,
    ) -> dict[str, int]:
        store, new = self._store, self._new
        vocabulary, terms = self._terms()
        members = [row.members for row in self._rows]
        subjects, old_subjects = self._subjects()
        appended = {
            "member_pointer": len(store.array("member")) + np.cumsum(list(map(len, members)), dtype=np.int64),
            "member": np.array([entity for row in members for entity in row], dtype=np.int64),
            "passage": store.counts["chunks"] + np.asarray(self._passage, dtype=np.int64),
            "subject": subjects,
            "term_pointer": len(store.array("term")) + terms.pointer[1:],
            "term": terms.term, "term_count": terms.count, **vectors,
        }  # fmt: skip
        merges = self._merges()
        growth = Growth(
            {**self._table_rows(), "terms": _behind(store.counts["terms"], vocabulary)}, {"merges": merges},
            appended, {"entity_vectors": changed, "subject": old_subjects}, new.records,
        )  # fmt: skip
        counts = self._counts(len(vocabulary), merges)
        manifest = {
            **about(store.manifest), "counts": counts,
            "extractor": dict(new.described), "corpus": chained(new.documents, store.manifest["corpus"]),
        }  # fmt: skip
        warn_without_hyperedges(counts["hyperedges"], writer.root, ledger)
        write_growth(writer, store, growth, manifest, accounts, ledger)
        return counts

    def _table_rows(self) -> dict[str, tuple[Sequence[int], pa.Table]]:
        counts, new, more = self._store.counts, self._new, self._more
        entities, names, changed = _sorted(more.entities), _sorted(more.names), _sorted(more.changed)
        first = len(self._store.table("hyperedges"))
        return {
            "documents": _behind(counts["documents"], tables.documents_table(new.documents)),
            "chunks": _behind(counts["chunks"], tables.chunks_table(new.chunks, new.documents, counts["documents"])),
            "entities": (list(entities), tables.entities_table(list(entities.values()))),
            "hyperedges": (
                [*changed, *range(first, first + len(self._rows))],
                tables.hyperedges_table([*changed.values(), *self._rows]),
            ),
            "names": (list(names), tables.names_table(list(names.values()))),
        }

    def _terms(self) -> tuple[pa.Table, TermCounts]:
        """The words that the store does not have, and those of the new rows."""
        count = self._store.counts["terms"]
        vocabulary, terms = count_terms(self._texts)
        known = self._before.places("terms", "word", vocabulary)
        new = np.flatnonzero(known < 0)
        known[new] = count + np.arange(len(new))
        # Numbers of new words rise with their first use here, but those of known ones do not.
        row = np.repeat(np.arange(len(terms.pointer) - 1), np.diff(terms.pointer))
        term = known[terms.term]
        order = np.lexsort((term, row))
        words = pa.table({"word": [vocabulary[place] for place in new]}, tables.TERMS)
        return words, TermCounts(terms.pointer, term[order].astype(np.int32), terms.count[order])

    def _subjects(self) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """The entities of the new chunks' titles, and old chunks whose title names an entity that is new."""
        titles = {chunk.title for chunk in self._new.chunks}
        named = sorted({key for title in titles for key in title_keys(title)})
        old = self._before.places("entities", "canonical", named)
        entity = {key: int(place) for key, place in zip(named, old, strict=True) if place >= 0}
        fresh = {one.canonical: n for n, one in self._more.entities.items() if n >= self._before.num_entities}
        entity |= fresh
        by_title = {title: entity_named(title, entity) for title in titles}
        subjects = np.array([by_title[chunk.title] for chunk in self._new.chunks], dtype=np.int64)
        return subjects, self._old_subjects(fresh)

    def _old_subjects(self, fresh: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        """By rows: the chunks whose title names one of the entities `fresh`, and which. No title has another's name."""
        store = self._store
        subject, document = store.array("subject"), store.table("chunks").column("document").to_numpy()
        found: dict[int, int] = {}
        for number, title in self._before.titles_like(fresh):
            exact, bare = title_keys(title)
            for chunk in np.flatnonzero(document == number).tolist():
                if exact in fresh:
                    found[chunk] = fresh[exact]
                elif bare in fresh and subject[chunk] < 0:
                    found[chunk] = fresh[bare]
        return np.array(list(found), dtype=np.int64), np.array(list(found.values()), dtype=np.int64)

    def _merges(self) -> pa.Table:
        """Those of the store, but of the names that were looked at as they are now."""
        old, more = self._store.table("merges"), self._more
        names = pa.array([key for key, _, _ in more.names.values()], pa.string())
        kept = old.filter(pc.invert(pc.is_in(old.column("first"), value_set=names)))
        return tables.in_order(pa.concat_tables([kept, tables.merges_table(more.merges)]))

    def _counts(self, new_terms: int, merges: pa.Table) -> dict[str, int]:
        new, more, old = self._new, self._more, self._before.hyperedges(list(self._more.changed))
        edges = [row for row in self._rows if row.members]
        relations = _relations(edges) + _relations(more.changed.values()) - _relations(old.values())
        added = {
            "documents": len(new.documents), "chunks": len(new.chunks), "bare_chunks": len(self._rows) - len(edges),
            "entities": sum(number >= self._before.num_entities for number in more.entities),
            "hyperedges": len(edges), "incidences": sum(len(edge.members) for edge in edges), "relations": relations,
            "hyperedges_too_small": more.too_small, "terms": new_terms,
        }  # fmt: skip
        counts = {name: count + added.get(name, 0) for name, count in self._store.counts.items()}
        return {**counts, "alias_merges": tables.count_alias_merges(merges)}


def _sorted(rows: Mapping[int, _Row]) -> dict[int, _Row]:
    return dict(sorted(rows.items()))


def _relations(hyperedges: Iterable[Hyperedge]) -> int:
    return sum(len(edge.relations) for edge in hyperedges)


def _behind(count: int, table: pa.Table) -> tuple[Sequence[int], pa.Table]:
    """The table's rows as those that follow `count` others."""
    return range(count, count + len(table)), table
