"""Which pairs of entities are worth a look: those that share a key, and nearest vectors. Never all pairs.

Keys are names and aliases without accents and punctuation, these with one letter left out, initials, words, and runs
of letters. What many entities share tells nothing, so a key with more than `BLOCK` of them is left out: the pairs grow
with the number of entities, not with its square.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hyce_gpu.name_likeness import Name, looks
from hyce_gpu.progress import progress

BLOCK = 40
# Nearest vectors of each entity, and how similar they are to be.
_NEAREST, _ALIKE = 8, 0.7
# Pairs that share no more than words or runs of letters are to be at least so similar.
_ALIKE_WITH_WORDS = 0.35
_LETTER_RUN, _CHARACTER_RUN = 4, 2
_FEWEST_TO_LEAVE_OUT = 4
_ROWS_AT_ONCE = 4096

Nearest = Callable[[np.ndarray, int], list[list[int]]]


def candidates(
    names: Sequence[str], aliases: Sequence[Sequence[str]], vectors: np.ndarray, nearest: Nearest
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of entities [P, 2], the lower number first, each once, ascending; and the cosine of their vectors [P].

    Args:
        names, aliases: of each of the V entities.
        vectors: unit length [V, d].
        nearest: the k most similar rows for each of some vectors.
    """
    looking = [looks(name) for name in names]
    strong = _sharing(_strong_keys(look, others) for look, others in zip(looking, aliases, strict=True))
    weak = np.setdiff1d(_sharing(map(_weak_keys, looking)), strong)
    similar = _similar(vectors, nearest)
    at = np.union1d(np.union1d(strong, weak), similar)
    pairs = np.stack((at >> 32, at & 0xFFFFFFFF), axis=1)
    cosine = _cosines(vectors, pairs)
    kept = (cosine >= _ALIKE_WITH_WORDS) | np.isin(at, strong)
    return pairs[kept], cosine[kept]


def _strong_keys(look: Name, aliases: Sequence[str]) -> Iterator[str]:
    letters = look.letters
    # Punctuation alone has none.
    yield from (f"={one}" for one in (letters, *(looks(alias).letters for alias in aliases)) if one)
    if len(letters) >= _FEWEST_TO_LEAVE_OUT:
        # Names that differ in one letter share a key: both without it, or one without it and the other whole.
        yield f"-{letters}"
        yield from (f"-{letters[:place]}{letters[place + 1 :]}" for place in range(len(letters)))
    if look.is_short:
        yield f"i{letters}"
    elif look.initials:
        yield f"i{look.initials}"
        yield f"i{''.join(word[0] for word in look.words if len(word) > 3)}"


def _weak_keys(look: Name) -> Iterator[str]:
    for word in look.words:
        yield f"w{word}"
        # Scripts without capitals have shorter words, and some no spaces.
        run = _CHARACTER_RUN if word[0].isalpha() and word[0].upper() == word[0] else _LETTER_RUN
        if len(word) > run:
            yield from (f"r{word[place : place + run]}" for place in range(len(word) - run + 1))


def _sharing(keys: Iterator[Iterator[str]]) -> np.ndarray:
    """Pairs of entities that share a key, as first << 32 | second, ascending."""
    number: dict[str, int] = {}
    # Packed, since a hundred thousand names have millions of keys.
    found = array("q")
    for entity, of in enumerate(keys):
        for key in dict.fromkeys(of):
            found.extend((number.setdefault(key, len(number)), entity))
    rows = np.frombuffer(found, dtype=np.int64).reshape(-1, 2) if found else np.zeros((0, 2), dtype=np.int64)
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    sizes = np.bincount(rows[:, 0], minlength=1)
    rows = rows[sizes[rows[:, 0]] <= BLOCK]
    pairs = [np.zeros(0, dtype=np.int64)]
    # Entities ascend within a key: the partner `step` places on has the higher number.
    for step in range(1, BLOCK):
        ahead, behind = rows[:-step], rows[step:]
        same = ahead[:, 0] == behind[:, 0]
        pairs.append(np.unique((ahead[same, 1] << 32) | behind[same, 1]))
    return np.unique(np.concatenate(pairs))


def _similar(vectors: np.ndarray, nearest: Nearest) -> np.ndarray:
    pairs: list[np.ndarray] = [np.zeros(0, dtype=np.int64)]
    with progress("nearest", len(vectors), "entities") as advance:
        for start in range(0, len(vectors), _ROWS_AT_ONCE):
            block = np.asarray(vectors[start : start + _ROWS_AT_ONCE], dtype=np.float32)
            found = nearest(block, _NEAREST + 1)
            rows = np.repeat(np.arange(start, start + len(block)), [len(row) for row in found])
            others = np.array([other for row in found for other in row], dtype=np.int64)
            alike = np.einsum("pd,pd->p", block[rows - start], vectors[others]) >= _ALIKE
            low, high = np.minimum(rows, others)[alike], np.maximum(rows, others)[alike]
            pairs.append(((low << 32) | high)[low < high])
            advance(len(block))
    return np.unique(np.concatenate(pairs))


def _cosines(vectors: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    found = np.zeros(len(pairs))
    for start in range(0, len(pairs), _ROWS_AT_ONCE):
        first, second = pairs[start : start + _ROWS_AT_ONCE].T
        found[start : start + _ROWS_AT_ONCE] = np.einsum("pd,pd->p", vectors[first], vectors[second])
    return found
