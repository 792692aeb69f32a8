"""Prompts, what fits in them, and what becomes of replies. The model is scripted; its tokens are words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from hyce_serving.generator import Generation, Generator

from hyce_gpu.answering import ANSWER_TOKENS, INSTRUCTION, Prepared, finish, prepare
from hyce_gpu.context import Layout, Passage
from hyce_gpu.schema import Answer, EvidencePath, Relation, Source


class _Words:
    def __init__(self, window: int) -> None:
        self.max_model_len = window

    def count_tokens(self, messages: Sequence[Mapping[str, str]]) -> int:
        return sum(len(message["content"].split()) for message in messages)


def _path(rank: int, role: str, words: int = 10, chunk: str = "d#0") -> EvidencePath:
    relation = Relation("Ada", "met", f"Name{rank}", 0.5)
    source = Source("d", chunk, 0, 10)
    text = f"segment{rank} " * words
    return EvidencePath(rank, role, 1 / rank, {}, 0.9, ("Ada", f"Name{rank}"), text, (relation,), (source,))


def _retrieved(*paths: EvidencePath) -> Answer:
    return Answer("q", "Whom did Ada meet?", "retrieved", paths=paths)


def _passage(path: EvidencePath) -> Passage:
    return Passage("Document", f"around {path.segment}")


def _prepare(
    answer: Answer, window: int = 10_000, segments: int = 6, choose: bool = False, unit: str = "segment"
) -> Prepared:
    return prepare("0", answer, _passage, cast(Generator, _Words(window)), Layout(segments, unit), choose)


def _reply(text: str, reason: str = "stop") -> Generation:
    return Generation("0", text, reason, 100, 5)


def test_paths_come_in_their_rank_and_no_more_than_the_context_holds() -> None:
    prepared = _prepare(_retrieved(_path(2, "divergent"), _path(1, "supporting"), _path(3, "text")), segments=2)
    assert [path.rank for path in prepared.shown] == [1, 2]
    assert prepared.request is not None
    user = prepared.request.messages[1]["content"]
    assert user.index("[1] supporting evidence, score 1.00") < user.index("[2] divergent evidence, score 0.50")
    assert "Relation: Ada | met | Name2 (0.50)" in user
    assert user.endswith("Question: Whom did Ada meet?")


def test_a_passage_is_shown_once_for_all_its_paths_under_its_title() -> None:
    paths = (_path(1, "supporting", 1), _path(2, "supporting", 1), _path(3, "divergent", 1, "d#1"))
    prepared = _prepare(_retrieved(*paths), segments=2, unit="passage")
    assert [path.rank for path in prepared.shown] == [1, 3]
    assert prepared.request is not None
    user = prepared.request.messages[1]["content"]
    assert user.startswith("Evidence:\n\n[1] Document\naround segment1")
    assert "[2] Document\naround segment3" in user


def test_a_context_that_is_too_long_loses_its_weakest_segments() -> None:
    answer = _retrieved(*(_path(rank, "supporting", words=100) for rank in range(1, 7)))
    window = len(INSTRUCTION.split()) + ANSWER_TOKENS + 300
    assert [path.rank for path in _prepare(answer, window).shown] == [1, 2]


def test_a_question_longer_than_the_window_fails_alone_and_keeps_its_evidence() -> None:
    prepared = _prepare(_retrieved(_path(1, "supporting")), window=ANSWER_TOKENS + 10)
    assert prepared.request is None
    answer = finish(prepared, None)
    assert (answer.status, answer.error) == ("failed", "the question is longer than the model's window")
    assert answer.paths


def test_citations_are_ranks_of_what_was_shown() -> None:
    prepared = _prepare(_retrieved(_path(3, "supporting"), _path(7, "divergent")))
    answer = finish(prepared, _reply('{"answer": "Name7", "evidence": [2, 9, "x"]}'))
    assert (answer.status, answer.answer, answer.citations, answer.context) == ("answered", "Name7", (7,), (3, 7))
    assert answer.usage == {"prompt_tokens": 100, "completion_tokens": 5}


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        ('{"answer": " a \\n b ", "evidence": []}', "answered", "a b"),
        ('{"answer": "cut off by the len', "answered", "cut off by the len"),
        ('{"answer": "", "evidence": []}', "failed", None),
        ("", "failed", None),
        ("[1, 2]", "failed", None),
    ],
)
def test_replies(text: str, status: str, said: str | None) -> None:
    answer = finish(_prepare(_retrieved(_path(1, "supporting"))), _reply(text, "length"))
    assert (answer.status, answer.answer) == (status, said)


def test_a_refused_request_fails_with_its_cause() -> None:
    refused: Any = Generation("0", "", "error", 0, 0, "bad schema")
    answer = finish(_prepare(_retrieved(_path(1, "supporting"))), refused)
    assert (answer.status, answer.error) == ("failed", "the model refused the request: bad schema")


def test_choices_are_the_entities_that_the_question_does_not_name() -> None:
    prepared = _prepare(_retrieved(_path(1, "supporting"), _path(2, "supporting")), choose=True)
    assert prepared.request is not None
    assert prepared.request.choices == ("Name1", "Name2", "yes", "no")
    assert finish(prepared, _reply("Name2")).answer == "Name2"
