"""The merge command: several stores become one, as if it had been built from all their documents."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder

from hyce_gpu import encoders
from hyce_gpu.accounts import Accounts
from hyce_gpu.decisions import Verdicts
from hyce_gpu.devices import choose_device
from hyce_gpu.errors import InputError, OutputError
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.extract_job import extract_chunks
from hyce_gpu.indexing import Extraction, IndexReport, KnownVectors, build, extractions_file, set_aside_failed
from hyce_gpu.ledger import Ledger
from hyce_gpu.progress import say
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in
from hyce_gpu.store_files import CACHE, LEDGER, writing
from hyce_gpu.units import FinishedUnits


def merge_stores(roots: Sequence[Path], out: Path, encoder: str | None = None, device: str = "auto") -> IndexReport:
    """Writes the documents of all stores, in their order, as one store at `out`; no model is asked.

    A document that several stores have counts once.

    Raises:
        InputError: two stores have another document under one id, or were cut into chunks by other options, or the
            decisions of all of them contradict each other.
        StoreError: a store that cannot be read, or that has another encoder.
        OutputError: `out` is one of the stores, or cannot be written.
    """
    stores = [Store.open(root) for root in roots]
    if out.resolve() in [root.resolve() for root in roots]:
        raise OutputError(f"cannot merge into {out}: it is one of the stores; name another directory")
    first = stores[0].manifest
    vectors = Encoder(encoder or first["encoder"]["name"], device=choose_device(device))
    for store in stores:
        encoders.require_same(vectors, store.manifest["encoder"], str(store.root))
        if store.manifest["config"] != first["config"]:
            raise InputError(
                f"{store.root} was indexed with other options than {stores[0].root}; index one of them again"
            )
    documents, chunks, records = _gathered(stores)
    decisions = tuple({one for store in stores for one in decisions_in(store)})
    # Refused before anything is extracted.
    Verdicts(decisions)
    say(f"merge: {len(documents):,} documents of {len(stores)} stores")
    with writing(out) as writer:
        accounts = Accounts()
        described = _described(stores)
        if described["name"] == "spacy":
            # What it takes for a name depends on the titles and words of all stores.
            with accounts.stage("extract") as account, FinishedUnits(extractions_file(out / CACHE)) as units:
                extractor = SpacyExtractor()
                known = _still_true(stores, chunks, extractor)
                records = extract_chunks(chunks, extractor, units, account, known)
                described = {"name": extractor.name, **extractor.describe()}
        ledger = Ledger()
        ledger.entries = [one for root in roots for one in Ledger.read(root / LEDGER) if one.stage == "read"]
        set_aside_failed(records, ledger)
        extraction = Extraction(documents, chunks, records, described, decisions)
        return build(writer, extraction, vectors, first["config"], accounts, ledger, KnownVectors.of(*stores))


def _gathered(stores: Sequence[Store]) -> tuple[list[Document], list[Chunk], list[ExtractionRecord]]:
    documents: dict[str, Document] = {}
    chunks: list[Chunk] = []
    records: list[ExtractionRecord] = []
    for store in stores:
        new = set()
        for document in store.documents():
            same = documents.setdefault(document.id, document)
            if same is document:
                new.add(document.id)
            elif (same.title, same.text) != (document.title, document.text):
                raise InputError(
                    f"{store.root} has another document {document.id!r} than a store before it; rename one"
                )
        for chunk, record in zip(store.chunks(), store.records(), strict=True):
            if chunk.doc_id in new:
                chunks.append(chunk)
                records.append(record)
    return list(documents.values()), chunks, records


def _still_true(
    stores: Sequence[Store], chunks: Sequence[Chunk], extractor: SpacyExtractor
) -> dict[int, ExtractionRecord]:
    """The records that the stores have and that reading all of `chunks` would give, by position in `chunks`."""
    found: dict[tuple[str, bytes], ExtractionRecord] = {}
    for store in stores:
        if store.manifest["extractor"] == {"name": extractor.name, **extractor.describe()}:
            own = store.chunks()
            for chunk, key, record in zip(own, extractor.unit_keys(own), store.records(), strict=True):
                found[chunk.id, key] = record
    keys = zip(chunks, extractor.unit_keys(chunks), strict=True)
    asked = ((place, found.get((chunk.id, key))) for place, (chunk, key) in enumerate(keys))
    return {place: record for place, record in asked if record is not None and record.status == "ok"}


def _described(stores: Sequence[Store]) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    for store in stores:
        if store.manifest["extractor"] not in found:
            found.append(store.manifest["extractor"])
    names = {one["name"] for one in found}
    if len(found) == 1 or names == {"spacy"}:
        return dict(found[0])
    return {"name": "merged", "of": found}
