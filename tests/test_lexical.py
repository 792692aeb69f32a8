"""Words of texts, looked up in a store's table, and their BM25 weights by the formula."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from hyce_gpu import lexical
from hyce_gpu.lexical import bm25_weights, count_terms
from hyce_gpu.vocabulary import Vocabulary

TEXTS = ["Ada met Bob, and Bob met Ada.", "富士山 is high", "", "Ada is high; higher than 富士山"]


def test_words_are_numbered_by_first_use_and_counted() -> None:
    known, counts = count_terms(TEXTS)
    assert known[:3] == ["ada", "met", "bob"]
    assert counts.pointer.tolist()[:2] == [0, 3]
    assert counts.count.tolist()[:3] == [2, 2, 2]


def test_a_vocabulary_finds_the_words_of_questions_again_and_again() -> None:
    known, _ = count_terms(TEXTS)
    # A table in pieces.
    vocabulary = Vocabulary(pa.chunked_array([pa.array(known[:2]), pa.array(known[2:])]))
    number = {word: place for place, word in enumerate(known)}
    first = vocabulary.terms(["Did ADA meet Bob?", "nothing known", ""])
    assert first == [sorted((number["ada"], number["bob"])), [], []]
    assert vocabulary.terms(["Ada Ada high", "met nobody"]) == [
        sorted((number["ada"], number["high"])),
        [number["met"]],
    ]


@pytest.mark.parametrize("at_once", [1, 2, 1 << 14])
def test_weights_are_bm25(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(lexical, "_TEXTS_AT_ONCE", at_once)
    known, counts = count_terms(TEXTS)
    found = bm25_weights(counts.pointer, counts.term, counts.count, len(known))
    rows = [range(*counts.pointer[n : n + 2].tolist()) for n in range(len(TEXTS))]
    lengths = [sum(counts.count[place] for place in row) for row in rows]
    mean = sum(lengths) / len(lengths)
    for row, length in zip(rows, lengths, strict=True):
        for place in row:
            used = int(np.count_nonzero(counts.term == counts.term[place]))
            idf = math.log(1 + (len(TEXTS) - used + 0.5) / (used + 0.5))
            times = int(counts.count[place])
            expected = idf * times * 2.5 / (times + 1.5 * (0.25 + 0.75 * length / mean))
            assert found[place] == pytest.approx(expected, rel=1e-6)
    assert bm25_weights(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), 0).tolist() == []
