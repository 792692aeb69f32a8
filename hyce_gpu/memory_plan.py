"""What vLLM may take of a GPU's memory beside a store, its questions and an encoder.

Knows sizes: those of `store_memory`, and of a model as `hyce_serving` reads it. It loads no model and moves nothing;
only `device_memory` asks the device.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyce_serving.model_memory import ModelMemory, cpu_kv_cache_bytes, encoder_bytes, model_memory

from hyce_gpu.config import Config
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
# What comes to a device beside vLLM, given the device's bytes.
Beside = Callable[[int], Sequence[Part]]
_SHARE, _KV_CACHE = "gpu_memory_utilization", "kv_cache_memory_bytes"


@dataclass(frozen=True)
class Plan:
    """How a device's memory is divided. Bytes."""

    total: int
    free: int
    # What lies beside the LLM: the store's tensors, its index, its workspace, the encoder.
    parts: tuple[Part, ...]
    model: ModelMemory | None
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
    def reserved(self) -> int:
        """Bytes for all that lies beside the LLM."""
        return sum(part.num_bytes for part in self.parts)

    @property
    def problem(self) -> str:
        return f"{self.misfit}; {self.remedy}" if self.misfit else ""


def plan(
    total_bytes: int,
    free_bytes: int,
    parts: Sequence[Part],
    model: ModelMemory | None,
    *,
    share: float | None = None,
    kv_cache: int | None = None,
    on_host: bool = False,
) -> Plan:
    """Divides the memory of a GPU, or of a host.

    gpu_memory_utilization = (free - parts - margin) / total, rounded down to two decimals, at most vLLM's own .92.

    Args:
        share: what the user asks for instead.
        kv_cache: bytes that vLLM is told to keep, as it always is on a host; it then looks at no share.
    """
    left = free_bytes - sum(part.num_bytes for part in parts) - MARGIN
    most = max(0, min(_MOST_PERCENT, math.floor(100 * left / total_bytes))) / 100
    share = None if kv_cache is not None else share or most
    room = left if share is None else int(share * total_bytes)
    kv, tokens, requests = kv_cache if model else None, None, None
    if model and kv is None and model.weight_bytes is not None:
        kv = max(0, room - model.weight_bytes - ENGINE)
    if model and kv is not None and model.kv_bytes_per_token:
        tokens = kv // model.kv_bytes_per_token
        requests = tokens / model.window
    found = Plan(total_bytes, free_bytes, tuple(parts), model, share, kv, tokens, requests)
    whose = _named(parts)
    misfit = remedy = ""
    if left <= 0 or share == 0:
        misfit, remedy = _too_little(found, whose, on_host)
    elif share is not None and share > most and room > left:
        misfit, remedy = _too_much(share, room, left, most, whose)
    elif model:
        misfit, remedy = _too_large(found, model, room, kv_cache, whose, on_host)
    return replace(found, misfit=misfit, remedy=remedy)


def plan_on(device: str, llm: str | None, options: Mapping[str, Any], parts: Beside) -> Plan:
    """The plan for `device` as it is now: its memory, what comes to it, and a model with the options of its engine.

    Raises:
        ModelNotFound: there is no such model.
        ServingError: VLLM_CPU_KVCACHE_SPACE is no number.
    """
    total, free = device_memory(device)
    model = model_memory(llm, options) if llm else None
    share, kv_cache = asked_share(options), told_kv_cache(options, device)
    on_host = not device.startswith("cuda")
    return plan(total, free, parts(total), model, share=share, kv_cache=kv_cache, on_host=on_host)


def engine_options(llm: str, options: Mapping[str, Any], device: str, parts: Beside = lambda _: ()) -> dict[str, Any]:
    """The options of `llm` with the gpu_memory_utilization that leaves room for `parts` on `device`, before they are
    moved there; unchanged on a CPU, and where vLLM is told the bytes of its KV cache.

    The user's own choice stays. What is likely not to fit is said on stderr, no more: sizes are bounds, and vLLM knows
    its own.

    Raises:
        InputError: the parts alone do not fit on the device.
        ModelNotFound: there is no such model.
    """
    if not device.startswith("cuda") or _KV_CACHE in options:
        return dict(options)
    found = plan_on(device, llm, options, parts)
    if not found.share:
        raise InputError(f"device {device}: {found.problem}")
    if found.misfit:
        say(f"memory may not suffice: {found.problem}")
    return {_SHARE: found.share, **options}


def beside_store(
    store: Store,
    configs: Sequence[Config],
    device: str,
    llm: str,
    options: Mapping[str, Any],
    questions: int = QUESTIONS,
) -> dict[str, Any]:
    """`engine_options` beside a store and its questions. Of several configurations, which follow each other on the
    device, the largest counts."""

    def largest(total: int) -> Sequence[Part]:
        each = (store_parts(store, config, device, total, questions) for config in configs)
        return max(each, key=lambda parts: sum(part.num_bytes for part in parts))

    return engine_options(llm, options, device, largest)


def beside_encoder(encoder: str, device: str, llm: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """`engine_options` where there is no store yet. Texts are embedded after the LLM has gone: the weights count."""
    return engine_options(llm, options, device, lambda _: (Part("encoder", encoder_bytes(encoder) or 0),))


def asked_share(options: Mapping[str, Any]) -> float | None:
    """The user's own gpu_memory_utilization; None where there is none that is a number, which vLLM then refuses."""
    given = options.get(_SHARE)
    return float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else None


def told_kv_cache(options: Mapping[str, Any], device: str) -> int | None:
    """The bytes that vLLM is told to keep for keys and values; None where it fills its share.

    Raises:
        ServingError: VLLM_CPU_KVCACHE_SPACE is no number.
    """
    if not device.startswith("cuda"):
        return cpu_kv_cache_bytes()
    given = options.get(_KV_CACHE)
    return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None


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


def _elsewhere(whose: str, on_host: bool) -> str:
    if on_host:
        return "a machine with more memory"
    return "another GPU" if whose == "this process" else f"--device cpu for {whose}"


def _too_little(found: Plan, whose: str, on_host: bool) -> tuple[str, str]:
    needed = f"{readable(found.reserved)} and a margin of {readable(MARGIN)}"
    of = f"{readable(found.free)} of {readable(found.total)} are free"
    return f"{whose} needs {needed}, {of}", f"take {_elsewhere(whose, on_host)}"


def _too_much(share: float, room: int, left: int, most: float, whose: str) -> tuple[str, str]:
    taken = f"{_SHARE} {share:g} is {readable(room)}"
    return f"{taken}, {readable(left)} are left beside {whose}", f"take at most {most:.2f}, or leave it out"


def _too_large(
    found: Plan, model: ModelMemory, room: int, kv_cache: int | None, whose: str, on_host: bool
) -> tuple[str, str]:
    """What of the model does not fit into the `room` for it, and what to change; empty where all fits."""
    told = "VLLM_CPU_KVCACHE_SPACE" if on_host else _KV_CACHE
    change = "several GPUs (tensor_parallel_size)" if kv_cache is None else f"a smaller {told}"
    smaller = f"take a smaller or quantised model, {change}, or {_elsewhere(whose, on_host)}"
    beside = [] if on_host else [(ENGINE, "activations")]
    beside += [] if kv_cache is None else [(kv_cache, "its KV cache")]
    weights = model.weight_bytes
    if weights is not None and weights + sum(size for size, _ in beside) > room:
        needed = " and ".join(f"{readable(size)} for {use}" for size, use in [(weights, "weights"), *beside])
        return f"the model needs {needed}, {readable(room)} are left for it", smaller
    if found.requests is not None and found.requests < 1:
        tokens = f"the KV cache has room for {found.kv_tokens:,} tokens, one request may have {model.window:,}"
        change = smaller if kv_cache is None else f"take a larger {told}"
        return tokens, f"{change}, or a smaller max_model_len"
    return "", ""
