"""The triton kernels: what only they do, and, where there is no CUDA device, the tests of all backends, interpreted.

Triton decides at its first import whether it interprets, and by then another test may have imported it. So a process of
its own runs this file and `test_kernels_propagation` with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hyce_kernels.errors import KernelError
from hyce_kernels.propagation import Packed, plan, run

pytest.importorskip("triton", reason="triton is not installed")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
HAS_CUDA = torch.cuda.is_available()
DEVICE = "cpu" if INTERPRETED else "cuda"

runs_kernels = pytest.mark.skipif(not (INTERPRETED or HAS_CUDA), reason="test_interpreted runs it in its own process")


@pytest.mark.skipif(INTERPRETED or HAS_CUDA, reason="the kernels run here, or natively on the CUDA device")
def test_interpreted() -> None:
    files = [__file__, str(Path(__file__).with_name("test_kernels_propagation.py"))]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


@pytest.mark.skipif(INTERPRETED, reason="the interpreter runs on a CPU")
def test_tensors_on_a_cpu_are_refused() -> None:
    with pytest.raises(KernelError, match="triton runs on CUDA, found tensors on cpu; take torch or numba"):
        plan(_three_questions("cpu"), torch.float64, "triton")


@runs_kernels
@pytest.mark.gpu
def test_registers_and_memory_give_the_same_to_the_bit() -> None:
    made = plan(_three_questions(DEVICE), torch.float64, "triton")
    assert made.inner.fits == 128
    start = torch.rand(100, generator=torch.Generator().manual_seed(2), dtype=torch.float64).to(DEVICE)
    in_registers = run(made, start, 0.3, 4)
    # With room for 32, the first question has too many entities and the second too many hyperedges.
    mixed = run(replace(made, inner=replace(made.inner, fits=32)), start, 0.3, 4)
    in_memory = run(replace(made, inner=replace(made.inner, fits=1)), start, 0.3, 4)
    for found in (mixed, in_memory):
        assert torch.equal(found[0], in_registers[0])
        assert torch.equal(found[1], in_registers[1])


@runs_kernels
@pytest.mark.gpu
def test_the_restart_share_is_not_rounded_to_32_bits() -> None:
    # One hyperedge of one entity hands everything back: c stays at r, if both shares sum to one in 64 bits.
    one = torch.tensor([0, 1], device=DEVICE)
    made = plan(Packed(one[:1], one, one, one, 1), torch.float64, "triton")
    confidence, _ = run(made, torch.ones(1, dtype=torch.float64, device=DEVICE), 0.1, 1)
    assert abs(confidence.item() - 1) < 1e-15
    isolated = plan(Packed(one[:0], one[:1], one, one[[0, 0]], 1), torch.float64, "triton")
    confidence, _ = run(isolated, torch.ones(1, dtype=torch.float64, device=DEVICE), 0.1, 1)
    assert confidence.item() == 0.1


def _three_questions(device: str) -> Packed:
    """50, 20 and 30 entities; 10, 50 and 30 hyperedges of three entities each."""
    generator = torch.Generator().manual_seed(1)
    rows = [
        first + torch.randperm(count, generator=generator)[:3]
        for first, count, edges in ((0, 50, 10), (50, 20, 50), (70, 30, 30))
        for _ in range(edges)
    ]
    parts = torch.cat(rows), torch.arange(91) * 3, torch.tensor([0, 50, 70, 100]), torch.tensor([0, 10, 60, 90])
    return Packed(*(part.to(device) for part in parts), 100)
