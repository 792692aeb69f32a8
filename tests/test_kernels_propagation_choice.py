"""Which backend and layout the propagation kernel takes, and what it refuses."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterator

import pytest
import torch
from hyce_kernels.errors import KernelError, MissingBackendError
from hyce_kernels.propagation import Masked, Packed, choose, packed_or_masked, plan, run

# The package's function of that name hides the module.
chooser = importlib.import_module("hyce_kernels.propagation.choose")
IDS = torch.tensor([0, 1])
ONE = Packed(IDS, torch.tensor([0, 2]), torch.tensor([0, 2]), IDS, 2)
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(chooser, "_logged", set())
    caplog.set_level(logging.DEBUG, logger="hyce_kernels")


@pytest.fixture
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("numba", "triton", "torch_sparse"):
        monkeypatch.setitem(sys.modules, name, None)
    chooser._import_failure.cache_clear()
    yield
    chooser._import_failure.cache_clear()


@pytest.mark.usefixtures("_nothing_is_installed")
@pytest.mark.parametrize("name", ["numba", "triton", "torch_sparse"])
def test_a_named_backend_that_is_missing_says_how_to_install_it(name: str) -> None:
    with pytest.raises(MissingBackendError, match=f"the backend {name} cannot be imported .*; install it with: pip"):
        plan(ONE, torch.float64, name)


@pytest.mark.usefixtures("_nothing_is_installed")
@pytest.mark.parametrize("device", [CPU, CUDA])
def test_auto_takes_torch_where_nothing_else_is_installed(
    device: torch.device, caplog: pytest.LogCaptureFixture
) -> None:
    assert choose(ONE, device) == "torch"
    assert "propagation backend torch" in caplog.text
    assert "cannot be imported" in caplog.text


@pytest.mark.parametrize(("device", "name"), [(CPU, "numba"), (CUDA, "triton")])
def test_auto_takes_the_fused_backend_of_the_device(
    device: torch.device, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip(name)
    assert [choose(ONE, device) for _ in range(3)] == [name] * 3
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG", "DEBUG"]
    assert caplog.messages[0] == f"propagation backend {name} (packed layout, {device.type}): fused on {device.type}"


def test_auto_takes_torch_on_other_devices() -> None:
    assert choose(ONE, torch.device("mps")) == "torch"


def test_numba_on_cuda_is_refused() -> None:
    pytest.importorskip("numba")
    with pytest.raises(KernelError, match="numba runs on the CPU, found tensors on cuda"):
        choose(ONE, CUDA, "numba")


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(KernelError, match=r"must be one of auto, reference, torch, .*, found 'tritn'"):
        plan(ONE, torch.float64, "tritn")


def test_the_layout_of_less_work_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    # 4 questions over a corpus of 100 incidences: 400 a step masked.
    assert [packed_or_masked(packed, 100, 4) for packed in (399, 400, 401)] == ["packed", "packed", "masked"]
    assert [record.levelname for record in caplog.records] == ["INFO", "DEBUG", "INFO"]
    assert "401 incidences a step packed, 400 masked (100 of the corpus for each of 4 questions)" in caplog.messages[2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64])
def test_other_types_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(KernelError, match=r"dtype must be torch\.float32 or torch\.float64, found torch"):
        plan(ONE, dtype, "torch")


@pytest.mark.parametrize("start", [torch.zeros(3), torch.zeros(2, dtype=torch.float64), torch.zeros((2, 1))], ids=str)
def test_a_restart_vector_that_does_not_fit_is_refused(start: torch.Tensor) -> None:
    with pytest.raises(KernelError, match=r"restart_vector must be \[2\] torch.float32 on cpu"):
        run(plan(ONE, torch.float32, "torch"), start, 0.5, 1)


def test_structures_that_do_not_fit_are_refused() -> None:
    with pytest.raises(KernelError, match=r"hyperedge_pointer must have the shape \[2\], found \[3\]"):
        Packed(IDS, IDS, IDS, torch.tensor([0, 1, 1]), 2)
    with pytest.raises(KernelError, match=r"entity must be int64 with one dimension, found torch\.int32"):
        Packed(IDS.int(), IDS, IDS, IDS, 2)
    with pytest.raises(KernelError, match=r"entity_weight must have the shape \[2\], found \[3\]"):
        Packed(IDS, IDS, IDS, IDS, 2, entity_weight=torch.ones(3))
    with pytest.raises(KernelError, match=r"hyperedge_mask must have the shape \[1, 3\], found \[2, 3\]"):
        Masked(IDS, torch.tensor([0, 2]), 2, torch.ones((2, 3), dtype=torch.bool))
    with pytest.raises(KernelError, match="hyperedge_mask must be bool"):
        Masked(IDS, torch.tensor([0, 2]), 2, torch.ones((1, 3)))
