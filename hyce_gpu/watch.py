"""Whether a job still makes sense: one in which most units fail stops with the first cause, not the last symptom."""

from __future__ import annotations

from hyce_gpu.errors import JobError

# A few odd units at the start stop nothing.
_LEAST_FINISHED = 20
_MOST_FAILED_SHARE = 0.5


class FailureWatch:
    """Counts the units of one run. `what`: the units, as a message names them."""

    def __init__(self, what: str) -> None:
        self.finished = 0
        # Keys of what failed in this run.
        self.failures: list[bytes] = []
        self._what = what
        self._first = ""

    def succeeded(self) -> None:
        self.finished += 1

    def failed(self, key: bytes, name: str, reason: str) -> None:
        self.finished += 1
        self.failures.append(key)
        self._first = self._first or f"{name}: {reason}"

    def is_hopeless(self) -> bool:
        return self.finished >= _LEAST_FINISHED and len(self.failures) > _MOST_FAILED_SHARE * self.finished

    def none_succeeded(self) -> bool:
        return 0 < self.finished == len(self.failures)

    def error(self) -> JobError:
        return JobError(
            f"stopped: {len(self.failures):,} of the first {self.finished:,} {self._what} failed; the first was "
            f"{self._first}; what succeeded is kept: mend the cause and run the same command again"
        )
