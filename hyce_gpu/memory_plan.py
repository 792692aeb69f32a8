"""What vLLM may take of a GPU's memory beside a store, its questions and an encoder.

Knows sizes: those of `store_memory`, and of a model as `hyce_serving` reads it. It loads no model and moves nothing;
only `device_memory` asks the device.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyce_serving.model_memory import ModelMemory, encoder_bytes, encoder_work_bytes, model_memory

from hyce_gpu.config import Config, IndexConfig
from hyce_gpu.errors import InputError
from hyce_gpu.progress import say
from hyce_gpu.store import Store
from hyce_gpu.store_memory import GIB, MIB, QUESTIONS, Part, store_parts

# Libraries' own buffers, the encoder's activations, what allocators keep, and what grows after the plan was made.
MARGIN = GIB
# Of its share vLLM keeps this for activations, sampling and CUDA graphs before it lays out its KV cache; an assumption.
ENGINE = 2 * GIB
# More than vLLM takes by itself is never given to it.
_MOST_PERCENT = 92
_SHARE = "gpu_memory_utilization"


@dataclass(frozen=True)
class Plan:
    """How a device's memory is divided. Bytes."""

    total: int
    free: int
    reserved: int  # for the store, its index, its workspace and the encoder together
    share: float | None  # vLLM's gpu_memory_utilization; None on a CPU
    # What is left for keys and values, and how many requests that fill the window find room in it at once; None where
    # the model does not say.
    kv_bytes: int | None
    kv_tokens: int | None
    requests: float | None
    # What does not fit, and what to change; both empty where all fits.
    misfit: str = ""
    remedy: str = ""

    @property
    def problem(self) -> str:
        return f"{self.misfit}; {self.remedy}" if self.misfit else ""


def plan(
    total_bytes: int,
    free_bytes: int,
    parts: Sequence[Part],
    model: ModelMemory | None,
    kv_cache: int | None = None,
    asked_share: float | None = None,
) -> Plan:
    """Divides the memory of a GPU, or with `kv_cache` (bytes that vLLM was told to keep) that of a host.

    gpu_memory_utilization = (free - parts - margin) / total, rounded down to two decimals, at most vLLM's own .92; or
    what was asked for.
    """
    reserved = sum(part.num_bytes for part in parts)
    left = room = free_bytes - reserved - MARGIN
    share = None
    if kv_cache is None:
        share = asked_share or max(0, min(_MOST_PERCENT, math.floor(100 * left / total_bytes))) / 100
        room = int(share * total_bytes)
    weights = model.weight_bytes if model else None
    kv = kv_cache if model else None
    if kv_cache is None:
        kv = None if weights is None else max(0, room - weights - ENGINE)
    tokens = kv // model.kv_bytes_per_token if model and kv is not None and model.kv_bytes_per_token else None
    requests = tokens / model.window if model and tokens is not None else None
    found = Plan(total_bytes, free_bytes, reserved, share, kv, tokens, requests)
    what = _named(parts)
    misfit, remedy = _too_little(found, left, what, kv_cache is not None)
    if not misfit and asked_share and room > left:
        misfit, remedy = _too_much(found, left, what)
    if not misfit and model:
        misfit, remedy = _misfit(found, room, model, kv_cache, what)
    return replace(found, misfit=misfit, remedy=remedy)


def beside_store(
    store: Store,
    configs: Sequence[Config],
    device: str,
    llm: str,
    options: Mapping[str, Any],
    questions: int = QUESTIONS,
) -> dict[str, Any]:
    """The engine's options with the gpu_memory_utilization that leaves room for the store on `device`, before the store
    is moved there; unchanged on a CPU. Of several configurations, which follow each other, the largest counts.

    The user's own choice stays. What is likely not to fit is said on stderr, no more: sizes are bounds, and vLLM knows
    its own.

    Raises:
        InputError: the store alone does not fit on the device.
        ModelNotFound: there is no such model.
    """
    if not _is_planned(device, options):
        return dict(options)
    total, free = device_memory(device)
    parts = (store_parts(store, config, device, total, questions) for config in configs)
    return _with_share(total, free, max(parts, key=_bytes), device, llm, options)


def beside_encoder(
    encoder: str, config: IndexConfig, device: str, llm: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """As `beside_store`, where there is no store yet: the encoder's weights, and a batch of chunks under their titles."""
    if not _is_planned(device, options):
        return dict(options)
    work = encoder_work_bytes(encoder, config.encode_batch, 2 * config.chunk_tokens)
    parts = (Part("encoder", (encoder_bytes(encoder) or 0) + (work or 0)),)
    return _with_share(*device_memory(device), parts, device, llm, options)


def alone(device: str, llm: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """As `beside_store`, with nothing beside it but what the device holds already."""
    if not _is_planned(device, options):
        return dict(options)
    return _with_share(*device_memory(device), (), device, llm, options)


def llm_memory(llm: str, options: Mapping[str, Any]) -> ModelMemory:
    """The model on each GPU under the user's max_model_len and tensor_parallel_size."""
    window, gpus = options.get("max_model_len"), options.get("tensor_parallel_size")
    return model_memory(llm, window if _is_count(window) else None, gpus if _is_count(gpus) else 1)


def asked_share(options: Mapping[str, Any]) -> float | None:
    """The user's own gpu_memory_utilization; None where there is none that is a number, which vLLM then refuses."""
    given = options.get(_SHARE)
    return float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else None


def _is_planned(device: str, options: Mapping[str, Any]) -> bool:
    # Told the bytes of its KV cache, vLLM looks at no share.
    return device.startswith("cuda") and "kv_cache_memory_bytes" not in options


def _with_share(
    total: int, free: int, parts: Sequence[Part], device: str, llm: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    found = plan(total, free, parts, llm_memory(llm, options), asked_share=asked_share(options))
    if not found.share and _SHARE not in options:
        raise InputError(f"device {device}: {found.problem}")
    if found.misfit:
        say(f"memory may not suffice: {found.problem}")
    return {_SHARE: found.share, **options}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _bytes(parts: Sequence[Part]) -> int:
    return sum(part.num_bytes for part in parts)


def device_memory(device: str) -> tuple[int, int]:
    """(total, free) bytes of a GPU, or (total, available) of the host; limits of a container are not known here."""
    if device.startswith("cuda"):
        import torch

        free, total = torch.cuda.mem_get_info(device)
        return total, free
    if not (meminfo := Path("/proc/meminfo")).exists():
        # Elsewhere than on Linux nothing says what is free.
        return (os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),) * 2
    lines = (line.partition(":") for line in meminfo.read_text(encoding="ascii").splitlines())
    found = {name: int(rest.split()[0]) * 1024 for name, _, rest in lines}
    return found["MemTotal"], found["MemAvailable"]


def readable(num_bytes: float) -> str:
    """With one decimal, in MiB or GiB."""
    return f"{num_bytes / GIB:,.1f} GiB" if num_bytes >= GIB else f"{num_bytes / MIB:.1f} MiB"


def _named(parts: Sequence[Part]) -> str:
    """Whom the memory beside the LLM is for, as a message names it."""
    names = {part.name for part in parts}
    return "the encoder" if names == {"encoder"} else "the store" if names else "this process"


def _elsewhere(what: str, on_host: bool) -> str:
    if on_host:
        return "a machine with more memory"
    return "another GPU" if what == "this process" else f"--device cpu for {what}"


def _too_little(found: Plan, left: int, what: str, on_host: bool) -> tuple[str, str]:
    if left > 0 and found.share != 0:
        return "", ""
    needed = f"{readable(found.reserved)} and a margin of {readable(MARGIN)}"
    of = f"{readable(found.free)} of {readable(found.total)} are free"
    return f"{what} needs {needed}, {of}", f"take {_elsewhere(what, on_host)}"


def _too_much(found: Plan, left: int, what: str) -> tuple[str, str]:
    assert found.share is not None
    taken = f"{_SHARE} {found.share:g} is {readable(found.share * found.total)}"
    most = min(_MOST_PERCENT, math.floor(100 * left / found.total)) / 100
    return f"{taken}, {readable(left)} are left beside {what}", f"take at most {most:.2f}, or leave it out"


def _misfit(found: Plan, room: int, model: ModelMemory, kv_cache: int | None, what: str) -> tuple[str, str]:
    """What of the model does not fit into the `room` for it, and what to change."""
    other, use = (ENGINE, "activations") if kv_cache is None else (kv_cache, "its KV cache")
    change = "several GPUs (tensor_parallel_size)" if kv_cache is None else "a smaller VLLM_CPU_KVCACHE_SPACE"
    smaller = f"take a smaller or quantised model, {change}, or {_elsewhere(what, kv_cache is not None)}"
    if model.weight_bytes is not None and model.weight_bytes + other > room:
        needed = f"{readable(model.weight_bytes)} for weights and {readable(other)} for {use}"
        return f"the model needs {needed}, {readable(room)} are left for it", smaller
    if found.requests is not None and found.requests < 1:
        tokens = f"the KV cache has room for {found.kv_tokens:,} tokens, one request may have {model.window:,}"
        change = smaller if kv_cache is None else "take a larger VLLM_CPU_KVCACHE_SPACE"
        return tokens, f"{change}, or a smaller max_model_len"
    return "", ""
