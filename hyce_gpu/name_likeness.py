"""How alike two names look, in any script: letters, words, initials and numbers. Pure string work, no store."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Accents, Arabic and Hebrew points have these combining classes; the classes below make other letters (が, क़).
_FIRST_ACCENT = 10
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ـ": None})
_APOSTROPHES = dict.fromkeys(map(ord, "'’ʼ`´"))
_ROMAN = re.compile(r"(?=.)m{0,3}(cm|cd|d?c{0,3})(xc|xl|l?x{0,3})(ix|iv|v?i{0,3})")
_MOST_INITIALS = 6
# Words with a Dice coefficient below this are two words: "Abdul" and "Abdel" have .67, "eastern" and "western" .63.
_SPELLING = 0.65


@dataclass(frozen=True)
class Name:
    words: tuple[str, ...]
    # The words without spaces: "U.N." and "UN" agree in it.
    letters: str
    pairs: frozenset[str]
    # Digits of any script by value, with what is written on to them, and Roman numerals behind the first word.
    numbers: tuple[str, ...]
    # Of its words, where there are several.
    initials: str
    # Written in capitals as initials are.
    is_short: bool


@dataclass(frozen=True)
class NameEvidence:
    # Dice coefficient of the letter pairs, from 0 to 1.
    letters: float
    # What the words have in common, by their rarity, from 0 to 1.
    words: float
    # The words of one are among the other's, spelling aside; 0 where they are not. By how few names have these words.
    contained: float
    # The words are the same, in another spelling or order.
    respelled: bool
    initials: bool
    numbers_differ: bool


def folded(name: str) -> str:
    """Case, accents, points and punctuation off; letters, digits and symbols of every script stay ("c++", "at&t")."""
    text = unicodedata.normalize("NFKD", name).casefold().translate(_LETTERS).translate(_APOSTROPHES)
    text = "".join(char for char in text if unicodedata.combining(char) < _FIRST_ACCENT)
    # "U.N." is one word, "St. John" two.
    text = re.sub(r"(?<=\b\w)\.(?=\w\b)", "", unicodedata.normalize("NFKC", text))
    return " ".join("".join(char if _belongs(char) else " " for char in text).split())


def _belongs(char: str) -> bool:
    # "#" tells C# from C; "&" stands for a word.
    return unicodedata.category(char)[0] in "LNMS" or char in "#&@%*"


@lru_cache(maxsize=1 << 17)
def looks(name: str) -> Name:
    words = tuple(folded(name).split())
    letters = "".join(words)
    initials = "".join(word[0] for word in words) if len(words) > 1 else ""
    is_short = len(words) == 1 and 2 <= len(letters) <= _MOST_INITIALS and name.isupper()
    return Name(words, letters, frozenset(_pairs(letters)), tuple(_numbers(name)), initials, is_short)


def _pairs(letters: str) -> Iterator[str]:
    padded = f"^{letters}$" if letters else ""
    return (padded[place : place + 2] for place in range(len(padded) - 1))


def _numbers(name: str) -> Iterator[str]:
    spaced = "".join(_digit(char) for char in unicodedata.normalize("NFKC", name))
    yield from re.findall(r"\d+[a-z]*", spaced.casefold())
    for word in re.findall(r"\w+(?!\.)\b", spaced)[1:]:
        # "Malcolm X" has none that matters: numbers count where two names differ in them.
        if (word.isupper() or name.islower()) and _ROMAN.fullmatch(word.casefold()):
            yield word.casefold()


def _digit(char: str) -> str:
    value = unicodedata.numeric(char, None) if char.isnumeric() else None
    if value is None or value != int(value):
        return char
    return str(int(value))


def dice(left: frozenset[str], right: frozenset[str]) -> float:
    """Twice what two sets share, of what they have."""
    return 2 * len(left & right) / (len(left) + len(right)) if left or right else 0.0


class Rarity:
    """How much a word tells, from how many names have it: log(1 + names / names with the word)."""

    def __init__(self, names: Iterable[Name]) -> None:
        found = [set(name.words) for name in names]
        self._of = Counter(word for words in found for word in words)
        self._names = len(found)

    def __call__(self, word: str) -> float:
        return math.log(1 + self._names / max(1, self._of[word]))

    def holders(self, words: Iterable[str]) -> int:
        """At most so many names have all the words."""
        return min((self._of[word] for word in words), default=0)


def compare(one: Name, other: Name, rarity: Rarity) -> NameEvidence:
    shared, left, right = _aligned(one.words, other.words)
    common = sum(likeness * min(rarity(a), rarity(b)) for a, b, likeness in shared)
    rest = sum((1 - likeness) * max(rarity(a), rarity(b)) for a, b, likeness in shared)
    rest += sum(map(rarity, (*left, *right)))
    is_initials = _is_initials(one, other) or _is_initials(other, one)
    return NameEvidence(
        dice(one.pairs, other.pairs),
        1.0 if one.words and one.words == other.words else common / (common + rest) if common else 0.0,
        _contained(one, other, rarity) if shared and not (left and right) else 0.0,
        bool(shared) and not left and not right,
        is_initials,
        one.numbers != other.numbers,
    )


def _contained(one: Name, other: Name, rarity: Rarity) -> float:
    shorter = one.words if len(one.words) < len(other.words) else other.words
    # One of those with the words is the shorter name itself.
    return 1 / max(1, rarity.holders(shorter) - 1)


def _is_initials(short: Name, long: Name) -> bool:
    return short.is_short and len(long.words) > 1 and short.letters in (long.initials, _capital_initials(long))


def _capital_initials(name: Name) -> str:
    """Without the short words between the others: "Bank of England" is "BE" as well as "BOE"."""
    return "".join(word[0] for word in name.words if len(word) > 3)


def _aligned(left: Sequence[str], right: Sequence[str]) -> tuple[list[tuple[str, str, float]], list[str], list[str]]:
    """Words of both sides that are one, or one in two spellings, with their likeness; and what is left of each."""
    rest, others = list(left), list(right)
    shared = []
    for least in (1.0, _SPELLING):
        for word in list(rest):
            best = max(others, key=lambda other: _likeness(word, other), default="")
            if best and (likeness := _likeness(word, best)) >= least:
                shared.append((word, best, likeness))
                rest.remove(word)
                others.remove(best)
    return shared, rest, others


@lru_cache(maxsize=1 << 17)
def _likeness(word: str, other: str) -> float:
    if word == other:
        return 1.0
    # "J" for "John".
    if min(len(word), len(other)) == 1:
        return 0.8 if word[0] == other[0] and word[0].isalpha() else 0.0
    return dice(frozenset(_pairs(word)), frozenset(_pairs(other)))
