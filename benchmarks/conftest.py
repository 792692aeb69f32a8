"""What a run's JSON says of the machine and the code, beyond what pytest-benchmark writes: the report reads it there.

Kept with the figures, since a report may be made on another day, at another commit and on another machine.
"""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
LIBRARIES = ("torch", "numba", "triton")
# Environment variables of the benchmarks themselves, such as the size of the corpus.
SETTINGS = "HYCE_BENCH_"

_COMMIT = pytest.StashKey[dict[str, Any]]()


def pytest_configure(config: pytest.Config) -> None:
    # pytest-benchmark asks after the last benchmark; by then an hour of other commits may have passed.
    config.stash[_COMMIT] = commit(ROOT)


def pytest_benchmark_update_commit_info(config: pytest.Config, commit_info: dict[str, Any]) -> None:
    commit_info.update(config.stash[_COMMIT])


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    machine_info["cores"] = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    machine_info["memory_bytes"] = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    machine_info["versions"] = {name: installed(name) for name in LIBRARIES}
    machine_info["settings"] = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}


def commit(folder: Path) -> dict[str, Any]:
    """ "short": the hash, or "unknown"; "dirty": whether the tree has changes, files that git does not track included.

    pytest-benchmark's own "dirty" leaves those out, but a new kernel is a change.
    """
    return {
        "short": _git(folder, "rev-parse", "--short", "HEAD") or "unknown",
        "dirty": bool(_git(folder, "status", "--porcelain")),
    }


def installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
