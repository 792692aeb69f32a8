"""The LLM extractor against a scripted generator, and once against a real small model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import jsonschema
import pytest
from hyce_serving.generator import Generation, GenerationRequest, Generator
from hyce_serving.models import bundled_llm
from hyce_serving.scripted import Scripted, ScriptedStream

from hyce_gpu.extract.llm_extractor import LlmExtractor, reply_schema
from hyce_gpu.schema import Chunk, ExtractionRecord

FIRST, SECOND = "Ada Marsh designed the Tern Bridge. ", "It was opened in Wexmouth in 1938."
TEXT = FIRST + SECOND


class Script:
    """Replies by id: a text, or a finish reason. A list holds one reply for each time it is asked."""

    def __init__(
        self, replies: Mapping[str, object], reverse: bool = False, prompt_tokens: int = 500, capacity: int = 64
    ) -> None:
        self._replies = {id: list(reply) if isinstance(reply, list) else [reply] for id, reply in replies.items()}
        self._prompt_tokens = prompt_tokens
        self.asked: list[GenerationRequest] = []
        self.generator = Reversed(self._reply, 4096, capacity) if reverse else Scripted(self._reply, 4096, capacity)

    def _reply(self, request: GenerationRequest) -> Generation:
        self.asked.append(request)
        reply = str(self._replies[request.id].pop(0))
        reason = reply if reply in ("too_long", "error") else "length" if reply.endswith("…") else "stop"
        error = "out of memory" if reason == "error" else ""
        return Generation(request.id, reply, reason, self._prompt_tokens, 10, error)


class Reversed(Scripted):
    """What came last is answered first."""

    def stream(self) -> ScriptedStream:
        stream = super().stream()
        take = stream.take
        stream.take = lambda: stream._waiting.reverse() or take()  # type: ignore[func-returns-value, method-assign]
        return stream


def chunk(number: int = 0, text: str = TEXT, start: int = 100) -> Chunk:
    return Chunk(f"d#{number}", "d", number, start, start + len(text), text, "Tern Bridge")


def reply(segment: str, *members: str) -> str:
    return json.dumps({"entities": list(members), "hyperedges": [{"segment": segment, "entities": list(members)}]})


GOOD = reply(FIRST, "Ada Marsh", "Tern Bridge")


def extract(script: Script, chunks: Sequence[Chunk]) -> list[ExtractionRecord]:
    """In the order of the chunks."""
    found = list(LlmExtractor(script.generator).extract(chunks, range(len(chunks))))
    assert sorted(one.position for one in found) == list(range(len(chunks)))
    return [one.record for one in sorted(found, key=lambda one: one.position)]


def test_replies_in_any_order_give_records_in_the_chunks_order() -> None:
    replies = {f"d#{number}@100": reply(SECOND, "Wexmouth", "1938") for number in range(3)}
    replies["d#1@100"] = GOOD
    records = extract(Script(replies, reverse=True), [chunk(number) for number in range(3)])
    assert [(record.chunk_id, record.status, record.error) for record in records] == [
        ("d#0", "ok", ""), ("d#1", "ok", ""), ("d#2", "ok", "")
    ]  # fmt: skip
    assert [record.hyperedges[0].entities for record in records][1:] == [
        ("Ada Marsh", "Tern Bridge"),
        ("Wexmouth", "1938"),
    ]
    found = records[2].hyperedges[0]
    assert (found.segment, found.start, found.end) == (SECOND, 136, 170)


def test_records_come_while_later_replies_are_still_open() -> None:
    script = Script({"d#0@100": GOOD, "d#1@100": GOOD})
    found = LlmExtractor(script.generator).extract([chunk(0), chunk(1)], [0, 1])
    assert next(found).record.chunk_id == "d#0"
    assert len(script.asked) == 1


def test_no_chunk_waits_for_a_batch_and_what_is_asked_again_goes_first() -> None:
    replies = {f"d#{number}@100": GOOD for number in range(9)}
    script = Script({**replies, "d#1@100": ["", GOOD]}, capacity=4)
    records = extract(script, [chunk(number) for number in range(9)])
    assert [record.status for record in records] == ["ok"] * 9
    assert [request.id[2] for request in script.asked] == list("0123415678")[:1] + list("123415678")


def test_only_what_is_wanted_is_asked_and_its_tokens_are_counted() -> None:
    script = Script({"d#1@100": ["", GOOD]})
    (found,) = LlmExtractor(script.generator).extract([chunk(0), chunk(1), chunk(2)], [1])
    assert (found.position, found.record.chunk_id) == (1, "d#1")
    assert (found.prompt_tokens, found.completion_tokens) == (1000, 20)


@pytest.mark.parametrize("bad", ["", "no JSON", '{"entities": [{"na…', "[3]", "{}"])
def test_an_unusable_reply_is_asked_for_once_more_with_a_shorter_task(bad: str) -> None:
    generator = Script({"d#0@100": [bad, GOOD]})
    (record,) = extract(generator, [chunk()])
    assert (record.status, len(record.hyperedges)) == ("ok", 1)
    first, again = generator.asked
    assert (first.max_tokens, again.max_tokens) == (1024, 2048)
    assert again.messages[:-1] == first.messages[:-1]
    assert "at most 8 entities and the 5 most important hyperedges" in again.messages[-1]["content"]
    assert first.schema == reply_schema(16, 10)
    assert again.schema == reply_schema(8, 5)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("", "empty reply"), ("none", "not JSON"), ("[" + "x" * 5000 + "…", "cut off"), ("{}", "expected the keys")],
)
def test_a_second_unusable_reply_gives_a_failed_record_and_the_rest_goes_on(bad: str, reason: str) -> None:
    replies = {"d#0@100": GOOD, "d#1@100": [GOOD[:-5], bad], "d#2@100": GOOD}
    records = extract(Script(replies), [chunk(number) for number in range(3)])
    assert [record.status for record in records] == ["ok", "failed", "ok"]
    failed = records[1]
    assert failed.error.startswith(reason)
    assert failed.raw == bad[:4000]
    assert (failed.chunk_id, failed.start, failed.end, failed.hyperedges) == ("d#1", 100, 170, ())


@pytest.mark.parametrize(("reply", "reason"), [("error", "out of memory")])
def test_what_the_generator_refuses_fails_with_its_reason(reply: str, reason: str) -> None:
    (record,) = extract(Script({"d#0@100": reply}), [chunk()])
    assert (record.status, record.error) == ("failed", reason)


def test_a_prompt_that_is_too_long_is_split_at_a_sentence_end() -> None:
    replies = {"d#0@100": ["too_long", GOOD], "d#0@136": reply(SECOND, "ada marsh", "1938", "Wexmouth")}
    generator = Script(replies, reverse=True)
    (record,) = extract(generator, [chunk()])
    asked = [request.messages[-1]["content"] for request in generator.asked[1:]]
    assert [FIRST in text for text in asked] == [False, True]
    assert [SECOND in text for text in asked] == [True, False]
    assert (record.status, record.start, record.end) == ("ok", 100, 170)
    assert [entity.name for entity in record.entities] == ["Ada Marsh", "Tern Bridge", "1938", "Wexmouth"]
    assert [(item.start, item.end) for item in record.hyperedges] == [(100, 135), (136, 170)]


def test_a_part_that_fails_is_named_beside_what_the_others_gave() -> None:
    replies = {"d#0@100": ["too_long", GOOD], "d#0@136": ["", "none"]}
    (record,) = extract(Script(replies), [chunk()])
    assert (record.status, record.error, len(record.hyperedges)) == ("ok", "1 of 2 parts failed: not JSON", 1)


def test_a_model_without_any_room_fails_every_part() -> None:
    text = "x" * 70
    replies = {f"d#0@{100 + at}": ["too_long"] * 2 for at in (0, 35)}
    (record,) = extract(Script(replies), [chunk(text=text)])
    assert (record.status, record.error) == ("failed", "the prompt does not fit into the model's 4096 tokens")


def test_a_reply_that_the_prompt_left_no_room_for_splits_the_chunk() -> None:
    replies = {"d#0@100": ['{"entities": [{…', GOOD], "d#0@136": reply(SECOND, "1938", "Wexmouth")}
    (record,) = extract(Script(replies, prompt_tokens=3900), [chunk()])
    assert (record.status, len(record.hyperedges)) == ("ok", 2)


def test_no_chunks_ask_for_nothing() -> None:
    generator = Script({})
    assert extract(generator, []) == []
    assert generator.asked == []


def test_the_worked_passage_in_the_prompt_follows_the_schema_and_needs_no_repair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    generator = Script({"d#0@100": GOOD})
    extract(generator, [chunk()])
    roles = [message["role"] for message in generator.asked[0].messages]
    assert roles == ["system", "user", "assistant", "user"]
    _, example, worked, _ = generator.asked[0].messages
    jsonschema.validate(json.loads(worked["content"]), reply_schema(16, 10))
    text = example["content"].split("<passage>\n")[1].split("\n</passage>")[0]
    (record,) = extract(Script({"d#0@0": worked["content"]}), [Chunk("d#0", "d", 0, 0, len(text), text, "Ada Marsh")])
    assert [text[item.start : item.end] for item in record.hyperedges] == [item.segment for item in record.hyperedges]
    assert sum(len(item.relations) for item in record.hyperedges) == 5
    assert "dropped" not in capsys.readouterr().err


def test_says_what_was_dropped_and_describes_model_and_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    generator = Script({"d#0@100": reply(FIRST, "Ada Marsh", "Atlantis", "Utopia")})
    extract(generator, [chunk()])
    assert "dropped hyperedge with fewer than two entities: 1" in capsys.readouterr().err
    described = LlmExtractor(generator.generator).describe()
    assert described["model"] == "scripted"
    assert len(described["prompt_hash"]) == 12
    assert int(described["prompt_hash"], 16) >= 0


def test_the_schema_is_one_that_xgrammar_takes() -> None:
    backend = pytest.importorskip("vllm.v1.structured_output.backend_xgrammar")
    xgrammar = pytest.importorskip("xgrammar")
    schema = reply_schema(16, 10)
    assert not backend.has_xgrammar_unsupported_json_features(schema)
    grammar = str(xgrammar.Grammar.from_json_schema(json.dumps(schema)))
    # The bounds are in the grammar, not ignored.
    assert "{0, 100}" in grammar
    assert "{0, 400}" in grammar


def test_a_real_model_gives_a_record_for_each_chunk() -> None:
    texts = [TEXT, "Müller lives in Köln.", "周杰伦出生于台北。"]
    chunks = [chunk(number, text, start=0) for number, text in enumerate(texts)]
    with Generator(str(bundled_llm()), max_model_len=2048) as generator:
        found = list(LlmExtractor(generator, max_tokens=256).extract(chunks, [0, 1, 2]))
    records = [one.record for one in sorted(found, key=lambda one: one.position)]
    assert [record.chunk_id for record in records] == ["d#0", "d#1", "d#2"]
    assert all(one.completion_tokens > 0 for one in found)
    for record in records:
        assert record.status == "ok" or (record.status == "failed" and record.error)
