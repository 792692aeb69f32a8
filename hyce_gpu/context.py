"""Evidence paths → the structured context that the model reads (SPEC.md, section 2, step 15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hyce_gpu.schema import EvidencePath


def context_paths(paths: Sequence[EvidencePath], segments: int) -> list[EvidencePath]:
    """The paths that the context may hold: supporting ones first, then divergent ones, then passages, at most
    `segments` of them, each in the order of rank."""
    order = ("supporting", "divergent", "text")
    return sorted(paths, key=lambda path: (order.index(path.role), path.rank))[:segments]


def render(paths: Sequence[EvidencePath], titles: Mapping[str, str]) -> str:
    """The context as text, numbered from 1. `titles`: of the documents, by id."""
    return "\n\n".join(_render_one(number, path, titles) for number, path in enumerate(paths, 1))


def _render_one(number: int, path: EvidencePath, titles: Mapping[str, str]) -> str:
    source = path.sources[0]
    title = titles.get(source.doc_id, "")
    # A passage without hyperedges was never extracted: it has no confidence to tell.
    told = f" evidence, score {path.score:.2f}, confidence {path.extraction_confidence:.2f}"
    head = f"[{number}] {path.role}{told if path.entities else ''}"
    lines = [f"{head}, source {title or source.doc_id}:", path.segment]
    if path.entities:
        lines.append("Entities: " + "; ".join(path.entities))
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
