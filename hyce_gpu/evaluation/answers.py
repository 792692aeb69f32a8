"""What is written of an answer: its measures, its passages, and what the model read.

Knows the lines of a result file. Knows nothing of how the evidence was found.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hyce_gpu import answering
from hyce_gpu.evaluation.chunk_paths import DISTINCT_PASSAGES
from hyce_gpu.evaluation.scores import answer_scores, expected_answers, labels, retrieval_scores
from hyce_gpu.measures import passages
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store


def prompt_described() -> Mapping[str, Any]:
    """What would have to be the same for the same requests."""
    schema = json.dumps(answering.SCHEMA, sort_keys=True)
    return {"instruction": answering.INSTRUCTION, "schema": schema, "tokens": answering.ANSWER_TOKENS}


def to_row(question: Question, answer: Answer, store: Store, segments: int, has_model: bool) -> dict[str, Any]:
    """The line of one question, without its times."""
    expected, supporting = expected_answers(question), labels(question)
    measures = retrieval_scores(answer.paths, supporting, segments)
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
        "context": _shown(answer, store),
        "citations": list(answer.citations),
        "usage": dict(answer.usage),
    }


def _shown(answer: Answer, store: Store) -> list[dict[str, str]]:
    """What the model read, in its order: a judge reads it again, also in a later run."""
    by_rank = {path.rank: path for path in answer.paths}
    return [
        {
            "passage": by_rank[rank].sources[0].doc_id,
            "title": store.title(by_rank[rank].sources[0].doc_id),
            "segment": by_rank[rank].segment,
        }
        for rank in answer.context
    ]
