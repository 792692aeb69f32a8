"""One method's questions, one batch after the other, from where its journal was left off.

Knows batches and their times. A batch is on the disk before the next one starts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from hyce_serving.generator import Generator

from hyce_gpu.answering import answer_all
from hyce_gpu.context import Layout
from hyce_gpu.evaluation import judge
from hyce_gpu.evaluation.answers import to_row
from hyce_gpu.evaluation.journal import Journal
from hyce_gpu.evaluation.methods import Method
from hyce_gpu.progress import progress
from hyce_gpu.schema import Answer, Question
from hyce_gpu.store import Store

_Item = TypeVar("_Item")


def answer_missing(
    journal: Journal,
    method: Method,
    questions: Sequence[Question],
    store: Store,
    generator: Generator | None,
    layout: Layout,
    batch_size: int,
) -> None:
    """Retrieves, and with a generator answers, the questions that the journal lacks."""
    missing = questions[len(journal.rows) :]
    if not missing:
        return
    method.load()
    with progress(method.name, len(missing), "questions") as advance:
        for batch in _batches(missing, batch_size):
            started = time.perf_counter()
            answers = _retrieved(method, batch)
            retrieval = time.perf_counter() - started
            started = time.perf_counter()
            if generator is None:
                advance(len(batch))
            else:
                answers = answer_all(answers, store.passage, generator, layout, advance=advance)
            seconds = {
                "retrieval": retrieval / len(batch),
                "answer": (time.perf_counter() - started) / len(batch) if generator else 0.0,
            }
            rows = [
                to_row(question, answer, store, layout, generator is not None)
                for question, answer in zip(batch, answers, strict=True)
            ]
            journal.append([{**row, "seconds": seconds} for row in rows])


def _retrieved(method: Method, batch: Sequence[Question]) -> list[Answer]:
    """One answer a question; those that cannot be asked fail here, no method sees them."""
    found = iter(method.retrieve([question for question in batch if not question.error]))
    return [
        Answer(question.id, question.text, "failed", error=question.error) if question.error else next(found)
        for question in batch
    ]


def judge_missing(
    journal: Journal, name: str, answers: Sequence[dict[str, Any]], generator: Generator, batch_size: int
) -> None:
    """Grades the answers that the journal lacks."""
    missing = answers[len(journal.rows) :]
    if not missing:
        return
    with progress(f"judge {name}", len(missing), "questions") as advance:
        for batch in _batches(missing, batch_size):
            journal.append(_judged(batch, generator))
            advance(len(batch))


def _judged(batch: Sequence[dict[str, Any]], generator: Generator) -> list[dict[str, Any]]:
    asked = {str(place): judge.requests(str(place), row) for place, row in enumerate(batch)}
    every = [request for requests in asked.values() for request in requests]
    replies = {reply.id: reply for reply in generator.generate(every)}
    return [
        {"id": row["id"], "scores": judge.given(row) | judge.verdicts(key, asked[key], replies)}
        for key, row in zip(asked, batch, strict=True)
    ]


def _batches(items: Sequence[_Item], size: int) -> Iterator[Sequence[_Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
