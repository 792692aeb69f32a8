"""Tokens a second of a stream, with its tokenisation and bookkeeping, beside vLLM's own batch call.

SmolLM2-135M on the CPU. The other side is `LLM.generate` on the same engine with the same prompts, as token ids, and
the same sampling. Both must give the same texts before a figure is taken; rounds alternate, so that a slower minute of
the machine slows both. Compare within one run only.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hyce_serving import GenerationRequest, Generator, bundled_llm

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
    sampling = [asking.sampling(request, MAX_TOKENS) for request in work.requests]

    def run() -> Texts:
        outputs = work.generator._llm.generate(prompts, sampling, use_tqdm=False)
        replies = [output.outputs[0] for output in outputs]
        return {
            request.id: (reply.text, len(reply.token_ids))
            for request, reply in zip(work.requests, replies, strict=True)
        }

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
