"""Streams of requests to a real LLM (SmolLM2-135M) in vLLM on the CPU: what joins, what waits, what is left behind."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hyce_serving import Generation, GenerationRequest, Generator, ServingError, Stream, bundled_llm


@pytest.fixture(scope="module")
def generator() -> Iterator[Generator]:
    with Generator(str(bundled_llm()), max_model_len=512, max_num_seqs=8) as generator:
        yield generator


def _ask(request_id: str, text: str = "Say it.", max_tokens: int = 8, **bound: Any) -> GenerationRequest:
    return GenerationRequest(request_id, ({"role": "user", "content": text},), max_tokens, **bound)


def _all(stream: Stream) -> dict[str, Generation]:
    found: dict[str, Generation] = {}
    while stream.open:
        found.update((generation.id, generation) for generation in stream.take())
    return found


def _nothing_runs(generator: Generator) -> bool:
    return generator._llm is None or not generator._llm.llm_engine.has_unfinished_requests()


@pytest.mark.parametrize(("options", "capacity"), [({"max_num_seqs": 5}, 10), ({"device": "cpu"}, 64)])
def test_the_capacity_is_known_without_an_engine(options: dict[str, Any], capacity: int) -> None:
    generator = Generator(str(bundled_llm()), **options)
    with generator.stream() as stream:
        assert stream.capacity == capacity
        assert stream.open == 0
        assert stream.take() == []
    assert generator._llm is None


def test_what_never_reaches_the_engine_starts_none() -> None:
    generator = Generator(str(bundled_llm()), max_model_len=64)
    with generator.stream() as stream:
        stream.submit(_ask("long", "river " * 100))
        (found,) = stream.take()
        assert (found.id, found.finish_reason) == ("long", "too_long")
        assert stream.open == 0
        assert stream.take() == []
    assert generator._llm is None


def test_a_request_joins_those_that_run(generator: Generator) -> None:
    with generator.stream() as stream:
        stream.submit(_ask("slow", max_tokens=150, choices=("word " * 100,)))
        stream.submit(_ask("first", choices=("yes",)))
        assert [found.id for found in stream.take()] == ["first"]
        stream.submit(_ask("joined", choices=("no",)))
        assert stream.open == 2
        # Without a barrier it overtakes the slow one, which has most of its 100 words to go.
        assert [found.text for found in stream.take()] == ["no"]
        assert [found.id for found in stream.take()] == ["slow"]
        assert stream.take() == []


def test_another_thread_submits_while_one_takes(generator: Generator) -> None:
    with generator.stream() as stream:
        stream.submit(_ask("slow", max_tokens=150, choices=("word " * 100,)))
        timer = threading.Timer(0.5, stream.submit, [_ask("late", choices=("yes",))])
        timer.start()
        assert [found.id for found in stream.take()] == ["late"]
        timer.join()
        assert stream.open == 1


def test_two_streams_of_one_engine_get_their_own_answers(generator: Generator) -> None:
    with generator.stream() as one, generator.stream() as two:
        for i in range(6):
            one.submit(_ask(str(i), choices=(f"one {i}",)))
            two.submit(_ask(str(i), choices=(f"two {i}",)))
        assert {key: found.text for key, found in _all(two).items()} == {str(i): f"two {i}" for i in range(6)}
        assert {key: found.text for key, found in _all(one).items()} == {str(i): f"one {i}" for i in range(6)}


def test_leaving_a_stream_aborts_what_is_open(generator: Generator) -> None:
    with generator.stream() as stream:
        stream.submit(_ask("fast", choices=("yes",)))
        for i in range(40):
            stream.submit(_ask(str(i), "Tell a story.", 300))
        assert stream.take()
        assert not _nothing_runs(generator)
    assert _nothing_runs(generator)
    assert stream.open == 0
    assert not generator._engine._outcomes
    with pytest.raises(ServingError, match="stream"):
        stream.submit(_ask("after"))


def test_an_id_is_refused_while_it_is_open_and_free_again_afterwards(generator: Generator) -> None:
    with generator.stream() as stream:
        stream.submit(_ask("again", choices=("a",)))
        with pytest.raises(ServingError, match="'again'"):
            stream.submit(_ask("again", choices=("b",)))
        assert [found.text for found in stream.take()] == ["a"]
        stream.submit(_ask("again", choices=("b",)))
        assert [found.text for found in stream.take()] == ["b"]


def test_an_error_in_a_prompt_is_that_request_s_alone(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = generator._chat.encode

    def failing(messages: Any) -> list[int]:
        if messages[0]["content"] == "bad":
            raise ZeroDivisionError("a template's own")
        return encode(messages)

    monkeypatch.setattr(generator._chat, "encode", failing)
    with generator.stream() as stream:
        for name in ("good", "bad", "fine"):
            stream.submit(_ask(name, name, choices=("yes",)))
        found = _all(stream)
    assert found["bad"] == Generation("bad", "", "error", 0, 0, "ZeroDivisionError: a template's own")
    assert [found[name].text for name in ("good", "fine")] == ["yes", "yes"]


def test_a_schema_that_is_refused_comes_out_beside_the_answers(generator: Generator) -> None:
    with generator.stream() as stream:
        stream.submit(_ask("bad", schema={"type": "nonsense"}))
        stream.submit(_ask("good", choices=("yes",)))
        found = _all(stream)
    assert found["bad"].finish_reason == "error"
    assert found["bad"].error
    assert found["good"].text == "yes"


def test_a_long_source_is_read_only_as_far_as_there_is_room(generator: Generator) -> None:
    answered = 0
    furthest = 0

    def source() -> Iterator[GenerationRequest]:
        nonlocal furthest
        for i in range(1000):
            furthest = max(furthest, i + 1 - answered)
            yield _ask(str(i), max_tokens=1)

    seen = set()
    for found in generator.generate(source()):
        answered += 1
        seen.add(found.id)
    assert seen == {str(i) for i in range(1000)}
    # 2 x max_num_seqs; a batch of answers that is handed out one by one leaves no room before its last.
    assert furthest == generator.capacity == 16


def test_an_open_id_in_a_lazy_source_is_refused_on_the_way(generator: Generator) -> None:
    answers = generator.generate(_ask("twice", max_tokens=1) for _ in range(2))
    with pytest.raises(ServingError, match="'twice'"):
        next(answers)
    assert _nothing_runs(generator)


def test_a_source_that_fails_leaves_nothing_running(generator: Generator) -> None:
    def source() -> Iterator[GenerationRequest]:
        yield _ask("fast", choices=("yes",))
        yield _ask("slow", "Tell a story.", 300)
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="disk"):
        list(generator.generate(source()))
    assert _nothing_runs(generator)


def test_an_engine_that_is_closed_or_dies_says_so_and_starts_again(
    generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with generator.stream() as stream:
        for name in ("a", "b"):
            stream.submit(_ask(name, "Tell a story.", 300))
        stream.submit(_ask("fast", choices=("yes",)))
        assert [found.id for found in stream.take()] == ["fast"]
        generator.close()
        with pytest.raises(ServingError, match="2 more requests, found the engine closed"):
            stream.take()
        assert stream.open == 0
        stream.submit(_ask("after", choices=("yes",)))
        assert [found.text for found in stream.take()] == ["yes"]
        stream.submit(_ask("last", "Tell a story.", 300))
        monkeypatch.setattr(generator._llm.llm_engine, "step", lambda: 1 / 0)
        with pytest.raises(ServingError, match=r"1 more requests, found that vLLM stopped \(ZeroDivisionError"):
            stream.take()
    assert generator._llm is None


def test_a_tokenizer_that_does_not_load_stops_the_stream(tmp_path: Any) -> None:
    (tmp_path / "config.json").write_text("{}")
    with Generator(str(tmp_path)).stream() as stream:
        stream.submit(_ask("q"))
        with pytest.raises(ServingError, match="expected a tokenizer"):
            stream.take()
        assert stream.take() == []
