"""Rows of two methods, with means, differences and counts worked out by hand, and how they are shown."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hyce_gpu.context import Layout
from hyce_gpu.evaluation.judge import ACCURACY, FAITHFULNESS, RELEVANCE
from hyce_gpu.evaluation.plot import plot_recall
from hyce_gpu.evaluation.scores import RECALLS, answer_scores, labels, retrieval_scores
from hyce_gpu.evaluation.summary import Results, summarise
from hyce_gpu.evaluation.table import show_summary
from hyce_gpu.schema import Answer, EvidencePath, Question, Source


def _row(recall: float | None, f1: float, status: str = "answered") -> dict[str, Any]:
    measures = {"f1": f1, "exact_match": 0.0} | (dict.fromkeys(RECALLS, recall) if recall is not None else {})
    return {
        "status": status,
        "supporting": ["d"] if recall is not None else [],
        "expected": ["x"],
        "measures": measures,
        "seconds": {"retrieval": 0.5, "answer": 1.0},
        "usage": {"prompt_tokens": 10},
    }


def _judged(*scores: dict[str, float | None]) -> list[dict[str, Any]]:
    return [{"scores": one} for one in scores]


RESULTS = {
    "linked": Results(
        [_row(1.0, 1.0), _row(0.5, 0.0, "failed"), _row(None, 0.5)],
        _judged({ACCURACY: 1.0, RELEVANCE: None}, {ACCURACY: 0.0, RELEVANCE: None}, {ACCURACY: None, RELEVANCE: None}),
    ),
    "dense": Results([_row(0.5, 1.0), _row(0.0, 0.0), _row(None, 0.5)]),
}
DATASET = {"name": "toy", "questions": 3, "documents": 9, "unlabelled": 1, "without_expected_answer": 0}
SUMMARY: dict[str, Any] = {"dataset": DATASET, **summarise(RESULTS, seed=0)}


def test_means_are_over_the_questions_that_can_be_scored() -> None:
    linked = SUMMARY["methods"]["linked"]
    assert (linked["n"], linked["unlabelled"], linked["failed"]) == (3, 1, 1)
    assert linked["status"] == {"answered": 2, "failed": 1}
    recall = linked["measures"]["recall@5"]
    assert (recall["n"], recall["mean"]) == (2, 0.75)
    assert linked["measures"]["f1"]["mean"] == 0.5
    assert linked["seconds_per_question"] == {"retrieval": 0.5, "answer": 1.0}
    assert linked["usage"] == {"prompt_tokens": 30}


def test_unparsed_replies_are_counted_and_count_as_0_in_the_pessimistic_mean() -> None:
    measures = SUMMARY["methods"]["linked"]["measures"]
    accuracy = measures[ACCURACY]
    assert (accuracy["mean"], accuracy["n"], accuracy["unparsed"]) == (0.5, 2, 1)
    assert accuracy["pessimistic_mean"] == pytest.approx(1 / 3)
    relevance = measures[RELEVANCE]
    assert (relevance["mean"], relevance["n"], relevance["unparsed"]) == (None, 0, 3)
    assert relevance["pessimistic_mean"] == 0.0
    assert FAITHFULNESS not in measures
    assert SUMMARY["methods"]["linked"]["unparsed"] == 4


def test_differences_are_paired() -> None:
    # 1.0 - 0.5 and 0.5 - 0.0: the same for every question, so that there is no spread.
    assert SUMMARY["differences"]["dense"]["recall@2"] == {"n": 2, "mean": 0.5, "low": 0.5, "high": 0.5}
    assert SUMMARY["differences"]["dense"]["f1"] == {"n": 3, "mean": 0.0, "low": 0.0, "high": 0.0}
    assert "linked" not in SUMMARY["differences"]
    assert summarise({"dense": RESULTS["dense"]}, seed=0)["differences"] == {}


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    out = io.StringIO()
    show_summary(SUMMARY, Console(file=out, width=120))
    lines = [line.split() for line in out.getvalue().splitlines()]
    assert ["method", *"R@2 R@5 R@6 R@10 R@15 R@ctx s/question".split()] in lines
    assert ["linked", *["0.750"] * 6, "0.5000"] in lines
    assert ["0.500–1.000"] * 6 in lines
    assert ["method", "EM", "F1", "accuracy", "relevance"] in lines
    assert ["linked", "0.000", "0.500", "0.500", "–"] in lines
    assert ["dense", *["+0.500"] * 6] in lines
    assert ["dense", "+0.000", "+0.000"] in lines
    text = " ".join(out.getvalue().split())
    assert "1 questions without labelled passages" in text
    assert "linked: 1 failed (scored 0)" in text
    assert "answer_accuracy: 1 of 3 replies of the judge unparsed; 0.333 if they count as 0" in text


def test_the_picture_needs_a_recall(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    assert plot_recall(SUMMARY, tmp_path / "recall.png")
    assert (tmp_path / "recall.png").read_bytes().startswith(b"\x89PNG")
    unlabelled = {"dataset": DATASET, **summarise({"dense": Results([_row(None, 1.0)])}, seed=0)}
    assert not plot_recall(unlabelled, tmp_path / "none.png")


def _path(rank: int, role: str, doc: str) -> EvidencePath:
    return EvidencePath(rank, role, 1.0, {}, 1.0, (), "", (), (Source(doc, f"{doc}#0", 0, 1),))


def test_recall_counts_distinct_passages_and_the_context_its_own_measure() -> None:
    paths = [_path(1, "supporting", "a"), _path(2, "supporting", "a"), _path(3, "divergent", "b")]
    scores = retrieval_scores(paths, ["a", "b"], layout=Layout(1, "segment"))
    # Two distinct passages among three paths; a context of one segment holds the first one.
    assert scores["recall@2"] == 1.0
    assert scores["recall@context"] == 0.5
    assert retrieval_scores(paths, [], layout=Layout(1, "segment")) == {}
    assert retrieval_scores([], ["a"], layout=Layout(1, "segment"))["recall@15"] == 0.0


def test_answers_are_compared_with_every_expected_one_and_failures_score_0() -> None:
    answer = Answer("1", "?", "answered", answer="The Babbage")
    assert answer_scores(answer, ["Ada", "babbage"]) == {"exact_match": 1.0, "f1": 1.0}
    assert answer_scores(answer, []) == {}
    assert answer_scores(Answer("1", "?", "failed", answer="Ada"), ["Ada"]) == {"exact_match": 0.0, "f1": 0.0}
    assert labels(Question("1", "?", {"supporting_ids": None})) == []
