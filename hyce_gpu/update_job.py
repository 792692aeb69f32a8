"""Documents come into a store, change and go: add, remove, update, and another encoder for what is there.

A store is made anew from its documents as one generation, but what did not change is not done again: its chunks and
records are taken over, and texts that were embedded keep their vectors. Knows what changed; how a store is made is
`indexing`'s.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
from hyce_gpu.indexing import (
    LEDGER,
    Extraction,
    IndexReport,
    KnownVectors,
    build,
    extractions_file,
    set_aside_failed,
)
from hyce_gpu.ledger import Ledger
from hyce_gpu.progress import say
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in
from hyce_gpu.store_files import CACHE, StoreWriter, drop_older, writing
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

    def change(old: Sequence[Document], ledger: Ledger) -> list[Document]:
        known = {document.id: document for document in old}
        found = read_corpus(corpus, ledger)
        for document in found:
            if document.id in known and not _is_same(document, known[document.id]):
                raise InputError(
                    f"{document.source}: the store has another document {document.id!r}; replace it with hyce update"
                )
        return [*old, *(document for document in found if document.id not in known)]

    return _change(root, change, models)


def remove(root: Path, ids: Sequence[str], models: Models) -> IndexReport | None:
    """Takes documents out, by id.

    Raises:
        InputError: an id that the store does not have, or no document would be left.
        JobError, OutputError, StoreError: as `index_corpus`.
    """

    def change(old: Sequence[Document], _: Ledger) -> list[Document]:
        known = [document.id for document in old]
        for name in ids:
            if name not in known:
                raise InputError(unknown("document", name, known[:1000]))
        left = [document for document in old if document.id not in set(ids)]
        if not left:
            raise InputError("no document would be left; to start anew, index into another directory")
        return left

    return _change(root, change, models)


def update(root: Path, corpus: Sequence[Path], models: Models, sync: bool = False) -> IndexReport | None:
    """Brings in what is new or changed in `corpus`.

    Args:
        sync: `corpus` is all there is: documents that are not in it any more go, and its order is the store's.

    Raises:
        InputError: no usable document.
        JobError, OutputError, StoreError: as `index_corpus`.
    """

    def change(old: Sequence[Document], ledger: Ledger) -> list[Document]:
        found = {document.id: document for document in read_corpus(corpus, ledger)}
        if sync:
            return list(found.values())
        return [*(found.pop(document.id, document) for document in old), *found.values()]

    return _change(root, change, models, keep_read=not sync)


def reembed(root: Path, encoder: str, device: str = "auto") -> IndexReport:
    """Replaces the vectors by those of another encoder; chunks and records stay, and no model is asked.

    Raises:
        OutputError, StoreError: as `index_corpus`.
    """
    with writing(root) as writer:
        store = Store.open(root)
        vectors = Encoder(encoder, device=choose_device(device))
        ledger = Ledger.read(root / LEDGER)
        return build(writer, Extraction.of(store), vectors, store.manifest["config"], Accounts(), ledger)


def compact(root: Path) -> int:
    """Takes away what only older generations and the cache of extractions hold; returns the bytes that are free now.

    Readers that have an older generation open lose it. What `hyce index` would have found finished is gone; `add`,
    `update` and `remove` do not need it.

    Raises:
        OutputError: the store cannot be written. StoreError: no store.
    """
    with writing(root):
        before = _size(root)
        drop_older(root)
        shutil.rmtree(root / CACHE, ignore_errors=True)
        return before - _size(root)


def _size(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*") if path.is_file())


Change = Callable[[Sequence[Document], Ledger], list[Document]]


def _change(root: Path, change: Change, models: Models, keep_read: bool = True) -> IndexReport | None:
    """`keep_read`: what could not be read before is still not in the store, and stays in the ledger."""
    with writing(root) as writer:
        store, ledger = Store.open(root), Ledger()
        old = store.documents()
        new = change(old, ledger)
        before = [one for one in Ledger.read(root / LEDGER) if keep_read and one.stage == "read"]
        ledger.entries = list(dict.fromkeys([*before, *ledger.entries]))
        known = {document.id: document for document in old}
        kept = {one.id for one in new if one.id in known and _is_same(one, known[one.id])}
        gone = len(old) - sum(one.id in known for one in new)
        say(f"update: {len(new) - len(kept):,} documents new or changed, {gone:,} gone, {len(kept):,} unchanged")
        if new == old:
            return None
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

    def run(self, documents: Sequence[Document], kept: set[str], ledger: Ledger) -> IndexReport:
        store = self._store
        old_chunks = store.chunks()
        with self._accounts.stage("chunk"):
            chunks = self._chunks(documents, _by_document(old_chunks, kept))
        known = {chunk.id: one for chunk, one in zip(old_chunks, store.records(), strict=True) if chunk.doc_id in kept}
        records, described = self._records(chunks, known)
        set_aside_failed(records, ledger)
        extraction = Extraction(documents, chunks, records, described, decisions_in(store))
        vectors = KnownVectors.of(store)
        return build(self._writer, extraction, self._encoder, store.manifest["config"], self._accounts, ledger, vectors)

    def _chunks(self, documents: Iterable[Document], known: dict[str, list[Chunk]]) -> list[Chunk]:
        config = IndexConfig.from_mapping(self._store.manifest["config"])
        spans = self._encoder.token_spans
        return [
            chunk
            for document in documents
            for chunk in known.get(document.id) or chunk_documents([document], spans, config)
        ]

    def _records(
        self, chunks: Sequence[Chunk], known: dict[str, ExtractionRecord]
    ) -> tuple[list[ExtractionRecord], dict[str, Any]]:
        models, store = self._models, self._store
        with ExitStack() as held, self._accounts.stage("extract") as account:
            extractor: Extractor = extractor_of(store, models.llm, models.llm_options, self._encoder, held)
            units = held.enter_context(FinishedUnits(extractions_file(store.root / CACHE)))
            # What spaCy takes for a name depends on the titles and words of the whole corpus.
            own = {} if extractor.name == "spacy" else known
            at = {place: own[chunk.id] for place, chunk in enumerate(chunks) if chunk.id in own}
            records = extract_chunks(chunks, extractor, units, account, at)
            return records, {"name": extractor.name, **extractor.describe()}


def _by_document(chunks: Iterable[Chunk], kept: set[str]) -> dict[str, list[Chunk]]:
    found: dict[str, list[Chunk]] = {}
    for chunk in chunks:
        if chunk.doc_id in kept:
            found.setdefault(chunk.doc_id, []).append(chunk)
    return found
