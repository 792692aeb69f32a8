"""The methods by name, what each ranks, and in which order; engines and stores are stand-ins."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hyce_serving.encoder import Encoder

from hyce_gpu.config import Config
from hyce_gpu.engine import Engine
from hyce_gpu.errors import InputError, MissingBackendError
from hyce_gpu.evaluation.ablations import EngineMethod, Unassembled, hyperedge_confidence, retrieval_score
from hyce_gpu.evaluation.chunk_paths import ChunkPaths
from hyce_gpu.evaluation.dense import Dense
from hyce_gpu.evaluation.lexical_baseline import Bm25
from hyce_gpu.evaluation.methods import NAMES, NoContext, Shared, make, parse_names
from hyce_gpu.measures import passages
from hyce_gpu.reasoning import Reasoning
from hyce_gpu.schema import EvidencePath, Question, Source
from hyce_gpu.store import Store

QUESTION = Question("q", "Where was Ada born?")


class _Chunks:
    """Chunks of documents by id, one vector each."""

    def __init__(self, chunks: Sequence[tuple[str, str]], vectors: Any = None) -> None:
        self._chunks, self._vectors = chunks, np.asarray(vectors, dtype=np.float32)
        self.counts = {"chunks": len(chunks), "documents": len({doc for doc, _ in chunks})}

    def chunk(self, number: int) -> tuple[Source, str]:
        doc, text = self._chunks[number]
        return Source(doc, f"{doc}#{number}", 0, len(text)), text

    def chunk_sources(self) -> list[Source]:
        return [self.chunk(number)[0] for number in range(len(self._chunks))]

    def title(self, doc: str) -> str:
        return f"Title {doc}"

    def chunk_vectors(self) -> np.ndarray:
        return self._vectors


class _Vectors:
    def encode(self, texts: Sequence[str]) -> np.ndarray:
        return np.tile(np.array([1, 0], dtype=np.float32), (len(texts), 1))


class _Engine:
    """Knows one question's reasoning."""

    def reason(self, questions: Sequence[str]) -> tuple[list[list[int]], list[Reasoning]]:
        found = Reasoning(
            hyperedges=[7, 2, 5], retrieval_score=[0.9, 0.8, 0.8], hyperedge_confidence=[0.1, 0.3, 0.3], vertices=[],
            confidence=[], evidence=[], evidence_score=[], terms=[], retained={}, fallback=False, paths=[],
            supporting=[], divergent=[], cut=True,
        )  # fmt: skip
        return [[] for _ in questions], [found for _ in questions]

    def evidence_path(
        self, rank: int, role: str, hyperedge: int, score: float, terms: Mapping[str, float]
    ) -> EvidencePath:
        return EvidencePath(rank, role, score, terms, 1.0, (), "", (), (), hyperedge)


def _paths(store: _Chunks) -> ChunkPaths:
    return ChunkPaths(cast(Store, store))


def test_names_are_known_and_kept_in_order() -> None:
    assert parse_names(" dense,linked,,dense") == ["dense", "linked"]
    with pytest.raises(InputError, match="unknown method 'ppr-mention'; did you mean 'ppr-mentions'"):
        parse_names("dense,ppr-mention")
    with pytest.raises(InputError, match="unknown method 'zzz'; there are linked, paper, "):
        parse_names("zzz")
    with pytest.raises(InputError, match="no method is named"):
        parse_names(" ,")


def test_every_method_is_made_without_loading_anything() -> None:
    shared = Shared(
        cast(Store, _Chunks([("a", "x")])), cast(Encoder, _Vectors()), Config.paper(context_segments=4), "cpu"
    )
    made = {name: make(name, shared) for name in NAMES}
    assert {name: method.name for name, method in made.items()} == {name: name for name in NAMES}
    without = made["paper-no-propagation"].describe()["config"]
    assert (without["propagation_steps"], without["weight_propagation"]) == (0, 0.0)
    # The budget of evidence is everyone's.
    assert made["paper"].describe()["config"]["context_segments"] == 4


@pytest.mark.parametrize(("ranking", "order"), [(retrieval_score, [7, 2, 5]), (hyperedge_confidence, [2, 5, 7])])
def test_hyperedges_without_assembly(ranking: Any, order: list[int]) -> None:
    method = Unassembled("x", ranking, Config(), cast(Store, None), cast(Encoder, None), "cpu")
    method.engine = cast(Any, _Engine())
    (answer,) = method.retrieve([QUESTION])
    assert [path.hyperedge for path in answer.paths] == order
    assert [path.rank for path in answer.paths] == [1, 2, 3]
    assert all(path.terms == {ranking.__name__: path.score} for path in answer.paths)
    assert answer.cut
    assert method.describe()["order"] == ranking.__name__


def test_an_engine_has_no_model_so_that_all_methods_see_the_same_question(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    monkeypatch.setattr(Engine, "open", lambda root, **options: opened.append((root, options)) or _Engine())
    store, encoder, config = cast(Store, SimpleNamespace(root="store")), cast(Encoder, _Vectors()), Config()
    method = EngineMethod("paper", config, store, encoder, "cpu")
    method.load()
    assert opened == [("store", {"encoder": encoder, "llm": None, "config": config, "device": "cpu"})]


def test_a_ranking_goes_on_until_it_has_named_enough_passages() -> None:
    # 30 chunks of one document before 24 documents of one chunk each.
    store = _Chunks([("long", f"part {n}") for n in range(30)] + [(f"d{n}", "x") for n in range(24)])
    answer = _paths(store).answer(QUESTION, range(54), np.linspace(1, 0, 54), "similarity")
    assert [path.segment for path in answer.paths[:20]] == [f"part {n}" for n in range(20)]
    assert passages(answer.paths) == ["long", *(f"d{n}" for n in range(19))]
    assert answer.status == "retrieved"
    assert answer.paths[0].role == "text"
    assert answer.paths[0].terms == {"similarity": 1.0}


def test_dense_ranks_by_cosine_and_searches_on_where_documents_are_long() -> None:
    cosine = np.linspace(0.9, 0.5, 130)
    vectors = np.stack([cosine, np.sqrt(1 - cosine**2)], axis=1)
    store = _Chunks([("long", str(n)) for n in range(120)] + [(f"d{n}", "x") for n in range(10)], vectors)
    method = Dense(cast(Store, store), cast(Encoder, _Vectors()), _paths(store))
    method.load()
    (answer,) = method.retrieve([QUESTION])
    assert passages(answer.paths) == ["long", *(f"d{n}" for n in range(10))]
    assert [path.score for path in answer.paths[:2]] == pytest.approx(cosine[:2], abs=1e-6)
    assert method.retrieve([]) == []


def test_bm25_finds_words_of_titles_and_texts_and_nothing_else() -> None:
    pytest.importorskip("bm25s")
    store = _Chunks([("a", "Ada was here"), ("b", "born in Ada, where Ada was"), ("c", "the where of it")])
    method = Bm25(_paths(store))
    method.load()
    (answer,) = method.retrieve([QUESTION])
    # "Born" is in one chunk alone, which has "Ada" as often as any other.
    assert passages(answer.paths)[0] == "b"
    assert answer.paths[0].score == 1.0
    (nothing,) = method.retrieve([Question("q", "the zebra")])
    assert (nothing.status, nothing.paths) == ("retrieved", ())


def test_a_package_that_is_missing_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(MissingBackendError, match=r"pip install 'hyce-gpu\[eval\]'"):
        Bm25(cast(ChunkPaths, SimpleNamespace()))


def test_no_context() -> None:
    (answer,) = NoContext().retrieve([QUESTION])
    assert (answer.status, answer.paths) == ("retrieved", ())
