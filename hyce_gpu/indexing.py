"""The offline stage in its order: corpus → chunks → records → hypergraph → store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu.accounts import Accounts, Stage
from hyce_gpu.chunking import chunk_documents
from hyce_gpu.config import IndexConfig
from hyce_gpu.decisions import Decision
from hyce_gpu.encoders import identity
from hyce_gpu.extract import Extractor
from hyce_gpu.extract.records import read_records
from hyce_gpu.extract_job import extract_chunks
from hyce_gpu.ledger import Ledger
from hyce_gpu.merge import Hyperedge, Merged, merge, representation
from hyce_gpu.progress import Advance, progress, say
from hyce_gpu.provenance import provenance, row_text, titled
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in, decisions_left
from hyce_gpu.store_files import CACHE, LEDGER, StoreWriter, writing
from hyce_gpu.store_write import Contents, write_store
from hyce_gpu.units import FinishedUnits, unit_key


@dataclass(frozen=True)
class IndexReport:
    counts: dict[str, int]
    # Wall seconds of each stage.
    seconds: dict[str, float]
    ledger: Ledger


@dataclass(frozen=True)
class Extraction:
    """What the extraction leaves to the rest of the offline stage."""

    documents: Sequence[Document]
    chunks: Sequence[Chunk]
    records: Sequence[ExtractionRecord]
    # Of the extractor, for the manifest.
    described: Mapping[str, Any]
    # What people decided about names.
    decisions: Sequence[Decision] = ()

    @classmethod
    def of(cls, store: Store) -> Self:
        """What a store was made from, as it holds it itself."""
        parts = store.documents(), store.chunks(), store.records()
        return cls(*parts, store.manifest["extractor"], decisions_in(store))


def index_corpus(
    corpus: Sequence[Path],
    root: Path,
    encoder: Encoder,
    extractor: Extractor | None,
    records_file: Path | None = None,
    config: IndexConfig | None = None,
    cache: Path | None = None,
    release: Callable[[], object] = lambda: None,
) -> IndexReport:
    """Builds the store at `root` from the documents in `corpus`.

    The decisions about names of a store that is there stay.

    Args:
        extractor: turns chunks into records; None where `records_file` holds them already.
        cache: directory of the extractions that are used again, by content; by default the store's own.
        release: called after the extraction, to free what only it needs: a model's memory, before texts are embedded.

    Raises:
        InputError: no usable document, or a records file that cannot be used.
        JobError: most chunks fail.
        OutputError: the store cannot be written, or another process is writing it.
    """
    config = config or IndexConfig()
    accounts, ledger = Accounts(), Ledger()
    with accounts.stage("read") as account:
        documents = read_corpus(corpus, ledger)
        account.units = len(documents)
    say(f"read: {len(documents):,} documents, {len(ledger):,} set aside")
    with writing(root) as writer:
        decided = decisions_left(root)
        if extractor is None:
            assert records_file is not None
            with accounts.stage("extract") as account:
                chunks, records = read_records(records_file, documents, ledger)
                account.units = len(records)
            extraction = Extraction(documents, chunks, records, {"name": "records", "file": records_file.name}, decided)
        else:
            chunks = _chunk(documents, encoder, config, accounts)
            with accounts.stage("extract") as account, FinishedUnits(extractions_file(cache or root / CACHE)) as units:
                records = extract_chunks(chunks, extractor, units, account)
            described = {"name": extractor.name, **extractor.describe()}
            extraction = Extraction(documents, chunks, records, described, decided)
            set_aside_failed(records, ledger)
        release()
        return build(writer, extraction, encoder, asdict(config), accounts, ledger)


def extractions_file(cache: Path) -> Path:
    return cache / "extractions.sqlite"


def _chunk(documents: Sequence[Document], encoder: Encoder, config: IndexConfig, accounts: Accounts) -> list[Chunk]:
    with accounts.stage("chunk") as account:
        chunks = chunk_documents(documents, encoder.token_spans, config)
        account.units = len(chunks)
    say(f"chunk: {len(chunks):,} chunks of at most {config.chunk_tokens} tokens")
    return chunks


def set_aside_failed(records: Sequence[ExtractionRecord], ledger: Ledger) -> None:
    """Lists the chunks that failed, wholly or in part."""
    for record in records:
        if record.error:
            ledger.set_aside("extract", record.chunk_id, record.error, record.raw)


def ledger_before(root: Path) -> Ledger:
    """A store's ledger as it stands; what the merge set aside, it sets aside again."""
    ledger = Ledger.read(root / LEDGER)
    ledger.entries = [one for one in ledger if one.stage != "merge"]
    return ledger


def build(
    writer: StoreWriter,
    extraction: Extraction,
    encoder: Encoder,
    config: Mapping[str, Any],
    accounts: Accounts,
    ledger: Ledger,
    known: KnownVectors | None = None,
) -> IndexReport:
    """Merges, embeds and writes what was extracted, and the ledger beside it; `known` texts keep their vectors."""
    with accounts.stage("merge") as account:
        merged = merge(extraction.records, extraction.decisions)
        account.units = len(merged.hyperedges)
    with accounts.stage("embed") as account:
        contents = _embed(extraction, merged, encoder, known or KnownVectors({}), account)
    manifest = {
        "corpus": chained(extraction.documents), "encoder": identity(encoder),
        "extractor": dict(extraction.described), "config": dict(config),
    }  # fmt: skip
    with accounts.stage("write"):
        warn_without_hyperedges(len(merged.hyperedges), writer.root, ledger)
        counts = write_store(writer, contents, manifest, accounts, ledger)
    return IndexReport(counts, accounts.seconds, ledger)


def warn_without_hyperedges(count: int, root: Path, ledger: Ledger) -> None:
    if count == 0:
        reason = "no hyperedge was found: questions can only be answered from similar text"
        ledger.set_aside("merge", str(root), reason)


def chained(documents: Iterable[Document], before: str = "") -> str:
    """A checksum of what was indexed: ids, titles and texts, in order; `before`: that of the documents before."""
    for document in documents:
        before = unit_key(before, document.id, document.title, document.text).hex()
    return before


class KnownVectors:
    """Vectors of texts that were embedded before, by the text."""

    def __init__(self, by_text: Mapping[str, np.ndarray]) -> None:
        self._by_text = by_text

    @classmethod
    def of(cls, *stores: Store) -> KnownVectors:
        """Those of stores of one encoder."""
        parts = (part for store in stores for part in store.embedded())
        return cls({text: vector for texts, vectors in parts for text, vector in zip(texts, vectors, strict=True)})

    def encode(self, texts: Sequence[str], encoder: Encoder, advance: Advance, account: Stage) -> np.ndarray:
        """float32 [n, d]; only texts that are not known go through the encoder, each once."""
        place = {text: at for at, text in enumerate(dict.fromkeys(t for t in texts if t not in self._by_text))}
        account.units += len(texts)
        account.reused += len(texts) - len(place)
        advance(len(texts) - len(place))
        new = encoder.encode(list(place), advance)
        if len(place) == len(texts):
            return new
        vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            known = self._by_text.get(text)
            vectors[row] = new[place[text]] if known is None else known
        return vectors


def _embed(extraction: Extraction, merged: Merged, encoder: Encoder, known: KnownVectors, account: Stage) -> Contents:
    chunks = extraction.chunks
    origin = provenance(chunks, merged)
    texts = {
        "entities": [representation(entity) for entity in merged.entities],
        "hyperedges": [
            row_text(row, chunks[place]) for place, row in zip(origin.passage, origin.rows, strict=True) if row.members
        ],
        "chunks": [titled(chunk.title, chunk.text) for chunk in chunks],
    }
    vectors: dict[str, np.ndarray] = {}
    with progress("embed", sum(map(len, texts.values())), "texts") as advance:
        for name, part in texts.items():
            vectors[name] = known.encode(part, encoder, advance, account)
    return Contents(
        extraction.documents, chunks, extraction.records, merged, origin,
        vectors["entities"], row_vectors(origin.rows, origin.passage, vectors["hyperedges"], vectors["chunks"]),
        vectors["chunks"], extraction.decisions,
    )  # fmt: skip


def row_vectors(
    rows: Sequence[Hyperedge], passage: Sequence[int], hyperedges: np.ndarray, chunks: np.ndarray
) -> np.ndarray:
    """[R, d] float32: those of the hyperedges [E, d], and of its chunk [C, d] for a row that is none."""
    vectors = np.empty((len(rows), chunks.shape[1]), dtype=np.float32)
    is_edge = np.fromiter((bool(row.members) for row in rows), bool, len(rows))
    vectors[is_edge] = hyperedges
    vectors[~is_edge] = chunks[np.asarray(passage, dtype=np.int64)[~is_edge]]
    return vectors
