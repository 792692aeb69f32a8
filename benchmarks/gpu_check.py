"""Whether the GPU computes what the references do, and how fast, in one run of under four minutes.

    PYTHONPATH=.:kernels python benchmarks/gpu_check.py --out gpu_check.json

Needs torch, triton and numpy; takes torch_sparse and numba where they are installed. One table on standard output, a
line for each section on standard error, JSON in the file. Exits 1 if a check failed, 2 without a GPU.
`--device cpu --quick` walks the same code on a CPU with tiny problems, triton only where TRITON_INTERPRET=1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import synthetic
import torch
from hyce_kernels import propagation
from hyce_kernels.errors import KernelError
from hyce_kernels.propagation import Masked, Packed, Structure
from hyce_kernels.propagation.triton_backend import MOST_FITS
from torch import Tensor

from hyce_gpu import Config, reason
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.reasoning import Reasoning

T = TypeVar("T")
Results = tuple[Tensor, Tensor]
STEPS, RESTART, ENTRIES = 10, 0.5, 5
TOLERANCE = {torch.float64: (1e-11, 1e-14), torch.float32: (5e-5, 1e-7)}
METHODS = {"paper": Config.paper(), "linked": Config.linked()}
# A backend that is missing fails the run where it is required, and is named as skipped elsewhere.
REQUIRED = {"cuda": ("torch", "triton"), "cpu": ("torch",)}


@dataclass(frozen=True)
class Sizes:
    """How large the problems are. The timed packed one: `questions` of `hyperedges` each, over `entities`."""

    questions: int = 1024
    hyperedges: int = 128
    entities: int = 400
    hub: int = 10_000
    # Questions, hyperedges and entities of the timed masked problem.
    masked: tuple[int, int, int] = (64, 2048, 4096)
    corpus: int = 25_000
    batches: tuple[int, ...] = (1, 16, 256, 1024)
    # Questions that the slow reference of the retrieval answers too.
    referred: int = 4
    copied_bytes: int = 1 << 30
    most_runs: int = 100


QUICK = Sizes(8, 4, 9, 40, (4, 16, 12), 400, (1, 4), 2, 1 << 22, 3)


@dataclass(frozen=True)
class Check:
    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Timing:
    """`seconds` is the median of `runs`; `bytes_moved` the least that they must move, where it is counted."""

    name: str
    questions: int
    seconds: float
    runs: int
    bytes_moved: int | None = None
    # GB/s, and that by the GB/s of a copy; above 1 where caches serve what every step reads again.
    bandwidth: float | None = None
    of_copy: float | None = None


@dataclass(frozen=True)
class Problem:
    name: str
    structure: Structure  # on the device
    start: Tensor  # on the device, float64
    expected: Results
    timed: bool = False


@dataclass
class Session:
    """What the sections share and leave behind. `deadline` is the running section's, in seconds of the clock."""

    device: torch.device
    sizes: Sizes
    seed: int
    deadline: float = 0.0
    checks: list[Check] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    @property
    def left(self) -> float:
        return self.deadline - time.perf_counter()

    def attempt(self, name: str, work: Callable[[], T], needs: float = 0.0) -> T | None:
        """The result of `work`; None, and named as skipped or failed, where time is short or it raises."""
        if self.left <= needs:
            self.skipped[name] = f"out of time: {max(self.left, 0):.0f} s left, {needs:.0f} s needed"
            return None
        try:
            return work()
        # One broken backend must not hide what the others do.
        except Exception as error:
            self.checks.append(Check(name, False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"))
            return None

    def backends(self) -> Iterator[str]:
        structure = packed(np.random.default_rng(0), [(2, 1)])
        for name in ("torch", "triton", "torch_sparse"):
            try:
                yield propagation.choose(structure, self.device, name)
            except KernelError as error:
                if name in REQUIRED[self.device.type]:
                    self.checks.append(Check(f"{name} is installed", False, str(error)))
                else:
                    self.skipped[name] = str(error)


def packed(rng: np.random.Generator, shapes: Sequence[tuple[int, int]], hub: int = -1) -> Packed:
    """Questions of (entities, hyperedges), 2 to 8 draws each; the first entity of question `hub` is in all of its."""
    entities, edges = np.array(shapes, dtype=np.int64).T
    size = rng.integers(2, 9, edges.sum())
    question = np.repeat(np.arange(len(shapes)), edges)
    of = np.repeat(question, size)
    first, pointer = _pointer(entities), _pointer(size)
    entity = first[of] + rng.integers(0, entities[of])
    entity[pointer[:-1][question == hub]] = first[hub]
    arrays = (entity, pointer, first, _pointer(edges))
    weights = (rng.random(edges.sum()) + 0.05, rng.random(entities.sum()) + 0.05)
    return Packed.distinct(*map(torch.from_numpy, arrays), int(first[-1]), *map(torch.from_numpy, weights))


def masked(rng: np.random.Generator, questions: int, edges: int, entities: int) -> Masked:
    """Half of the hyperedges for each question, but none for the first and all, with a hub, for the last."""
    one = packed(rng, [(entities, edges)], hub=0)
    mask = rng.random((edges, questions)) < 0.5
    mask[:, 0], mask[:, -1] = False, True
    weight = torch.from_numpy(rng.random((edges, questions)) + 0.05)
    return Masked(one.entity, one.member_pointer, entities, torch.from_numpy(mask), weight, one.entity_weight)


def _pointer(counts: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64)


def restart_vector(rng: np.random.Generator, structure: Structure) -> Tensor:
    """Numbers for the entities of each question, 0 for the others."""
    if isinstance(structure, Packed):
        return torch.from_numpy(rng.random(structure.num_entities))
    hyperedge = torch.repeat_interleave(structure.member_pointer.diff())
    has = torch.zeros((structure.num_entities, structure.num_questions), dtype=torch.float64)
    has.index_add_(0, structure.member, structure.hyperedge_mask.double()[hyperedge])
    return torch.from_numpy(rng.random(tuple(has.shape))) * (has > 0)


def problems(session: Session) -> Iterator[Problem]:
    """Each with what the reference finds for it."""
    rng, sizes = np.random.default_rng(session.seed), session.sizes
    odd = [(7, 6), (0, 0), (5, 0), (40, sizes.hub), (MOST_FITS + 1, 50), (30, 20)]
    structures = {
        "packed, small": packed(rng, [(20, 30), (0, 0), (9, 7)]),
        "packed, empty, hub and too large for registers": packed(rng, odd, hub=3),
        "masked, empty and hub": masked(rng, 5, min(sizes.hub, 500), 30),
        "packed": packed(rng, [(sizes.entities, sizes.hyperedges)] * sizes.questions),
        "masked": masked(rng, *sizes.masked),
    }
    for name, structure in structures.items():
        start = restart_vector(rng, structure)
        expected = propagation.run(propagation.plan(structure, torch.float64, "reference"), start, RESTART, STEPS)
        on_device = _moved(structure, session.device)
        yield Problem(name, on_device, start.to(session.device), expected, name in ("packed", "masked"))


def _moved(structure: Structure, device: torch.device) -> Structure:
    parts = {name: part.to(device) if isinstance(part, Tensor) else part for name, part in vars(structure).items()}
    return type(structure)(**parts)


def solve(problem: Problem, dtype: torch.dtype, backend: str) -> Results:
    plan = propagation.plan(problem.structure, dtype, backend)
    confidence, flow = propagation.run(plan, problem.start.to(dtype), RESTART, STEPS)
    return confidence.cpu(), flow.cpu()


def close(name: str, found: Results, expected: Results, dtype: torch.dtype) -> Check:
    """The detail is the largest difference, as a share of the tolerance."""
    relative, absolute = TOLERANCE[dtype]
    shares = [
        ((one.double() - other).abs() / (absolute + relative * other.abs())).nan_to_num(torch.inf)
        for one, other in zip(found, expected, strict=True)
    ]
    worst = max(float(share.max()) if share.numel() else 0.0 for share in shares)
    return Check(name, worst <= 1, f"largest difference {worst:.2g} of the tolerance")


def equal_bits(name: str, first: Results, second: Results) -> Check:
    equal = [torch.equal(one, other) for one, other in zip(first, second, strict=True)]
    return Check(name, all(equal), f"confidence equal: {equal[0]}, flow equal: {equal[1]}")


def same_evidence(name: str, found: Sequence[Reasoning], expected: Sequence[Reasoning]) -> Check:
    pairs = zip(found, expected, strict=True)
    off = [number for number, (one, other) in enumerate(pairs) if one.evidence != other.evidence]
    empty = not any(one.evidence for one in expected)
    return Check(name, not (off or empty), f"{len(off)} of {len(expected)} questions differ {off[:5] or ''}".strip())


def check_propagation(session: Session) -> None:
    backends = list(session.backends())
    for problem in problems(session):
        session.problems.append(problem)
        for backend in backends:
            for dtype in TOLERANCE:
                name = f"{_label(problem, dtype, backend)} = reference"
                session.attempt(name, lambda: _check_one(session, name, problem, dtype, backend))  # noqa: B023


def _check_one(session: Session, name: str, problem: Problem, dtype: torch.dtype, backend: str) -> None:
    found = solve(problem, dtype, backend)
    session.checks.append(close(name, found, problem.expected, dtype))
    # The others leave the order of their sums to a library.
    if backend == "triton":
        again = f"{_label(problem, dtype, backend)} twice the same bits"
        session.checks.append(equal_bits(again, found, solve(problem, dtype, backend)))


def _label(problem: Problem, dtype: torch.dtype, backend: str) -> str:
    return f"{problem.name}: {backend} {str(dtype).removeprefix('torch.')}"


def step_bytes(structure: Structure, itemsize: int) -> int:
    """The least that one step reads and writes if nothing stays in a cache and every gather hits it.

    Both pointers and indexes and U once; c, r, Dv⁻¹ and the new c of each entity, W De⁻¹ and the flow, written and
    read, of each hyperedge, for each question where the layout is masked.
    """
    index = structure.entity if isinstance(structure, Packed) else structure.member
    copies = 1 if isinstance(structure, Packed) else structure.num_questions
    entities, edges = structure.num_entities, structure.num_hyperedges
    return 8 * (2 * len(index) + entities + edges + 2) + itemsize * (entities + copies * (4 * entities + 3 * edges))


def seconds_of(job: Callable[[], Any], device: torch.device, flush: Tensor | None) -> float:
    """One run; by CUDA events on caches that `flush` overwrote, by the clock without it."""
    if flush is not None:
        flush.zero_()
    if device.type == "cuda" and flush is not None:
        # The host may run ahead while the device flushes, so that launches are not part of what is measured.
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        job()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def median_of(
    job: Callable[[], Any], device: torch.device, seconds: float, most: int, flush: Tensor | None
) -> tuple[float, int]:
    """(median seconds, runs): as many runs as the seconds allow, three at least, after one that warms up."""
    job()
    until, found = time.perf_counter() + seconds, list[float]()
    while len(found) < 3 or (len(found) < most and time.perf_counter() < until):
        found.append(seconds_of(job, device, flush))
    return statistics.median(found), len(found)


def time_propagation(session: Session) -> None:
    flush = _flush(session)
    copy = session.attempt("copy of memory", lambda: _time_copy(session, flush))
    failed = {check.name for check in session.checks if not check.passed}
    jobs = [
        (problem, dtype, backend)
        for problem in session.problems if problem.timed
        for backend in session.backends() for dtype in TOLERANCE
    ]  # fmt: skip
    for place, (problem, dtype, backend) in enumerate(jobs):
        name = _label(problem, dtype, backend)
        if f"{name} = reference" in failed or f"{name} = reference" in session.skipped:
            session.skipped[f"{name}, timing"] = "its result was not found right"
            continue
        share = session.left / (len(jobs) - place)
        session.attempt(f"{name}, timing", lambda: _time_one(session, name, jobs[place], share, copy, flush))  # noqa: B023
