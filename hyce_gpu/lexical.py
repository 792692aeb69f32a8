"""The words of a text, for the lexical side of relevance: any script, no model.

Knows words, how often texts use them, and BM25 weights. Knows nothing of questions or hyperedges.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

# What questions are made of, and what says nothing about a text.
FUNCTION_WORDS = frozenset(
    (
        "a an the and or but if of in on at to by for from with as is are was were be been has have had do "
        "does did will would can could which what who whom whose when where why how that this these those it "
        "its he she his her they their them we you i my your our there here not no yes than then so also both "
        "same first last one two name many much more most other another some any all each "
    ).split()
)

# Scripts that write no spaces between words: their text is taken in pairs of characters.
_SPACELESS = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+")


# Several times as fast as the pattern for every script.
_ASCII_WORD = re.compile("[a-z0-9]+")


@cache
def _word() -> re.Pattern[str]:
    # Python's \w leaves out the vowel signs that words of many scripts are written with.
    marks = "".join(chr(c) for c in range(sys.maxunicode + 1) if unicodedata.category(chr(c))[0] == "M")
    return re.compile(rf"(?:[^\W_]|[{marks}])+")


_TEXTS_AT_ONCE = 1 << 14


def words(text: str) -> list[str]:
    """The words of a text, folded, in order; function words of English left out."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    if folded.isascii():
        found = _ASCII_WORD.findall(folded)
    else:
        found = [part for piece in folded.split() for part in _words_of(piece)]
    return [word for word in found if word not in FUNCTION_WORDS]


def _words_of(piece: str) -> list[str]:
    if piece.isascii():
        return _ASCII_WORD.findall(piece)
    return [part for word in _word().findall(piece) for part in _parts(word)]


def _parts(word: str) -> list[str]:
    parts: list[str] = []
    place = 0
    for run in _SPACELESS.finditer(word):
        parts += [word[place : run.start()]] if run.start() > place else []
        characters = run.group()
        parts += [characters[n : n + 2] for n in range(max(1, len(characters) - 1))]
        place = run.end()
    return parts + ([word[place:]] if place < len(word) else [])


@dataclass(frozen=True)
class TermCounts:
    """How often each of M texts uses which word, as CSR; the words of a text ascending."""

    pointer: np.ndarray  # [M+1] int64
    term: np.ndarray  # [nnz] int32
    count: np.ndarray  # [nnz] int32


def count_terms(texts: Iterable[str]) -> tuple[list[str], TermCounts]:
    """The words of the texts in their order of first use, and how often each text uses which."""
    number: dict[str, int] = {}
    # Arrays of numbers: a dictionary for each of millions of texts takes gigabytes.
    pointer, term, count = array("q", [0]), array("i"), array("i")
    for text in texts:
        used = sorted(Counter(number.setdefault(word, len(number)) for word in words(text)).items())
        term.extend(word for word, _ in used)
        count.extend(times for _, times in used)
        pointer.append(len(term))
    return list(number), TermCounts(
        np.array(pointer, dtype=np.int64), np.array(term, dtype=np.int32), np.array(count, dtype=np.int32)
    )


def bm25_weights(pointer: np.ndarray, term: np.ndarray, count: np.ndarray, vocabulary: int) -> np.ndarray:
    """BM25 weight of each word in each text (Robertson and Zaragoza, 2009; k1 = 1.5, b = 0.75, Lucene's idf).

    Args:
        pointer: rows of the texts [M+1]; term, count: the words of each text and how often it uses them [nnz].

    Returns:
        float32 [nnz].
    """
    k1, b = 1.5, 0.75
    texts = len(pointer) - 1
    used = np.bincount(term, minlength=vocabulary)
    idf = np.log1p((texts - used + 0.5) / (used + 0.5))
    before = np.concatenate(([0], np.cumsum(count, dtype=np.int64)))
    length = np.diff(before[pointer]).astype(np.float64)
    mean = length.mean() if texts and length.any() else 1.0
    dampened = k1 * (1 - b + b * length / mean)
    weight = np.empty(len(term), dtype=np.float32)
    # Some texts at a time: what lies between takes five times the memory of the result, and more time than the sums.
    for first in range(0, texts, _TEXTS_AT_ONCE):
        last = min(first + _TEXTS_AT_ONCE, texts)
        part = slice(pointer[first], pointer[last])
        times = count[part].astype(np.float64)
        own = np.repeat(dampened[first:last], np.diff(pointer[first : last + 1]))
        weight[part] = idf[term[part]] * times * (k1 + 1) / (times + own)
    return weight
