"""Context → answer: the prompt, the shape of the reply, and its parser, side by side (equations 41 and 42).

Knows messages and replies. The engine that runs the model is handed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyce_serving.generator import Generation, GenerationRequest, Generator

from hyce_gpu import context
from hyce_gpu.context import Layout, PassageOf
from hyce_gpu.progress import Advance
from hyce_gpu.schema import Answer, EvidencePath

ANSWER_TOKENS = 128

INSTRUCTION = """You answer a question from numbered evidence.
Use only the evidence. Follow the chain: an entity named in one piece may be explained in another one.
Reply with JSON: "answer" is the shortest answer that is complete (a name, a place, a date, yes or no; no sentence), \
and "evidence" lists the numbers of the pieces that it rests on. If the evidence does not hold the answer, give your \
best guess and an empty "evidence"."""

# Segments are shown with their roles, passages are not.
ROLES = "Supporting evidence is stronger than divergent evidence; divergent evidence may mislead."

# For a model that picks among candidates: the task of the JSON reply would only confuse it.
CHOICE_INSTRUCTION = "Answer the question with one name from the evidence, or with yes or no."

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "minLength": 1, "maxLength": 200},
        "evidence": {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 99}, "maxItems": 8},
    },
    "required": ["answer", "evidence"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Prepared:
    """A question with the evidence that fits the model's window; `request` is None where not even the question does."""

    answer: Answer
    shown: tuple[EvidencePath, ...]
    request: GenerationRequest | None


def answer_all(
    retrieved: Sequence[Answer],
    passage_of: PassageOf,
    generator: Generator,
    layout: Layout,
    choose: bool = False,
    advance: Advance | None = None,
) -> list[Answer]:
    """The answers in order, all asked in one call; those that could not be retrieved stay as they are.

    Args:
        passage_of: the passage that a path stands in.
        advance: called with the number of questions that were just finished.
    """
    prepared = {
        str(number): prepare(str(number), one, passage_of, generator, layout, choose)
        for number, one in enumerate(retrieved)
        if one.status != "failed"
    }
    requests = [one.request for one in prepared.values() if one.request is not None]
    if advance:
        advance(len(retrieved) - len(requests))
    replies = {reply.id: reply for reply in generator.generate(requests, advance)}
    return [
        finish(prepared[key], replies.get(key)) if (key := str(number)) in prepared else one
        for number, one in enumerate(retrieved)
    ]


def prepare(
    request_id: str, retrieved: Answer, passage_of: PassageOf, generator: Generator, layout: Layout, choose: bool
) -> Prepared:
    """Builds the request for one question.

    Args:
        choose: bind the reply to the entities of the shown evidence, yes and no; for models too small to be free.
    """
    paths = context.context_paths(retrieved.paths, layout)
    instruction = CHOICE_INSTRUCTION if choose else instruction_for(layout)

    def messages(shown: Sequence[EvidencePath]) -> tuple[Mapping[str, str], ...]:
        return _messages(instruction, retrieved.question, context.render(shown, passage_of, layout.unit))

    def tokens(shown: Sequence[EvidencePath]) -> int:
        return generator.count_tokens(messages(shown))

    shown = context.fit(paths, tokens, generator.max_model_len - ANSWER_TOKENS)
    if shown is None:
        return Prepared(retrieved, (), None)
    choices = _choices(retrieved.question, shown) if choose else ()
    schema = None if choices else SCHEMA
    request = GenerationRequest(request_id, messages(shown), ANSWER_TOKENS, schema=schema, choices=choices)
    return Prepared(retrieved, tuple(shown), request)


def instruction_for(layout: Layout) -> str:
    return INSTRUCTION if layout.unit == "passage" else f"{INSTRUCTION}\n{ROLES}"


def finish(prepared: Prepared, reply: Generation | None) -> Answer:
    """The answer with its citations, or "failed" with the reason. The evidence stays either way."""
    answer = replace(prepared.answer, context=tuple(path.rank for path in prepared.shown))
    if prepared.request is None or reply is None or reply.finish_reason == "too_long":
        return replace(answer, status="failed", error="the question is longer than the model's window")
    usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    answer = replace(answer, usage=usage)
    if reply.finish_reason == "error":
        return replace(answer, status="failed", error=f"the model refused the request: {reply.error}")
    text, cited = _parse(reply.text, bool(prepared.request.choices))
    if not text:
        return replace(answer, status="failed", error=f"the model's reply holds no answer: {reply.text[:200]!r}")
    citations = tuple(prepared.shown[number - 1].rank for number in cited if 0 < number <= len(prepared.shown))
    return replace(answer, status="answered", answer=text, citations=citations)


def _messages(instruction: str, question: str, evidence: str) -> tuple[Mapping[str, str], ...]:
    user = f"Evidence:\n\n{evidence or '(none)'}\n\nQuestion: {question}"
    return ({"role": "system", "content": instruction}, {"role": "user", "content": user})


def _choices(question: str, shown: Sequence[EvidencePath]) -> tuple[str, ...]:
    """The entities of the evidence that the question does not name itself, yes and no; none without evidence."""
    asked = question.casefold()
    names = (name.strip() for path in shown for name in path.entities)
    new = [name for name in names if name and name.casefold() not in asked]
    return tuple(dict.fromkeys([*new, "yes", "no"])) if shown else ()


def _parse(text: str, chosen: bool) -> tuple[str, list[int]]:
    if chosen:
        return text.strip(), []
    try:
        reply = json.loads(text)
        answer = " ".join(str(reply["answer"]).split())
        return answer, [number for number in reply["evidence"] if isinstance(number, int)]
    except (ValueError, KeyError, TypeError, RecursionError):
        # A reply that was cut by its length limit still opens with the answer.
        found = re.search(r'"answer"\s*:\s*"((?:[^"\\]|\\.)*)', text)
        return (" ".join(found.group(1).split()) if found else ""), []
