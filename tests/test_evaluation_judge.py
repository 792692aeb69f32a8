"""What the judge is asked, and what becomes of its replies."""

from __future__ import annotations

from typing import Any

import pytest
from hyce_serving.generator import Generation

from hyce_gpu.evaluation.judge import ACCURACY, FAITHFULNESS, RELEVANCE, given, parse, requests, verdicts

ROW: dict[str, Any] = {
    "question": "Whom did Ada meet?",
    "expected": ["Charles Babbage", "Babbage"],
    "status": "answered",
    "answer": "Babbage",
    "context": [{"passage": "d", "title": "Ada", "segment": "Ada met Babbage."}],
}


def _reply(name: str, text: str, reason: str = "stop") -> Generation:
    return Generation(name, text, reason, 10, 5)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"reason": "", "score": 0.75}', 0.75),
        ('{"score": 1}', 1.0),
        ('{"score": 0}', 0.0),
        ('{"score": 7}', None),
        ('{"score": -0.1}', None),
        ('{"score": NaN}', None),
        ('{"score": true}', None),
        ('{"score": "1"}', None),
        ('{"reason": "cut off by the len', None),
        ("[1]", None),
        ("", None),
    ],
)
def test_parse(text: str, score: float | None) -> None:
    assert parse(_reply("x", text)) == score


def test_each_measure_sees_what_it_needs_and_nothing_else() -> None:
    asked = {one.id: one.messages[1]["content"] for one in requests("0", ROW)}
    assert list(asked) == [f"0/{ACCURACY}", f"0/{RELEVANCE}", f"0/{FAITHFULNESS}"]
    assert "Charles Babbage" in asked[f"0/{ACCURACY}"]
    assert "[1]" not in asked[f"0/{ACCURACY}"]
    assert "[1] Ada: Ada met Babbage." in asked[f"0/{RELEVANCE}"]
    assert "Answer:" not in asked[f"0/{RELEVANCE}"]
    assert "Charles" not in asked[f"0/{FAITHFULNESS}"]
    assert asked[f"0/{FAITHFULNESS}"].endswith("Answer: Babbage")


def test_what_is_missing_is_not_asked_and_a_failure_scores_0() -> None:
    failed = {**ROW, "status": "failed", "answer": None}
    assert [one.id for one in requests("0", failed)] == [f"0/{RELEVANCE}"]
    assert given(failed) == {ACCURACY: 0.0, FAITHFULNESS: 0.0}
    assert [one.id for one in requests("0", {**ROW, "context": []})] == [f"0/{ACCURACY}"]
    assert given({**failed, "context": [], "expected": []}) == {}
    assert given(ROW) == {}


def test_a_reply_that_is_unreadable_or_never_came_is_none() -> None:
    asked = requests("0", ROW)
    replies = {f"0/{ACCURACY}": _reply(f"0/{ACCURACY}", '{"score": 0.5}'), f"0/{RELEVANCE}": _reply("", "hm")}
    assert verdicts("0", asked, replies) == {ACCURACY: 0.5, RELEVANCE: None, FAITHFULNESS: None}
