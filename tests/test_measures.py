"""Exact match, F1 and recall on values worked out by hand."""

from __future__ import annotations

import pytest

from hyce_gpu.measures import exact_match, normalise_answer, passages, recall, token_f1
from hyce_gpu.schema import EvidencePath, Source


def test_normalisation() -> None:
    assert normalise_answer("  The “Milky-Way”, an object. ") == "milky way object"
    assert normalise_answer("Ａthens。") == "athens"


def test_exact_match_takes_any_alias() -> None:
    assert exact_match("the Nile.", ["Blue Nile", "Nile"])
    assert not exact_match("Nile river", ["Blue Nile", "Nile"])


def test_token_f1() -> None:
    # Two of three found tokens among two wanted ones: precision 2/3, recall 1, F1 4/5.
    assert token_f1("Blue Nile river", ["Blue Nile"]) == pytest.approx(0.8)
    assert token_f1("x", ["y"]) == 0
    assert token_f1("", [""]) == 1


def test_recall_counts_distinct_passages_in_order_of_rank() -> None:
    docs = ["a", "a", "b", "c"]
    paths = [EvidencePath(n, "supporting", 1.0, {}, 1.0, (), "", (), (Source(d, d, 0, 1),)) for n, d in enumerate(docs)]
    found = passages(paths)
    assert found == ["a", "b", "c"]
    assert recall(found, ["b", "c"], 2) == 0.5
    assert recall(found, ["b", "c"], 3) == 1.0
