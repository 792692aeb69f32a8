"""Context → answer: the prompt, the shape of the reply, and its parser, side by side (equations 41 and 42).

Knows messages and replies. The engine that runs the model is handed in.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hyce_serving.generator import Generation, GenerationRequest, Generator

from hyce_gpu import context
from hyce_gpu.context import Layout, Passage, PassageOf
from hyce_gpu.extract.reply import ParseError, as_list, decode_reply, first
from hyce_gpu.progress import Advance
from hyce_gpu.schema import Answer, EvidencePath, Relation, Source

ANSWER_TOKENS = 128

INSTRUCTION = """You answer a question from numbered evidence.
Use only the evidence. Follow the chain: an entity named in one piece may be explained in another one.
Reply with JSON: "answer" is the shortest answer that is complete (a name, a place, a date, yes or no; no sentence), \
and "evidence" lists the numbers of the pieces that it rests on. If the evidence does not hold the answer, give your \
best guess and an empty "evidence"."""

# Segments are shown with their roles, passages are not.
ROLES = "Supporting evidence is stronger than divergent evidence; divergent evidence may mislead."

# Names that models give the answer's key.
_ANSWER_KEYS = ("answer", "final_answer", "response")
_RAW_KEPT = 4000

# One path as the model would read it: another layout of the context is another prompt.
_EXAMPLE = EvidencePath(
    1, "supporting", 0.5, {}, 0.5, ("E",), "S", (Relation("H", "p", "T", 0.5),), (Source("d", "d#0", 0, 1),)
)

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
    # How many pieces of evidence did not fit.
    left_out: int = 0


def described(layout: Layout) -> Mapping[str, Any]:
    """What would have to be the same for the same requests."""
    return {
        "instruction": instruction_for(layout),
        "schema": json.dumps(SCHEMA, sort_keys=True),
        "tokens": ANSWER_TOKENS,
        "example": context.render((_EXAMPLE,), lambda _: Passage("T", "P"), layout.unit),
    }


def answer_all(
    retrieved: Sequence[Answer],
    passage_of: PassageOf,
    generator: Generator,
    layout: Layout,
    choose: bool = False,
    advance: Advance | None = None,
) -> list[Answer]:
    """The answers in order; those that could not be retrieved stay as they are.

    Args:
        passage_of: the passage that a path stands in.
        advance: called with the number of questions that were just finished.
    """
    found: dict[int, Answer] = {}
    for number, answer in answer_stream(enumerate(retrieved), passage_of, generator, layout, choose):
        found[number] = answer
        if advance:
            advance(1)
    return [found[number] for number in range(len(retrieved))]


def answer_stream(
    retrieved: Iterable[tuple[int, Answer]],
    passage_of: PassageOf,
    generator: Generator,
    layout: Layout,
    choose: bool = False,
) -> Iterator[tuple[int, Answer]]:
    """Numbered answers as they come. Takes from `retrieved` as the generator has room: no batch waits for another.

    A reply that holds no answer is asked for once more, with more room.
    """
    prepared = (
        (number, prepare(str(number), one, passage_of, generator, layout, choose) if one.status != "failed" else one)
        for number, one in retrieved
    )
    asked: dict[str, tuple[int, Prepared]] = {}
    again: deque[tuple[int, Prepared]] = deque()
    with generator.stream() as stream:
        while True:
            while stream.open < stream.capacity and (item := again.popleft() if again else next(prepared, None)):
                number, one = item
                if isinstance(one, Answer):
                    yield number, one
                elif one.request is None:
                    yield number, finish(one, None)
                else:
                    asked[one.request.id] = (number, one)
                    stream.submit(one.request)
            if not asked:
                return
            for reply in stream.take():
                number, one = asked.pop(reply.id)
                if retry := _retry(one, reply):
                    again.append((number, retry))
                else:
                    yield number, finish(one, reply)


def _retry(prepared: Prepared, reply: Generation) -> Prepared | None:
    request = prepared.request
    assert request is not None
    is_second = request.max_tokens > ANSWER_TOKENS
    if is_second or reply.finish_reason not in ("stop", "length") or _parse(reply.text, bool(request.choices))[0]:
        return None
    return replace(prepared, request=replace(request, max_tokens=2 * ANSWER_TOKENS))


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
    return Prepared(retrieved, tuple(shown), request, len(paths) - len(shown))


def instruction_for(layout: Layout) -> str:
    return INSTRUCTION if layout.unit == "passage" else f"{INSTRUCTION}\n{ROLES}"


def finish(prepared: Prepared, reply: Generation | None) -> Answer:
    """The answer with its citations, or "failed" with the reason. The evidence stays either way."""
    shown = tuple(path.rank for path in prepared.shown)
    answer = replace(prepared.answer, context=shown, left_out=prepared.left_out)
    if prepared.request is None or reply is None or reply.finish_reason == "too_long":
        return replace(answer, status="failed", error="the question is longer than the model's window")
    usage = {"prompt_tokens": reply.prompt_tokens, "completion_tokens": reply.completion_tokens}
    answer = replace(answer, usage=usage)
    if reply.finish_reason == "error":
        return replace(answer, status="failed", error=f"the model refused the request: {reply.error}")
    text, cited = _parse(reply.text, bool(prepared.request.choices))
    if not text:
        return replace(answer, status="failed", error="the model's reply holds no answer", raw=reply.text[:_RAW_KEPT])
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
    """The answer, "" where there is none, and the numbers of the evidence."""
    if chosen:
        return text.strip(), []
    try:
        value = decode_reply(text)
    except ParseError:
        # A reply that was cut by its length limit still opens with the answer.
        found = re.search(r'"answer"\s*:\s*"((?:[^"\\]|\\.)*)', text)
        return (" ".join(found.group(1).split()) if found else ""), []
    reply = next((one for one in as_list(value) if isinstance(one, dict)), {})
    answer = first(reply, _ANSWER_KEYS)
    cited = [_number(one) for one in as_list(first(reply, ("evidence", "citations", "sources")))]
    is_text = isinstance(answer, (str, int, float)) and not isinstance(answer, bool)
    return (" ".join(str(answer).split()) if is_text else ""), [number for number in cited if number]


def _number(value: object) -> int:
    """Models write 2, "2", "[2]" and 2.0; 0 for anything else."""
    text = str(value).strip("[] ").removesuffix(".0")
    return int(text) if text.isdecimal() and len(text) < 4 and not isinstance(value, bool) else 0
