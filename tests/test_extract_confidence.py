"""Confidences on other scales: each expected value follows from SPEC.md, 1.2, by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.extract.confidence import to_confidence


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0), (1, 1.0), (0.37, 0.37), (2, 0.2), (9.5, 0.95), (10, 1.0), (11, 0.11), (85, 0.85), (100, 1.0),
        ("0.9", 0.9), ("0,9", 0.9), (".5", 0.5), ("1", 1.0), ("8", 0.8), ("85", 0.85), ("1e-2", 0.01), (" 0.25 ", 0.25),
        ("85%", 0.85), ("85 %", 0.85), ("０.５", 0.5), ("0.5%", 0.005), ("12,5 %", 0.125), ("100%", 1.0),
        ("9/10", 0.9), ("3 / 4", 0.75), ("85/100", 0.85), ("0/10", 0.0),
        ("certain", 1.0), ("Very High", 0.9), ("very_high", 0.9), ("HIGH", 0.8), ("medium", 0.5), ("moderate", 0.5),
        ("low", 0.2), ("very low", 0.1),
    ],
)  # fmt: skip
def test_reads_numbers_percentages_fractions_and_words(value: object, expected: float) -> None:
    found = to_confidence(value)
    assert found == pytest.approx(expected, abs=1e-12)
    assert type(found) is float


@pytest.mark.parametrize(
    "value",
    [
        True, False, None, math.nan, math.inf, -math.inf, -0.1, -5, 100.5, 10**400, [], {}, [0.5], b"0.5",
        "", "  ", "nan", "inf", "-0.5", "101", "150%", "-5%", "10/9", "1/0", "0/0", "1_0", "0x1", "high-ish", "0.5.1",
        "1" * 5000, "%", "/", ",", "true", "0.9 or so",
    ],
)  # fmt: skip
def test_refuses_what_is_no_confidence(value: object) -> None:
    assert to_confidence(value) is None


@given(st.one_of(st.floats(), st.integers(), st.text(), st.from_regex(r"\d{1,12}[.,/%e]?\d{0,3}%?", fullmatch=True)))
def test_never_leaves_its_range(value: object) -> None:
    found = to_confidence(value)
    assert found is None or 0.0 <= found <= 1.0
