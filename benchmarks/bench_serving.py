"""Tokens a second of a stream, and of a whole answer job, beside vLLM's own batch call.

SmolLM2-135M on the CPU. The job retrieves, makes prompts, parses replies and puts each on the disk. The other side is
`LLM.generate` on the same engine with the same prompts, as token ids, and the same sampling. Both must give the same
texts before a figure of the stream is taken; rounds alternate, so that a slower minute of the machine slows both.
Compare within one run only.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hyce_serving import Generation, GenerationRequest, Generator, Stream, bundled_llm

from hyce_gpu.answer_job import answer_questions
from hyce_gpu.config import Config
from hyce_gpu.engine import Engine
from hyce_gpu.index_job import run_index
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Question

REQUESTS = int(os.environ.get("HYCE_BENCH_REQUESTS", 32))
MAX_TOKENS = 64
ROUNDS = 3
WANTED_RATIO = 0.95

Texts = dict[str, tuple[str, int]]


@dataclass(frozen=True)
class Work:
    generator: Generator
    requests: list[GenerationRequest]


@pytest.fixture(scope="module")
def work() -> Iterator[Work]:
    things = ("ferry", "glacier", "harbour", "lighthouse", "market", "orchard", "river", "windmill")
    requests = [
        GenerationRequest(str(i), ({"role": "user", "content": f"Describe {things[i % 8]} {i}."},), MAX_TOKENS)
        for i in range(REQUESTS)
    ]
    # float32: in bfloat16 two ways to fill a batch round differently, and a greedy text may take another turn.
    with Generator(str(bundled_llm()), max_model_len=512, dtype="float32") as generator:
        yield Work(generator, requests)


def _streamed(work: Work) -> Texts:
    return {found.id: (found.text, found.completion_tokens) for found in work.generator.generate(work.requests)}


def _bare(work: Work) -> Callable[[], Texts]:
    """The batch call; its prompts and sampling are made beforehand, and do not count."""
    asking = work.generator._asking
    prompts: list[Any] = [{"prompt_token_ids": asking.prompt(request)} for request in work.requests]
    sampling = [asking.sampling(request, request.max_tokens) for request in work.requests]

    def run() -> Texts:
        outputs = work.generator._llm.generate(prompts, sampling, use_tqdm=False)
        replies = [output.outputs[0] for output in outputs]
        return {f"{place}": (reply.text, len(reply.token_ids)) for place, reply in enumerate(replies)}

    return run


def _seconds(run: Callable[[], Texts]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def test_stream_beside_the_batch_call(benchmark, work: Work) -> None:  # type: ignore[no-untyped-def]
    expected = _streamed(work)
    bare = _bare(work)
    assert bare() == expected
    tokens = sum(count for _, count in expected.values())
    bare_seconds: list[float] = []
    # Its set-up runs before each round and outside of its time: the rounds alternate.
    benchmark.pedantic(
        _streamed, (work,), setup=lambda: bare_seconds.append(_seconds(bare)), rounds=ROUNDS, warmup_rounds=0
    )
    streamed = benchmark.stats.stats.median
    ratio = statistics.median(bare_seconds) / streamed
    benchmark.group = "serving"
    benchmark.extra_info.update(
        requests=REQUESTS,
        tokens=tokens,
        stream_tokens_per_second=tokens / streamed,
        bare_tokens_per_second=tokens / statistics.median(bare_seconds),
        ratio=ratio,
    )
    print(f"\nstream {tokens / streamed:.1f} tokens/s, {ratio:.3f} of the batch call (wanted {WANTED_RATIO})")
    assert ratio >= WANTED_RATIO


@dataclass(frozen=True)
class Recorder:
    """Passes requests on, and keeps them: the batch call gets the very same ones."""

    stream: Stream
    requests: list[GenerationRequest]

    def __enter__(self) -> Recorder:
        self.stream.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.stream.__exit__(*error)

    @property
    def open(self) -> int:
        return self.stream.open

    @property
    def capacity(self) -> int:
        return self.stream.capacity

    def submit(self, request: GenerationRequest) -> None:
        self.requests.append(request)
        self.stream.submit(request)

    def take(self) -> list[Generation]:
        return self.stream.take()


def test_answer_job_beside_the_batch_call(  # type: ignore[no-untyped-def]
    benchmark, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"id": f"d{n}", "title": f"Town{n}", "text": f"Town{n} lies near Town{n + 1} in France."} for n in range(40)
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run_index([tmp_path / "corpus.jsonl"], tmp_path / "store", "spacy", None, None, None, "cpu", {})
    asked = [Question(f"q{n}", f"In which country is Town{n}?") for n in range(REQUESTS)]
    requests: list[GenerationRequest] = []
    plain = work.generator.stream
    monkeypatch.setattr(work.generator, "stream", lambda: Recorder(plain(), requests))
    outs = (tmp_path / f"answers{number}.jsonl" for number in itertools.count())
    seconds: list[float] = []
    # Window 512: two passages of evidence, so that every prompt fits.
    with Engine.open(tmp_path / "store", llm=work.generator, config=Config(context_segments=2), device="cpu") as engine:

        def job() -> None:
            requests.clear()
            answer_questions(engine, asked, next(outs), REQUESTS, False, Ledger())

        job()
        batch = Work(work.generator, list(requests))
        bare = _bare(batch)
        tokens = sum(count for _, count in bare().values())
        benchmark.pedantic(job, setup=lambda: seconds.append(_seconds(bare)), rounds=ROUNDS, warmup_rounds=0)
    ratio = statistics.median(seconds) / benchmark.stats.stats.median
    benchmark.group = "serving"
    benchmark.extra_info.update(questions=REQUESTS, requests=len(batch.requests), tokens=tokens, ratio=ratio)
    print(f"\nanswer job: {len(batch.requests)} requests, {tokens} tokens, {ratio:.3f} of the batch call's pace")
    assert ratio >= WANTED_RATIO
