"""The corpus's own titles, to be found in its texts. Knows titles, and the words that the corpus has in lower case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, KeysView

from hyce_gpu.extract.language import token_pattern
from hyce_gpu.extract.mentions import MAX_NAME_WORDS, MONTHS, Mention, bare_title, title_name, title_tail
from hyce_gpu.units import unit_key

_MONTH_NAMES = frozenset(MONTHS.lower().split("|"))


class KnownTitles:
    """The corpus's own titles, to be found in its texts: the surest links between documents.

    "Rugby league" also matches "rugby league" (a lower-case second word tells a common noun) and "The Beatles" also
    "the Beatles". A qualified title ("Ulm (Germany)") is found by its bare name, which stays a name of its own.
    """

    def __init__(self, titles: Iterable[str], common_words: Collection[str]) -> None:
        self._names: dict[str, str] = {}
        self._unqualified: set[str] = set()
        self._common_words = common_words
        for title in titles:
            self._unqualified.add(title_name(title))
            for spelling, meant in spellings(title):
                if " " in spelling or self.is_name_like(spelling):
                    self._names.setdefault(spelling, meant)
        self._longest = min(MAX_NAME_WORDS, max(map(_token_count, self._names), default=0))

    @property
    def spellings(self) -> KeysView[str]:
        """All by which a title is found."""
        return self._names.keys()

    def meaning(self, spelling: str) -> tuple[str, bool] | None:
        """The name that a spelling stands for, and whether it is a title as it stands; None for no title's spelling.

        Whatever a `KnownTitles` says of a text, it says by these and by `is_name_like`.
        """
        meant = self._names.get(spelling)
        return None if meant is None else (meant, spelling in self._unqualified)

    def digest(self) -> str:
        """Of all titles and words, in hexadecimal."""
        meanings = [(spelling, self.meaning(spelling)) for spelling in sorted(self._names)]
        return unit_key(meanings, sorted(self._common_words)).hex()

    def find(self, text: str) -> Iterator[Mention]:
        """The longest titles from left to right, side by side."""
        tokens = [match.span() for match in token_pattern().finditer(text)]
        i = 0
        while i < len(tokens):
            start = tokens[i][0]
            for last in range(min(i + self._longest, len(tokens)) - 1, i - 1, -1):
                name = self._names.get(text[start : tokens[last][1]])
                if name is not None:
                    yield Mention(start, tokens[last][1], name)
                    i = last
                    break
            i += 1

    def is_name_like(self, word: str) -> bool:
        """Whether a single capitalised word is a name: the corpus never writes it in lower case."""
        return may_be_name(word) and not self.is_common(word.lower())

    def is_common(self, word: str) -> bool:
        return word in _MONTH_NAMES or word in self._common_words

    def inside(self, name: str) -> list[str]:
        """Titles that begin or end a longer name: Ulm in "Museum of Ulm"; not "United (album)" in "United States"."""
        tokens = [match.span() for match in token_pattern().finditer(name)]
        parts = [name[:end] for _, end in tokens[:-1]] + [name[start:] for start, _ in tokens[1:]]
        sure = [part for part in parts if " " in part or part in self._unqualified] + [title_tail(name)]
        return list(dict.fromkeys(self._names[part] for part in sure if part in self._names))


def may_be_name(word: str) -> bool:
    """Whether a single word is written as a name, whatever the corpus does elsewhere."""
    return len(word) > 2 and not word[0].islower() and word[-1].isalnum()


def spellings(title: str) -> tuple[tuple[str, str], ...]:
    """By what a title is found, and the name that each spelling then stands for; single words only if name-like."""
    name = title_name(title)
    bare = bare_title(name)
    return (name, name), (bare, bare), (_uncapitalised(name), name)


def _token_count(name: str) -> int:
    # Of most names without a look at each character.
    return name.count(" ") + 1 if name.replace(" ", "").isalnum() else len(token_pattern().findall(name))


def _uncapitalised(name: str) -> str:
    words = name.split()
    is_common_noun = len(words) > 1 and all(word.islower() for word in words[1:])
    return name[0].lower() + name[1:] if is_common_noun or words[:1] == ["The"] else name
