"""Options of a Generator and of its engine: which values can be, and which change no reply.

Knows names and values; nothing of vLLM, whose own names the engine checks.
"""

import math
from collections.abc import Mapping
from typing import Any

from hyce_serving import reasoning as reasoning_modes
from hyce_serving.errors import ServingError

DEVICES = ("auto", "cpu", "cuda")

# What a Generator takes itself; every other option goes to vLLM by name.
OWN = ("max_model_len", "seed", "temperature", "device", "reasoning", "reasoning_tokens")

# How much memory vLLM gets, how fast it is and what it says: the same model gives the same replies, as far as any does.
# An option that is not here counts as one that makes other replies, so that a wrong one is never used again.
CHANGES_NO_REPLY = frozenset(
    (
        # Memory.
        "gpu_memory_utilization", "kv_cache_memory_bytes", "num_gpu_blocks_override", "block_size", "swap_space",
        "cpu_offload_gb", "kv_offloading_size", "kv_offloading_backend",
        # Devices.
        "tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "distributed_executor_backend",
        "disable_custom_all_reduce", "device_ids",
        # Pace.
        "max_num_seqs", "max_num_batched_tokens", "max_num_partial_prefills", "max_long_partial_prefills",
        "long_prefill_token_threshold", "scheduling_policy", "async_scheduling", "enable_chunked_prefill",
        "enable_prefix_caching", "prefix_caching_hash_algo", "enforce_eager", "compilation_config",
        "optimization_level", "performance_mode",
        # Loading, and what is said. A token is a secret besides, and a description is written into manifests.
        "download_dir", "hf_token", "max_parallel_loading_workers", "safetensors_load_strategy", "use_tqdm_on_load",
        "disable_log_stats", "log_level",
    )
)  # fmt: skip


def check_own(options: Mapping[str, Any]) -> None:
    """Of OWN, those that are given; the rest is not looked at.

    Raises:
        ServingError: a value that cannot be; says which name, what was expected and what to do.
    """
    device, temperature = options.get("device", "auto"), options.get("temperature", 0)
    if device not in DEVICES:
        raise ServingError(f"expected a device of {', '.join(DEVICES)}, found {device!r}; choose one")
    if not (_is_whole(temperature) or isinstance(temperature, float)) or not 0 <= temperature < math.inf:
        raise ServingError(
            f"expected a temperature that is a number of at least 0, found {temperature!r}; 0 takes the likeliest"
        )
    length, seed = options.get("max_model_len"), options.get("seed", 0)
    if length is not None and (not _is_whole(length) or length < 1):
        raise ServingError(f"expected max_model_len of at least 1 token, found {length!r}; leave it out")
    if not _is_whole(seed):
        raise ServingError(f"expected a seed that is a whole number, found {seed!r}; leave it out")
    tokens = options.get("reasoning_tokens", reasoning_modes.DEFAULT_TOKENS)
    if not _is_whole(tokens):
        raise ServingError(f"expected reasoning_tokens that are a whole number, found {tokens!r}; leave them out")
    reasoning_modes.check(options.get("reasoning", "off"), tokens)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
