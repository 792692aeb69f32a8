"""What tells one model from another under the same name: a hash of a folder, or a commit of the Hub's.

No weights are loaded, and nothing waits for the network.
"""

import hashlib
from pathlib import Path

_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
# What turns a chat into tokens, beside the weights.
_SMALL = ("config.json", "tokenizer*", "chat_template*", "special_tokens_map.json", "added_tokens.json", "*.model")
# Reading all weights takes minutes; training changes them everywhere, so that a few places tell.
_PLACES, _BYTES_A_PLACE = 64, 4096


def weights(folder: Path) -> str:
    """16 hex digits over the configuration, the tokenizer, and names, sizes and 64 places of each file of weights."""
    found = hashlib.sha256()
    for file in _files(folder, _SMALL):
        found.update(f"\n{file.name}\n".encode() + file.read_bytes())
    for file in _files(folder, _WEIGHTS):
        size = file.stat().st_size
        found.update(f"\n{file.name} {size}\n".encode())
        with file.open("rb") as opened:
            for place in range(_PLACES):
                opened.seek(place * size // _PLACES)
                found.update(opened.read(_BYTES_A_PLACE))
    return found.hexdigest()[:16]


def _files(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    return sorted({file for pattern in patterns for file in folder.glob(pattern) if file.is_file()})


def cached_commit(model: str, revision: str | None = None) -> str | None:
    """The commit of a Hub id in the local cache; None where it is not there."""
    try:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError
    except ImportError:
        return None
    try:
        config = try_to_load_from_cache(model, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(config).parent.name if isinstance(config, str) else None
