"""The index command: chooses the extractor, opens the models, and runs the offline stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder
from hyce_serving.generator import Generator

from hyce_gpu.config import IndexConfig
from hyce_gpu.devices import choose_device
from hyce_gpu.errors import InputError
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.indexing import IndexReport, index_corpus
from hyce_gpu.memory_plan import beside_encoder
from hyce_gpu.progress import say

EXTRACTORS = ("auto", "llm", "spacy", "records")


def run_index(
    corpus: Sequence[Path],
    root: Path,
    extractor: str,
    records: Path | None,
    llm: str | None,
    encoder: str | None,
    device: str,
    options: Mapping[str, Any],
    cache: Path | None = None,
    llm_options: Mapping[str, Any] | None = None,
) -> IndexReport:
    """Raises:
    InputError: extractor options that do not go together.
    """
    kind = _choose(extractor, records, llm)
    if llm_options and kind != "llm":
        raise InputError(f"--llm-set {', '.join(llm_options)} is for a model: the extractor is {kind}")
    config = IndexConfig.from_mapping(options)
    device = choose_device(device)
    vectors = Encoder(encoder, device=device, batch_size=config.encode_batch)
    if kind == "records":
        return index_corpus(corpus, root, vectors, None, records, config)
    if kind == "spacy":
        return index_corpus(corpus, root, vectors, SpacyExtractor(), None, config, cache)
    assert llm is not None
    with Generator(llm, **beside_encoder(vectors.name, device, llm, llm_options or {})) as generator:
        return index_corpus(corpus, root, vectors, LlmExtractor(generator), None, config, cache, generator.close)


def _choose(extractor: str, records: Path | None, llm: str | None) -> str:
    if extractor not in EXTRACTORS:
        raise InputError(f"unknown extractor {extractor!r}; there are {', '.join(EXTRACTORS)}")
    if extractor == "auto":
        extractor = "records" if records else "llm" if llm else "spacy"
        given = {"records": "--records is given", "llm": "--llm is given"}.get(
            extractor, "neither --llm nor --records is given"
        )
        say(f"extractor: {extractor} ({given})")
    if extractor == "llm" and llm is None:
        raise InputError("--extractor llm needs --llm MODEL")
    if extractor == "records" and records is None:
        raise InputError("--extractor records needs --records FILE")
    return extractor
