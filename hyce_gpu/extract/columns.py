"""Rows of a text column that may have what is looked for: one pattern over the whole column, as Arrow runs it.

A bound, to spare most rows a closer look: every row that has it is among them. Knows strings and columns only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hyce_gpu.extract.language import token_pattern

_DOTTED_I = re.compile("[iIİ]\u0307?")
# In characters. RE2 refuses much bigger patterns; and of very many the rows that have none are few.
_PATTERN, _MOST_PATTERNS = 20_000, 400_000


def rows_with_words(texts: pa.ChunkedArray, words: Iterable[str]) -> np.ndarray:
    """Rows that may have one of these words by itself, as it is written. [rows found] int64"""
    # RE2 knows no other letters than ASCII's at a word's edge.
    return _rows(texts, words, r"(?:^|[^0-9A-Za-z_])(?:", r")(?:$|[^0-9A-Za-z_])", ignore_case=False)


def rows_with_names(texts: pa.ChunkedArray, names: Iterable[str]) -> np.ndarray:
    """Rows of which a name that the rules make may be one of these, or have it as a part. [rows found] int64"""
    longest = {max(token_pattern().findall(name), key=len, default="") for name in names}
    return _rows(texts, {_any_case(token) for token in longest - {""}}, "(?:", ")", ignore_case=True)


def rows_made_of(titles: pa.ChunkedArray, pieces: Iterable[str]) -> np.ndarray:
    """Rows of which the name without its qualifier may have no other pieces than these. [rows found] int64"""
    pattern = "|".join(sorted(piece for piece in pieces if piece.isascii() and piece.isalnum()))
    if len(pattern) > _PATTERN:
        return np.arange(len(titles))
    # Up to what may begin a qualifier or a file's ending; all that is not ASCII passes.
    made = rf"^[^0-9A-Za-z]*(?:(?:{pattern})[^0-9A-Za-z]*)*(?:$|[(,.])|[^\x00-\x7f]"
    found: np.ndarray = np.flatnonzero(pc.match_substring_regex(titles, made, ignore_case=True).to_numpy())
    return found


def _any_case(token: str) -> str:
    # Rules write the Arabic article in place of what it is contracted to (see `language.plain_forms`).
    token = token[2:] if token.startswith("ال") and len(token) > 2 else token
    # The one letter that is two in lower case.
    return _DOTTED_I.sub("[iİ]\u0307?", token)


def _rows(
    texts: pa.ChunkedArray, alternatives: Iterable[str], before: str, after: str, ignore_case: bool
) -> np.ndarray:
    patterns = list(_joined(sorted(alternatives)))
    if sum(map(len, patterns)) > _MOST_PATTERNS:
        return np.arange(len(texts))
    found = np.zeros(len(texts), dtype=bool)
    for pattern in patterns:
        matches = pc.match_substring_regex(texts, before + pattern + after, ignore_case=ignore_case)
        found |= matches.to_numpy()
    return np.flatnonzero(found)


def _joined(alternatives: Iterable[str]) -> Iterator[str]:
    part: list[str] = []
    length = 0
    for one in alternatives:
        if part and length + len(one) > _PATTERN:
            yield "|".join(part)
            part, length = [], 0
        part.append(one)
        length += len(one) + 1
    if part:
        yield "|".join(part)
