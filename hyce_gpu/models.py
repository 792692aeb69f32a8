"""What of a language model's description decides its replies, and so what may be used again."""

from __future__ import annotations

from collections.abc import Mapping

# Where it runs, how fast and in how much memory: the same model gives the same replies, as far as any model does.
_WHERE_IT_RUNS = ("path", "device", "engine")
# Options of the engine that make another model of the same weights.
_OPTIONS = (
    "revision", "quantization", "dtype", "kv_cache_dtype", "tokenizer", "hf_overrides", "enable_lora",
    "reasoning_parser",
)  # fmt: skip


def what_shapes_replies(described: Mapping[str, str]) -> dict[str, str]:
    """The part of `Generator.describe()` that a reply depends on: weights, window and sampling.

    A model that is known by its weights is the same under any name.
    """
    ignored = {*_WHERE_IT_RUNS, *(("model",) if "weights" in described else ())}
    return {
        name: value
        for name, value in described.items()
        if name not in ignored and (not name.startswith("option.") or name.removeprefix("option.") in _OPTIONS)
    }
