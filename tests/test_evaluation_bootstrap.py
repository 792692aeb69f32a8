"""Intervals of means whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest

from hyce_gpu.evaluation import bootstrap
from hyce_gpu.evaluation.bootstrap import Estimate, estimates

NAN = float("nan")


def test_a_constant_has_no_spread() -> None:
    (one,) = estimates([np.full(7, 0.25)], seed=1)
    assert one == Estimate(7, 0.25, 0.25, 0.25)


def test_two_values_are_drawn_both_alike_half_of_the_time() -> None:
    # Means 0, 1/2 and 1 with probabilities 1/4, 1/2 and 1/4: both tails of 2.5 % lie in the outer ones.
    assert estimates([np.array([0.0, 1.0])], seed=0) == [Estimate(2, 0.5, 0.0, 1.0)]


def test_the_interval_of_a_share_is_the_binomial_one() -> None:
    (one,) = estimates([np.repeat([0.0, 1.0], 200)], seed=0)
    assert one.low == pytest.approx(0.5 - 1.96 * 0.025, abs=0.004)
    assert one.high == pytest.approx(0.5 + 1.96 * 0.025, abs=0.004)


def test_questions_without_a_value_are_left_out_and_none_at_all_is_none() -> None:
    assert estimates([np.array([NAN, 0.5, NAN]), np.full(3, NAN)], seed=0) == [Estimate(1, 0.5, 0.5, 0.5), Estimate(0)]


def test_a_column_does_not_depend_on_the_others_nor_on_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    column, other, gaps = random.random(40), random.random(40), random.random(40)
    gaps[:3] = NAN
    alone = estimates([column], seed=9)
    together = estimates([gaps, other, column], seed=9)[2]
    assert (together.n, together.mean) == (40, alone[0].mean)
    assert (together.low, together.high) == pytest.approx((alone[0].low, alone[0].high), abs=1e-12)
    monkeypatch.setattr(bootstrap, "_BLOCK", 130)
    (blocks,) = estimates([column], seed=9)
    assert (blocks.low, blocks.high) == pytest.approx((alone[0].low, alone[0].high), abs=1e-12)
    (reseeded,) = estimates([column], seed=10)
    assert reseeded.low != pytest.approx(alone[0].low, abs=1e-9)
