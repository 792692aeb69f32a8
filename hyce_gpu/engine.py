"""The online stage in its order: questions → entry → evidence → context → answer, many questions at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from hyce_serving.encoder import Encoder
from hyce_serving.generator import Generator

from hyce_gpu import answering, encoders
from hyce_gpu.chains import Chain
from hyce_gpu.config import Config
from hyce_gpu.context import Layout
from hyce_gpu.devices import choose_device
from hyce_gpu.entry import NameLinker
from hyce_gpu.errors import InputError
from hyce_gpu.memory_plan import beside_store
from hyce_gpu.online import reason
from hyce_gpu.progress import Advance
from hyce_gpu.question_mentions import find_mentions
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.schema import Answer, ChainStep, EvidenceChain, EvidencePath, Question
from hyce_gpu.store import Store
from hyce_gpu.tables import relations_of, sources_of
from hyce_gpu.units import FinishedUnits

# How many chains an answer carries at most.
_CHAINS = 8


class Engine:
    """Answers batches of questions over one store. Open it once; models load at their first use.

    with Engine.open("store", llm="Qwen/Qwen2.5-1.5B-Instruct") as engine:
        answers = engine.answer(["Where was the architect of the Louvre pyramid born?"])
    """

    def __init__(
        self, store: Store, encoder: Encoder, generator: Generator | None, config: Config, device: str
    ) -> None:
        self.store, self.generator, self.config, self.device = store, generator, config, device
        self._encoder = encoder
        encoders.require_same(encoder, store.manifest["encoder"], str(store.root))
        self._hypergraph = store.hypergraph().to(device)
        self._index, self._indexes = store.entity_index(device), store.indexes(device)
        self._names = store.entity_names()
        self._linker = NameLinker(*store.names_and_aliases())
        self._vocabulary = store.vocabulary()
        self._bare = store.bare_chunks()
        self._bare_vectors = store.chunk_vectors()[self._bare]

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        encoder: str | Encoder | None = None,
        llm: str | Generator | None = None,
        llm_options: Mapping[str, Any] | None = None,
        config: Config | None = None,
        device: str = "auto",
    ) -> Self:
        """Opens the store at `path`.

        Args:
            encoder: a model or its name where the store's own is not to be found under its name.
            llm: a Hub id, a local path, or a generator that is shared; without it, `answer` is not possible.
            llm_options: of `Generator` and of vLLM's engine, by name; see docs/llm.md.
            device: "auto", "cpu", "cuda" or "cuda:N".

        Raises:
            StoreError: no store, a broken one, or another encoder.
            MissingBackendError: a device or package that is not there.
        """
        store = Store.open(path)
        device = choose_device(device)
        if not isinstance(encoder, Encoder):
            encoder = Encoder(encoder or store.manifest["encoder"]["name"], device=device)
        config = config or Config()
        if isinstance(llm, str):
            llm = Generator(llm, **beside_store(store, [config], device, llm, llm_options or {}))
        return cls(store, encoder, llm, config, device)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the LLM, if one was started."""
        if self.generator is not None:
            self.generator.close()

    def retrieve(self, questions: Iterable[str | Question], finished: FinishedUnits | None = None) -> list[Answer]:
        """Evidence for each question, status "retrieved", in order; "failed" for one that cannot be asked.

        Args:
            finished: what the model has been asked about these questions before; it is not asked again.
        """
        asked = _as_questions(questions)
        good = [question for question in asked if not question.error]
        entry, vectors, found = self._reason([question.text for question in good], finished)
        texts = self._nearest_texts(vectors, found)
        results = iter(
            self._answer(question, ids, reasoning, passages)
            for question, ids, reasoning, passages in zip(good, entry, found, texts, strict=True)
        )
        return [_failed(question) if question.error else next(results) for question in asked]

    def answer(
        self, questions: Iterable[str | Question], choose: bool = False, advance: Advance | None = None
    ) -> list[Answer]:
        """Evidence and an answer for each question, in order; the model works on many at once.

        Args:
            choose: bind each reply to the entities of its evidence, yes and no.
            advance: called with the number of questions that were just finished.

        Raises:
            InputError: the engine was opened without a model.
            ServingError: the model does not start, or stops.
        """
        retrieved = self.retrieve(questions)
        if self.generator is None:
            raise InputError("Engine.answer needs a model: Engine.open(path, llm=...)")
        return answering.answer_all(
            retrieved, self.store.passage, self.generator, Layout.of(self.config), choose, advance
        )

    def reason(self, questions: Sequence[str]) -> tuple[list[list[int]], list[Reasoning]]:
        """The entry entities of each question and what follows from them, in ids of the store."""
        entry, _, found = self._reason(questions)
        return entry, found

    def _reason(
        self, questions: Sequence[str], finished: FinishedUnits | None = None
    ) -> tuple[list[list[int]], np.ndarray, list[Reasoning]]:
        vectors = self._encoder.encode(list(questions))
        entry = self._entry(questions, vectors, finished)
        terms = self._vocabulary.terms(questions)
        found = reason(
            self._hypergraph, entry, vectors, self.config, device=self.device, query_terms=terms, indexes=self._indexes
        )
        return entry, vectors, found

    def _entry(self, questions: Sequence[str], vectors: np.ndarray, finished: FinishedUnits | None) -> list[list[int]]:
        nearest = self._index.nearest(vectors, self.config.entry_entities)
        by_model: list[list[str]] = [[]] * len(questions)
        if self.generator and questions:
            by_model = find_mentions(questions, self.generator, finished)
        entry = []
        for question, names, near in zip(questions, by_model, nearest, strict=True):
            # A model's names that the corpus does not know say nothing; the question's own words may.
            mentioned = self._linker.link(names) or self._linker.link(self._linker.mentions(question))
            entry.append(list(dict.fromkeys(mentioned + near)))
        return entry

    def _answer(
        self, question: Question, entry: Sequence[int], found: Reasoning, texts: Sequence[EvidencePath]
    ) -> Answer:
        ranked = enumerate((*found.supporting, *found.divergent), 1)
        by_edge = {edge: self._path(rank, edge, found) for rank, edge in ranked}
        chains = tuple(self._chain(chain, by_edge) for chain in found.chains[:_CHAINS])
        paths = list(by_edge.values())
        paths += [replace(text, rank=rank) for rank, text in enumerate(texts, len(paths) + 1)]
        names = tuple(self._names[entity] for entity in entry)
        return Answer(
            question.id, question.text, "retrieved", entry=names, paths=tuple(paths), chains=chains, cut=found.cut
        )

    def _path(self, rank: int, edge: int, found: Reasoning) -> EvidencePath:
        place = found.evidence.index(edge)
        role = "supporting" if edge in found.supporting else "divergent"
        return self.evidence_path(rank, role, edge, found.evidence_score[place], found.terms[place])

    def evidence_path(
        self, rank: int, role: str, hyperedge: int, score: float, terms: Mapping[str, float]
    ) -> EvidencePath:
        """A hyperedge with its texts; for the row of a chunk that gave no hyperedge, the chunk, in the role "text"."""
        pointer = self._hypergraph.member_pointer
        members = self._hypergraph.member[pointer[hyperedge] : pointer[hyperedge + 1]].tolist()
        if not members:
            return replace(self._text(self.store.array("passage")[hyperedge], score), rank=rank, terms=terms)
        row = self.store.hyperedge(hyperedge)
        names = tuple(self._names[entity] for entity in members)
        return EvidencePath(
            rank, role, score, terms, row["confidence"], names, row["segment"], relations_of(row), sources_of(row),
            hyperedge,
        )  # fmt: skip

    def _chain(self, chain: Chain, by_edge: Mapping[int, EvidencePath]) -> EvidenceChain:
        through = [chain.entry, *chain.bridges]
        steps = tuple(
            ChainStep(path.rank, path.hyperedge, self._names[entity] if entity >= 0 else "", path.segment)
            for path, entity in zip((by_edge[edge] for edge in chain.hyperedges), through, strict=True)
        )
        return EvidenceChain(chain.score, steps)

    def _nearest_texts(self, vectors: np.ndarray, found: Sequence[Reasoning]) -> list[list[EvidencePath]]:
        """The nearest passages without hyperedges, where the context has room beside the paths."""
        # `linked` finds them itself.
        if len(self._bare) == 0 or self.config.method == "linked":
            return [[] for _ in found]
        score = np.clip(vectors.astype(np.float64) @ self._bare_vectors.T.astype(np.float64), 0, 1)
        order = np.argsort(-score.astype(np.float32), axis=1, kind="stable")
        return [
            [
                self._text(self._bare[place], score[row, place])
                for place in order[row][: self.config.context_segments - len(one.paths)]
            ]
            if len(one.paths) < self.config.context_segments
            else []
            for row, one in enumerate(found)
        ]

    def _text(self, chunk: int, score: float) -> EvidencePath:
        source, text = self.store.chunk(int(chunk))
        return EvidencePath(0, "text", float(score), {"similarity": float(score)}, 0.0, (), text, (), (source,))

    def titles(self, paths: Sequence[EvidencePath]) -> dict[str, str]:
        """Titles of the documents that the paths come from, by id."""
        return self.store.titles(paths)


def _as_questions(questions: Iterable[str | Question]) -> list[Question]:
    asked = [q if isinstance(q, Question) else Question(f"q{n}", q) for n, q in enumerate(questions, 1)]
    blank = "the question is empty"
    return [q if q.error or q.text.strip() else Question(q.id, q.text, q.extra, blank) for q in asked]


def _failed(question: Question) -> Answer:
    return Answer(question.id, question.text, "failed", error=question.error)
