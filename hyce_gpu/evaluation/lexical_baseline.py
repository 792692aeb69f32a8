"""BM25 over titles and chunks, by bm25s (Lucene's variant, k1 1.5, b 0.75, English stop words, no stemming).

Knows words of two letters and more between spaces and punctuation; scripts without spaces are not segmented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hyce_gpu.errors import MissingBackendError
from hyce_gpu.evaluation.chunk_paths import ChunkPaths, falling
from hyce_gpu.schema import Answer, Question

_STOP_WORDS = "english"


def _bm25s() -> Any:
    try:
        import bm25s
    except ImportError as error:
        raise MissingBackendError(
            f"bm25s cannot be imported ({error}); install it with: pip install 'hyce-gpu[eval]'"
        ) from error
    return bm25s


class Bm25:
    name = "bm25"

    def __init__(self, paths: ChunkPaths) -> None:
        self._bm25s, self._paths = _bm25s(), paths

    def describe(self) -> Mapping[str, Any]:
        version = self._bm25s.__version__
        return {"bm25s": version, "stop_words": _STOP_WORDS, "k1": 1.5, "b": 0.75, "text": "title and chunk"}

    def load(self) -> None:
        self._index = self._bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        self._index.index(self._words(self._paths.texts()), show_progress=False)

    def retrieve(self, questions: Sequence[Question]) -> list[Answer]:
        words = self._words([question.text for question in questions])
        return [self._answer(question, found) for question, found in zip(questions, words, strict=True)]

    def _answer(self, question: Question, words: Sequence[str]) -> Answer:
        known = [word for word in words if word in self._index.vocab_dict]
        if not known:
            return Answer(question.id, question.text, "retrieved")
        score = np.asarray(self._index.get_scores(known), dtype=np.float64)
        # A chunk that shares no word with the question is not found, wherever it stands in the corpus.
        ranking = [number for number in falling(score) if score[number] > 0]
        # BM25 has no upper end; the prompt shows scores from 0 to 1.
        return self._paths.answer(question, ranking, score / max(score.max(), 1e-12), "bm25")

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        words: list[list[str]] = self._bm25s.tokenize(
            list(texts), stopwords=_STOP_WORDS, return_ids=False, show_progress=False
        )
        return words
