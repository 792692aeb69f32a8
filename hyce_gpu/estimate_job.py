"""The estimate command: what an extraction by a model will cost, from the corpus and a short sample of real replies."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder
from hyce_serving.generator import Generator

from hyce_gpu.chunking import chunk_documents
from hyce_gpu.config import IndexConfig
from hyce_gpu.devices import choose_device
from hyce_gpu.extract import Extracted
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.ledger import Ledger
from hyce_gpu.memory_plan import beside_encoder
from hyce_gpu.progress import progress
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Chunk

# The first chunk of the sample pays for the start of the engine, which the job pays once.
_WARM_UP = 1


@dataclass(frozen=True)
class Estimate:
    documents: int
    chunks: int
    # Chunks that were extracted for it, and how many of them failed; the reason of the first.
    sampled: int
    sample_failed: int
    first_failure: str
    # Of the whole extraction.
    prompt_tokens: int
    completion_tokens: int
    # At the pace of the sample. A fuller engine is faster, so on a GPU this is an upper bound.
    seconds: float
    # Until the first reply: the start of the engine.
    start_seconds: float


def estimate(
    corpus: Sequence[Path],
    llm: str,
    sample: int,
    encoder: str | None = None,
    options: Mapping[str, Any] | None = None,
    llm_options: Mapping[str, Any] | None = None,
) -> Estimate:
    """Extracts `sample` chunks, evenly spread over the corpus, and scales up; writes nothing.

    Raises:
        InputError: no usable document.
        ModelNotFound, ServingError: the model is not there or does not start.
    """
    vectors = Encoder(encoder, device=choose_device())
    with Generator(llm, **beside_encoder(vectors.name, vectors.device, llm, llm_options or {})) as generator:
        documents = read_corpus(corpus, Ledger())
        config = IndexConfig.from_mapping(options or {})
        chunks = chunk_documents(documents, vectors.token_spans, config)
        extractor = LlmExtractor(generator)
        picked = _spread(len(chunks), min(sample + _WARM_UP, len(chunks)))
        with progress("sample", len(picked), "chunks") as shown:
            started = time.monotonic()
            found = _extract(extractor, chunks, picked[:_WARM_UP])
            shown(len(found))
            start_seconds = time.monotonic() - started
            rest = _extract(extractor, chunks, picked[_WARM_UP:])
            seconds = time.monotonic() - started - start_seconds
            shown(len(rest))
        # A corpus of one chunk is its own sample.
        scale = len(chunks) / max(len(rest), 1)
    return _estimate(len(documents), len(chunks), [*found, *rest], seconds * scale, start_seconds)


def _extract(extractor: LlmExtractor, chunks: Sequence[Chunk], wanted: Sequence[int]) -> list[Extracted]:
    return list(extractor.extract(chunks, wanted))


def _spread(total: int, count: int) -> list[int]:
    """`count` distinct positions, evenly spread over `total`."""
    return [place * total // count for place in range(count)]


def _estimate(documents: int, chunks: int, found: Sequence[Extracted], seconds: float, start: float) -> Estimate:
    scale = chunks / max(len(found), 1)
    failed = [one.record.error for one in found if one.record.status == "failed"]
    return Estimate(
        documents,
        chunks,
        len(found),
        len(failed),
        failed[0] if failed else "",
        round(scale * sum(one.prompt_tokens for one in found)),
        round(scale * sum(one.completion_tokens for one in found)),
        round(seconds, 1),
        round(start, 1),
    )
