"""The answer command: a file of questions becomes a file of answers, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hyce_gpu.answers_file import to_line
from hyce_gpu.atomic import atomic_text
from hyce_gpu.engine import Engine
from hyce_gpu.ledger import Ledger, ledger_path
from hyce_gpu.progress import Advance, progress
from hyce_gpu.questions import read_questions
from hyce_gpu.schema import Answer, Question


def run_answer(
    engine: Engine, questions: Path, out: Path, batch_size: int, choose: bool = False
) -> tuple[dict[str, int], Ledger]:
    """Answers every question of the file; one that fails keeps its line, and goes to the ledger beside `out`.

    Returns:
        How many lines have each status, and the ledger.

    Raises:
        InputError: a questions file that cannot be used.
        OutputError: `out` cannot be written.
    """
    ledger = Ledger()
    asked = read_questions(questions, ledger)
    counts: Counter[str] = Counter()
    with atomic_text(out, "the answers") as file, progress("answer", len(asked), "questions") as advance:
        for start in range(0, len(asked), batch_size):
            batch = asked[start : start + batch_size]
            answers = _ask(engine, batch, choose, advance)
            file.writelines(to_line(answer) + "\n" for answer in answers)
            counts.update(answer.status for answer in answers)
            for question, answer in zip(batch, answers, strict=True):
                if answer.status == "failed" and not question.error:
                    ledger.set_aside("answer", question.id, answer.error, question.text[:500])
    ledger.write(ledger_path(out))
    return dict(counts), ledger


def _ask(engine: Engine, batch: Sequence[Question], choose: bool, advance: Advance) -> list[Answer]:
    if engine.generator:
        return engine.answer(batch, choose, advance)
    answers = engine.retrieve(batch)
    advance(len(batch))
    return answers
