"""The nouns that pass between the steps: plain frozen records, no behaviour, no I/O.

Offsets are positions in code points: `document.text[chunk.start:chunk.end] == chunk.text`, always.
Confidences lie in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Document:
    id: str
    title: str
    text: str
    # Where it was read: a file, or a file and a line ("corpus.jsonl:12").
    source: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    id: str
    doc_id: str
    # Position among the chunks of its document, from 0.
    order: int
    start: int
    end: int
    text: str
    # The title of its document: extractors use it as an entity and as context.
    title: str


@dataclass(frozen=True)
class ExtractedEntity:
    name: str
    type: str = ""
    role: str = ""
    aliases: tuple[str, ...] = ()
    description: str = ""
    confidence: float = 1.0


@dataclass(frozen=True)
class Relation:
    """A directed relation between two entities of one hyperedge."""

    head: str
    predicate: str
    tail: str
    confidence: float = 1.0


@dataclass(frozen=True)
class ExtractedHyperedge:
    segment: str
    entities: tuple[str, ...]
    # Where the segment stands in the document, in code points.
    start: int
    end: int
    confidence: float = 1.0
    time: str = ""
    reliability: float | None = None
    relations: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class ExtractionRecord:
    """What one chunk gave. `status` is "ok", or "failed" with the reason in `error` and the reply in `raw`."""

    chunk_id: str
    doc_id: str
    order: int
    start: int
    end: int
    status: str
    entities: tuple[ExtractedEntity, ...] = ()
    hyperedges: tuple[ExtractedHyperedge, ...] = ()
    error: str = ""
    raw: str = ""


@dataclass(frozen=True)
class Question:
    id: str
    text: str
    # Further fields of its line: answer, supporting_ids, ...
    extra: Mapping[str, Any] = field(default_factory=dict)
    # Why it cannot be asked; empty for a good one.
    error: str = ""


@dataclass(frozen=True)
class Source:
    """Where a segment stands: code points of the document's text."""

    doc_id: str
    chunk_id: str
    start: int
    end: int


@dataclass(frozen=True)
class EvidencePath:
    rank: int
    # "supporting" or "divergent"; "text" for a passage without hyperedges.
    role: str
    score: float
    terms: Mapping[str, float]
    extraction_confidence: float
    entities: tuple[str, ...]
    segment: str
    relations: tuple[Relation, ...]
    sources: tuple[Source, ...]
    # The hyperedge's id in the store; -1 for a passage without hyperedges.
    hyperedge: int = -1


@dataclass(frozen=True)
class ChainStep:
    # The rank of the path that holds the hyperedge, and the entity that leads to it from the step before: the entry
    # entity for the first one; "" where none of the evidence holds an entry entity.
    path: int
    hyperedge: int
    through: str
    segment: str


@dataclass(frozen=True)
class EvidenceChain:
    """From an entry entity over hyperedges and bridge entities to evidence; `score` in [0, 1]."""

    score: float
    steps: tuple[ChainStep, ...]


@dataclass(frozen=True)
class Answer:
    """One question's outcome. `status`: "answered", "retrieved" (evidence only) or "failed" (see `error`)."""

    id: str
    question: str
    status: str
    answer: str | None = None
    entry: tuple[str, ...] = ()
    paths: tuple[EvidencePath, ...] = ()
    # Best first.
    chains: tuple[EvidenceChain, ...] = ()
    # Ranks of the paths that the model was shown, and of those that its answer cites.
    context: tuple[int, ...] = ()
    citations: tuple[int, ...] = ()
    # How many pieces of evidence, the weakest, did not fit into the model's window.
    left_out: int = 0
    # Whether the candidate budget left hyperedges out.
    cut: bool = False
    error: str = ""
    # The reply that could not be used.
    raw: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
