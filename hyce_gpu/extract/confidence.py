"""Confidences on any scale, brought to [0, 1] or refused. Knows nothing of what they are the confidence of."""

from __future__ import annotations

import re
import unicodedata

_WORDS = {
    "certain": 1.0,
    "very high": 0.9,
    "high": 0.8,
    "medium": 0.5,
    "moderate": 0.5,
    "low": 0.2,
    "very low": 0.1,
}
# At most nine digits before the point: more is no confidence, and Python refuses to read thousands of them.
_NUMBER = r"(?:\d{1,9}(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d{1,3})?"
_PLAIN = re.compile(rf"\+?({_NUMBER})")
_PERCENT = re.compile(rf"\+?({_NUMBER})\s*%")
_FRACTION = re.compile(rf"({_NUMBER})\s*/\s*({_NUMBER})")


def to_confidence(value: object) -> float | None:
    """The confidence in [0, 1] that `value` states, or None where it states none.

    Numbers up to 1 stay, up to 10 are tenths, up to 100 are hundredths. Strings may hold such a number, a percentage
    ("85 %"), a fraction ("9/10") or a word ("very high"). Negative, larger, infinite and all other values are refused.
    """
    # A bool is an int to Python, but no confidence.
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _from_number(value)
    return _from_text(value) if isinstance(value, str) else None


def _from_number(value: float) -> float | None:
    # Comparisons first: NaN fails them all, and an int may be too large for a float.
    if 0 <= value <= 1:
        return float(value)
    if 1 < value <= 10:
        return value / 10
    return value / 100 if 10 < value <= 100 else None


def _from_text(text: str) -> float | None:
    text = unicodedata.normalize("NFKC", text).strip()
    if match := _PLAIN.fullmatch(text):
        return _from_number(_float(match[1]))
    if match := _PERCENT.fullmatch(text):
        return _share(_float(match[1]), 100.0)
    if match := _FRACTION.fullmatch(text):
        return _share(_float(match[1]), _float(match[2]))
    return _WORDS.get(" ".join(re.split(r"[\s_-]+", text.casefold())))


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _share(part: float, whole: float) -> float | None:
    return part / whole if 0 <= part <= whole and whole > 0 else None
