"""Evidence paths → the structured context that the model reads (SPEC.md, section 2, step 15).

Two layouts. "segment" is the paper's: each path with its segment, entities, relations and scores. "passage" hands over
the whole passage that a path stands in, under its title: the sentence that was found says where to look, the sentences
around it often hold the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hyce_gpu.config import Config
from hyce_gpu.schema import EvidencePath


@dataclass(frozen=True)
class Layout:
    # How many pieces of evidence the context has at most, and what a piece is: one of `config.CONTEXT_UNITS`.
    segments: int
    unit: str

    @classmethod
    def of(cls, config: Config) -> Layout:
        return cls(config.context_segments, config.context_unit)


@dataclass(frozen=True)
class Passage:
    """Where a path stands: the title of its document, "" for none, and the text around its segment."""

    title: str
    text: str


PassageOf = Callable[[EvidencePath], Passage]


def context_paths(paths: Sequence[EvidencePath], layout: Layout) -> list[EvidencePath]:
    """The paths that the context may hold, in the order of rank, which puts supporting ones before divergent ones.

    Of the paths in one passage only the best leads to it: the context holds it once.
    """
    ranked = sorted(paths, key=lambda path: path.rank)
    if layout.unit == "segment":
        return ranked[: layout.segments]
    first: dict[str, EvidencePath] = {}
    for path in ranked:
        first.setdefault(path.sources[0].chunk_id, path)
    return list(first.values())[: layout.segments]


def render(paths: Sequence[EvidencePath], passage_of: PassageOf, unit: str) -> str:
    """The context as text, numbered from 1."""
    return "\n\n".join(_piece(number, path, passage_of(path), unit) for number, path in enumerate(paths, 1))


def shown_text(path: EvidencePath, passage: Passage, unit: str) -> str:
    """What the model reads of the document."""
    return passage.text if unit == "passage" else path.segment


def _piece(number: int, path: EvidencePath, passage: Passage, unit: str) -> str:
    title = passage.title or path.sources[0].doc_id
    text = shown_text(path, passage, unit)
    # A passage without hyperedges was never extracted: it has no confidence to tell, in either layout.
    if unit == "passage" or not path.entities:
        return f"[{number}] {title}\n{text}"
    lines = [
        f"[{number}] {path.role} evidence, score {path.score:.2f}, confidence {path.extraction_confidence:.2f}, "
        f"source {title}:",
        text,
        "Entities: " + "; ".join(path.entities),
    ]
    lines += [f"Relation: {r.head} | {r.predicate} | {r.tail} ({r.confidence:.2f})" for r in path.relations]
    return "\n".join(lines)


def fit(
    paths: Sequence[EvidencePath], tokens: Callable[[Sequence[EvidencePath]], int], room: int
) -> list[EvidencePath] | None:
    """The longest run of paths from the front whose prompt has at most `room` tokens; the weakest go first.

    Args:
        tokens: counts the tokens of the whole prompt with these paths in it.

    Returns:
        None where not even the prompt without evidence fits.
    """
    for count in range(len(paths), -1, -1):
        if tokens(paths[:count]) <= room:
            return list(paths[:count])
    return None
