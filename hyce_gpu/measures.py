"""Measures of answers and of retrieval (SPEC.md, section 4): exact match, token F1, recall of supporting passages."""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence

from hyce_gpu.schema import EvidencePath

_ARTICLES = frozenset(("a", "an", "the"))
_PUNCTUATION = frozenset(string.punctuation)


def normalise_answer(text: str) -> str:
    """The usual normalisation (SQuAD): lower case, punctuation and English articles out, white space collapsed."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(" " if _is_punctuation(char) else char for char in folded)
    return " ".join(word for word in kept.split() if word not in _ARTICLES)


def _is_punctuation(char: str) -> bool:
    return char in _PUNCTUATION or unicodedata.category(char).startswith("P")


def exact_match(answer: str, expected: Iterable[str]) -> bool:
    """Whether the answer equals one of the expected ones after normalisation."""
    found = normalise_answer(answer)
    return any(found == normalise_answer(one) for one in expected)


def token_f1(answer: str, expected: Iterable[str]) -> float:
    """The best token F1 against the expected answers, in [0, 1]."""
    return max((_f1(normalise_answer(answer).split(), normalise_answer(one).split()) for one in expected), default=0.0)


def _f1(found: Sequence[str], wanted: Sequence[str]) -> float:
    if not found or not wanted:
        return float(found == wanted)
    shared = (Counter(found) & Counter(wanted)).total()
    return 2 * shared / (len(found) + len(wanted))


def passages(paths: Iterable[EvidencePath]) -> list[str]:
    """Ids of the distinct source documents of the paths, in the order of rank."""
    return list(dict.fromkeys(source.doc_id for path in paths for source in path.sources))


def recall(found: Sequence[str], supporting: Iterable[str], k: int) -> float:
    """The share of the supporting passages among the first k found ones; 1 where none is labelled."""
    wanted = set(supporting)
    return len(wanted.intersection(found[:k])) / len(wanted) if wanted else 1.0
