"""A chunk while it is being read. Knows chunks and mentions; who finds them is the extractor's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hyce_gpu.extract.mentions import Mention, mask_markup
from hyce_gpu.schema import Chunk


@dataclass
class Reading:
    """What was read in one chunk; positions count from the chunk's start."""

    chunk: Chunk
    # The chunk's text with its markup blanked.
    text: str
    mentions: list[Mention] = field(default_factory=list)
    error: str = ""


def readings_of(chunks: Sequence[Chunk]) -> list[Reading]:
    return [Reading(chunk, mask_markup(chunk.text)) for chunk in chunks]


def document_text(readings: Sequence[Reading]) -> tuple[str, list[int]]:
    """The document as far as its chunks cover it, overlaps once, and where each chunk begins in it."""
    parts: list[str] = []
    starts: list[int] = []
    length, end = 0, readings[0].chunk.start
    for reading in readings:
        gap = "\n" if reading.chunk.start > end else ""
        seen = min(max(end - reading.chunk.start, 0), len(reading.text))
        starts.append(length + len(gap) - seen)
        parts += [gap, reading.text[seen:]]
        length += len(gap) + len(reading.text) - seen
        end = max(end, reading.chunk.end)
    return "".join(parts), starts
