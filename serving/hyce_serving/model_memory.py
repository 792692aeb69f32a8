"""What a model takes of a device's memory, read from its folder: weights, KV cache a token, and its window.

Loads nothing, starts nothing, and guesses nothing: what a folder does not say is None. It does not know what else
lies on the device, nor what the model is for.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyce_serving.engine import _CPU_ENVIRONMENT
from hyce_serving.errors import ModelNotFound, ServingError
from hyce_serving.generator import _LENGTH_FIELDS, DEFAULT_MAX_MODEL_LEN
from hyce_serving.models import encoder_path, llm_path

# vLLM keeps keys and values in 16 bits unless told otherwise.
_KV_NUMBER_BYTES = 2
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
    # As vLLM loads them: 32-bit weights become 16-bit ones.
    weight_bytes: int | None
    # Keys and values of all layers, of one token. Layers of a sliding window count in full.
    kv_bytes_per_token: int | None
    # Tokens that the model was made for.
    own_window: int | None
    # Why numbers are missing, in words; empty where none is.
    unknown: str = ""
    # Tokens that the user wants of it; None where nothing is said.
    asked_window: int | None = None

    @property
    def window(self) -> int:
        """Tokens of prompt and answer together: those that were asked for, or what a Generator takes by itself."""
        return self.asked_window or min(self.own_window or DEFAULT_MAX_MODEL_LEN, DEFAULT_MAX_MODEL_LEN)


def model_memory(model: str, max_model_len: int | None = None, gpus: int = 1) -> ModelMemory:
    """The memory of an LLM, a folder or a Hub id, on each of `gpus`; no sizes for an id that is not on this machine.

    Raises:
        ModelNotFound: there is no such model, or its config.json cannot be read.
    """
    folder = Path(llm_path(model))
    if not folder.is_dir():
        unknown = "not on this machine yet, its sizes are known once it is downloaded"
        return ModelMemory(model, None, None, None, unknown, max_model_len)
    config = _config(folder)
    text = _text_config(config)
    weights, kv = _weight_bytes(folder), kv_bytes_per_token(config, gpus)
    lengths = [text[name] for name in _LENGTH_FIELDS if _is_count(text.get(name))]
    missing = ["no weights in its folder"] if weights is None else []
    missing += ["its config.json does not describe a KV cache of keys and values a layer"] if kv is None else []
    if weights is not None and _is_float32(config, text) and not config.get("quantization_config"):
        weights //= 2
    share = None if weights is None else -(-weights // gpus)
    return ModelMemory(model, share, kv, min(lengths, default=None), "; ".join(missing), max_model_len)


def encoder_bytes(model: str) -> int | None:
    """Bytes of an encoder's weights as sentence-transformers loads them; None where it is not on this machine.

    Never raises for a model that is not to be found: whoever loads it says so.
    """
    try:
        folder = Path(encoder_path(model))
    except ServingError:
        return None
    return _weight_bytes(folder) if folder.is_dir() else None


def encoder_work_bytes(model: str, texts: int, tokens: int) -> int | None:
    """Bytes that an encoder lays out for `texts` texts of `tokens` tokens, from above; None where it does not say.

    4 · texts · L · (8 · hidden + 2 · intermediate + 2 · heads · L), with L of its window at most: of one layer, since
    nothing is kept for a way back.
    """
    try:
        folder = Path(encoder_path(model))
        config = _text_config(_config(folder))
    except ServingError:
        return None
    hidden, inner, heads = (config.get(name, 0) for name in ("hidden_size", "intermediate_size", "num_attention_heads"))
    if not all(map(_is_count, (hidden, inner, heads))):
        return None
    length = min([tokens, *(config[name] for name in _LENGTH_FIELDS if _is_count(config.get(name)))])
    return 4 * texts * length * (8 * int(hidden) + 2 * int(inner) + 2 * int(heads) * length)


def kv_bytes_per_token(config: Mapping[str, Any], gpus: int = 1) -> int | None:
    """2 (key and value) · layers · KV heads · head size · 2 bytes, from the contents of a config.json.

    Each of several GPUs keeps its part of the heads, and where there are fewer heads than GPUs, one.
    None for what keeps another state (latent attention, Mamba and hybrids, encoder-decoders) or lacks the numbers.
    """
    text = _text_config(config)
    layers, heads, hidden = (next((text[name] for name in names if name in text), 0) for names in _NAMES.values())
    kv_heads, size = text.get("num_key_value_heads", heads) or heads, text.get("head_dim")
    if size is None and _is_count(hidden) and _is_count(heads):
        size = hidden // heads
    if any(text.get(name) for name in _OTHER_STATE) or config.get("is_encoder_decoder"):
        return None
    if any("attention" not in str(kind) or "linear" in str(kind) for kind in text.get("layer_types") or ()):
        return None
    if not all(map(_is_count, (layers, kv_heads, size))):
        return None
    return 2 * int(layers) * -(-int(kv_heads) // gpus) * int(size or 0) * _KV_NUMBER_BYTES


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


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


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
