"""What is written of an answer: its measures, its passages, and what the model read.

Knows the lines of a result file. Knows nothing of how the evidence was found.
"""

from __future__ import annotations

from typing import Any

from hyce_gpu.context import Layout, shown_text
from hyce_gpu.evaluation.chunk_paths import DISTINCT_PASSAGES
from hyce_gpu.evaluation.scores import answer_scores, expected_answers, labels, retrieval_scores
from hyce_gpu.measures import passages
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store


def to_row(question: Question, answer: Answer, store: Store, layout: Layout, has_model: bool) -> dict[str, Any]:
    """The line of one question, without its times."""
    expected, supporting = expected_answers(question), labels(question)
    measures = retrieval_scores(answer.paths, supporting, layout)
    if has_model:
        measures |= answer_scores(answer, expected)
    return {
        "id": question.id,
        "question": question.text,
        "expected": expected,
        "supporting": supporting,
        "status": answer.status,
        "answer": answer.answer,
        "error": answer.error,
        "passages": passages(answer.paths)[:DISTINCT_PASSAGES],
        "measures": measures,
        "context": _shown(answer, store, layout.unit),
        "citations": list(answer.citations),
        "usage": dict(answer.usage),
    }


def _shown(answer: Answer, store: Store, unit: str) -> list[dict[str, str]]:
    """What the model read, in its order: a judge reads it again, also in a later run."""
    by_rank = {path.rank: path for path in answer.paths}
    shown = [(by_rank[rank], store.passage(by_rank[rank])) for rank in answer.context]
    return [
        {"passage": path.sources[0].doc_id, "title": passage.title, "segment": shown_text(path, passage, unit)}
        for path, passage in shown
    ]
