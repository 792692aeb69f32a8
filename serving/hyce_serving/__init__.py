"""In-process models: texts to vectors with sentence-transformers, chats to answers with vLLM.

    from hyce_serving import Encoder, GenerationRequest, Generator, bundled_llm

    vectors = Encoder().encode(["A short text."])                      # float32 [1, 384]
    with Generator(str(bundled_llm())) as generator:
        ask = GenerationRequest("q1", ({"role": "user", "content": "Name a colour."},), max_tokens=32)
        print(next(generator.generate([ask])).text)

Importing it loads no model and no framework; each of those comes with its first use.
"""

from hyce_serving.encoder import Encoder
from hyce_serving.errors import MissingPackage, ModelNotFound, ServingError
from hyce_serving.generator import Generator
from hyce_serving.models import DEFAULT_ENCODER, bundled_llm, encoder_path, llm_path
from hyce_serving.requests import Generation, GenerationRequest
from hyce_serving.stream import Stream

__all__ = [
    "DEFAULT_ENCODER",
    "Encoder",
    "Generation",
    "GenerationRequest",
    "Generator",
    "MissingPackage",
    "ModelNotFound",
    "ServingError",
    "Stream",
    "bundled_llm",
    "encoder_path",
    "llm_path",
]
