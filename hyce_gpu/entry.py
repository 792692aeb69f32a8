"""Questions → entry entities (SPEC.md, section 2, step 1): mentions linked exactly, then by alias, then the nearest.

Mentions are names handed in (an LLM's), or found by longest match of canonical names and aliases in the question.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from hyce_gpu.lexical import FUNCTION_WORDS
from hyce_gpu.names import canonical_name


class NameLinker:
    """Knows every canonical name and alias of a store, and finds them in text."""

    def __init__(self, canonical: Sequence[str], aliases: Sequence[Iterable[str]]) -> None:
        self._exact = {name: entity for entity, name in enumerate(canonical)}
        self._alias: dict[str, list[int]] = {}
        for entity, names in enumerate(aliases):
            for name in names:
                self._alias.setdefault(canonical_name(name), []).append(entity)
        self._longest = max(map(len, [*self._exact, *self._alias]), default=0)

    def link(self, names: Iterable[str]) -> list[int]:
        """The entities that the names mean, exact matches before aliases; names that are not known give none."""
        keys = [canonical_name(name) for name in names]
        exact = [self._exact[key] for key in keys if key in self._exact]
        by_alias = [entity for key in keys if key not in self._exact for entity in self._alias.get(key, ())]
        return list(dict.fromkeys(exact + by_alias))

    def mentions(self, question: str) -> list[str]:
        """Names in the question, longest first match from left to right, not overlapping."""
        text = unicodedata.normalize("NFKC", question)
        starts, ends = _boundaries(text)
        found: list[str] = []
        free = 0
        for start in starts:
            if start >= free and (end := self._longest_match(text, start, ends)):
                found.append(_tight(text[start:end]))
                free = end
        return found

    def _longest_match(self, text: str, start: int, ends: Sequence[int]) -> int:
        # A spelling may be longer than its canonical form, by spaces and quotes.
        reach = start + 2 * self._longest + 8
        near = ends[bisect_right(ends, start) : bisect_right(ends, reach)]
        return next((end for end in reversed(near) if self._known(text[start:end], at_start=start == 0)), 0)

    def _known(self, name: str, at_start: bool) -> bool:
        key = canonical_name(name)
        if key not in self._exact and key not in self._alias:
            return False
        written_as_name = name[:1].isupper() and not at_start
        # A title like "It" or "Who" is meant only where it is written like a name.
        return key not in FUNCTION_WORDS or written_as_name


def _tight(name: str) -> str:
    """The shortest spelling with the same canonical name: no quotes or full stops around it."""
    key = canonical_name(name)
    while canonical_name(name[1:]) == key:
        name = name[1:]
    while canonical_name(name[:-1]) == key:
        name = name[:-1]
    return name


def _boundaries(text: str) -> tuple[list[int], list[int]]:
    """Where a name may start and end: between words, and between any two characters of a script without spaces."""
    starts = [place for place, char in enumerate(text) if _starts_name(text, place, char)]
    ends = [place for place in range(1, len(text) + 1) if _ends_name(text, place)]
    return starts, ends


def _starts_name(text: str, place: int, char: str) -> bool:
    if char.isspace() or _is_mark(char):
        return False
    return place == 0 or not _joined(text[place - 1], char)


def _ends_name(text: str, place: int) -> bool:
    if text[place - 1].isspace():
        return False
    return place == len(text) or not _joined(text[place - 1], text[place])


def _joined(left: str, right: str) -> bool:
    if _is_mark(right):
        return True
    if not (_is_word(left) and _is_word(right)):
        return False
    return not (_is_spaceless(left) or _is_spaceless(right))


def _is_word(char: str) -> bool:
    return char.isalnum() or _is_mark(char)


def _is_mark(char: str) -> bool:
    return unicodedata.category(char)[0] == "M"


def _is_spaceless(char: str) -> bool:
    """Han, kana, Thai, Lao, Myanmar and Khmer run words together; Korean particles hang on to names."""
    point = ord(char)
    return (
        0x0E00 <= point <= 0x0EFF
        or 0x1000 <= point <= 0x109F
        or 0x1780 <= point <= 0x17FF
        or 0x2E80 <= point <= 0x9FFF
        or 0xAC00 <= point <= 0xD7AF
        or 0xF900 <= point <= 0xFAFF
        or 0x20000 <= point <= 0x3FFFF
    )
