"""Percentile bootstrap intervals of means over questions. Knows numbers only.

All columns with values for the same questions are resampled together, so that a paired difference is one more column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95
# Of the drawn places that are in memory at once.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` questions with its interval; all None where no question has a value."""

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None


def estimates(columns: Sequence[np.ndarray], seed: int, resamples: int = RESAMPLES) -> list[Estimate]:
    """The mean of each column and its 95 % interval.

    Args:
        columns: values of the questions [n], NaN for a question without one.
        seed: each group of columns starts from it, so that a column's interval does not depend on the others.
    """
    groups: dict[bytes, list[int]] = {}
    for place, column in enumerate(columns):
        groups.setdefault((~np.isnan(column)).tobytes(), []).append(place)
    found: dict[int, Estimate] = {}
    for places in groups.values():
        present = ~np.isnan(columns[places[0]])
        values = np.stack([columns[place][present] for place in places], axis=1)
        found |= dict(zip(places, _group(values, seed, resamples), strict=True))
    return [found[place] for place in range(len(columns))]


def _group(values: np.ndarray, seed: int, resamples: int) -> list[Estimate]:
    n = len(values)
    if n == 0:
        return [Estimate(0)] * values.shape[1]
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(_resampled_means(values, seed, resamples), (tail, 1 - tail), axis=0)
    # Column by column: the order of a sum must not depend on how many columns there are.
    means = [np.ascontiguousarray(column).mean() for column in values.T]
    return [Estimate(n, *map(float, one)) for one in zip(means, low, high, strict=True)]


def _resampled_means(values: np.ndarray, seed: int, resamples: int) -> np.ndarray:
    """Means of the columns of `values` [n, M] over questions drawn with replacement [resamples, M]."""
    random, n = np.random.default_rng(seed), len(values)
    means, at_once = [], max(1, _BLOCK // n)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn = random.integers(0, n, (rows, n)) + np.arange(rows)[:, None] * n
        # How often each question was drawn: the same for all columns, and one product gives all their sums.
        often = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        means.append(often @ values / n)
    return np.concatenate(means)
