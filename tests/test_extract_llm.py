"""The LLM extractor against a scripted generator, and once against a real small model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import jsonschema
import pytest
from hyce_serving.generator import Generation, GenerationRequest, Generator
from hyce_serving.models import bundled_llm

from hyce_gpu.extract.llm_extractor import LlmExtractor, reply_schema
from hyce_gpu.schema import Chunk, ExtractionRecord

FIRST, SECOND = "Ada Marsh designed the Tern Bridge. ", "It was opened in Wexmouth in 1938."
TEXT = FIRST + SECOND


class Scripted:
    """Answers by id: a text, or a finish reason. A list holds one reply for each time it is asked."""

    max_model_len = 4096

    def __init__(self, replies: Mapping[str, object], reverse: bool = False, prompt_tokens: int = 500) -> None:
        self._replies = {id: list(reply) if isinstance(reply, list) else [reply] for id, reply in replies.items()}
        self._reverse = reverse
        self._prompt_tokens = prompt_tokens
        self.batches: list[list[GenerationRequest]] = []

    def describe(self) -> Mapping[str, str]:
        return {"model": "scripted"}

    def generate(self, requests: Sequence[GenerationRequest]) -> Iterator[Generation]:
        self.batches.append(list(requests))
        for request in reversed(requests) if self._reverse else requests:
            reply = self._replies[request.id].pop(0)
            if reply is not None:
                yield self._generation(request.id, str(reply))

    def _generation(self, id: str, reply: str) -> Generation:
        reason = reply if reply in ("too_long", "error") else "length" if reply.endswith("…") else "stop"
        error = "out of memory" if reason == "error" else ""
        return Generation(id, reply, reason, self._prompt_tokens, 10, error)


def chunk(number: int = 0, text: str = TEXT, start: int = 100) -> Chunk:
    return Chunk(f"d#{number}", "d", number, start, start + len(text), text, "Tern Bridge")


def reply(segment: str, *members: str) -> str:
    return json.dumps({"entities": list(members), "hyperedges": [{"segment": segment, "entities": list(members)}]})


GOOD = reply(FIRST, "Ada Marsh", "Tern Bridge")


def extract(generator: Scripted, chunks: Sequence[Chunk]) -> list[ExtractionRecord]:
    counted: list[int] = []
    records = list(LlmExtractor(generator).extract(chunks, lambda units=1: counted.append(units)))
    assert sum(counted) == len(chunks)
    return records


def test_replies_in_any_order_give_records_in_the_chunks_order() -> None:
    replies = {f"d#{number}@100": reply(SECOND, "Wexmouth", "1938") for number in range(3)}
    replies["d#1@100"] = GOOD
    records = extract(Scripted(replies, reverse=True), [chunk(number) for number in range(3)])
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
    generator = Scripted({"d#0@100": GOOD, "d#1@100": GOOD})
    records = LlmExtractor(generator).extract([chunk(0), chunk(1)], lambda units=1: None)
    assert next(records).chunk_id == "d#0"


def test_windows_bound_what_is_under_way() -> None:
    replies = {f"d#{number}@100": GOOD for number in range(1100)}
    generator = Scripted({**replies, "d#3@100": ["", GOOD]})
    records = extract(generator, [chunk(number) for number in range(1100)])
    assert [record.order for record in records] == list(range(1100))
    assert [len(batch) for batch in generator.batches] == [512, 512, 77]
    assert generator.batches[1][0].id == "d#3@100"


@pytest.mark.parametrize("bad", ["", "no JSON", '{"entities": [{"na…', "[3]", "{}"])
def test_an_unusable_reply_is_asked_for_once_more_with_a_shorter_task(bad: str) -> None:
    generator = Scripted({"d#0@100": [bad, GOOD]})
    (record,) = extract(generator, [chunk()])
    assert (record.status, len(record.hyperedges)) == ("ok", 1)
    ((first,), (again,)) = generator.batches
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
    records = extract(Scripted(replies), [chunk(number) for number in range(3)])
    assert [record.status for record in records] == ["ok", "failed", "ok"]
    failed = records[1]
    assert failed.error.startswith(reason)
    assert failed.raw == bad[:4000]
    assert (failed.chunk_id, failed.start, failed.end, failed.hyperedges) == ("d#1", 100, 170, ())


@pytest.mark.parametrize(("reply", "reason"), [("error", "out of memory"), (None, "the generator gave no reply")])
def test_what_the_generator_refuses_fails_with_its_reason(reply: str | None, reason: str) -> None:
    (record,) = extract(Scripted({"d#0@100": reply}), [chunk()])
    assert (record.status, record.error) == ("failed", reason)


def test_a_prompt_that_is_too_long_is_split_at_a_sentence_end() -> None:
    replies = {"d#0@100": ["too_long", GOOD], "d#0@136": reply(SECOND, "ada marsh", "1938", "Wexmouth")}
    generator = Scripted(replies, reverse=True)
    (record,) = extract(generator, [chunk()])
    asked = [request.messages[-1]["content"] for request in generator.batches[1]]
    assert [FIRST in text for text in asked] == [True, False]
    assert [SECOND in text for text in asked] == [False, True]
    assert (record.status, record.start, record.end) == ("ok", 100, 170)
    assert [entity.name for entity in record.entities] == ["Ada Marsh", "Tern Bridge", "1938", "Wexmouth"]
    assert [(item.start, item.end) for item in record.hyperedges] == [(100, 135), (136, 170)]


def test_a_part_that_fails_is_named_beside_what_the_others_gave() -> None:
    replies = {"d#0@100": ["too_long", GOOD], "d#0@136": ["", "none"]}
    (record,) = extract(Scripted(replies), [chunk()])
    assert (record.status, record.error, len(record.hyperedges)) == ("ok", "1 of 2 parts failed: not JSON", 1)


def test_a_model_without_any_room_fails_every_part() -> None:
    text = "x" * 70
    replies = {f"d#0@{100 + at}": ["too_long"] * 2 for at in (0, 35)}
    (record,) = extract(Scripted(replies), [chunk(text=text)])
    assert (record.status, record.error) == ("failed", "the prompt does not fit into the model's 4096 tokens")


def test_a_reply_that_the_prompt_left_no_room_for_splits_the_chunk() -> None:
    replies = {"d#0@100": ['{"entities": [{…', GOOD], "d#0@136": reply(SECOND, "1938", "Wexmouth")}
    (record,) = extract(Scripted(replies, prompt_tokens=3900), [chunk()])
    assert (record.status, len(record.hyperedges)) == ("ok", 2)


def test_no_chunks_ask_for_nothing() -> None:
    generator = Scripted({})
    assert extract(generator, []) == []
    assert generator.batches == []


def test_the_worked_passage_in_the_prompt_follows_the_schema_and_needs_no_repair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    generator = Scripted({"d#0@100": GOOD})
    extract(generator, [chunk()])
    roles = [message["role"] for message in generator.batches[0][0].messages]
    assert roles == ["system", "user", "assistant", "user"]
    _, example, worked, _ = generator.batches[0][0].messages
    jsonschema.validate(json.loads(worked["content"]), reply_schema(16, 10))
    text = example["content"].split("<passage>\n")[1].split("\n</passage>")[0]
    (record,) = extract(Scripted({"d#0@0": worked["content"]}), [Chunk("d#0", "d", 0, 0, len(text), text, "Ada Marsh")])
    assert [text[item.start : item.end] for item in record.hyperedges] == [item.segment for item in record.hyperedges]
    assert sum(len(item.relations) for item in record.hyperedges) == 5
    assert "dropped" not in capsys.readouterr().err


def test_says_what_was_dropped_and_describes_model_and_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    generator = Scripted({"d#0@100": reply(FIRST, "Ada Marsh", "Atlantis", "Utopia")})
    extract(generator, [chunk()])
    assert "dropped hyperedge with fewer than two entities: 1" in capsys.readouterr().err
    described = LlmExtractor(generator).describe()
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
        records = list(LlmExtractor(generator, max_tokens=256).extract(chunks, lambda units=1: None))
    assert [record.chunk_id for record in records] == ["d#0", "d#1", "d#2"]
    for record in records:
        assert record.status == "ok" or (record.status == "failed" and record.error)
