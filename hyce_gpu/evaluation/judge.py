"""An LLM as judge: prompts, the shape of its reply, and its parser, side by side (equations 43 to 46).

Answer accuracy, context relevance and faithfulness, each from 0 to 1. A reply that cannot be parsed is None, which the
caller counts; it is never left out without a word. Knows messages and replies, not who runs the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hyce_serving.generator import Generation, GenerationRequest

JUDGE_TOKENS = 200

ACCURACY, RELEVANCE, FAITHFULNESS = "answer_accuracy", "context_relevance", "faithfulness"
JUDGED = (ACCURACY, RELEVANCE, FAITHFULNESS)

_REPLY = """Reply with JSON: "reason" is one short sentence, "score" is 0, 0.25, 0.5, 0.75 or 1."""

PROMPTS: Mapping[str, str] = {
    ACCURACY: f"""You grade an answer to a question against the reference answers.
1: it means the same as one of them, whatever the wording. 0.5: it is partly right, or right with a wrong addition.
0: it is wrong, or says nothing. Judge by the references alone, not by what you know.
{_REPLY}""",
    RELEVANCE: f"""You grade whether evidence helps to answer a question.
1: together, the segments hold all that the answer needs. 0.5: they hold a part of it. 0: they hold none of it.
{_REPLY}""",
    FAITHFULNESS: f"""You grade whether an answer is supported by evidence.
1: the segments, taken together, state or imply it. 0.5: they support a part of it. 0: they do not support it, or
contradict it. Judge by the segments alone: a true answer that they do not support gets 0.
{_REPLY}""",
}

# The reason first: a model that has written it scores better than one that has not.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "reason": {"type": "string", "maxLength": 300},
        "score": {"enum": [0, 0.25, 0.5, 0.75, 1]},
    },
    "required": ["reason", "score"],
    "additionalProperties": False,
}


def described() -> Mapping[str, Any]:
    """What would have to be the same for the same requests."""
    return {"prompts": dict(PROMPTS), "schema": SCHEMA, "tokens": JUDGE_TOKENS}


def requests(key: str, row: Mapping[str, Any]) -> list[GenerationRequest]:
    """The judge's requests for one answered question, with ids "KEY/MEASURE".

    Accuracy needs an expected answer; relevance and faithfulness need a context; what is missing is not asked. Accuracy
    and faithfulness of a question that failed are `given`.

    Args:
        row: a line of the answers: question, expected, answer, status, context.
    """
    question = f"Question: {row['question']}"
    evidence = "Evidence:\n\n" + "\n\n".join(_segment(place, one) for place, one in enumerate(row["context"], 1))
    answer = f"Answer: {row['answer']}"
    asked = {}
    if row["status"] == "answered" and row["expected"]:
        asked[ACCURACY] = f"{question}\nReference answers: {json.dumps(row['expected'], ensure_ascii=False)}\n{answer}"
    if row["context"]:
        asked[RELEVANCE] = f"{evidence}\n\n{question}"
    if row["status"] == "answered" and row["context"]:
        asked[FAITHFULNESS] = f"{evidence}\n\n{question}\n{answer}"
    return [_request(f"{key}/{name}", PROMPTS[name], user) for name, user in asked.items()]


def given(row: Mapping[str, Any]) -> dict[str, float]:
    """What needs no judge: a question that failed has no accurate and no faithful answer."""
    if row["status"] == "answered":
        return {}
    accuracy = {ACCURACY: 0.0} if row["expected"] else {}
    return accuracy | ({FAITHFULNESS: 0.0} if row["context"] else {})


def verdicts(
    key: str, asked: Sequence[GenerationRequest], replies: Mapping[str, Generation]
) -> dict[str, float | None]:
    """The score of each request, None where its reply cannot be parsed or never came."""
    return {one.id.removeprefix(f"{key}/"): parse(replies.get(one.id)) for one in asked}


def parse(reply: Generation | None) -> float | None:
    """The score of a reply, or None: no reply, no JSON, no number, or one outside of [0, 1]."""
    if reply is None:
        return None
    try:
        score = json.loads(reply.text)["score"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    return float(score) if is_number and 0 <= score <= 1 else None


def _segment(number: int, segment: Mapping[str, str]) -> str:
    title = f"{segment['title']}: " if segment["title"] else ""
    return f"[{number}] {title}{segment['segment']}"


def _request(name: str, instruction: str, user: str) -> GenerationRequest:
    messages = ({"role": "system", "content": instruction}, {"role": "user", "content": user})
    return GenerationRequest(name, messages, JUDGE_TOKENS, schema=SCHEMA)
