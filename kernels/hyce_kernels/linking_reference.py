"""The reference of `linking`: one question, every pair of hyperedges, nothing clever."""

from __future__ import annotations

from collections.abc import Sequence


def link(
    members: Sequence[Sequence[int]],
    passage: Sequence[int],
    subject: Sequence[int],
    score: Sequence[float],
    weight: Sequence[float],
    side: float,
) -> list[float]:
    """The gain of each hyperedge.

    Args:
        members: the entities of each hyperedge; passage: where it stands; subject: what that passage is about, or -1.
        score: of each hyperedge; weight: of each entity.
    """
    gains = [0.0] * len(members)
    for one, entities in enumerate(members):
        for other, theirs in enumerate(members):
            if passage[one] == passage[other]:
                continue
            for entity in set(entities) & set(theirs):
                factor = bridge_factor(entity, subject[one], subject[other], side)
                gains[one] = max(gains[one], weight[entity] * factor * score[other])
    return gains


def bridge_factor(entity: int, subject: int, other_subject: int, side: float) -> float:
    """1 where one of the two passages is about the entity, `side` where neither is, 0 where both are."""
    about = (subject == entity) + (other_subject == entity)
    return (side, 1.0, 0.0)[about]
