"""How far a slow step is: a bar on a terminal, a plain line every few seconds elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 5.0


class Advance(Protocol):
    def __call__(self, units: int = 1) -> None: ...


class Progress:
    """Called with the number of units that were just finished; `tokens` and `failed` are counted by the job."""

    def __init__(self, label: str, total: int, unit: str) -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = self.tokens = self.failed = 0
        self.started = time.monotonic()

    def __call__(self, units: int = 1) -> None:
        self.done += units
        self.show()

    def show(self) -> None:
        """Draws how far it is; the one without a screen draws nothing."""

    def seconds(self) -> float:
        return time.monotonic() - self.started

    def rates(self) -> str:
        """Units and tokens a second, and how many failed, as far as there is something to tell."""
        seconds = max(self.seconds(), 1e-9)
        told = [f"{_rate(self.done / seconds)} {self.unit}/s"]
        told += [f"{self.tokens / seconds:,.0f} tokens/s"] if self.tokens else []
        told += [f"{self.failed:,} failed"] if self.failed else []
        return ", ".join(told)


def _rate(per_second: float) -> str:
    # A large model may take minutes for a unit, and 0.0 tells nothing.
    return f"{per_second:,.1f}" if per_second >= 1 else f"{per_second:.2g}"


class _Bar(Progress):
    def __init__(self, label: str, total: int, unit: str, bar: Bar) -> None:
        super().__init__(label, total, unit)
        self._bar = bar
        self._task = bar.add_task(label, total=total, rates="")

    def show(self) -> None:
        self._bar.update(self._task, completed=self.done, rates=self.rates())


class _Lines(Progress):
    def __init__(self, label: str, total: int, unit: str) -> None:
        super().__init__(label, total, unit)
        self._last = self.started

    def show(self) -> None:
        now = time.monotonic()
        if self.done and now - self._last >= SECONDS_BETWEEN_LINES:
            self._last = now
            left = self.seconds() / max(self.done, 1) * max(self.total - self.done, 0)
            say(f"{self.label}: {self.done:,} of {self.total:,} {self.unit}, {self.rates()}, about {left:,.0f} s left")


@contextmanager
def progress(label: str, total: int, unit: str) -> Iterator[Progress]:
    """Yields a `Progress` that shows itself while the block runs."""
    if sys.stderr.isatty():
        with _screen(label, unit) as bar:
            yield _Bar(label, total, unit, bar)
        return
    lines = _Lines(label, total, unit)
    yield lines
    say(f"{label}: {lines.done:,} {unit} in {lines.seconds():.1f} s, {lines.rates()}")


@contextmanager
def _screen(label: str, unit: str) -> Iterator[Bar]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn(f"{label:<12}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit),
        TextColumn("{task.fields[rates]}"), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Bar(*columns, console=Console(stderr=True)) as bar:
        yield bar


def say(line: str) -> None:
    """One plain line on stderr, where progress and notices belong."""
    print(line, file=sys.stderr, flush=True)
