"""Products in 16 bits, to narrow a search down: a third of the work of 32 bits where the processor multiplies bfloat16.

A rough product is off by at most `ERROR`; whoever searches recomputes exactly what lies that close to the border.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

# bfloat16 keeps 8 bits: each factor and the result are rounded by 2^-9, and the products of unit vectors' components
# sum to at most 1. The rest is room for the sum in 32 bits.
ERROR = 3 * 2.0**-9 + 2.0**-13
# Values of one tile of products.
_WORKSPACE = 1 << 24
_FEW = 8


class RoughProducts:
    """Keeps a 16-bit copy of each table of vectors for as long as the table lives."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[weakref.ref[Tensor], int, Tensor]] = {}
        self._type = torch.bfloat16 if _multiplies_bfloat16() else torch.float32

    def tiles(self, questions: Tensor, vectors: Tensor) -> Iterator[tuple[int, np.ndarray]]:
        """For some questions at a time: the number of the first, and the bits of their products [T, M] int16.

        The bits of numbers that are not negative ascend as the numbers do; those of negative ones are negative.
        """
        step = max(1, _WORKSPACE // max(len(vectors), 1))
        turned, asked = self._copy(vectors).T, questions.to(self._type)
        for first in range(0, len(questions), step):
            near = (asked[first : first + step] @ turned).to(torch.bfloat16)
            yield first, near.view(torch.int16).numpy()

    def finer_tiles(self, questions: Tensor, vectors: Tensor) -> Iterator[tuple[int, np.ndarray, float]]:
        """As numbers, and with twice what they may be off by: (first, near [T, M], margin).

        In 32 bits, where thousands lie closer together than 16 bits can tell; reading the vectors for a few questions
        takes longer than telling those apart. Without vectors (d = 0), nothing is alike.
        """
        if vectors.shape[1] == 0:
            yield 0, np.zeros((len(questions), len(vectors)), dtype=np.float32), 0.0
            return
        if len(questions) < _FEW and self._type == torch.bfloat16:
            for first, near in self.tiles(questions, vectors):
                yield first, torch.from_numpy(near).view(torch.bfloat16).float().numpy(), 2 * ERROR
            return
        # The sum of d rounded terms, and its rounding to be ranked.
        margin = 2 * (vectors.shape[1] + 8) * torch.finfo(torch.float32).eps
        step = max(1, _WORKSPACE // max(len(vectors), 1))
        for first in range(0, len(questions), step):
            yield first, (questions[first : first + step] @ vectors.T).numpy(), margin

    def _copy(self, vectors: Tensor) -> Tensor:
        if vectors.dtype == self._type:
            return vectors
        known = self._copies.get(id(vectors))
        if known and known[0]() is vectors and known[1] == vectors._version:
            return known[2]
        key, copies, copy = id(vectors), self._copies, vectors.to(self._type)
        copies[key] = weakref.ref(vectors, lambda _: copies.pop(key, None)), vectors._version, copy
        return copy


def _multiplies_bfloat16() -> bool:
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported and supported())


def values() -> np.ndarray:
    """The number that each 16 bits mean, by the bits as an unsigned number [65536] float32."""
    bits = np.arange(1 << 16, dtype=np.uint32) << 16
    return bits.view(np.float32)
