"""A corpus that changes: which of the documents that stay have to be read again, and what is a name in a document now.

Looks at the texts that stay as columns, with one pattern for all that came and went, so that a small change of a big
corpus takes a fraction of reading it. Knows titles, words and where they matter (`dependence`). Knows no stores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

from hyce_gpu.extract.columns import rows_made_of, rows_with_names, rows_with_words
from hyce_gpu.extract.dependence import Dependence
from hyce_gpu.extract.known_titles import KnownTitles, spellings
from hyce_gpu.extract.language import stop_words
from hyce_gpu.extract.mentions import LOWER_WORD, bare_title, title_name
from hyce_gpu.extract.pieces import TitleIndex, small
from hyce_gpu.extract.readings import readings_of
from hyce_gpu.schema import Chunk

# Rows that are looked at together: the first ones have most words, so that few are looked for in the rest.
_FIRST_ROWS, _MOST_ROWS = 256, 65_536


@dataclass(frozen=True)
class Standing:
    """The documents that a corpus had.

    Args:
        titles: of each document, in the corpus's order. [documents]
        texts: of all chunks, a document's side by side. [chunks]
        owner: the position of each chunk's document. [chunks] int64
        chunks: the chunks of one document, by its position.
    """

    titles: Sequence[str]
    texts: pa.ChunkedArray
    owner: np.ndarray
    chunks: Callable[[int], Sequence[Chunk]]


class CorpusChange:
    """From the documents of `old` to another corpus.

    Args:
        stays: which documents of `old` are in the new corpus, with the same title and chunks. [documents] bool
        titles: of all documents of the new corpus, in its order.
        came: the chunks of the documents of the new corpus that are not in `old`.
        dependence: the extractor's.
    """

    def __init__(
        self,
        old: Standing,
        stays: np.ndarray,
        titles: Sequence[str],
        came: Sequence[Chunk],
        dependence: Dependence,
    ) -> None:
        self._old, self._stays, self._titles, self._dependence = old, stays, titles, dependence
        self._came = _words_of(chunk.text for chunk in came)
        gone = np.flatnonzero(~stays[old.owner])
        self._gone = _words_of(old.texts.take(pa.array(gone)).to_pylist()) if len(gone) else set()
        # What was found out of the words of the texts that stay.
        self._staying: set[str] = set()
        self._looked_for: set[str] = set()

    @cached_property
    def to_read_again(self) -> list[int]:
        """The positions in `old` of the documents that stay and may have other records in the new corpus, rising.

        All others are sure to have the records that they had. Empty where the extractor is not told of other texts.
        """
        words = self._changed_words()
        changed = self._changed_spellings(words)
        if not changed and not words:
            return []
        index = TitleIndex(changed, self._dependence.pieces)
        found = []
        for position in self._documents_with(changed, words):
            read = self._dependence.find(readings_of(self._old.chunks(position)), index)
            if read.unknown or read.spellings or read.words & words:
                found.append(position)
        return found

    def known_titles(self, chunks: Sequence[Chunk]) -> KnownTitles:
        """What says what is a name in `chunks`, whole documents of the new corpus; of other texts it does not tell."""
        if not self._dependence.knows_all:
            titles, asked = self._titles, self._came | _words_of(text.as_py() for text in self._old.texts)
        else:
            titles, asked = self._asked_for(chunks)
        common = (asked & self._came) | self._found_staying(asked - self._came) | stop_words("en")
        return KnownTitles(titles, common)

    def _asked_for(self, chunks: Sequence[Chunk]) -> tuple[list[str], set[str]]:
        """Titles that may be found in `chunks`, and words of which it may matter whether the corpus has them."""
        cut = self._dependence.pieces
        pieces, words = set[str](), set[str]()
        for _, document in groupby(chunks, key=attrgetter("doc_id")):
            for text in self._dependence.texts(readings_of(list(document))):
                found, lone = cut.read(text)
                pieces.update(map(small, found))
                words.update(lone)

        column = pa.chunked_array([pa.array(self._titles, pa.string())])
        near = [self._titles[row] for row in rows_made_of(column, pieces)]
        titles = [one for one in near if pieces.issuperset(map(small, cut.of(bare_title(title_name(one)))))]
        words.update(word.lower() for word in _single_words(titles) if pieces.issuperset(map(small, cut.of(word))))
        return titles, words

    def _changed_words(self) -> set[str]:
        """Lower-case words that the old corpus had and the new one has not, or the other way round."""
        asked = {word for word in self._came ^ self._gone if word == word.lower()} - stop_words("en")
        return asked - self._found_staying(asked)

    def _changed_spellings(self, words: set[str]) -> set[str]:
        """Spellings that stand for another title than before, or for none, or now for one."""
        old, new = list(dict.fromkeys(self._old.titles)), list(dict.fromkeys(self._titles))
        were, are = set(old), set(new)
        if [title for title in old if title in are] == [title for title in new if title in were]:
            asked = {spelling for title in were ^ are for spelling, _ in spellings(title)}
            asked.update(word for word in _single_words(_titles_like(old, words)) if word.lower() in words)
            old, new = _titles_like(old, asked), _titles_like(new, asked)
        else:
            # Of two titles with one spelling the first has it.
            asked = {spelling for title in were | are for spelling, _ in spellings(title)}
        lower = {spelling.lower() for spelling in asked if " " not in spelling}
        staying = self._found_staying(lower) | stop_words("en")
        before, now = KnownTitles(old, staying | self._gone), KnownTitles(new, staying | self._came)
        return {spelling for spelling in asked if before.meaning(spelling) != now.meaning(spelling)}

    def _documents_with(self, names: set[str], words: set[str]) -> np.ndarray:
        """The positions of the documents that stay and may have one of these; rising."""
        if not self._dependence.knows_all:
            return np.flatnonzero(self._stays)
        # A lone word that counts begins with a capital: one without case never does.
        cased = {word for word in words if word[0].islower()}
        owners = self._old.owner[rows_with_names(self._old.texts, names | cased)]
        titled = rows_with_names(pa.chunked_array([pa.array(self._old.titles, pa.string())]), names)
        found: np.ndarray = np.union1d(owners, titled)
        staying: np.ndarray = found[self._stays[found]]
        return staying

    def _found_staying(self, words: set[str]) -> set[str]:
        """Those of `words` that the texts that stay have."""
        left = words - self._looked_for
        self._looked_for |= left
        begin, size = 0, _FIRST_ROWS
        while left and begin < len(self._old.texts):
            part = self._old.texts.slice(begin, size)
            for row in rows_with_words(part, left) if begin else range(len(part)):
                if self._stays[self._old.owner[begin + row]]:
                    found = left.intersection(LOWER_WORD.findall(part[int(row)].as_py()))
                    self._staying |= found
                    left -= found
            begin, size = begin + size, min(4 * size, _MOST_ROWS)
        return words & self._staying


def _words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in LOWER_WORD.findall(text)}


def _single_words(titles: Iterable[str]) -> set[str]:
    """The spellings of titles that are single words."""
    # Without a space, or with one only before what `bare_title` takes off.
    short = (title for title in titles if " " not in title.strip() or "(" in title or "," in title)
    return {spelling for title in short for spelling, _ in spellings(title) if " " not in spelling}


def _titles_like(titles: Sequence[str], names: set[str]) -> list[str]:
    """Those that may have one of `names` as a spelling; the others have none."""
    column = pa.chunked_array([pa.array(titles, pa.string())])
    return [titles[row] for row in rows_with_names(column, names)]
