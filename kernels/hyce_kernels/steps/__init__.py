"""The ragged steps around propagation, for Q questions at once: one contract, a backend for each kind of machine."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.util import find_spec

import torch

from hyce_kernels.errors import MissingBackendError
from hyce_kernels.steps.contract import Steps
from hyce_kernels.steps.torch_steps import TorchSteps

__all__ = ["Steps", "steps"]

_log = logging.getLogger("hyce_kernels")


def steps(backend: str, device: torch.device | str) -> Steps:
    """The steps of a backend: "numba" (CPU only), "torch", or "auto": numba on a CPU where it is installed, else torch.

    Raises:
        MissingBackendError: an unknown backend, one that is not installed, or not for this device.
    """
    return _steps(backend, torch.device(device).type)


@lru_cache
def _steps(backend: str, device: str) -> Steps:
    chosen = backend
    if backend == "auto":
        chosen = "numba" if device == "cpu" and find_spec("numba") else "torch"
        _log.info("steps: %s, since the device is %s", chosen, device)
    if chosen == "torch":
        return TorchSteps("auto" if backend == "auto" else "torch")
    if chosen != "numba":
        raise MissingBackendError(f"unknown backend {backend!r}; there are auto, numba, torch")
    if device != "cpu":
        raise MissingBackendError(f"the numba backend works on a CPU, the device is {device}; use torch")
    if not find_spec("numba"):
        raise MissingBackendError("numba is not installed; install it with: pip install numba")
    from hyce_kernels.steps.numba_steps import NumbaSteps, is_compiled

    if not is_compiled():
        _log.warning("compiling the loops for this processor: once, about a minute")
    return NumbaSteps()
