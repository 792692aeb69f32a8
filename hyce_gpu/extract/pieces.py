"""The pieces of a text at which a name in it can begin or end, and which titles have all their pieces in it.

Coarser than characters, so that few titles fit by chance; finer than any word that the rules or a pipeline's tokenizer
make. Knows strings. Knows nothing of chunks, documents or why a name matters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hyce_gpu.extract.known_titles import may_be_name
from hyce_gpu.extract.language import HAN, UNSPACED, combining_marks

# Where a name may begin or end at any character: Han, Thai and its kin, kana.
SINGLE = f"{HAN}{UNSPACED}\u3041-\u30ff\u31f0-\u31ff"
_RUN = re.compile(r"\w+")
# No name is longer (see `mentions.clean_name`).
_LONGEST_LONE = 80
_MOST_WORDS_KEPT = 1 << 18
# In a node of the index, the titles that end there; no piece is empty.
_ENDS = ""

Splits = Mapping[str, frozenset[int]]


@lru_cache(maxsize=1)
def _piece_pattern() -> re.Pattern[str]:
    marks = rf"[{combining_marks()}\u200c\u200d]*"
    return re.compile(rf"(?:(?![{SINGLE}])\d{marks})+|(?:[^\W\d_{SINGLE}]{marks})+|[_{SINGLE}]")


@lru_cache(maxsize=1)
def _marks_pattern() -> re.Pattern[str]:
    return re.compile(rf"[{combining_marks()}\u200c\u200d]+")


def splits_of(rules: Iterable[Sequence[str]]) -> Splits:
    """Where a tokenizer cuts runs of letters: case-folded run -> places.

    Args:
        rules: its exceptions, each as the tokens that it becomes: ["do", "n't"] for "don't".
    """
    places: dict[str, set[int]] = {}
    for tokens in rules:
        cuts, end = set(), 0
        folded = [token.casefold() for token in tokens]
        for token in folded:
            end += len(token)
            cuts.add(end)
        for run in _piece_pattern().finditer("".join(folded)):
            inside = {cut - run.start() for cut in cuts if run.start() < cut < run.end()}
            if inside and len(run.group()) > 1:
                places.setdefault(run.group(), set()).update(inside)
    while _spread(places):
        pass
    return {run: frozenset(cuts) for run, cuts in places.items()}


def _spread(places: dict[str, set[int]]) -> bool:
    """Cuts each part of a run as the run itself is cut there, and the run as its parts are; whether that was news."""
    before = sum(map(len, places.values()))
    for run in list(places):
        bounds = [0, *sorted(places[run]), len(run)]
        for i, first in enumerate(bounds):
            for last in bounds[i + 1 :]:
                part = places.setdefault(run[first:last], set())
                part.update(cut - first for cut in bounds if first < cut < last)
                places[run].update(first + cut for cut in part)
    return sum(map(len, places.values())) > before


class Pieces:
    """Cuts texts into pieces; remembers the words it has cut, for they recur.

    Args:
        splits: where the tokenizers in use cut runs of letters.
    """

    def __init__(self, splits: Splits | None = None) -> None:
        self._splits = splits or {}
        self._words: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}

    def of(self, text: str) -> list[str]:
        """The pieces, without combining marks, in the text's order.

        Pieces of a part of a text are a part of the text's pieces, if it begins and ends where a name may.
        """
        return self.read(text)[0]

    def read(self, text: str) -> tuple[list[str], set[str]]:
        """The pieces, and each lone word, in lower case, that a pipeline may ask `KnownTitles.is_name_like` about."""
        pieces: list[str] = []
        lone: set[str] = set()
        known = self._words
        # A piece, and a word that the corpus has in lower case, is within what white space bounds.
        for word in text.split():
            found = known.get(word)
            if found is None:
                found = self._cut(word)
            pieces += found[0]
            if found[1]:
                lone.update(found[1])
        return pieces, lone

    def _cut(self, word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if len(self._words) >= _MOST_WORDS_KEPT:
            self._words.clear()
        found = self._plain(word) or self._cut_anywhere(word)
        self._words[word] = found
        return found

    def _plain(self, word: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Most words of most texts: ASCII letters, with a mark at an end."""
        core = word.strip(".,;:!?()")
        if not core.isascii() or not core.isalpha() or core.lower() in self._splits:
            return None
        return (core,), (core.lower(),) if core[0].isupper() and 2 < len(core) <= _LONGEST_LONE else ()

    def _cut_anywhere(self, word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        spans = [span for match in _piece_pattern().finditer(word) for span in self._spans(match)]
        pieces = tuple(_without_marks(word[start:end]) for start, end in spans)
        return pieces, tuple(dict.fromkeys(_lone_words(word, spans)))

    def _spans(self, match: re.Match[str]) -> list[tuple[int, int]]:
        start, end = match.span()
        folded = match.group().casefold()
        cuts = self._splits.get(folded)
        if not cuts or len(folded) != end - start:
            return [(start, end)]
        bounds = [start, *(start + cut for cut in sorted(cuts)), end]
        return list(itertools.pairwise(bounds))


def _without_marks(piece: str) -> str:
    return piece if piece.isascii() else _marks_pattern().sub("", piece)


def small(piece: str) -> str:
    """In lower case, alike whatever stands beside it."""
    # A sigma's form hangs on what follows it in the text.
    return piece.lower() if piece.isascii() else _without_marks(piece.lower()).replace("ς", "σ")


def _lone_words(word: str, spans: Sequence[tuple[int, int]]) -> Iterable[str]:
    """Each run of pieces, with nothing between, that begins with a capital: as a token it may be one lone name."""
    for run in _RUN.finditer(word):
        inside = [span for span in spans if run.start() <= span[0] < run.end()]
        for i, (start, _) in enumerate(inside):
            if word[start].isupper():
                ends = (min(end, run.end()) for _, end in inside[i:])
                tokens = (word[start:end] for end in ends if end - start <= _LONGEST_LONE)
                yield from (token.lower() for token in tokens if may_be_name(token))


class TitleIndex:
    """Finds in a text's pieces all titles whose pieces stand there side by side.

    As they are written, or with a small letter first (see `known_titles.spellings`); one in small letters also where
    the text has capitals, since recurring words become terms in lower case.
    """

    def __init__(self, spellings: Iterable[str], pieces: Pieces) -> None:
        self._written: dict[str, Any] = {}
        self._lower: dict[str, Any] = {}
        for spelling in spellings:
            for written in {spelling, spelling[:1].lower() + spelling[1:]}:
                _add(self._written, pieces.of(written), spelling)
            if spelling == spelling.lower():
                _add(self._lower, map(small, pieces.of(spelling)), spelling)

    def found(self, pieces: Sequence[str]) -> set[str]:
        found = _found(self._written, pieces)
        return found | _found(self._lower, list(map(small, pieces))) if self._lower else found


def _add(root: dict[str, Any], pieces: Iterable[str], spelling: str) -> None:
    node = root
    for piece in pieces:
        node = node.setdefault(piece, {})
    if node is not root:
        node.setdefault(_ENDS, []).append(spelling)


def _found(root: dict[str, Any], pieces: Sequence[str]) -> set[str]:
    found: set[str] = set()
    end = len(pieces)
    for i in [i for i, piece in enumerate(pieces) if piece in root]:
        node = root[pieces[i]]
        while node is not None:
            i += 1
            if _ENDS in node:
                found.update(node[_ENDS])
            node = node.get(pieces[i]) if i < end else None
    return found
