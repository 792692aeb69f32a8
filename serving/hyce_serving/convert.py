"""Turns a GGUF file into a folder in Hugging Face format (bfloat16): python -m hyce_serving.convert GGUF OUT.

A program of its own, because the conversion prints progress bars, warnings and takes memory that a caller
should not see. It reads weights only; no code that comes with a model runs.
"""

import sys
from pathlib import Path
from typing import Any


def convert(gguf: Path, out: Path) -> None:
    """Writes config, tokenizer and weights to the folder out; raises what transformers raises."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **source)
    quantization = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), dtype=torch.bfloat16, quantization_config=quantization, **source
    )
    # What is saved is plain bfloat16; a leftover note of the GGUF would make loaders look for one.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
