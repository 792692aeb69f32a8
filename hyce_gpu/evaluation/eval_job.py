"""The eval command in its order: data set → store → answers of each method → judge → summary, picture.

Every method sees the same questions, and its evidence goes through the same prompt within the same budget. All answers
come before all judging, since a process holds one model at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder
from hyce_serving.generator import Generator

from hyce_gpu import answering
from hyce_gpu.atomic import atomic_text
from hyce_gpu.config import Config
from hyce_gpu.context import Layout
from hyce_gpu.devices import choose_device
from hyce_gpu.errors import InputError
from hyce_gpu.evaluation import judge
from hyce_gpu.evaluation.bootstrap import RESAMPLES
from hyce_gpu.evaluation.corpus_store import manifest_checksum, store_of, warn_of_missing
from hyce_gpu.evaluation.datasets import Dataset, read_dataset
from hyce_gpu.evaluation.journal import Journal, only_process, open_journal
from hyce_gpu.evaluation.methods import Method, Shared, make, parse_names
from hyce_gpu.evaluation.plot import plot_recall, require_matplotlib
from hyce_gpu.evaluation.runs import answer_missing, judge_missing
from hyce_gpu.evaluation.scores import RECALL_AT, expected_answers, labels
from hyce_gpu.evaluation.summary import Results, summarise
from hyce_gpu.evaluation.versions import versions
from hyce_gpu.ledger import Ledger
from hyce_gpu.memory_plan import beside_store, engine_options
from hyce_gpu.models import what_shapes_replies
from hyce_gpu.schema import Question
from hyce_gpu.store import Store

# A model's name and options of its engine.
OpenGenerator = Callable[..., Generator]


@dataclass(frozen=True)
class EvalOptions:
    data: Path
    out: Path
    # Names of methods, separated by commas.
    methods: str
    llm: str | None = None
    judge: str | None = None
    # Of questions; the corpus stays whole, since it is what makes retrieval hard.
    limit: int | None = None
    store: Path | None = None
    batch_size: int = 256
    # Options of `linked`; those of the context are everyone's.
    options: Mapping[str, Any] = field(default_factory=dict)
    device: str = "auto"
    encoder: str | None = None
    seed: int = 0
    # Of the engine, for both models.
    llm_options: Mapping[str, Any] = field(default_factory=dict)


def run_eval(options: EvalOptions, open_generator: OpenGenerator = Generator) -> tuple[dict[str, Any], Ledger]:
    """Measures every method and writes OUT.

    Returns:
        The summary, and the ledger of what could not be read, asked or answered.

    Raises:
        InputError: a method or a data set that cannot be used; a judge without a model to judge.
        MissingBackendError: a package or device that is not there.
        OutputError: OUT cannot be written, or another process writes it.
    """
    names = parse_names(options.methods)
    if options.judge is not None and options.llm is None:
        raise InputError("--judge grades answers: it needs --llm MODEL")
    config = Config.linked(**options.options)
    require_matplotlib()
    with only_process(options.out):
        ledger = Ledger()
        data = _limited(read_dataset(options.data, ledger), options.limit)
        shared = _shared(options, data, config)
        for name in names:
            # A package that is missing is better known now than after the first hours.
            make(name, shared)
        results = _Run(options, data, shared, open_generator).results(names)
        summary = {**_described(options, data, shared), **summarise(results, options.seed)}
        _write(options.out, summary)
        _set_aside_failed(results, data.questions, ledger)
        ledger.write(options.out / "ledger.jsonl")
    return summary, ledger


def _limited(data: Dataset, limit: int | None) -> Dataset:
    return Dataset(data.name, data.documents, list(data.questions)[:limit])


def _shared(options: EvalOptions, data: Dataset, config: Config) -> Shared:
    device = choose_device(options.device)
    if options.store is None:
        store = store_of(data.documents, options.out, options.encoder, device)
    else:
        store = Store.open(options.store)
        warn_of_missing(data.documents, store)
    encoder = Encoder(options.encoder or store.manifest["encoder"]["name"], device=device)
    return Shared(store, encoder, config, device)


class _Run:
    """The models of one run: opened when they are first needed, one at a time, and shared where they are the same."""

    def __init__(self, options: EvalOptions, data: Dataset, shared: Shared, open_generator: OpenGenerator) -> None:
        self._options, self._data, self._shared, self._open_generator = options, data, shared, open_generator

    def results(self, names: Sequence[str]) -> dict[str, Results]:
        with ExitStack() as stack:
            answerer = self._answerer(stack)
            # Each method is let go with what it has loaded before the next one.
            answers = {name: self._answers(make(name, self._shared), answerer) for name in names}
            if self._options.judge is None:
                return {name: Results(journal.rows) for name, journal in answers.items()}
            grader = answerer
            if self._options.judge != self._options.llm:
                stack.close()
                grader = self._grader(self._options.judge, stack)
            assert grader is not None
            return {name: Results(one.rows, self._judged(name, one, grader).rows) for name, one in answers.items()}

    # A generator's engine starts at its first request: one that has nothing to do costs nothing.
    def _answerer(self, stack: ExitStack) -> Generator | None:
        model, shared, options = self._options.llm, self._shared, self._options
        if model is None:
            return None
        configs = (shared.config, shared.paper())
        engine = beside_store(shared.store, configs, shared.device, model, options.llm_options, options.batch_size)
        return stack.enter_context(self._open_generator(model, **engine))

    def _grader(self, model: str, stack: ExitStack) -> Generator:
        # No method is left on the device by now.
        engine = engine_options(model, self._options.llm_options, self._shared.device)
        return stack.enter_context(self._open_generator(model, **engine))

    def _answers(self, method: Method, generator: Generator | None) -> Journal:
        layout = Layout.of(self._shared.config)
        made_from = {
            "questions": _checksum(self._data.questions),
            "store": manifest_checksum(self._shared.store),
            "encoder": self._shared.encoder.name,
            "method": {"name": method.name, **method.describe()},
            "llm": what_shapes_replies(generator.describe()) if generator else None,
            "context": asdict(layout),
            "prompt": answering.described(layout) if generator else None,
        }
        journal = open_journal(self._options.out / f"{method.name}.jsonl", made_from)
        size = self._options.batch_size
        answer_missing(journal, method, self._data.questions, self._shared.store, generator, layout, size)
        return journal

    def _judged(self, name: str, answers: Journal, generator: Generator) -> Journal:
        made_from = {
            "answers": hashlib.sha256(answers.path.read_bytes()).hexdigest(),
            "judge": what_shapes_replies(generator.describe()),
            "prompt": judge.described(),
        }
        journal = open_journal(self._options.out / f"{name}.judge.jsonl", made_from)
        judge_missing(journal, name, answers.rows, generator, self._options.batch_size)
        return journal


def _checksum(questions: Sequence[Question]) -> str:
    lines = (json.dumps(asdict(question), sort_keys=True, ensure_ascii=True) for question in questions)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _described(options: EvalOptions, data: Dataset, shared: Shared) -> dict[str, Any]:
    manifest = shared.store.manifest
    return {
        "dataset": {
            "name": data.name,
            "documents": len(data.documents),
            "questions": len(data.questions),
            "unlabelled": sum(not labels(question) for question in data.questions),
            "without_expected_answer": sum(not expected_answers(question) for question in data.questions),
        },
        "recall_at": list(RECALL_AT),
        "context": asdict(Layout.of(shared.config)),
        "llm": options.llm,
        "judge": options.judge,
        "seed": options.seed,
        "resamples": RESAMPLES,
        "device": shared.device,
        "store": {
            "encoder": {name: manifest["encoder"][name] for name in ("name", "dimension")},
            "extractor": manifest["extractor"],
            "counts": manifest["counts"],
        },
        "versions": versions(),
    }


def _write(out: Path, summary: Mapping[str, Any]) -> None:
    with atomic_text(out / "summary.json", "the summary") as file:
        file.write(json.dumps(summary, indent=2, ensure_ascii=True) + "\n")
    if not plot_recall(summary, out / "recall.png"):
        # A picture of an earlier run would be taken for this one's.
        (out / "recall.png").unlink(missing_ok=True)


def _set_aside_failed(results: Mapping[str, Results], questions: Sequence[Question], ledger: Ledger) -> None:
    for name, one in results.items():
        for row, question in zip(one.rows, questions, strict=True):
            if row["status"] == "failed" and not question.error:
                ledger.set_aside("answer", f"{name}: {row['id']}", row["error"], row["question"][:500])
