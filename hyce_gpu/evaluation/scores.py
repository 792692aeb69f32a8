"""One question's measures: recall of its labelled passages, and its answer against the expected ones.

A measure that has nothing to compare with is absent; a failure is never absent, it scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from hyce_gpu.context import Layout, context_paths
from hyce_gpu.measures import exact_match, passages, recall, token_f1
from hyce_gpu.schema import Answer, EvidencePath, Question

RECALL_AT = (2, 5, 6, 10, 15)
RECALL_IN_CONTEXT = "recall@context"
RECALLS = (*(f"recall@{k}" for k in RECALL_AT), RECALL_IN_CONTEXT)
ANSWERS = ("exact_match", "f1")
# The method that retrieves nothing.
NO_CONTEXT = "none"


def labels(question: Question) -> list[str]:
    """Ids of the passages that support the answer; none where the data set has no labels."""
    found = question.extra.get("supporting_ids")
    return [str(one) for one in found] if isinstance(found, list) else []


def expected_answers(question: Question) -> list[str]:
    """The answer and its other names; none where the data set withholds it."""
    answer, aliases = question.extra.get("answer"), question.extra.get("aliases")
    if not isinstance(answer, str):
        return []
    return [answer, *(str(alias) for alias in aliases)] if isinstance(aliases, list) else [answer]


def retrieval_scores(paths: Sequence[EvidencePath], supporting: Sequence[str], layout: Layout) -> dict[str, float]:
    """Recall among the first k passages, and in what a context holds; empty without labels."""
    if not supporting:
        return {}
    found = passages(paths)
    in_context = passages(context_paths(paths, layout))
    scores = {f"recall@{k}": recall(found, supporting, k) for k in RECALL_AT}
    return {**scores, RECALL_IN_CONTEXT: recall(in_context, supporting, len(in_context))}


def answer_scores(answer: Answer, expected: Sequence[str]) -> dict[str, float]:
    """Exact match and F1, the best over the expected answers; empty where none is known."""
    if not expected:
        return {}
    given = answer.answer if answer.status == "answered" and answer.answer else ""
    if not given:
        return dict.fromkeys(ANSWERS, 0.0)
    return {"exact_match": float(exact_match(given, expected)), "f1": token_f1(given, expected)}
