"""The reference of `propagation`: one sub-hypergraph, plain 64-bit loops, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence


def propagate(
    members: Sequence[Sequence[int]], restart_vector: Sequence[float], restart: float, steps: int
) -> list[float]:
    """c after `steps` steps of c = restart · r + (1 - restart) · B De⁻¹ Bᵀ Dv⁻¹ c, from c = r (equations 24 to 28).

    Args:
        members: the distinct entities of each hyperedge, numbered from 0.
        restart_vector: r, one number for each entity.
    """
    degree = [0] * len(restart_vector)
    for entities in members:
        for entity in entities:
            degree[entity] += 1
    confidence = list(restart_vector)
    for _ in range(steps):
        moved = [0.0] * len(confidence)
        for entities in members:
            flow = sum(confidence[entity] / degree[entity] for entity in entities)
            for entity in entities:
                moved[entity] += flow / len(entities)
        confidence = [restart * r + (1 - restart) * m for r, m in zip(restart_vector, moved, strict=True)]
    return confidence
