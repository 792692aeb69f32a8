"""The methods that are compared, by name, and what they share.

Knows how each is made. A method is cheap to make; what it needs is loaded by `load`, so that no timing includes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from hyce_serving.encoder import Encoder

from hyce_gpu.config import Config
from hyce_gpu.errors import InputError, unknown
from hyce_gpu.evaluation.ablations import EngineMethod, Unassembled, hyperedge_confidence, retrieval_score
from hyce_gpu.evaluation.chunk_paths import ChunkPaths
from hyce_gpu.evaluation.dense import Dense
from hyce_gpu.evaluation.lexical_baseline import Bm25
from hyce_gpu.evaluation.pagerank_methods import PageRank
from hyce_gpu.evaluation.scores import NO_CONTEXT
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store


class Method(Protocol):
    name: str

    def describe(self) -> Mapping[str, Any]:
        """What would have to be the same for the same ranking, beside the store."""

    def load(self) -> None:
        """Loads what `retrieve` needs; called once, before it."""

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        """Status "retrieved" and paths in the order of rank for each question; none of them has an error."""


@dataclass(frozen=True)
class Shared:
    store: Store
    encoder: Encoder
    # Of the method `linked`; what it says of the context is everyone's.
    config: Config
    device: str

    @cached_property
    def paths(self) -> ChunkPaths:
        return ChunkPaths(self.store)

    def paper(self, **options: Any) -> Config:
        shown = {"context_segments": self.config.context_segments, "context_unit": self.config.context_unit}
        return Config.paper(**shown, **options)

    def engine(self) -> tuple[Store, Encoder, str]:
        return self.store, self.encoder, self.device


class NoContext:
    """The model alone."""

    name = NO_CONTEXT

    def describe(self) -> Mapping[str, Any]:
        return {}

    def load(self) -> None:
        pass

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        return [Answer(question.id, question.text, "retrieved") for question in questions]


def _without_propagation(shared: Shared) -> Method:
    config = shared.paper(propagation_steps=0, weight_propagation=0.0)
    return EngineMethod("paper-no-propagation", config, *shared.engine())


_METHODS: Mapping[str, Callable[[Shared], Method]] = {
    "linked": lambda shared: EngineMethod("linked", shared.config, *shared.engine()),
    "paper": lambda shared: EngineMethod("paper", shared.paper(), *shared.engine()),
    "paper-hypergraph-only": lambda shared: Unassembled(
        "paper-hypergraph-only", retrieval_score, shared.paper(), *shared.engine()
    ),
    "paper-no-propagation": _without_propagation,
    "paper-no-assembly": lambda shared: Unassembled(
        "paper-no-assembly", hyperedge_confidence, shared.paper(), *shared.engine()
    ),
    "dense": lambda shared: Dense(shared.store, shared.encoder, shared.paths),
    "bm25": lambda shared: Bm25(shared.paths),
    "ppr": lambda shared: PageRank(shared.store, shared.encoder, shared.paths, mentions=False),
    "ppr-mentions": lambda shared: PageRank(shared.store, shared.encoder, shared.paths, mentions=True),
    NO_CONTEXT: lambda shared: NoContext(),
}

NAMES = tuple(_METHODS)


def parse_names(text: str) -> list[str]:
    """The methods of a list like "linked,dense", in its order, each once.

    Raises:
        InputError: a name that is not known (the message gives the nearest one), or none at all.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in NAMES:
            raise InputError(unknown("method", name, NAMES))
    if not names:
        raise InputError(f"no method is named; there are {', '.join(NAMES)}")
    return names


def make(name: str, shared: Shared) -> Method:
    """Raises:
    MissingBackendError: a package that the method needs is not installed.
    """
    return _METHODS[name](shared)
