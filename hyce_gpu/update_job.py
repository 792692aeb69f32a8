"""Documents come into a store, change and go: add, remove, update, and another encoder for what is there.

What comes behind the documents of a store is added to it (`grow_job`). Any other change makes the store anew from its
documents, as one generation, but what did not change is not done again: its chunks and records are taken over, and
texts that were embedded keep their vectors. Knows what changed; how a store is made is `indexing`'s.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu import encoders
from hyce_gpu.accounts import Accounts
from hyce_gpu.chunking import chunk_documents
from hyce_gpu.config import IndexConfig
from hyce_gpu.devices import choose_device
from hyce_gpu.errors import InputError, unknown
from hyce_gpu.extract import Extractor
from hyce_gpu.extract_job import extract_chunks
from hyce_gpu.extractors import extractor_of
from hyce_gpu.grow_job import grow
from hyce_gpu.indexing import (
    Extraction,
    IndexReport,
    KnownVectors,
    build,
    extractions_file,
    ledger_before,
    set_aside_failed,
)
from hyce_gpu.ledger import Ledger, LedgerEntry
from hyce_gpu.progress import say
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.standing_records import reader_of_changes
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in
from hyce_gpu.store_files import CACHE, LEDGER, StoreWriter, drop_older, writing
from hyce_gpu.store_grow import has_pieces, write_as_one
from hyce_gpu.units import FinishedUnits


@dataclass(frozen=True)
class Models:
    """What an update may need; by default what the store was built with."""

    llm: str | None = None
    encoder: str | None = None
    device: str = "auto"
    llm_options: dict[str, Any] = field(default_factory=dict)


def add(root: Path, corpus: Sequence[Path], models: Models) -> IndexReport | None:
    """Adds the documents of `corpus`, behind those that are there. One that is there already, unchanged, stays.

    Raises:
        InputError: no usable document; an id that the store has with another text: that is for `update`.
        JobError, OutputError, StoreError: as `index_corpus`.
    """
    with writing(root) as writer:
        store, ledger = Store.open(root), Ledger()
        found = read_corpus(corpus, ledger)
        known = store.find_documents([document.id for document in found])
        for document in found:
            if document.id in known and not _is_same(document, known[document.id]):
                raise InputError(
                    f"{document.source}: the store has another document {document.id!r}; replace it with hyce update"
                )
        ledger.entries = list(dict.fromkeys([*_unread(root), *ledger.entries]))
        return _add(writer, store, [document for document in found if document.id not in known], ledger, models)


def remove(root: Path, ids: Sequence[str], models: Models) -> IndexReport | None:
    """Takes documents out, by id.

    Raises:
        InputError: an id that the store does not have, or no document would be left.
        JobError, OutputError, StoreError: as `index_corpus`.
    """
    with writing(root) as writer:
        store, ledger = Store.open(root), Ledger()
        old = store.documents()
        known = [document.id for document in old]
        for name in ids:
            if name not in known:
                raise InputError(unknown("document", name, known[:1000]))
        left = [document for document in old if document.id not in set(ids)]
        if not left:
            raise InputError("no document would be left; to start anew, index into another directory")
        ledger.entries = _unread(root)
        return _change(writer, store, left, ledger, models)


def update(root: Path, corpus: Sequence[Path], models: Models, sync: bool = False) -> IndexReport | None:
    """Brings in what is new or changed in `corpus`.

    Args:
        sync: `corpus` is all there is: documents that are not in it any more go, and its order is the store's.

    Raises:
        InputError: no usable document.
        JobError, OutputError, StoreError: as `index_corpus`.
    """
    with writing(root) as writer:
        store, ledger = Store.open(root), Ledger()
        found = {document.id: document for document in read_corpus(corpus, ledger)}
        if sync:
            return _change(writer, store, list(found.values()), ledger, models)
        ledger.entries = list(dict.fromkeys([*_unread(root), *ledger.entries]))
        known = store.find_documents(list(found))
        if all(found[name] == document for name, document in known.items()):
            return _add(writer, store, [one for name, one in found.items() if name not in known], ledger, models)
        documents = [*(found.pop(document.id, document) for document in store.documents()), *found.values()]
        return _change(writer, store, documents, ledger, models)


def reembed(root: Path, encoder: str, device: str = "auto") -> IndexReport:
    """Replaces the vectors by those of another encoder; chunks and records stay, and no model is asked.

    Raises:
        OutputError, StoreError: as `index_corpus`.
    """
    with writing(root) as writer:
        store = Store.open(root)
        vectors = Encoder(encoder, device=choose_device(device))
        return build(
            writer, Extraction.of(store), vectors, store.manifest["config"], Accounts(), ledger_before(root)
        )  # fmt: skip


def compact(root: Path) -> int:
    """Takes away what only older generations and the cache of extractions hold; returns the bytes that are free now.

    The pieces of a store that documents were added to become one.

    Readers that have an older generation open lose it. What `hyce index` would have found finished is gone; `add`,
    `update` and `remove` do not need it.

    Raises:
        OutputError: the store cannot be written. StoreError: no store.
    """
    with writing(root) as writer:
        store, before = Store.open(root), _size(root)
        if has_pieces(store):
            write_as_one(writer, store)
        drop_older(root)
        shutil.rmtree(root / CACHE, ignore_errors=True)
        return before - _size(root)


def _size(root: Path) -> int:
    # A file that several generations have is there once.
    files = (path.stat() for path in root.rglob("*") if path.is_file())
    return sum({(one.st_dev, one.st_ino): one.st_size for one in files}.values())


def _unread(root: Path) -> list[LedgerEntry]:
    """What could not be read before is still not in the store, and stays in the ledger."""
    return [one for one in Ledger.read(root / LEDGER) if one.stage == "read"]


def _add(
    writer: StoreWriter, store: Store, new: Sequence[Document], ledger: Ledger, models: Models
) -> IndexReport | None:
    """`new` comes behind what is there."""
    say(f"update: {len(new):,} documents new, {store.counts['documents']:,} unchanged")
    if not new:
        return None
    return _Update(writer, store, models).add(new, ledger)


def _change(
    writer: StoreWriter, store: Store, new: Sequence[Document], ledger: Ledger, models: Models
) -> IndexReport | None:
    """`new` is all that there is from now on."""
    old = store.documents()
    known = {document.id: document for document in old}
    kept = {one.id for one in new if one.id in known and _is_same(one, known[one.id])}
    gone = len(old) - sum(one.id in known for one in new)
    say(f"update: {len(new) - len(kept):,} documents new or changed, {gone:,} gone, {len(kept):,} unchanged")
    if new == old:
        return None
    if new[: len(old)] == old:
        return _Update(writer, store, models).add(new[len(old) :], ledger)
    return _Update(writer, store, models).run(new, kept, ledger)


def _is_same(one: Document, other: Document) -> bool:
    """Whether chunks and records stay; where a document lies and its metadata do not matter to them."""
    return (one.id, one.title, one.text) == (other.id, other.title, other.text)


class _Update:
    def __init__(self, writer: StoreWriter, store: Store, models: Models) -> None:
        self._writer, self._store, self._models = writer, store, models
        self._accounts = Accounts()
        name = models.encoder or store.manifest["encoder"]["name"]
        self._encoder = Encoder(name, device=choose_device(models.device))
        encoders.require_same(self._encoder, store.manifest["encoder"], str(store.root))

    def add(self, new: Sequence[Document], ledger: Ledger) -> IndexReport:
        """Only what is new is looked at, where what is there stays as it is."""
        store = self._store
        with self._accounts.stage("chunk"):
            chunks = self._chunks(new, {})
        ids, titles = (store.table("documents").column(name).to_pylist() for name in ("id", "title"))
        ids, titles = [*ids, *(one.id for one in new)], [*titles, *(one.title for one in new)]
        read, described = self._read(chunks, np.ones(store.counts["documents"], dtype=bool), ids, titles)
        records = [read.pop(chunk.id) for chunk in chunks]
        extraction = Extraction(new, chunks, records, described, decisions_in(store))
        if not read:
            whole = Ledger()
            whole.entries = [*ledger, *(one for one in ledger_before(store.root) if one.stage != "read")]
            set_aside_failed(records, whole)
            counts = grow(self._writer, store, extraction, self._encoder, self._accounts, whole)
            if counts is not None:
                return IndexReport(counts, self._accounts.seconds, whole)
        return self._with_all(extraction, read, ledger)

    def _with_all(self, new: Extraction, again: Mapping[str, ExtractionRecord], ledger: Ledger) -> IndexReport:
        """`again`: records, by chunk, of documents that stay and were read again."""
        say(f"update: merging all documents anew, {len(again):,} chunks of the old ones were read again")
        old = Extraction.of(self._store)
        extraction = replace(
            new, documents=[*old.documents, *new.documents], chunks=[*old.chunks, *new.chunks],
            records=[*(again.get(one.chunk_id, one) for one in old.records), *new.records],
        )  # fmt: skip
        set_aside_failed(extraction.records, ledger)
        return self._build(extraction, ledger)

    def run(self, documents: Sequence[Document], kept: set[str], ledger: Ledger) -> IndexReport:
        store = self._store
        old_chunks = store.chunks()
        with self._accounts.stage("chunk"):
            chunks = self._chunks(documents, _by_document(old_chunks, kept))
        stays = np.array([name in kept for name in store.table("documents").column("id").to_pylist()])
        came = [chunk for chunk in chunks if chunk.doc_id not in kept]
        read, described = self._read(came, stays, [one.id for one in documents], [one.title for one in documents])
        old = {one.chunk_id: one for one in store.records() if one.doc_id in kept}
        records = [read[chunk.id] if chunk.id in read else old[chunk.id] for chunk in chunks]
        set_aside_failed(records, ledger)
        return self._build(Extraction(documents, chunks, records, described, decisions_in(store)), ledger)

    def _read(
        self, came: Sequence[Chunk], stays: np.ndarray, ids: Sequence[str], titles: Sequence[str]
    ) -> tuple[dict[str, ExtractionRecord], dict[str, Any]]:
        """The records of `came`, and of what has to be read again of the documents that stay, by chunk; and by whom.

        Args:
            came: in the order of the corpus.
            stays: which of the store's documents do. [documents] bool
            ids, titles: of all documents from now on, in order.
        """
        models, store = self._models, self._store
        with ExitStack() as held, self._accounts.stage("extract") as account:
            extractor: Extractor = extractor_of(store, models.llm, models.llm_options, self._encoder, held)
            units = held.enter_context(FinishedUnits(extractions_file(store.root / CACHE)))
            reader, again = reader_of_changes(extractor, store, stays, titles, came)
            chunks = list(came)
            if again:
                place = {name: number for number, name in enumerate(ids)}
                chunks += (chunk for document in again for chunk in store.chunks_of(document))
                chunks.sort(key=lambda chunk: (place[chunk.doc_id], chunk.order))
            records = extract_chunks(chunks, reader, units, account)
            return {one.chunk_id: one for one in records}, {"name": extractor.name, **extractor.describe()}

    def _build(self, extraction: Extraction, ledger: Ledger) -> IndexReport:
        config, known = self._store.manifest["config"], KnownVectors.of(self._store)
        return build(self._writer, extraction, self._encoder, config, self._accounts, ledger, known)

    def _chunks(self, documents: Iterable[Document], known: dict[str, list[Chunk]]) -> list[Chunk]:
        config = IndexConfig.from_mapping(self._store.manifest["config"])
        spans = self._encoder.token_spans
        return [
            chunk
            for document in documents
            for chunk in known.get(document.id) or chunk_documents([document], spans, config)
        ]


def _by_document(chunks: Iterable[Chunk], kept: set[str]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        if chunk.doc_id in kept:
            found.setdefault(chunk.doc_id, []).append(chunk)
    return found
