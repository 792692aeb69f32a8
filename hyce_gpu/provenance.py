"""The merged hypergraph and its chunks → the rows of the store: the passage, the title and the words of each.

Rows are the hyperedges in the order of the chunks that they are first met in. A chunk that no hyperedge comes from
("bare") has a row without entities in its place: it is found by its text alone. So rows, like chunks and entities, keep
their numbers when further documents come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from hyce_gpu.extract.mentions import bare_title
from hyce_gpu.lexical import TermCounts, count_terms
from hyce_gpu.merge import Hyperedge, Merged
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import Chunk, Source


@dataclass(frozen=True)
class Provenance:
    rows: Sequence[Hyperedge]
    # For each row: the chunk that it stands in, and how often it uses which word.
    passage: Sequence[int]
    terms: TermCounts
    vocabulary: Sequence[str]
    # For each chunk: the entity that its title names, -1 where there is none.
    subject: Sequence[int]


def provenance(chunks: Sequence[Chunk], merged: Merged) -> Provenance:
    number = {chunk.id: place for place, chunk in enumerate(chunks)}
    rows = list(rows_of(chunks, merged.hyperedges))
    passage = [number[row.sources[0].chunk_id] for row in rows]
    vocabulary, terms = count_terms(row_text(row, chunks[place]) for row, place in zip(rows, passage, strict=True))
    return Provenance(rows, passage, terms, vocabulary, _subjects(chunks, merged))


def rows_of(
    chunks: Iterable[Chunk], hyperedges: Iterable[Hyperedge], known: Iterable[Hyperedge] = ()
) -> Iterator[Hyperedge]:
    """The rows of `chunks`, which the hyperedges are first met in.

    Args:
        known: what has its row already, and may come from these chunks as well.
    """
    first: dict[str, list[Hyperedge]] = {}
    used = {source.chunk_id for edge in known for source in edge.sources}
    for edge in hyperedges:
        first.setdefault(edge.sources[0].chunk_id, []).append(edge)
        used.update(source.chunk_id for source in edge.sources)
    for chunk in chunks:
        yield from first.get(chunk.id, ())
        if chunk.id not in used:
            yield bare_row(Source(chunk.doc_id, chunk.id, chunk.start, chunk.end))


def bare_row(source: Source) -> Hyperedge:
    """The row of a chunk without hyperedges."""
    return Hyperedge("", (), 0.0, "", None, (), (source,))


def row_text(row: Hyperedge, chunk: Chunk) -> str:
    """What is searched and embedded of a row of that chunk."""
    return titled(chunk.title, row.segment if row.members else chunk.text)


def titled(title: str, text: str) -> str:
    """A text with the title of its document: a sentence alone often does not say whom it is about."""
    return f"{title}: {text}" if title else text


def _subjects(chunks: Sequence[Chunk], merged: Merged) -> list[int]:
    entity = {one.canonical: place for place, one in enumerate(merged.entities)}
    by_title = {title: entity_named(title, entity) for title in {chunk.title for chunk in chunks}}
    return [by_title[chunk.title] for chunk in chunks]


def entity_named(title: str, entity: Mapping[str, int]) -> int:
    """The entity of that title among those of the canonical names; -1 for none."""
    exact, bare = title_keys(title)
    return entity.get(exact, entity.get(bare, -1))


def title_keys(title: str) -> tuple[str, str]:
    """The canonical names by which an entity is looked for that a title names: all of it, and without its qualifier."""
    return canonical_name(title), canonical_name(bare_title(title))
