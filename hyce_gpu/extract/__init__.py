"""Extractors turn chunks into extraction records. Each lives in a file of its own behind one small interface."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hyce_gpu.schema import Chunk, ExtractionRecord


@dataclass(frozen=True)
class Extracted:
    """The record of `chunks[position]`, and the tokens that it took; 0 without a model."""

    position: int
    record: ExtractionRecord
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Extractor(Protocol):
    name: str

    def describe(self) -> Mapping[str, str]:
        """What shaped the records: model, prompt hash, package versions. Goes into the store's manifest."""
        ...

    def unit_keys(self, chunks: Sequence[Chunk]) -> list[bytes]:
        """For each chunk the key of all that its record depends on, but for its ids and where it stands."""
        ...

    def extract(self, chunks: Sequence[Chunk], wanted: Sequence[int]) -> Iterator[Extracted]:
        """The records of `wanted`, ascending positions in `chunks`, as they come; a chunk that fails has one too.

        `chunks` is the whole corpus, each document's chunks side by side, in order: what a record depends on beside
        its own chunk is the same whatever is wanted.
        """
        ...
