"""What a document's record depends on beside the document: which of the corpus's titles and words.

A safe bound: found without a pipeline, it has every title that `KnownTitles` can be asked for while the document is
read, and now and then one more. Knows how `spacy_extractor` and `terms` make names. Knows nothing of corpora.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hyce_gpu.extract.known_titles import KnownTitles
from hyce_gpu.extract.language import LANGUAGES, guess_language, plain_forms, word_pattern
from hyce_gpu.extract.mentions import ACRONYM_REACH, BRACKETED_ACRONYM, title_name
from hyce_gpu.extract.pieces import SINGLE, Pieces, TitleIndex, splits_of
from hyce_gpu.extract.pipelines import tokenizer_exceptions
from hyce_gpu.extract.readings import Reading, document_text

# Where `plain_forms` may make another word than the text has: elided articles; Hebrew, Arabic, Hangul.
_CHANGED_WORD = re.compile(
    rf"(?<![^\W_{SINGLE}])(?:[dlmnst]|qu|un|dell|nell|all|sull|dall)['’](?=\w)"
    "|[\u0590-\u08ff\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff\ufb1d-\ufdff\ufe70-\ufefe\uffa0-\uffdc"
    "\U00010e60-\U00010eff\U0001ee00-\U0001eeff]",
    re.IGNORECASE,
)


class Found(NamedTuple):
    """Spellings of titles that may be found in a document, and lower-cased words of which it may matter whether they
    are common; whether that cannot be told, since a pipeline cuts the document's words in ways that are not known.
    """

    spellings: set[str]
    words: set[str]
    unknown: bool = False


class Dependence:
    """Reads documents for what they depend on.

    Args:
        unknown: languages whose pipelines cut words in ways that are not known.
    """

    def __init__(self, pieces: Pieces, unknown: frozenset[str] = frozenset()) -> None:
        self.pieces = pieces
        self._unknown = unknown

    @classmethod
    def of_pipelines(cls) -> Dependence:
        """For the pipelines that are installed here."""
        rules = {language: tokenizer_exceptions(language) for language in LANGUAGES}
        splits = splits_of(tokens for found in rules.values() for tokens in found or ())
        return cls(Pieces(splits), frozenset(language for language, found in rules.items() if found is None))

    def find(self, readings: Sequence[Reading], index: TitleIndex) -> Found:
        """Args:
        readings: a document's, all of them.
        index: of spellings, made with the same `pieces`.
        """
        spellings, words = set[str](), set[str]()
        for reading in readings:
            pieces, lone = self.pieces.read(reading.text)
            words |= lone
            spellings |= index.found(pieces)
        for text in self._other_names(readings):
            spellings |= index.found(self.pieces.of(text))
        return Found(spellings, words, self._is_unknown(readings))

    def texts(self, readings: Sequence[Reading]) -> Iterator[str]:
        """Texts in which each name of the document stands whole."""
        yield from (reading.text for reading in readings)
        yield from self._other_names(readings)

    def _other_names(self, readings: Sequence[Reading]) -> Iterator[str]:
        """Texts of which a name may be a part, though its pieces stand in no chunk side by side."""
        yield title_name(readings[0].chunk.title)
        for reading in readings:
            # The name before an acronym is looked for so far back, which may be inside a word.
            for match in BRACKETED_ACRONYM.finditer(reading.text):
                if match.start() > ACRONYM_REACH:
                    yield reading.text[match.start() - ACRONYM_REACH : match.start()]
        text, starts = document_text(readings)
        # Where chunks overlap, markup may be masked in one and not in the other.
        if any(one.text != text[at : at + len(one.text)] for one, at in zip(readings, starts, strict=True)):
            yield text
        if not (text.isascii() and "'" not in text) and _CHANGED_WORD.search(text):
            words = word_pattern().findall(text)
            forms = plain_forms(words, guess_language(text))
            yield " ".join(forms[word] for word in words)

    @property
    def knows_all(self) -> bool:
        """Whether no document can be unknown."""
        return not self._unknown

    def _is_unknown(self, readings: Sequence[Reading]) -> bool:
        return bool(self._unknown) and guess_language(document_text(readings)[0]) in self._unknown


def depends_on(found: Found, titles: KnownTitles) -> list[object]:
    """All that `titles` can say of the document, in JSON's types."""
    meanings = ((spelling, titles.meaning(spelling)) for spelling in sorted(found.spellings))
    return [
        [[spelling, *meaning] for spelling, meaning in meanings if meaning],
        sorted(filter(titles.is_common, found.words)),
    ]
