"""The merged hypergraph and its chunks → the passage, the title and the words of each row of the store.

Rows are the hyperedges, followed by the chunks that gave none ("bare"): those are found by their text alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hyce_gpu.extract.mentions import bare_title
from hyce_gpu.lexical import TermCounts, Vocabulary, count_terms
from hyce_gpu.merge import Merged
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import Chunk


@dataclass(frozen=True)
class Provenance:
    # Numbers of the chunks without hyperedges, ascending.
    bare: Sequence[int]
    # For each row: the chunk that it stands in, and how often it uses which word.
    passage: Sequence[int]
    terms: TermCounts
    vocabulary: Vocabulary
    # For each chunk: the entity that its title names, -1 where there is none.
    subject: Sequence[int]


def provenance(chunks: Sequence[Chunk], merged: Merged) -> Provenance:
    number = {chunk.id: place for place, chunk in enumerate(chunks)}
    used = {number[source.chunk_id] for edge in merged.hyperedges for source in edge.sources}
    bare = [place for place in range(len(chunks)) if place not in used]
    passage = [number[edge.sources[0].chunk_id] for edge in merged.hyperedges] + bare
    segments = [edge.segment for edge in merged.hyperedges] + [chunks[place].text for place in bare]
    texts = (titled(chunks[place].title, text) for place, text in zip(passage, segments, strict=True))
    vocabulary, terms = count_terms(texts)
    return Provenance(bare, passage, terms, vocabulary, _subjects(chunks, merged))


def titled(title: str, text: str) -> str:
    """A text with the title of its document: a sentence alone often does not say whom it is about."""
    return f"{title}: {text}" if title else text


def _subjects(chunks: Sequence[Chunk], merged: Merged) -> list[int]:
    entity = {one.canonical: place for place, one in enumerate(merged.entities)}
    by_title = {title: _entity_of(title, entity) for title in {chunk.title for chunk in chunks}}
    return [by_title[chunk.title] for chunk in chunks]


def _entity_of(title: str, entity: Mapping[str, int]) -> int:
    exact = entity.get(canonical_name(title), -1)
    return exact if exact >= 0 else entity.get(canonical_name(bare_title(title)), -1)
