"""The whole evaluation on a corpus of a few sentences, with the bundled encoder and a scripted model."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hyce_serving.generator import Generation, GenerationRequest, Generator
from hyce_serving.model_memory import ModelMemory
from hyce_serving.scripted import Scripted

from hyce_gpu import memory_plan, store_memory
from hyce_gpu.errors import ConfigError, InputError, OutputError
from hyce_gpu.evaluation import eval_job
from hyce_gpu.evaluation.eval_job import EvalOptions, run_eval

pytest.importorskip("scipy")
pytest.importorskip("bm25s")
pytest.importorskip("matplotlib")

DOCUMENTS = [
    ("hall", "Carnegie Hall", "Carnegie Hall in Manhattan was paid for by Andrew Carnegie."),
    ("man", "Andrew Carnegie", "Andrew Carnegie was born in Dunfermline, Scotland, in 1835."),
    ("fuji", "Mount Fuji", "Mount Fuji is the highest mountain of Japan. It stands on Honshu."),
    ("ada", "Ada Lovelace", "Ada Lovelace met Charles Babbage in London."),
]
QUESTIONS: list[dict[str, Any]] = [
    {"id": "1", "question": "Where was Andrew Carnegie born?", "answer": "Dunfermline", "supporting_ids": ["man"]},
    {"id": "2", "question": "Whom did Ada Lovelace meet?", "answer": "Charles Babbage", "supporting_ids": ["ada"]},
    {"id": "3", "question": "On which island stands Mount Fuji?", "answer": "Honshu"},
    {"id": "4", "question": "", "answer": "x", "supporting_ids": ["ada"]},
    {"id": "5", "question": "Who paid for Carnegie Hall?", "supporting_ids": ["hall", "man"]},
]
METHODS = "dense,bm25,ppr,ppr-mentions,none"


class Logged(Scripted):
    """Answers "Dunfermline" to everything, and grades each answer 0.5 but faithfulness, which it fails to grade."""

    def __init__(self, name: str, log: list[str], stop_after: int) -> None:
        super().__init__(self._next)
        self.name, self._log, self._left = name, log, stop_after

    def __enter__(self) -> Logged:
        self._log.append(f"open {self.name}")
        return self

    def close(self) -> None:
        self._log.append(f"close {self.name}")

    def _next(self, request: GenerationRequest) -> Generation:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return Generation(request.id, _reply(request.id), "stop", 7, 3)


def _reply(name: str) -> str:
    measure = name.partition("/")[2]
    if not measure:
        return '{"answer": "Dunfermline", "evidence": [1]}'
    return "hm" if measure == "faithfulness" else '{"reason": "", "score": 0.5}'


def _opener(log: list[str], stop_after: int = 1_000) -> Callable[[str], Generator]:
    return lambda name: cast(Generator, Logged(name, log, stop_after))


def _write(folder: Path) -> Path:
    folder.mkdir()
    corpus = [json.dumps({"id": name, "title": title, "text": text}) for name, title, text in DOCUMENTS]
    (folder / "corpus.jsonl").write_text("\n".join(corpus) + "\n")
    (folder / "questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[EvalOptions, dict[str, Any]]:
    """A first run, retrieval only, that builds the store."""
    folder = tmp_path_factory.mktemp("eval")
    options = EvalOptions(_write(folder / "toy"), folder / "out", METHODS, batch_size=2, device="cpu")
    return options, run_eval(options)[0]


@pytest.fixture
def options(built: tuple[EvalOptions, dict[str, Any]], tmp_path: Path) -> EvalOptions:
    """A run into a new folder over the store of the first one."""
    return replace(built[0], out=tmp_path / "out", store=built[0].out / "store")


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _untimed(path: Path) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in _rows(path)]


def test_retrieval_alone(built: tuple[EvalOptions, dict[str, Any]]) -> None:
    options, summary = built
    assert summary["dataset"] == {
        "name": "toy", "documents": 4, "questions": 5, "unlabelled": 1, "without_expected_answer": 1
    }  # fmt: skip
    assert summary == json.loads((options.out / "summary.json").read_text())
    for name in ("dense", "ppr", "ppr-mentions"):
        found = summary["methods"][name]
        # Four documents, all of them ranked; the empty question fails and finds nothing of its one passage.
        assert (found["measures"]["recall@5"]["n"], found["measures"]["recall@5"]["mean"]) == (4, 0.75)
        assert found["status"] == {"retrieved": 4, "failed": 1}
        assert [len(row["passages"]) for row in _rows(options.out / f"{name}.jsonl")] == [4, 4, 4, 0, 4]
    assert "exact_match" not in summary["methods"]["dense"]["measures"]
    assert summary["methods"]["none"]["measures"]["recall@15"]["mean"] == 0.0
    assert _rows(options.out / "bm25.jsonl")[0]["passages"][0] == "man"
    assert _rows(options.out / "ppr.jsonl")[1]["passages"][0] == "ada"
    assert (options.out / "recall.png").read_bytes().startswith(b"\x89PNG")


def test_a_second_run_uses_the_store_and_the_lines_of_the_first(
    built: tuple[EvalOptions, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    options, summary = built
    before = {path.name: path.read_bytes() for path in options.out.iterdir() if path.is_file()}
    assert run_eval(options)[0] == summary
    assert {path.name: path.read_bytes() for path in options.out.iterdir() if path.is_file()} == before
    assert "was made from the same corpus" in capsys.readouterr().err


def test_each_model_gets_its_share_of_a_gpu_and_the_options_of_the_user(
    options: EvalOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, dict[str, Any]] = {}

    def opened(name: str, **engine: Any) -> Generator:
        given[name] = engine
        return cast(Generator, Logged(name, [], 1_000))

    beside, alone = eval_job.beside_store, eval_job.engine_options
    # The plan of a GPU, for a run that has none.
    monkeypatch.setattr(eval_job, "beside_store", lambda store, them, _, *more: beside(store, them, "cuda", *more))
    monkeypatch.setattr(eval_job, "engine_options", lambda model, asked, _: alone(model, asked, "cuda"))
    monkeypatch.setattr(memory_plan, "device_memory", lambda _: (10 << 30, 10 << 30))
    monkeypatch.setattr(memory_plan, "model_memory", lambda name, _: ModelMemory(name, None, None, None))
    sizes = {"linked": 1 << 30, "paper": 3 << 30}
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda _, config, *__: sizes[config.method])
    monkeypatch.setattr(store_memory, "encoder_bytes", lambda _: 1 << 30)
    run_eval(replace(options, methods="dense", llm="small", judge="large", llm_options={"seed": 7}), opened)
    # 10 - 3 of the larger method - 1 of the encoder - 1 of margin, less a little for tensors; and 10 - 1.
    assert given == {
        "small": {"seed": 7, "gpu_memory_utilization": 0.49},
        "large": {"seed": 7, "gpu_memory_utilization": 0.9},
    }


def test_answers_and_a_judge_that_is_another_model(options: EvalOptions) -> None:
    log: list[str] = []
    asked = replace(options, methods="dense,none", llm="small", judge="large")
    summary, ledger = run_eval(asked, _opener(log))
    # A process holds one engine: all answers, then all judging.
    assert log == ["open small", "close small", "open large", "close large"]
    dense = summary["methods"]["dense"]["measures"]
    # One of four questions with an expected answer is right; the empty one fails.
    assert (dense["exact_match"]["mean"], dense["exact_match"]["n"]) == (0.25, 4)
    # Three graded with 0.5, and the failed one with 0.
    assert (dense["answer_accuracy"]["mean"], dense["answer_accuracy"]["unparsed"]) == (0.375, 0)
    assert (dense["context_relevance"]["mean"], dense["context_relevance"]["n"]) == (0.5, 4)
    assert (dense["faithfulness"]["mean"], dense["faithfulness"]["unparsed"]) == (None, 4)
    assert summary["methods"]["dense"]["usage"] == {"prompt_tokens": 28, "completion_tokens": 12}
    # Nothing to be relevant or faithful to.
    assert {"context_relevance", "faithfulness"}.isdisjoint(summary["methods"]["none"]["measures"])
    row = _rows(options.out / "dense.jsonl")[0]
    assert (row["answer"], row["citations"], row["context"][0]["title"]) == ("Dunfermline", [1], "Andrew Carnegie")
    assert [entry.stage for entry in ledger] == ["question"]


def test_a_judge_that_is_the_same_model_shares_its_engine(options: EvalOptions) -> None:
    log: list[str] = []
    run_eval(replace(options, methods="bm25", llm="small", judge="small"), _opener(log))
    assert log == ["open small", "close small"]


@pytest.mark.parametrize("stop_after", [3, 5, 9, 13])
def test_a_run_that_was_interrupted_goes_on_to_the_same_files(options: EvalOptions, stop_after: int) -> None:
    asked = replace(options, methods="dense,bm25", llm="small", judge="small")
    whole = replace(asked, out=options.out.with_name("whole"))
    expected, _ = run_eval(whole, _opener([]))
    with pytest.raises(KeyboardInterrupt):
        run_eval(asked, _opener([], stop_after))
    with (asked.out / "dense.jsonl").open("a") as file:
        file.write('{"id": "torn')
    found, _ = run_eval(asked, _opener([]))
    for name in ("dense.jsonl", "bm25.jsonl", "dense.judge.jsonl", "bm25.judge.jsonl"):
        assert _untimed(asked.out / name) == _untimed(whole.out / name)
    for name, one in expected["methods"].items():
        assert found["methods"][name]["measures"] == one["measures"]


def test_another_model_starts_anew_and_keeps_the_old_file(options: EvalOptions) -> None:
    run_eval(replace(options, methods="none", llm="small"), _opener([]))
    old = (options.out / "none.jsonl").read_bytes()
    run_eval(replace(options, methods="none", llm="other"), _opener([]))
    assert (options.out / "none.jsonl.old").read_bytes() == old


def test_a_limit_is_on_questions_and_the_corpus_stays_whole(options: EvalOptions) -> None:
    summary, _ = run_eval(replace(options, methods="dense", limit=2))
    assert (summary["dataset"]["questions"], summary["dataset"]["documents"]) == (2, 4)


def test_what_cannot_be_done_is_said_before_anything_is_written(options: EvalOptions) -> None:
    with pytest.raises(InputError, match="did you mean 'dense'"):
        run_eval(replace(options, methods="dens"))
    with pytest.raises(InputError, match="--judge grades answers"):
        run_eval(replace(options, judge="large"))
    with pytest.raises(ConfigError, match="did you mean 'context_segments'"):
        run_eval(replace(options, options={"context_segment": 3}))
    assert not options.out.exists()


def test_a_second_process_is_refused(options: EvalOptions) -> None:
    run_eval(replace(options, methods="none"))
    with (options.out / "LOCK").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="is being written by process"):
            run_eval(replace(options, methods="none"))
