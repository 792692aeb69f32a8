"""What a run cost, stage by stage: seconds, units and tokens, and the most memory that it held."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class Stage:
    # Wall seconds of this run.
    seconds: float = 0.0
    # Units that the stage has given, and how many of them this run found finished and did not do again.
    units: int = 0
    reused: int = 0
    failed: int = 0
    # Of all units, in whichever run they were done; without a model 0.
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Accounts:
    def __init__(self) -> None:
        self.stages: dict[str, Stage] = {}
        # When the stages began that have not ended.
        self._begun: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[Stage]:
        """Times the block; what the block counts goes into the stage that it gets."""
        stage = self.stages.setdefault(name, Stage())
        self._begun[name] = time.monotonic()
        try:
            yield stage
        finally:
            stage.seconds += time.monotonic() - self._begun.pop(name)

    @property
    def seconds(self) -> dict[str, float]:
        return {name: round(stage.seconds, 2) for name, stage in self.stages.items()}

    def described(self) -> dict[str, Any]:
        """For a manifest: stages that ran or run, with what they counted until now, and peaks of memory in bytes."""
        now = time.monotonic()
        stages = {
            name: {
                "seconds": round(stage.seconds + now - self._begun.get(name, now), 2),
                **{key: n for key, n in _counts(stage).items() if n},
            }
            for name, stage in self.stages.items()
        }
        return {"stages": stages, "peak_memory": {"host": peak_host_memory(), **_peak_gpu_memory()}}


def _counts(stage: Stage) -> dict[str, int]:
    return {key: value for key, value in asdict(stage).items() if key != "seconds"}


def peak_host_memory() -> int:
    """Bytes: the most that this process has held since it began."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _peak_gpu_memory() -> dict[str, int]:
    # Whoever used a GPU has imported torch.
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return {}
    return {f"cuda:{number}": torch.cuda.max_memory_allocated(number) for number in range(torch.cuda.device_count())}
