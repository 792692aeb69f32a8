"""Which backend and which layout to take, each choice logged with its reason. Computes nothing."""

from __future__ import annotations

import functools
import importlib
import logging

import torch

from hyce_kernels.errors import KernelError, MissingBackendError
from hyce_kernels.propagation.structure import Packed, Structure

BACKENDS = ("reference", "torch", "torch_sparse", "triton", "numba")
INSTALL = {
    "torch_sparse": "pip install --no-build-isolation torch-scatter torch-sparse",
    "triton": "pip install triton",
    "numba": "pip install numba",
}

_log = logging.getLogger("hyce_kernels")
_logged: set[tuple[str, ...]] = set()


def choose(structure: Structure, device: torch.device, backend: str = "auto") -> str:
    """The name of the backend that is to run.

    `auto` takes triton on CUDA and numba on a CPU where they are installed, else torch.

    Raises:
        MissingBackendError: the backend was named and cannot be imported; says how to install it.
        KernelError: there is no such backend, or it does not run on the device.
    """
    name, reason = _automatic(device) if backend == "auto" else _named(device, backend)
    layout = "packed" if isinstance(structure, Packed) else "masked"
    level = _level(name, layout, device.type, reason)
    _log.log(level, "propagation backend %s (%s layout, %s): %s", name, layout, device.type, reason)
    return name


def packed_or_masked(num_incidences_packed: int, corpus_incidences: int, num_questions: int) -> str:
    """The layout of less counted work: "packed" or "masked"; packed where both are alike.

    Args:
        num_incidences_packed: the incidences of all questions' sub-hypergraphs together, each walked once a step.
        corpus_incidences: the incidences of the whole hypergraph, walked once a step for each question.
    """
    masked_work = corpus_incidences * num_questions
    layout = "packed" if num_incidences_packed <= masked_work else "masked"
    _log.log(
        _level("layout", layout),
        "layout %s: %d incidences a step packed, %d masked (%d of the corpus for each of %d questions)",
        layout, num_incidences_packed, masked_work, corpus_incidences, num_questions,
    )  # fmt: skip
    return layout


def _automatic(device: torch.device) -> tuple[str, str]:
    fused = {"cuda": "triton", "cpu": "numba"}.get(device.type)
    if fused is None:
        return "torch", f"nothing fused runs on {device.type}"
    failure = _import_failure(fused)
    return ("torch", f"{fused} cannot be imported: {failure}") if failure else (fused, f"fused on {device.type}")


def _named(device: torch.device, backend: str) -> tuple[str, str]:
    if backend not in BACKENDS:
        raise KernelError(f"backend must be one of auto, {', '.join(BACKENDS)}, found {backend!r}")
    failure = _import_failure(backend) if backend in INSTALL else None
    if failure:
        raise MissingBackendError(
            f"the backend {backend} cannot be imported ({failure}); install it with: {INSTALL[backend]}"
        )
    if backend == "numba" and device.type != "cpu":
        raise KernelError(f"the backend numba runs on the CPU, found tensors on {device.type}; take torch or triton")
    if backend == "triton" and device.type != "cuda" and not _interpreted():
        raise KernelError(
            f"the backend triton runs on CUDA, found tensors on {device.type}; take torch or numba, or set "
            "TRITON_INTERPRET=1 before triton is imported, to run its kernels as slow Python"
        )
    return backend, "asked for by name"


def _interpreted() -> bool:
    from hyce_kernels.propagation import triton_backend

    return triton_backend.interpreted()


@functools.cache
def _import_failure(module: str) -> str | None:
    """Why the module cannot be imported; None where it can. A binary of another torch fails with an OSError."""
    try:
        importlib.import_module(module)
    except (ImportError, OSError) as error:
        return str(error)
    return None


def _level(*choice: str) -> int:
    """INFO the first time that a choice is made, DEBUG after it: every batch chooses anew."""
    level = logging.DEBUG if choice in _logged else logging.INFO
    _logged.add(choice)
    return level
