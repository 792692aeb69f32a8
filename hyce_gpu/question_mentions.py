"""Mentions in questions by an LLM: prompt, reply shape and parser (SPEC.md, section 2, step 1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hyce_serving.generator import Generation, GenerationRequest, Generator

from hyce_gpu.models import what_shapes_replies
from hyce_gpu.units import FinishedUnits, unit_key

MENTION_TOKENS = 128

INSTRUCTION = """List the named entities and key noun phrases of the question, spelled exactly as in the question: \
people, places, organisations, works, events, dates. Do not answer the question. Reply with JSON: {"mentions": [...]}"""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"mentions": {"type": "array", "items": {"type": "string", "maxLength": 80}, "maxItems": 8}},
    "required": ["mentions"],
    "additionalProperties": False,
}


def find_mentions(
    questions: Sequence[str], generator: Generator, finished: FinishedUnits | None = None
) -> list[list[str]]:
    """Mentions of each question; none where the reply cannot be used. Only what the question says counts.

    Args:
        finished: mentions that were found before, and where those that are found now are kept.
    """
    shaped_by = what_shapes_replies(generator.describe())
    keys = [unit_key("mentions/1", INSTRUCTION, SCHEMA, shaped_by, question) for question in questions]
    known: dict[bytes, list[str]] = {}
    if finished is not None:
        known = {key: json.loads(finished[key]) for key in keys if key in finished}
    requests = [
        GenerationRequest(str(number), _messages(question), MENTION_TOKENS, schema=SCHEMA)
        for number, question in enumerate(questions)
        if keys[number] not in known
    ]
    for reply in generator.generate(requests):
        number = int(reply.id)
        known[keys[number]] = _mentions(questions[number], reply)
        if finished is not None:
            finished.put(keys[number], json.dumps(known[keys[number]]))
    return [known[key] for key in keys]


def _messages(question: str) -> tuple[Mapping[str, str], ...]:
    return ({"role": "system", "content": INSTRUCTION}, {"role": "user", "content": f"Question: {question}"})


def _mentions(question: str, reply: Generation) -> list[str]:
    if reply.finish_reason != "stop":
        return []
    try:
        found = json.loads(reply.text)["mentions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    spoken = question.casefold()
    return [name for name in found if isinstance(name, str) and name.strip() and name.casefold() in spoken]
