"""Which device a run uses, and why."""

from __future__ import annotations

from hyce_gpu.errors import MissingBackendError


def choose_device(wanted: str = "auto") -> str:
    """ "auto" is "cuda" where torch sees a GPU, else "cpu".

    Raises:
        MissingBackendError: a device that was asked for by name and is not there, or is unknown.
    """
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise MissingBackendError(f"unknown device {wanted!r}; use auto, cpu, cuda or cuda:N") from error
    if device.type not in ("cpu", "cuda"):
        raise MissingBackendError(f"device {wanted!r} is not supported; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise MissingBackendError(
            f"device {wanted!r} is not there: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs; "
            "use --device cpu, or install a CUDA build: pip install 'hyce-gpu[gpu]'"
        )
    return wanted
