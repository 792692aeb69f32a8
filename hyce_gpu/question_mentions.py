"""Mentions in questions by an LLM: prompt, reply shape and parser (SPEC.md, section 2, step 1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hyce_serving.generator import Generation, GenerationRequest, Generator

MENTION_TOKENS = 128

INSTRUCTION = """List the named entities and key noun phrases of the question, spelled exactly as in the question: \
people, places, organisations, works, events, dates. Do not answer the question. Reply with JSON: {"mentions": [...]}"""

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"mentions": {"type": "array", "items": {"type": "string", "maxLength": 80}, "maxItems": 8}},
    "required": ["mentions"],
    "additionalProperties": False,
}


def find_mentions(questions: Sequence[str], generator: Generator) -> list[list[str]]:
    """Mentions of each question; none where the reply cannot be used. Only what the question says counts."""
    requests = [
        GenerationRequest(str(number), _messages(question), MENTION_TOKENS, schema=SCHEMA)
        for number, question in enumerate(questions)
    ]
    replies = {reply.id: reply for reply in generator.generate(requests)}
    return [_mentions(question, replies.get(str(number))) for number, question in enumerate(questions)]


def _messages(question: str) -> tuple[Mapping[str, str], ...]:
    return ({"role": "system", "content": INSTRUCTION}, {"role": "user", "content": f"Question: {question}"})


def _mentions(question: str, reply: Generation | None) -> list[str]:
    if reply is None or reply.finish_reason != "stop":
        return []
    try:
        found = json.loads(reply.text)["mentions"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    spoken = question.casefold()
    return [name for name in found if isinstance(name, str) and name.strip() and name.casefold() in spoken]
