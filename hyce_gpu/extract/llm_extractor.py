"""Chunks → extraction records, by an LLM whose replies are bound to a JSON schema.

Holds the prompt and the schema. Knows a generator only by the few methods that it calls, and nothing of vLLM.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hyce_serving.generator import Generation, GenerationRequest
from hyce_serving.stream import Streaming

from hyce_gpu.extract import Extracted
from hyce_gpu.extract.parse import Parsed, ParseError, decode_reply, join, parse_extraction
from hyce_gpu.models import what_shapes_replies
from hyce_gpu.progress import say
from hyce_gpu.schema import Chunk, ExtractionRecord
from hyce_gpu.sentences import sentence_spans
from hyce_gpu.units import unit_key

INSTRUCTION = """\
You extract knowledge from a passage. Reply with one JSON object that has two lists, "entities" and "hyperedges".

An entity is a person, place, organisation, work, event, date, number with its unit, or term that the passage names:
- name: as the passage spells it, in full.
- type: one word, such as person, place, organisation, work, event, date or term.
- role: what it does in this passage, in at most five words.
- aliases: other names that this passage uses for it.
- description: what it is, in at most ten words.
- confidence: from 0 to 1, how sure you are that the passage names it.

A hyperedge is one fact, with all the entities that take part in it, at least two:
- segment: the sentence that states the fact, copied from the passage word for word.
- time: when it holds, as the passage says, or "".
- reliability: from 0 to 1, how reliable the passage calls its source; 1 if it says nothing.
- entities: all entities that the segment names or means by a pronoun, spelled as in the list of entities.
- confidence: from 0 to 1, how sure you are that the passage states the fact.
- relations: each from one of these entities (head) to another (tail), with a predicate of a few words.

Give a hyperedge for every sentence that states a fact. Use only what the passage says, in its own language."""
# One worked passage, as a first exchange: small models follow it where they lose the instruction.
_EXAMPLE_PASSAGE = (
    "Ada Marsh",
    "Ada Marsh (born 1911) designed the Tern Bridge in Wexmouth. The city opened it in 1938, and Marsh received the "
    "Coastal Medal for it.",
)
_EXAMPLE_REPLY = """\
{"entities":[\
{"name":"Ada Marsh","type":"person","role":"designer","aliases":["Marsh"],"description":"engineer born in 1911",\
"confidence":1},\
{"name":"1911","type":"date","role":"year of birth","aliases":[],"description":"","confidence":1},\
{"name":"Tern Bridge","type":"place","role":"work of Ada Marsh","aliases":[],"description":"bridge in Wexmouth",\
"confidence":1},\
{"name":"Wexmouth","type":"place","role":"city of the bridge","aliases":[],"description":"city","confidence":1},\
{"name":"1938","type":"date","role":"year of the opening","aliases":[],"description":"","confidence":1},\
{"name":"Coastal Medal","type":"award","role":"honour","aliases":[],"description":"award","confidence":0.9}],\
"hyperedges":[\
{"segment":"Ada Marsh (born 1911) designed the Tern Bridge in Wexmouth.","time":"","reliability":1,\
"entities":["Ada Marsh","1911","Tern Bridge","Wexmouth"],"confidence":1,"relations":[\
{"head":"Ada Marsh","predicate":"born in","tail":"1911","confidence":1},\
{"head":"Ada Marsh","predicate":"designed","tail":"Tern Bridge","confidence":1},\
{"head":"Tern Bridge","predicate":"stands in","tail":"Wexmouth","confidence":0.9}]},\
{"segment":"The city opened it in 1938, and Marsh received the Coastal Medal for it.","time":"1938","reliability":1,\
"entities":["Wexmouth","Tern Bridge","1938","Ada Marsh","Coastal Medal"],"confidence":0.9,"relations":[\
{"head":"Wexmouth","predicate":"opened","tail":"Tern Bridge","confidence":0.9},\
{"head":"Ada Marsh","predicate":"received","tail":"Coastal Medal","confidence":1}]}]}"""
_SHORTER_TASK = "Be brief: give at most {entities} entities and the {hyperedges} most important hyperedges."

# What is made of a reply: another number when other code makes another record of the same reply.
_RECORDS = "llm/1"
# How many entities and hyperedges a reply may list, at first and when it is asked for again.
_FULL, _SHORT = (16, 10), (8, 5)
# The words that ask for less, and the difference between two counts of the same tokens.
_RETRY_MARGIN_TOKENS = 64
_RAW_CHARACTERS = 4000
# A part this short that is still too long for the model leaves the model no room at all.
_SHORTEST_PART = 40


class Generator(Protocol):
    @property
    def max_model_len(self) -> int: ...
    def describe(self) -> Mapping[str, str]: ...
    def stream(self) -> AbstractContextManager[Streaming]: ...


def reply_schema(entities: int, hyperedges: int) -> dict[str, Any]:
    """The JSON schema of a reply. Every list and string is bounded, so that a small model comes to an end.

    Only two bounds on strings, and each written once: xgrammar compiles a bound in time that grows with its length
    (seconds for 400 characters and 150,000 tokens), and every further one slows each token down.
    """
    relation = _object(head=_NAME, predicate=_NAME, tail=_NAME, confidence=_SHARE)
    entity = _object(name=_NAME, type=_NAME, role=_NAME, aliases=_list(_NAME, 3), description=_NAME, confidence=_SHARE)
    hyperedge = _object(
        segment=_TEXT, time=_NAME, reliability=_SHARE, entities=_list(_NAME, 10, least=2), confidence=_SHARE,
        relations=_list(relation, 6),
    )  # fmt: skip
    reply = _object(entities=_list(entity, entities), hyperedges=_list(hyperedge, hyperedges))
    return {**reply, "$defs": {"name": _string(100), "text": _string(400)}}


_NAME, _TEXT = {"$ref": "#/$defs/name"}, {"$ref": "#/$defs/text"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}


def _string(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _list(items: Mapping[str, Any], most: int, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": least, "maxItems": most}


def _object(**properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


@dataclass(frozen=True)
class _Part:
    """What one request is about: a chunk, or a piece of one that is too long for the model."""

    # Position of its chunk among all chunks.
    position: int
    piece: Chunk
    max_tokens: int
    is_retry: bool = False

    @property
    def id(self) -> str:
        return f"{self.piece.id}@{self.piece.start}"


@dataclass
class _Outcome:
    """What the parts of one chunk have given so far."""

    chunk: Chunk
    parts_open: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0
    parsed: list[tuple[int, Parsed]] = field(default_factory=list)
    # (reason, reply) of each part that failed.
    failures: list[tuple[str, str]] = field(default_factory=list)

    def fail(self, reason: str, reply: str = "") -> None:
        self.parts_open -= 1
        self.failures.append((reason, reply[:_RAW_CHARACTERS]))

    def count(self, generation: Generation) -> None:
        self.prompt_tokens += generation.prompt_tokens
        self.completion_tokens += generation.completion_tokens

    def extracted(self, position: int) -> Extracted:
        return Extracted(position, self._record(), self.prompt_tokens, self.completion_tokens)

    def _record(self) -> ExtractionRecord:
        chunk = self.chunk
        place = (chunk.id, chunk.doc_id, chunk.order, chunk.start, chunk.end)
        if not self.parsed:
            reason, reply = self.failures[0]
            return ExtractionRecord(*place, "failed", error=reason, raw=reply)
        whole = join([parsed for _, parsed in sorted(self.parsed, key=lambda item: item[0])])
        parts = len(self.parsed) + len(self.failures)
        if not self.failures:
            return ExtractionRecord(*place, "ok", whole.entities, whole.hyperedges)
        reason, reply = self.failures[0]
        error = f"{len(self.failures)} of {parts} parts failed: {reason}"
        return ExtractionRecord(*place, "ok", whole.entities, whole.hyperedges, error, reply)


class LlmExtractor:
    name = "llm"

    def __init__(self, generator: Generator, max_tokens: int = 1024) -> None:
        self._generator = generator
        self._max_tokens = max_tokens
        self._notes: Counter[str] = Counter()

    def describe(self) -> Mapping[str, str]:
        prompt = json.dumps([_OPENING, _SHORTER_TASK, reply_schema(*_FULL), reply_schema(*_SHORT)])
        return {**self._generator.describe(), "prompt_hash": hashlib.sha256(prompt.encode()).hexdigest()[:12]}

    def unit_keys(self, chunks: Sequence[Chunk]) -> list[bytes]:
        shaped_by = {**what_shapes_replies(self.describe()), "max_tokens": self._max_tokens}
        return [unit_key(_RECORDS, shaped_by, chunk.title, chunk.text) for chunk in chunks]

    def extract(self, chunks: Sequence[Chunk], wanted: Sequence[int]) -> Iterator[Extracted]:
        """The records of the wanted chunks, as their replies come; the generator has as many at once as it can use."""
        outcomes: dict[int, _Outcome] = {}
        again: deque[_Part] = deque()
        first = (_Part(position, chunks[position], self._max_tokens) for position in wanted)
        asked: dict[str, _Part] = {}
        with self._generator.stream() as stream:
            while True:
                while stream.open < stream.capacity and (part := again.popleft() if again else next(first, None)):
                    outcomes.setdefault(part.position, _Outcome(chunks[part.position]))
                    asked[part.id] = part
                    stream.submit(_request(part))
                if not asked:
                    break
                for generation in stream.take():
                    part = asked.pop(generation.id)
                    outcome = outcomes[part.position]
                    outcome.count(generation)
                    again.extend(self._judge(part, generation, outcome))
                    if not outcome.parts_open:
                        yield outcomes.pop(part.position).extracted(part.position)
        self._report()

    def _judge(self, part: _Part, generation: Generation, outcome: _Outcome) -> list[_Part]:
        if generation.finish_reason == "error":
            outcome.fail(generation.error or "the generator failed")
            return []
        if generation.finish_reason == "too_long":
            return self._split(part, outcome)
        try:
            parsed = parse_extraction(decode_reply(generation.text), part.piece)
        except ParseError as error:
            reason = "cut off" if generation.finish_reason == "length" else str(error)
            return self._again(part, generation, reason, outcome)
        self._notes.update(note.partition(": ")[0] for note in parsed.notes)
        outcome.parts_open -= 1
        outcome.parsed.append((part.piece.start, parsed))
        return []

    def _again(self, part: _Part, generation: Generation, reason: str, outcome: _Outcome) -> list[_Part]:
        """What to ask instead of a reply that cannot be used."""
        room = self._generator.max_model_len - generation.prompt_tokens - _RETRY_MARGIN_TOKENS
        if generation.finish_reason == "length" and room < self._max_tokens:
            # It was the prompt that left too little room.
            return self._split(part, outcome)
        if not part.is_retry:
            return [replace(part, is_retry=True, max_tokens=max(self._max_tokens, min(2 * self._max_tokens, room)))]
        outcome.fail(reason, generation.text)
        return []

    def _split(self, part: _Part, outcome: _Outcome) -> list[_Part]:
        pieces = _halves(part.piece)
        if not pieces:
            outcome.fail(f"the prompt does not fit into the model's {self._generator.max_model_len} tokens")
            return []
        outcome.parts_open += 1
        return [_Part(part.position, piece, self._max_tokens) for piece in pieces]

    def _report(self) -> None:
        for kind, count in self._notes.most_common():
            say(f"llm: {kind}: {count:,}")
        self._notes.clear()


def _request(part: _Part) -> GenerationRequest:
    limits = _SHORT if part.is_retry else _FULL
    task = _SHORTER_TASK.format(entities=limits[0], hyperedges=limits[1]) if part.is_retry else ""
    user = {"role": "user", "content": _passage(part.piece.title, part.piece.text) + task}
    return GenerationRequest(part.id, (*_OPENING, user), part.max_tokens, schema=_SCHEMAS[limits])


def _passage(title: str, text: str) -> str:
    heading = f"Title: {title}\n" if title else ""
    return f"{heading}<passage>\n{text}\n</passage>\nExtract from this passage alone. "


# Made once: a request takes half of its time to make one.
_SCHEMAS = {limits: reply_schema(*limits) for limits in (_FULL, _SHORT)}
# The same for every request, so that the generator's prefix cache holds it.
_OPENING = (
    {"role": "system", "content": INSTRUCTION},
    {"role": "user", "content": _passage(*_EXAMPLE_PASSAGE)},
    {"role": "assistant", "content": _EXAMPLE_REPLY},
)


def _halves(chunk: Chunk) -> tuple[Chunk, ...]:
    """The chunk in two pieces, cut at the sentence end nearest its middle; () where it is too short to be cut."""
    if len(chunk.text) < _SHORTEST_PART:
        return ()
    middle = len(chunk.text) // 2
    # Without sentences, a word's end has to do; without words, the middle.
    cuts = [start for start, _ in sentence_spans(chunk.text) if start > 0]
    cuts = cuts or [at + 1 for at, char in enumerate(chunk.text[:-1]) if char.isspace()] or [middle]
    cut = min(cuts, key=lambda at: abs(at - middle))
    return (
        replace(chunk, end=chunk.start + cut, text=chunk.text[:cut]),
        replace(chunk, start=chunk.start + cut, text=chunk.text[cut:]),
    )
