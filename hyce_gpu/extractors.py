"""The extractor of a store that is there: the one that it was built with, or another model that is named."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from hyce_serving.encoder import Encoder
from hyce_serving.generator import Generator

from hyce_gpu.errors import InputError
from hyce_gpu.extract import Extractor
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.memory_plan import beside_encoder
from hyce_gpu.store import Store


def extractor_of(
    store: Store, llm: str | None, options: Mapping[str, Any], encoder: Encoder, held: ExitStack
) -> Extractor:
    """Args:
        llm: a model; by default the store's own.
        encoder: what lies on the same device.
        held: what closes the model in the end.

    Raises:
        InputError: the store was built from records, and no model is named.
    """
    built_with = store.manifest["extractor"]
    if llm is None and built_with["name"] == "spacy":
        return SpacyExtractor()
    model = llm or built_with.get("path") or built_with.get("model")
    if model is None:
        raise InputError(f"the store {store.root} was built from records: name a model with --llm MODEL")
    engine = beside_encoder(encoder.name, encoder.device, model, options)
    return LlmExtractor(held.enter_context(Generator(model, **engine)))
