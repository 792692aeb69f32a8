"""A chunk as a place to look things up: which names it holds, where a segment stands, which sentences hold some names.

Knows names and text. Knows nothing of JSON or models.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property

from hyce_gpu.names import canonical_name
from hyce_gpu.schema import Chunk
from hyce_gpu.sentences import sentence_spans

# Models write straight quotes and hyphens for typographic ones. One character for one, so offsets stay.
_TYPOGRAPHY = str.maketrans("“”„‟«»＂‘’‚‛`´‐‑‒–—−", '"' * 7 + "'" * 6 + "-" * 6)
# Shorter names also end inside other words ("US" in "used").
_SHORT_NAME = 4
# Letters that inflection may change at a word's end ("Москва", "Москве"), and those that have to stay.
_ENDING, _LEAST_STEM = 2, 4


class Passage:
    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._text, self._title = _fold(chunk.text), _fold(chunk.title)

    def holds(self, name: str) -> bool:
        """Whether the text or the title names it, compared canonically."""
        folded = _fold(name)
        return _holds(self._text, folded) or _holds(self._title, folded)

    def find(self, segment: str, start: object = None) -> tuple[int, int] | None:
        """Where the segment stands: exactly, or with other white space, quotes, dashes or case.

        `start`, in code points of the document, says which of several places is meant.
        """
        text, segment = self._chunk.text, segment.strip()
        hint = start - self._chunk.start if isinstance(start, int) else -1
        exact = hint if hint >= 0 and text.startswith(segment, hint) else text.find(segment)
        if exact >= 0:
            return exact, exact + len(segment)
        pattern = r"\s+".join(map(re.escape, segment.split())).translate(_TYPOGRAPHY)
        match = re.search(pattern, text.translate(_TYPOGRAPHY), re.IGNORECASE)
        return match.span() if match else None

    def at(self, run: tuple[int, int]) -> tuple[str, int, int]:
        start, end = run
        return self._chunk.text[start:end], self._chunk.start + start, self._chunk.start + end

    def shortest_run(self, names: Sequence[str]) -> tuple[int, int]:
        """The shortest run of sentences that holds the names that any sentence holds; the whole text if none does."""
        holders = list(filter(None, (self._sentences_with(_fold(name)) for name in names)))
        # A run begins at a sentence up to the last one from which each name is still ahead.
        begins = range(1 + min(held[-1] for held in holders)) if holders else ()
        lasts = [max(held[bisect_left(held, first)] for held in holders) for first in begins]
        runs = [
            (self._sentences[first][0], self._sentences[last][1]) for first, last in zip(begins, lasts, strict=True)
        ]
        return min(runs, key=lambda run: run[1] - run[0], default=(0, len(self._chunk.text)))

    @cached_property
    def _sentences(self) -> list[tuple[int, int]]:
        return sentence_spans(self._chunk.text)

    @cached_property
    def _folded_sentences(self) -> list[str]:
        return [_fold(self._chunk.text[start:end]) for start, end in self._sentences]

    def _sentences_with(self, folded: str) -> list[int]:
        return [at for at, sentence in enumerate(self._folded_sentences) if _holds(sentence, folded)]


def is_named(name: str, text: str) -> bool:
    return _holds(_fold(text), _fold(name))


def _fold(text: str) -> str:
    folded = canonical_name(text)
    # Of the signs that change, only the backtick is ASCII.
    return folded if folded.isascii() and "`" not in folded else folded.translate(_TYPOGRAPHY)


def _holds(text: str, name: str) -> bool:
    """Both folded. A name in other letters than ASCII may be inflected: there, the stems of its words have to stand."""
    if not name.isascii():
        return name in text or all(_stem(word) in text for word in name.split())
    opens, is_short = name[:1].isalnum(), len(name) < _SHORT_NAME
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        goes_on = is_short and end < len(text) and _is_ascii_letter(text[end])
        if not goes_on and not (opens and at > 0 and _is_ascii_letter(text[at - 1])):
            return True
        at = text.find(name, at + 1)
    return False


def _is_ascii_letter(character: str) -> bool:
    """A letter or digit that would make the name a part of another word; in other scripts names are inflected."""
    return character.isascii() and character.isalnum()


def _stem(word: str) -> str:
    return word[: max(_LEAST_STEM, len(word) - _ENDING)]
