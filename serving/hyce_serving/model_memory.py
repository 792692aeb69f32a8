"""What a model takes of a device's memory, read from its folder: weights, KV cache a token, and its window.

Loads nothing, starts nothing, and guesses nothing: what a folder does not say is None. It does not know what else
lies on the device, nor what the model is for.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyce_serving.engine import _CPU_ENVIRONMENT
from hyce_serving.errors import ModelNotFound, ServingError
from hyce_serving.generator import _LENGTH_FIELDS, DEFAULT_MAX_MODEL_LEN
from hyce_serving.models import encoder_path, llm_path

# What vLLM quantises while it loads: 8 bits, or fewer, and their scales; embeddings stay as they are.
_ONLINE = (
    "fp8_per_tensor", "fp8_per_block", "fp8_per_channel", "int8_per_channel_weight_only", "mxfp8", "nvfp4_per_token",
)  # fmt: skip
_ONLINE_BITS = 8.25
# Files of the same weights in the order in which vLLM prefers them.
_WEIGHT_FILES = ("*.safetensors", "pytorch_model*.bin", "*.bin", "*.gguf")
# The state of such models does not grow by one key and one value a layer and token.
_OTHER_STATE = (
    "kv_lora_rank", "global_head_dim", "ssm_cfg", "state_size", "mamba_d_state", "mamba_num_heads", "ssm_state_size",
    "linear_num_key_heads", "attn_layer_period", "layers_block_type", "hybrid_override_pattern", "multi_query",
    "conv_L_cache", "lru_width",
)  # fmt: skip
_NAMES = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "heads": ("num_attention_heads", "n_head", "n_heads"),
    "hidden": ("hidden_size", "n_embd", "d_model"),
}


@dataclass(frozen=True)
class ModelMemory:
    """Bytes of a model on one device, its part where several share it; None where the folder does not say."""

    name: str
    # As vLLM loads them.
    weight_bytes: int | None
    # Keys and values of all layers, of one token. Layers of a sliding window count in full.
    kv_bytes_per_token: int | None
    # Tokens that the model was made for.
    own_window: int | None
    # Why numbers are missing, in words; empty where none is.
    unknown: str = ""
    # Tokens that the user wants of it; None where nothing is said.
    asked_window: int | None = None
    # That share it, each with its part.
    gpus: int = 1

    @property
    def window(self) -> int:
        """Tokens of prompt and answer together: those that were asked for, or what a Generator takes by itself."""
        return self.asked_window or min(self.own_window or DEFAULT_MAX_MODEL_LEN, DEFAULT_MAX_MODEL_LEN)


def model_memory(model: str, options: Mapping[str, Any] | None = None) -> ModelMemory:
    """The memory of an LLM, a folder or a Hub id, on each of its GPUs; no sizes for an id that is not on this machine.

    options: of a Generator; of them max_model_len, tensor_parallel_size, pipeline_parallel_size, quantization, dtype,
    kv_cache_dtype and revision change its sizes. A value that vLLM will refuse changes nothing.
    Raises ModelNotFound where there is no such model, or its config.json cannot be read.
    """
    options = options or {}
    asked = _count(options.get("max_model_len"))
    shards, stages = (_count(options.get(f"{kind}_parallel_size")) or 1 for kind in ("tensor", "pipeline"))
    gpus = shards * stages
    folder = Path(llm_path(model, options.get("revision")))
    if not folder.is_dir():
        unknown = "not on this machine yet, its sizes are known once it is downloaded"
        return ModelMemory(model, None, None, None, unknown, asked, gpus)
    config = _config(folder)
    text = _text_config(config)
    weights = _loaded_bytes(folder, config, options)
    kv = kv_bytes_per_token(config, shards, _kv_number_bytes(options), stages)
    lengths = [text[name] for name in _LENGTH_FIELDS if _is_count(text.get(name))]
    missing = ["no weights in its folder"] if weights is None else []
    missing += ["its config.json does not describe a KV cache of keys and values a layer"] if kv is None else []
    part = None if weights is None else -(-_stage_bytes(weights, config, options, stages) // shards)
    return ModelMemory(model, part, kv, min(lengths, default=None), "; ".join(missing), asked, gpus)


def encoder_bytes(model: str) -> int | None:
    """Bytes of an encoder's weights as sentence-transformers loads them; None where it is not on this machine.

    Never raises for a model that is not to be found: whoever loads it says so.
    """
    try:
        folder = Path(encoder_path(model))
    except ServingError:
        return None
    return _weight_bytes(folder) if folder.is_dir() else None


def kv_bytes_per_token(
    config: Mapping[str, Any], shards: int = 1, number_bytes: int = 2, stages: int = 1
) -> int | None:
    """2 (key and value) · layers · KV heads · head size · number_bytes, from the contents of a config.json.

    Of the heads each of the tensor-parallel shards keeps its part, and where there are fewer than shards, one; of the
    layers the longest of the pipeline's stages counts, ceil(layers / stages).
    None for what keeps another state (latent attention, Mamba and hybrids, encoder-decoders) or lacks the numbers.
    """
    text = _text_config(config)
    layers, heads, hidden = (_named(text, what) for what in _NAMES)
    kv_heads, size = text.get("num_key_value_heads", heads) or heads, text.get("head_dim")
    if size is None and _is_count(hidden) and _is_count(heads):
        size = hidden // heads
    if any(text.get(name) for name in _OTHER_STATE) or config.get("is_encoder_decoder"):
        return None
    if any("attention" not in str(kind) or "linear" in str(kind) for kind in text.get("layer_types") or ()):
        return None
    if not all(map(_is_count, (layers, kv_heads, size))):
        return None
    return 2 * _longest(int(layers), stages) * -(-int(kv_heads) // shards) * int(size or 0) * number_bytes


def cpu_kv_cache_bytes() -> int:
    """What vLLM keeps for keys and values on a CPU: VLLM_CPU_KVCACHE_SPACE, in GiB, or this package's default.

    Raises:
        ServingError: the variable is no number.
    """
    name = "VLLM_CPU_KVCACHE_SPACE"
    found = os.environ.get(name, _CPU_ENVIRONMENT[name])
    try:
        return int(float(found) * 2**30)
    except (ValueError, OverflowError) as error:
        raise ServingError(f"expected a number of GiB in {name}, found {found!r}; unset it, or set it to 2") from error


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"expected a readable {path}, found none ({error}); get the model again") from error
    if not isinstance(config, dict):
        raise ModelNotFound(f"expected an object in {path}, found {type(config).__name__}; get the model again")
    return config


def _text_config(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part that describes the language model, where it stands beside those of images or sounds."""
    for name in ("text_config", "llm_config"):
        if isinstance(config.get(name), dict):
            nested: Mapping[str, Any] = config[name]
            return nested
    return config


def _named(text: Mapping[str, Any], what: str) -> Any:
    """A size under whichever of its names the configuration has; 0 where it has none."""
    return next((text[name] for name in _NAMES[what] if name in text), 0)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _count(value: Any) -> int | None:
    return int(value) if _is_count(value) else None


def _longest(layers: int, stages: int) -> int:
    """Layers of the longest stage: vLLM gives each as many, and what is left over one each to some."""
    return -(-layers // stages)


def _number_bytes(options: Mapping[str, Any]) -> int:
    """Of a number that is not quantised, as vLLM computes with it: 32-bit weights become 16-bit ones unless asked."""
    return 4 if options.get("dtype") in ("float32", "float") else 2


def _kv_number_bytes(options: Mapping[str, Any]) -> int:
    kind = str(options.get("kv_cache_dtype", "auto"))
    # Kinds of fewer bits count as 16, from above.
    return 1 if kind.startswith("fp8") else _number_bytes(options) if kind == "auto" else 2


def _loaded_bytes(folder: Path, config: Mapping[str, Any], options: Mapping[str, Any]) -> int | None:
    """Of all weights as vLLM holds them, on all its GPUs together, from above."""
    stored, text = _weight_bytes(folder), _text_config(config)
    if stored is None or config.get("quantization_config"):
        return stored
    number = _number_bytes(options)
    loaded = stored * number // (4 if _is_float32(config, text) else 2)
    kept = min(loaded, _tables(config) * _table_bytes(text, options))
    if options.get("quantization") not in _ONLINE or not kept:
        return loaded
    return kept + math.ceil((loaded - kept) * _ONLINE_BITS / (8 * number))


def _stage_bytes(weights: int, config: Mapping[str, Any], options: Mapping[str, Any], stages: int) -> int:
    """Of the largest stage of a pipeline, from above: the longest one's layers, all as large as each other, and one
    table of the vocabulary, which the first stage has to read tokens and the last to write them (one table or two).

    A model that does not say how many layers and words it has counts as cut into equal parts.
    """
    text = _text_config(config)
    layers, table = _count(_named(text, "layers")) or stages, _table_bytes(text, options)
    body = max(0, weights - _tables(config) * table)
    return weights if stages == 1 else min(weights, table + math.ceil(body * _longest(layers, stages) / layers))


def _tables(config: Mapping[str, Any]) -> int:
    """Tables of the vocabulary: one where what reads tokens also writes them."""
    return 1 if config.get("tie_word_embeddings", _text_config(config).get("tie_word_embeddings")) else 2


def _table_bytes(text: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    """Of one such table, which vLLM does not quantise; 0 where the configuration does not say its size."""
    rows, width = _count(text.get("vocab_size")) or 0, _count(text.get("hidden_size")) or 0
    return rows * width * _number_bytes(options)


def _is_float32(config: Mapping[str, Any], text: Mapping[str, Any]) -> bool:
    kinds = [part.get(name) for part in (text, config) for name in ("dtype", "torch_dtype")]
    return next((str(kind) for kind in kinds if kind), "").removeprefix("torch.") in ("float32", "float")


def _weight_bytes(folder: Path) -> int | None:
    files = _weight_files(folder)
    return sum(file.stat().st_size for file in files) if files else None


def _weight_files(folder: Path) -> list[Path]:
    # Some folders hold the same weights twice; the index names the files of one copy.
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            shards = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
        except (OSError, ValueError, KeyError, AttributeError):
            continue
        return [folder / shard for shard in sorted(shards) if (folder / shard).is_file()]
    return next((found for kind in _WEIGHT_FILES if (found := sorted(folder.glob(kind)))), [])
