"""The bundled corpus and its questions fit each other."""

from __future__ import annotations

import json
from pathlib import Path

import hyce_gpu

DATA = Path(hyce_gpu.__file__).parent / "demo_data"


def _lines(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def test_every_answer_stands_in_its_supporting_passages_and_in_no_single_one_with_its_start() -> None:
    texts = {str(row["id"]): str(row["text"]) for row in _lines("corpus.jsonl")}
    questions = _lines("questions.jsonl")
    assert 40 <= len(texts) <= 80
    assert len(questions) >= 12
    for question in questions:
        supporting = question["supporting_ids"]
        assert isinstance(supporting, list)
        assert 2 <= len(supporting) == question["hops"] <= 4
        assert set(supporting) <= texts.keys()
        if question["answer"] not in ("yes", "no"):
            assert any(str(question["answer"]) in texts[name] for name in supporting)
