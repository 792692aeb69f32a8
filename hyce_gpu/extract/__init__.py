"""Extractors turn chunks into extraction records. Each lives in a file of its own behind one small interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from hyce_gpu.progress import Advance
from hyce_gpu.schema import Chunk, ExtractionRecord


class Extractor(Protocol):
    name: str

    def describe(self) -> Mapping[str, str]:
        """What shaped the records: model, prompt hash, package versions. Goes into the store's manifest."""
        ...

    def extract(self, chunks: Sequence[Chunk], advance: Advance) -> Iterator[ExtractionRecord]:
        """One record for each chunk, in the order of `chunks`; a chunk that fails gives a "failed" record.

        `chunks` holds each document's chunks side by side, in order. Calls `advance` for each finished chunk.
        """
        ...
