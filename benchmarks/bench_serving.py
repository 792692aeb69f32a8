"""Tokens a second of a stream, and of whole answer and extraction jobs, beside vLLM's own batch call.

SmolLM2-135M on the CPU. A job makes prompts, parses replies and puts each on the disk. The other side is
`LLM.generate` on the same engine with the same prompts, as token ids, and the same sampling. Both must give the same
texts, or as many tokens of each, before a figure is taken; rounds alternate, so that a slower minute of the machine
slows both. Compare within one run only, on a machine that does nothing else.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hyce_serving import Generation, GenerationRequest, Generator, Stream, bundled_llm

from hyce_gpu.accounts import Stage
from hyce_gpu.answer_job import answer_questions
from hyce_gpu.config import Config
from hyce_gpu.engine import Engine
from hyce_gpu.extract import llm_extractor
from hyce_gpu.extract.llm_extractor import LlmExtractor, reply_schema
from hyce_gpu.extract_job import extract_missing
from hyce_gpu.index_job import run_index
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Chunk, Question
from hyce_gpu.units import FinishedUnits

REQUESTS = int(os.environ.get("HYCE_BENCH_REQUESTS", 32))
CHUNKS = min(REQUESTS, 24)
MAX_TOKENS = 64
# No reply under the schema of this file is longer: one that is cut would be asked for again, after all the others.
MAX_RECORD_TOKENS = 384
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
    with Generator(str(bundled_llm()), max_model_len=2048, dtype="float32") as generator:
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
    taken: list[Generation] = field(default_factory=list)

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
        found = self.stream.take()
        self.taken.extend(found)
        return found


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
    # Two passages of evidence: short prompts, as the replies are.
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


def _small_schema() -> dict[str, Any]:
    """The job's own schema with shorter lists: replies of a hundred tokens, so that the job's part weighs more."""
    schema = reply_schema(1, 1)
    hyperedge = schema["properties"]["hyperedges"]["items"]["properties"]
    for name, most in (("entities", 3), ("relations", 1)):
        hyperedge[name] = {**hyperedge[name], "maxItems": most}
    return schema


def _demo_chunks() -> list[Chunk]:
    lines = (files("hyce_gpu") / "demo_data" / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
    rows = map(json.loads, lines[:CHUNKS])
    return [Chunk(f"{r['id']}#0", r["id"], 0, 0, len(r["text"]), r["text"], r["title"]) for r in rows]


def test_extraction_job_beside_the_batch_call(  # type: ignore[no-untyped-def]
    benchmark, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llm_extractor, "_SCHEMAS", dict.fromkeys(llm_extractor._SCHEMAS, _small_schema()))
    chunks = _demo_chunks()
    requests: list[GenerationRequest] = []
    taken: list[Generation] = []
    plain = work.generator.stream
    monkeypatch.setattr(work.generator, "stream", lambda: Recorder(plain(), requests, taken))
    places = (tmp_path / f"units{number}.sqlite" for number in itertools.count())

    def job() -> None:
        requests.clear()
        taken.clear()
        with FinishedUnits(next(places)) as units:
            extract_missing(chunks, LlmExtractor(work.generator, MAX_RECORD_TOKENS), units, Stage())

    job()
    batch = Work(work.generator, list(requests))
    bare = _bare(batch)
    # The gate: each request of the job, one asked again too, has as many tokens on either side.
    counts = [count for _, count in bare().values()]
    sides = zip((request.id for request in batch.requests), counts, strict=True)
    assert sorted(sides) == sorted((one.id, one.completion_tokens) for one in taken)
    bare_pace: list[float] = []
    job_tokens: list[int] = []

    def between() -> None:
        job_tokens.append(sum(one.completion_tokens for one in taken))
        bare_pace.append(sum(counts) / _seconds(bare))

    benchmark.pedantic(job, setup=between, rounds=ROUNDS, warmup_rounds=0)
    job_tokens = [*job_tokens[1:], sum(one.completion_tokens for one in taken)]
    job_pace = [tokens / seconds for tokens, seconds in zip(job_tokens, benchmark.stats.stats.data, strict=True)]
    # Rounds are pairs of neighbours in time: the median of their ratios outlasts a slower minute.
    ratios = [own / batch_call for own, batch_call in zip(job_pace, bare_pace, strict=True)]
    ratio = statistics.median(ratios)
    benchmark.group = "serving"
    benchmark.extra_info.update(
        chunks=CHUNKS,
        requests=len(batch.requests),
        tokens=sum(counts),
        tokens_per_second=statistics.median(job_pace),
        ratio=ratio,
        ratios=ratios,
    )
    told = f"{CHUNKS} chunks, {sum(counts)} tokens, {statistics.median(job_pace):.1f} tokens/s"
    print(f"\nextraction job: {told}, {ratio:.3f} of the batch call's pace")
    assert ratio >= WANTED_RATIO
