"""The reference of `propagation`: one sub-hypergraph, plain 64-bit loops, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence


def propagate(
    members: Sequence[Sequence[int]],
    restart_vector: Sequence[float],
    restart: float,
    steps: int,
    hyperedge_weight: Sequence[float] | None = None,
    entity_weight: Sequence[float] | None = None,
) -> tuple[list[float], list[float]]:
    """c after `steps` steps of c = restart · r + (1 - restart) · S c (equations 24 to 28), from c = r.

    Args:
        members: the distinct entities of each hyperedge, numbered from 0.
        restart_vector: r, one number for each entity.
        hyperedge_weight, entity_weight: positive; all one, as in the paper, where left out.

    Returns:
        (c of each entity, what flows from c into each hyperedge).
    """
    into = hyperedge_weight or [1.0] * len(members)
    back = entity_weight or [1.0] * len(restart_vector)
    degree = [0.0] * len(restart_vector)
    for entities, weight in zip(members, into, strict=True):
        for entity in entities:
            degree[entity] += weight

    def flow(c: Sequence[float]) -> list[float]:
        return [w * sum(c[v] / degree[v] for v in entities) for entities, w in zip(members, into, strict=True)]

    confidence = list(restart_vector)
    for _ in range(steps):
        moved = [0.0] * len(confidence)
        for entities, through in zip(members, flow(confidence), strict=True):
            size = sum(back[entity] for entity in entities)
            for entity in entities:
                moved[entity] += through * back[entity] / size
        confidence = [restart * r + (1 - restart) * m for r, m in zip(restart_vector, moved, strict=True)]
    return confidence, flow(confidence)
