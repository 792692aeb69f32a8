"""How far a slow step is: a bar on a terminal, a plain line every few seconds elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

SECONDS_BETWEEN_LINES = 5.0


class Advance(Protocol):
    def __call__(self, units: int = 1) -> None: ...


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Advance]:
    """Yields a function that is called with the number of units that were just finished."""
    if sys.stderr.isatty():
        with _bar(label, total, unit) as advance:
            yield advance
    else:
        with _lines(label, total, unit) as advance:
            yield advance


@contextmanager
def _bar(label: str, total: int, unit: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(f"{label:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
        TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total)
        yield lambda units=1: bar.advance(task, units)


@contextmanager
def _lines(label: str, total: int, unit: str) -> Iterator[Advance]:
    start = last = time.monotonic()
    done = 0

    def advance(units: int = 1) -> None:
        nonlocal done, last
        done += units
        now = time.monotonic()
        if now - last >= SECONDS_BETWEEN_LINES:
            last = now
            left = (now - start) / max(done, 1) * max(total - done, 0)
            say(f"{label}: {done:,} of {total:,} {unit}, about {left:,.0f} s left")

    yield advance
    say(f"{label}: {done:,} {unit} in {time.monotonic() - start:.1f} s")


def say(line: str) -> None:
    """One plain line on stderr, where progress and notices belong."""
    print(line, file=sys.stderr, flush=True)
