"""The offline stage in its order: corpus → chunks → records → hypergraph → store."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hyce_serving.encoder import Encoder

from hyce_gpu.chunking import chunk_documents
from hyce_gpu.config import IndexConfig
from hyce_gpu.encoders import identity
from hyce_gpu.extract import Extractor
from hyce_gpu.extract.records import read_records
from hyce_gpu.ledger import Ledger
from hyce_gpu.merge import Entity, Merged, merge
from hyce_gpu.progress import progress, say
from hyce_gpu.provenance import provenance, titled
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store import Contents, Store, write_store


@dataclass(frozen=True)
class IndexReport:
    counts: dict[str, int]
    # Wall seconds of each stage.
    seconds: dict[str, float]
    ledger: Ledger


def index_corpus(
    corpus: Sequence[Path],
    root: Path,
    encoder: Encoder,
    extractor: Extractor | None,
    records_file: Path | None = None,
    config: IndexConfig | None = None,
) -> IndexReport:
    """Builds the store at `root` from the documents in `corpus`.

    Args:
        extractor: turns chunks into records; None where `records_file` holds them already.

    Raises:
        InputError: no usable document, or a records file that cannot be used.
        OutputError: the store cannot be written.
    """
    config = config or IndexConfig()
    clock, ledger = _Clock(), Ledger()
    documents = read_corpus(corpus, ledger)
    say(f"read: {len(documents):,} documents, {len(ledger):,} set aside")
    clock.lap("read")
    if extractor is None:
        assert records_file is not None
        chunks, records = read_records(records_file, documents, ledger)
        described: dict[str, Any] = {"name": "records", "file": records_file.name}
    else:
        chunks = chunk_documents(documents, encoder.token_spans, config)
        say(f"chunk: {len(chunks):,} chunks of at most {config.chunk_tokens} tokens")
        clock.lap("chunk")
        records = _extract(chunks, extractor, ledger)
        described = {"name": extractor.name, **extractor.describe()}
    clock.lap("extract")
    merged = merge(records)
    clock.lap("merge")
    contents = _embed(documents, chunks, records, merged, encoder)
    clock.lap("embed")
    if not merged.hyperedges:
        ledger.set_aside("merge", str(root), "no hyperedge was found: questions can only be answered from similar text")
    write_store(root, contents, {"encoder": identity(encoder), "extractor": described, "config": asdict(config)})
    clock.lap("write")
    ledger.write(root / "ledger.jsonl")
    return IndexReport(Store.open(root).counts, clock.seconds, ledger)


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.monotonic()

    def lap(self, stage: str) -> None:
        now = time.monotonic()
        self.seconds[stage], self._last = round(now - self._last, 2), now


def _extract(chunks: Sequence[Chunk], extractor: Extractor, ledger: Ledger) -> list[ExtractionRecord]:
    with progress("extract", len(chunks), "chunks") as advance:
        records = list(extractor.extract(chunks, advance))
    for record in records:
        if record.status == "failed":
            ledger.set_aside("extract", record.chunk_id, record.error, record.raw)
    return records


def _embed(
    documents: Sequence[Document],
    chunks: Sequence[Chunk],
    records: Sequence[ExtractionRecord],
    merged: Merged,
    encoder: Encoder,
) -> Contents:
    origin = provenance(chunks, merged)
    segments = zip(origin.passage, (edge.segment for edge in merged.hyperedges), strict=False)
    texts = {
        "entities": [representation(entity) for entity in merged.entities],
        "hyperedges": [titled(chunks[place].title, segment) for place, segment in segments],
        "chunks": [titled(chunk.title, chunk.text) for chunk in chunks],
    }
    vectors: dict[str, np.ndarray] = {}
    with progress("embed", sum(map(len, texts.values())), "texts") as advance:
        for name, part in texts.items():
            vectors[name] = encoder.encode(part, advance)
    return Contents(
        documents, chunks, records, merged, origin, vectors["entities"], vectors["hyperedges"], vectors["chunks"]
    )


def representation(entity: Entity) -> str:
    """r(v): name, aliases, type and description as one text (equation 6)."""
    names = ", ".join((entity.name, *entity.aliases))
    return "; ".join(part for part in (names, entity.type, entity.description) if part)
