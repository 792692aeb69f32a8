"""Texts to unit-length vectors, with sentence-transformers in this process.

The model is loaded on first use. It does not know what the texts are, nor where the vectors go.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from hyce_serving.errors import MissingPackage, ServingError
from hyce_serving.models import DEFAULT_ENCODER, encoder_path
from hyce_serving.text import without_surrogates

# For tokenizers that report no offsets: words and numbers, single CJK characters, single signs.
_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_FALLBACK_TOKEN = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+|[^\w\s]")

_FINGERPRINT_TEXTS = (
    "The ferry crosses the strait twice a day.",
    "Ada Lovelace wrote notes on Charles Babbage's Analytical Engine.",
    "酸素は原子番号8の元素である。",
)
_FINGERPRINT_NUMBERS = 16


class Encoder:
    """A sentence-transformers model, or the default all-MiniLM-L6-v2.

    model: None, a folder or a Hub id; device: a torch device; batch_size: texts in one forward pass.
    Raises ModelNotFound on construction where there are no weights, and on first use MissingPackage where
    sentence-transformers is not installed and ServingError where the weights or the device cannot be used.
    """

    def __init__(self, model: str | None = None, device: str = "cpu", batch_size: int = 64) -> None:
        if batch_size < 1:
            raise ServingError(f"expected a batch size of at least 1, found {batch_size}; give a positive number")
        self.name = model or DEFAULT_ENCODER
        self.path = encoder_path(model)
        self.device = device
        self.batch_size = batch_size

    @cached_property
    def dimension(self) -> int:
        """The length d of a vector."""
        # Renamed in sentence-transformers 6; not every model can tell.
        model = self._model
        ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        known = ask()
        return int(known) if known else int(np.shape(model.encode(["a"], show_progress_bar=False))[1])

    def encode(self, texts: Sequence[str], advance: Callable[[int], None] | None = None) -> np.ndarray:
        """float32 [n, d]: a row for each text, of length 1, or of zeros where the model gives zeros.

        Texts longer than the model's window are cut there. advance is told how many texts each batch finished.
        A row depends on its own text alone, up to 1e-6 in each number.
        """
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for batch in self._batches(texts):
            found = self._model.encode(
                [without_surrogates(texts[i]) for i in batch], batch_size=self.batch_size, show_progress_bar=False
            )
            vectors[batch] = _unit_rows(np.asarray(found, dtype=np.float32))
            if advance is not None:
                advance(len(batch))
        return vectors

    def token_spans(self, text: str) -> list[tuple[int, int]]:
        """Start and end of each token, in code points of the text; no special tokens, no cut at the window."""
        text = without_surrogates(text)
        if self._tokenizer is None:
            return [match.span() for match in _FALLBACK_TOKEN.finditer(text)]
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return [(start, end) for start, end in offsets if end > start]

    def fingerprint(self) -> list[list[float]]:
        """The first 16 numbers, rounded to 4 decimals, of the vectors of three fixed sentences: [3][16].

        Two encoders with the same numbers (up to 1e-3) are the same model, whatever they are called.
        """
        vectors = self.encode(_FINGERPRINT_TEXTS)[:, :_FINGERPRINT_NUMBERS]
        return [[round(float(number), 4) for number in row] for row in vectors]

    @cached_property
    def _model(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise MissingPackage(
                f"expected the package sentence-transformers, found none that imports ({error}); "
                "run: pip install sentence-transformers"
            ) from error
        try:
            with _no_progress_bars():
                return SentenceTransformer(self.path, device=self.device)
        # Loaders raise whatever their formats raise; all of it means that these weights cannot be used here.
        except Exception as error:
            raise ServingError(
                f"expected a sentence-transformers model at {self.path!r} for the device {self.device!r}, "
                f"found one that does not load ({type(error).__name__}: {error}); check the folder and the device"
            ) from error

    @cached_property
    def _tokenizer(self) -> Any:
        """A tokenizers.Tokenizer of our own, or None where the model has another kind.

        A copy, because encode() keeps switching truncation and padding of the model's on and off.
        """
        own = self._model.tokenizer
        fast = getattr(own, "backend_tokenizer", own)
        if not hasattr(fast, "to_str"):
            return None
        copy = type(fast).from_str(fast.to_str())
        copy.no_truncation()
        copy.no_padding()
        return copy

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Text numbers, longest texts first, so that a batch pads little and memory runs out at once or never."""
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


@contextmanager
def _no_progress_bars() -> Iterator[None]:
    """transformers draws a bar for each load; whether there are bars at all is put back afterwards."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    rows = np.zeros_like(vectors)
    np.divide(vectors, lengths, out=rows, where=lengths > 0)
    return rows
