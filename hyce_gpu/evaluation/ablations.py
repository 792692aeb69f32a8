"""The method and the parts of it that are left out, each over an engine of its own.

Knows engines and configurations. No engine here has a model: all methods see the same question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hyce_serving.encoder import Encoder

from hyce_gpu.config import Config
from hyce_gpu.engine import Engine
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.schema import Answer, EvidencePath, Question
from hyce_gpu.store import Store

# Hyperedges of one question with their scores, best first.
Ranking = list[tuple[int, float]]


class EngineMethod:
    """The whole pipeline under a configuration."""

    def __init__(self, name: str, config: Config, store: Store, encoder: Encoder, device: str) -> None:
        self.name, self.config = name, config
        self._store, self._encoder, self._device = store, encoder, device

    def describe(self) -> Mapping[str, Any]:
        return {"config": asdict(self.config)}

    def load(self) -> None:
        self.engine = Engine.open(
            self._store.root, encoder=self._encoder, llm=None, config=self.config, device=self._device
        )

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        return self.engine.retrieve(questions)


class Unassembled(EngineMethod):
    """The question's hyperedges as they are ranked, without evidence assembly."""

    def __init__(
        self,
        name: str,
        ranking: Callable[[Reasoning], Ranking],
        config: Config,
        store: Store,
        encoder: Encoder,
        device: str,
    ) -> None:
        super().__init__(name, config, store, encoder, device)
        self._ranking = ranking

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "order": self._ranking.__name__}

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        _, found = self.engine.reason([question.text for question in questions])
        return [
            Answer(question.id, question.text, "retrieved", paths=self._paths(one), cut=one.cut)
            for question, one in zip(questions, found, strict=True)
        ]

    def _paths(self, found: Reasoning) -> tuple[EvidencePath, ...]:
        return tuple(
            self.engine.evidence_path(rank, "supporting", edge, score, {self._ranking.__name__: score})
            for rank, (edge, score) in enumerate(self._ranking(found), 1)
        )


def retrieval_score(found: Reasoning) -> Ranking:
    """E_q as it was retrieved (equation 16): no propagation, no assembly."""
    return list(zip(found.hyperedges, found.retrieval_score, strict=True))


def hyperedge_confidence(found: Reasoning) -> Ranking:
    """E_q by ρ(e) (equation 29), ties by lower id: propagation without assembly."""
    pairs = zip(found.hyperedges, found.hyperedge_confidence, strict=True)
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))
