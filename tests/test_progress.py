"""How far a step is, on a stream that is no terminal: lines that tell something, also of slow steps."""

from __future__ import annotations

import pytest

from hyce_gpu.progress import Progress


@pytest.mark.parametrize(
    ("done", "seconds", "told"),
    [
        (55, 900.0, "0.061 chunks/s"),
        (3, 2.0, "1.5 chunks/s"),
        (100_000, 64.0, "1,562.5 chunks/s"),
        (0, 5.0, "0 chunks/s"),
    ],
)
def test_the_rate_of_a_slow_step_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, done: int, seconds: float, told: str
) -> None:
    shown = Progress("extract", 112, "chunks")
    monkeypatch.setattr(shown, "seconds", lambda: seconds)
    shown(done)
    assert shown.rates() == told
    shown.tokens, shown.failed = 1000, 2
    assert shown.rates() == f"{told}, {1000 / seconds:,.0f} tokens/s, 2 failed"
