"""The JSON in an LLM's reply, and the lists in it under whatever key. Knows nothing of chunks or names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

# The first name is ours; the others are what models and other tools write.
NAME = ("name", "entity", "entity_name")
SEGMENT = ("segment", "text", "sentence", "description")
MEMBERS = ("entities", "members", "participants", "nodes")
RELATIONS = ("relations", "triples", "relationships")
HEAD = ("head", "subject", "source")
PREDICATE = ("predicate", "relation", "type")
TAIL = ("tail", "object", "target")
ENTITIES = ("entities", "entity_list", "named_entities", "nodes")
HYPEREDGES = ("hyperedges", "edges", "facts", "events")

_MOST_WRAPPERS = 3
_SHOWN_KEYS, _KEY_CHARACTERS = 6, 30
_OPENING = re.compile(r"[{\[]")
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)
# Prose holds few; a reply of nothing but brackets must not cost its length squared.
_MOST_BRACKETS = 200
# Bounded decoding lets raw tabs into strings, hence not strict.
_DECODER = json.JSONDecoder(strict=False)
# A reply that is cut inside `false` fails up to this many characters before its end.
_LONGEST_TOKEN = 5


class ParseError(ValueError):
    """A reply or record that holds no extraction; the message is the reason."""


def decode_reply(text: str) -> object:
    """The JSON value in an LLM's reply, whatever stands around it: reasoning, fences, sentences; trailing commas go.

    Raises:
        ParseError: "empty reply", "cut off" or "not JSON".
    """
    text = text.strip()
    if text.startswith("<think>") and "</think>" not in text:
        raise ParseError("cut off")
    text = text.partition("</think>")[2].strip() if text.startswith("<think>") else text
    if not text:
        raise ParseError("empty reply")
    values, is_cut = _json_values(text)
    # Reasoning may lack its opening tag: some templates put that into the prompt. Tags inside a value are text.
    tags = [match.start() for match in re.finditer("</think>", text)]
    drafts_end = max((tag for tag in tags if not any(start < tag < end for start, end, _ in values)), default=-1)
    answers = [item for item in values if item[0] > drafts_end]
    if not answers:
        raise ParseError("cut off" if is_cut else "not JSON")
    return max(answers, key=lambda item: item[1] - item[0])[2]


def _json_values(text: str) -> tuple[list[tuple[int, int, object]], bool]:
    """(start, end, value) of each outermost object and list in the text, and whether a last one is cut off."""
    values: list[tuple[int, int, object]] = []
    position = 0
    for _ in range(_MOST_BRACKETS):
        match = _OPENING.search(text, position)
        if match is None:
            break
        value, length, is_cut = _json_value(text[match.start() :])
        if is_cut:
            # What follows are inner pieces of it.
            return values, True
        position = match.start() + max(length, 1)
        if length:
            values.append((match.start(), position, value))
    return values, False


def _json_value(text: str) -> tuple[object, int, bool]:
    """(value, length, whether it is cut off) of the value that the text begins with; length 0 where there is none."""
    try:
        try:
            value, length = _DECODER.raw_decode(text)
        except json.JSONDecodeError:
            # Once more without trailing commas. One character for one: the length stays.
            repaired = _STRING_OR_COMMA.sub(lambda match: " " if match[0] == "," else match[0], text)
            value, length = _DECODER.raw_decode(repaired)
        return value, length, False
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated string") or error.pos + _LONGEST_TOKEN >= len(text)
        return None, 0, is_cut
    except (ValueError, RecursionError):
        # Thousands of digits, or of brackets.
        return None, 0, False


def sections(value: object) -> tuple[list[Any], list[Any], list[Any]]:
    """(entities, hyperedges, relations outside of hyperedges), none of them checked yet."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(value, dict) and len(value) == 1 and not _is_known(value):
            value = next(iter(value.values())) or None
    if isinstance(value, list):
        return _sections_of_list(value)
    if not isinstance(value, dict):
        raise ParseError(f"expected an object with entities and hyperedges, found {type(value).__name__}")
    if not _is_known(value):
        raise ParseError(f"expected the keys entities and hyperedges, found {_keys(value)}")
    if _is_hyperedge(value):
        return [], [value], []
    if first(value, NAME) is not None:
        return [value], [], []
    return as_list(first(value, ENTITIES)), as_list(first(value, HYPEREDGES)), relation_list(value)


def _sections_of_list(items: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    gathered: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    strange: list[Any] = []
    for item in items:
        if is_triple(item):
            gathered[2].append(item)
        elif isinstance(item, dict) and _is_known(item):
            for section, found in zip(gathered, sections(item), strict=True):
                section.extend(found)
        else:
            (gathered[0] if isinstance(item, str) else strange).append(item)
    if items and len(strange) == len(items):
        raise ParseError("expected a list of entities, hyperedges or relations, found a list of other things")
    # Whoever reads the entities notes these as none.
    gathered[0].extend(strange)
    return gathered


def _is_hyperedge(value: Mapping[str, Any]) -> bool:
    has = [first(value, keys) is not None for keys in (SEGMENT, MEMBERS, HYPEREDGES)]
    return has == [True, True, False]


def _is_known(value: Mapping[str, Any]) -> bool:
    return any(key in value for key in (*NAME, *ENTITIES, *MEMBERS, *HYPEREDGES, *RELATIONS))


def first(value: Mapping[str, Any], keys: Iterable[str]) -> Any:
    # A loop: twenty entities a chunk ask for six fields each, and a generator takes three times as long.
    for key in keys:
        if (found := value.get(key)) is not None:
            return found
    return None


def as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def is_triple(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(isinstance(part, str) for part in value)


def relation_list(value: Mapping[str, Any]) -> list[Any]:
    found = first(value, RELATIONS)
    return [found] if is_triple(found) else as_list(found)


def _keys(value: Mapping[str, Any]) -> str:
    return ", ".join([str(key)[:_KEY_CHARACTERS] for key in value][:_SHOWN_KEYS]) or "none"
