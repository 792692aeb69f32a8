"""Whether a GPU computes what the references do, and how fast, in one run of under four minutes.

    PYTHONPATH=.:kernels python benchmarks/gpu_check.py --out gpu_check.json

Needs torch, triton and numpy; takes torch_sparse and numba where they are installed. One table on standard output, a
line for each section on standard error, JSON in the file. Exits 1 if a check failed, 2 without a GPU.
`--device cpu --quick` walks the same code on a CPU with tiny problems, triton only where TRITON_INTERPRET=1.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import synthetic
import torch
from gpu_problems import FULL, QUICK, RESTART, Problem, Results, problems, step_bytes
from gpu_report import Row, facts, table
from hyce_kernels import propagation
from hyce_kernels.errors import KernelError

from hyce_gpu import Config, reason
from hyce_gpu.reasoning import Reasoning

# What is found of a check ("passed", "detail"), a timing ("seconds" and more) or what was left out ("skipped": why).
# Its name, the seconds without which it is not begun, and what finds its row.
Job = tuple[str, float, Callable[[], Row]]

TOLERANCE = {torch.float64: (1e-11, 1e-14), torch.float32: (5e-5, 1e-7)}
METHODS = {"paper": Config.paper(), "linked": Config.linked()}
BACKENDS = ("torch", "triton", "torch_sparse")
# A missing backend fails the run where it is required, and is named as skipped elsewhere.
REQUIRED = {"cuda": ("torch", "triton"), "cpu": ("torch",)}
# Questions that the slow reference of the retrieval answers too, and that other backends do.
REFERRED, COMPARED = 4, 16
# Bytes written between two runs: on CUDA more than the L2 of any card.
FLUSHED = {"cuda": 1 << 28, "cpu": 1 << 25}


class Session:
    """What the jobs share, and the rows they leave behind, by name."""

    def __init__(self, device: str, sizes: SimpleNamespace, seed: int) -> None:
        self.device, self.sizes = device, sizes
        self.rows: dict[str, Row] = {}
        # Of the running section, on the clock of `time.perf_counter`.
        self.deadline = 0.0
        self.problems = list(problems(np.random.default_rng(seed), sizes, device))
        self.retrieval = Retrieval(sizes, device, seed)

    def left(self) -> float:
        return self.deadline - time.perf_counter()

    def passed(self, name: str) -> bool:
        return bool(self.rows.get(name, {}).get("passed"))

    def attempt(self, name: str, needs: float, work: Callable[[], Row]) -> None:
        """Leaves a row in any case; what raises is a failed check."""
        if self.left() <= needs:
            self.rows[name] = {"skipped": f"{max(self.left(), 0):.0f} s left, about {needs:.0f} s needed"}
            return
        try:
            self.rows[name] = work()
        # One broken backend must not hide what the others do.
        except Exception as error:
            self.rows[name] = {"passed": False, "detail": f"{type(error).__name__}: {' '.join(str(error).split())}"}

    def measure(self, job: Callable[[], Any], device: str, questions: int, seconds: float, moved: int = 0) -> Row:
        """The median of as many runs as the seconds allow, within `sizes.runs`; `moved`: bytes that each must move."""
        job()
        until, found = time.perf_counter() + seconds, list[float]()
        least, most = self.sizes.runs
        while len(found) < least or (len(found) < most and time.perf_counter() < until):
            found.append(seconds_of(job, device))
        median = statistics.median(found)
        row = {"seconds": median, "runs": len(found), "questions": questions}
        return row | {"bytes": moved, "rate": moved / median} if moved else row


def seconds_of(job: Callable[[], Any], device: str) -> float:
    """One run on cold caches: on CUDA by events, on a CPU by the clock."""
    torch.empty(FLUSHED[device], dtype=torch.uint8, device=device).fill_(1)
    if device == "cpu":
        began = time.perf_counter()
        job()
        return time.perf_counter() - began
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    job()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000


def check_backend(problem: Problem, backend: str) -> Row:
    try:
        propagation.choose(problem.structure, problem.start.device, backend)
    except KernelError as error:
        # Raised again, it is a failed check.
        if backend in REQUIRED[problem.start.device.type]:
            raise
        return {"skipped": str(error)}
    return {"passed": True, "detail": "it runs on the device"}


def solve(problem: Problem, dtype: torch.dtype, backend: str) -> Results:
    plan = propagation.plan(problem.structure, dtype, backend)
    confidence, flow = propagation.run(plan, problem.start.to(dtype), RESTART, problem.steps)
    return confidence.cpu(), flow.cpu()


def check_reference(problem: Problem, dtype: torch.dtype, backend: str) -> Row:
    relative, absolute = TOLERANCE[dtype]
    shares = [
        ((one.double() - other).abs() / (absolute + relative * other.abs())).nan_to_num(torch.inf).flatten()
        for one, other in zip(solve(problem, dtype, backend), problem.expected, strict=True)
    ]
    worst = float(torch.cat([*shares, torch.zeros(1)]).max())
    return {"passed": worst <= 1, "detail": f"largest difference {worst:.2g} of the tolerance"}


def check_bits(problem: Problem, dtype: torch.dtype, backend: str) -> Row:
    first, second = (solve(problem, dtype, backend) for _ in range(2))
    equal = [torch.equal(*both) for both in zip(first, second, strict=True)]
    return {"passed": all(equal), "detail": f"confidence, flow equal: {equal}"}


def propagation_checks(session: Session) -> Iterator[Job]:
    for backend in BACKENDS:
        yield f"{backend} is there", 0, partial(check_backend, session.problems[0], backend)
    for problem, backend, dtype in product(session.problems, BACKENDS, TOLERANCE):
        if session.passed(f"{backend} is there"):
            yield f"{label(problem, backend, dtype)} = reference", 0, partial(check_reference, problem, dtype, backend)
            # The others leave the order of their sums to a library.
            if backend == "triton":
                yield f"{label(problem, backend, dtype)} twice", 0, partial(check_bits, problem, dtype, backend)


def label(problem: Problem, backend: str, dtype: torch.dtype) -> str:
    return f"{problem.name}: {backend} {str(dtype).removeprefix('torch.')}"


def propagation_times(session: Session) -> Iterator[Job]:
    yield "copy of memory", 0, partial(time_copy, session)
    for place, one in enumerate(jobs := list(product(session.problems[-2:], BACKENDS, TOLERANCE))):
        name, seconds = label(*one), session.left() / (len(jobs) - place) / 2
        for stage in ("run", "plan and run"):
            if session.passed(f"{name} = reference"):
                yield f"{name}, {stage}", 0, partial(time_propagation, session, *one, stage, seconds)
            else:
                yield f"{name}, {stage}", 0, partial(dict, skipped="no result that was found right")


def time_copy(session: Session) -> Row:
    source = torch.zeros(session.sizes.copied, dtype=torch.uint8, device=session.device)
    target = torch.empty_like(source)
    return session.measure(lambda: target.copy_(source), session.device, 0, 1.0, 2 * len(source))


def time_propagation(
    session: Session, problem: Problem, backend: str, dtype: torch.dtype, stage: str, seconds: float
) -> Row:
    structure, start = problem.structure, problem.start.to(dtype)
    ready = propagation.plan(structure, dtype, backend)

    def run() -> None:
        plan = ready if stage == "run" else propagation.plan(structure, dtype, backend)
        propagation.run(plan, start, RESTART, problem.steps)

    moved = problem.steps * step_bytes(structure, dtype.itemsize) if stage == "run" else 0
    return session.measure(run, session.device, structure.num_questions, seconds, moved)


class Retrieval:
    """A synthetic corpus, its questions with their entry entities, and whoever retrieves for them."""

    def __init__(self, sizes: SimpleNamespace, device: str, seed: int) -> None:
        hypergraph = synthetic.corpus(sizes.corpus, seed=seed)
        self._asked = synthetic.questions(hypergraph, max(sizes.batches), seed=seed + 1)
        near = (torch.from_numpy(self._asked.vectors) @ hypergraph.entity_vectors.T).topk(5).indices.tolist()
        self._entry = [[*named, *ids] for named, ids in zip(self._asked.mentioned, near, strict=True)]
        self._on = {where: hypergraph.to(where) for where in ("cpu", device)}

    def find(self, method: str, backend: str, device: str, count: int) -> list[Reasoning]:
        vectors, terms, config = self._asked.vectors[:count], self._asked.terms[:count], METHODS[method]
        return reason(self._on[device], self._entry[:count], vectors, config, backend, device, query_terms=terms)


def differing(found: Sequence[Reasoning], expected: Sequence[Reasoning]) -> list[int]:
    """The numbers of the questions whose evidence is not the same hyperedges in the same order."""
    pairs = zip(found, expected, strict=True)
    return [number for number, (one, other) in enumerate(pairs) if one.evidence != other.evidence]


def check_retrieval(session: Session, method: str, other: str, count: int) -> Row:
    """Torch on the device against another backend on the CPU."""
    find = session.retrieval.find
    off = differing(find(method, "torch", session.device, count), find(method, other, "cpu", count))
    return {"passed": not off, "detail": f"{len(off)} of {count} questions differ: {off}"}


def retrieval_checks(session: Session, others: Sequence[str], needs: float = 0.0) -> Iterator[Job]:
    for method, other in product(METHODS, others):
        count = REFERRED if other == "reference" else COMPARED
        name = f"{method}: evidence of torch on {session.device} = {other} on cpu"
        yield name, needs, partial(check_retrieval, session, method, other, count)


def retrieval_times(session: Session, backend: str, device: str) -> Iterator[Job]:
    """The smaller batch of a method tells how long the next one will take."""
    known = dict.fromkeys(METHODS, 0.0)
    for size, method in product(session.sizes.batches, METHODS):
        name = f"{method}: {backend} on {device}, batch of {size:,}"
        job = partial(session.retrieval.find, method, backend, device, size)
        yield name, 4 * size * known[method], partial(session.measure, job, device, size, 1.0)
        known[method] = session.rows[name].get("seconds", 0.0) / size or known[method]


def retrieval_on_cpu(session: Session) -> Iterator[Job]:
    if session.device != "cpu":
        yield from retrieval_times(session, "torch", "cpu")
    if not find_spec("numba"):
        yield "numba on cpu", 0, partial(dict, skipped="numba is not installed")
        return
    yield from (jobs := list(retrieval_checks(session, ["numba"], session.sizes.compiling)))
    # An unchecked one would have to compile now.
    if all(session.passed(name) for name, _, _ in jobs):
        yield from retrieval_times(session, "numba", "cpu")
    else:
        yield "numba on cpu, times", 0, partial(dict, skipped="no result that was found right")


# Title, jobs, and the share of the time left that they may take.
SECTIONS: list[tuple[str, Callable[[Session], Iterator[Job]], float]] = [
    ("propagation against the reference", propagation_checks, 0.5),
    ("retrieval against the reference and the CPU", partial(retrieval_checks, others=("reference", "torch")), 0.4),
    ("times of propagation", propagation_times, 0.4),
    ("times of retrieval", lambda session: retrieval_times(session, "torch", session.device), 0.5),
    ("retrieval on the CPU of this machine", retrieval_on_cpu, 1.0),
]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--quick", action="store_true", help="tiny problems")
    parser.add_argument("--seconds", type=float, default=200, help="what does not fit in them is named as skipped")
    parser.add_argument("--seed", type=int, default=None, help="fresh where left out")
    parser.add_argument("--out", type=Path, default=Path("gpu_check.json"))
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("gpu_check.py: torch finds no CUDA device; --device cpu --quick tries the script itself", file=sys.stderr)
        return 2
    until = time.perf_counter() + options.seconds
    seed = secrets.randbelow(1 << 32) if options.seed is None else options.seed
    known = facts(options.device, seed)
    print("\n".join(f"{name}: {fact}" for name, fact in known.items()), flush=True)
    print("gpu_check.py: problems, and what the reference finds for them", file=sys.stderr, flush=True)
    session = Session(options.device, QUICK if options.quick else FULL, seed)
    for title, jobs, share in SECTIONS:
        now = time.perf_counter()
        session.deadline = now + share * (until - now)
        print(f"gpu_check.py: {title}, at most {session.left():.0f} s", file=sys.stderr, flush=True)
        for job in jobs(session):
            session.attempt(*job)
    failed = [name for name, row in session.rows.items() if row.get("passed") is False]
    print(table(session.rows))
    counts = [sum(key in row for row in session.rows.values()) for key in ("passed", "skipped")]
    print(f"{counts[0] - len(failed)} checks passed, {len(failed)} failed, {counts[1]} jobs skipped")
    if failed:
        print("failed: " + "; ".join(failed))
    options.out.write_text(json.dumps({"facts": known, "failed": failed, "rows": session.rows}, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
