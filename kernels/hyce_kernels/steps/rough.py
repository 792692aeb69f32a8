"""Products in 16 bits, to narrow a search down: a third of the work of 32 bits where the processor multiplies bfloat16.

How far they may be off is known: for unit vectors, at most by the lengths of what rounding took from either factor
(Cauchy-Schwarz), and by the rounding of the result. Whoever searches recomputes exactly what lies that close to the
border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hyce_kernels.steps.copies import Copies
from hyce_kernels.steps.numba_scores import products, products_of_bits

# bfloat16 keeps 8 bits, so a number is rounded by at most this part of it.
ROUNDING = 2.0**-9
# Room for the sum in 32 bits.
_SUM = 2.0**-13
# Values of one tile of products.
_WORKSPACE = 1 << 24
# Questions that are not worth the start of a matrix product.
_FEW = 8


@dataclass(frozen=True)
class _Rounded:
    vectors: Tensor
    # The length of the most that rounding took from a row.
    lost: float


class RoughProducts:
    """Keeps a 16-bit copy of each table of vectors for as long as the table lives."""

    def __init__(self) -> None:
        self._type = torch.bfloat16 if _multiplies_bfloat16() else torch.float32
        self._copies = Copies(lambda vectors: _rounded(vectors, self._type))

    def tiles(self, questions: Tensor, vectors: Tensor) -> Iterator[tuple[int, np.ndarray, float]]:
        """For some questions at a time: (the number of the first, bits of their products [T, M] int16, error).

        The bits of numbers that are not negative ascend as the numbers do; those of negative ones are negative. A
        product is off by at most `error`, and by `ROUNDING` of itself.
        """
        step = max(1, _WORKSPACE // max(len(vectors), 1))
        if len(questions) < _FEW:
            few, error = self._of_few(questions, vectors)
            yield 0, torch.from_numpy(few).to(torch.bfloat16).view(torch.int16).numpy(), error
            return
        rows, asked = self._copies.of(vectors), _rounded(questions, self._type)
        error = rows.lost + asked.lost + _SUM
        for first in range(0, len(questions), step):
            near = (asked.vectors[first : first + step] @ rows.vectors.T).to(torch.bfloat16)
            yield first, near.view(torch.int16).numpy(), error

    def finer_tiles(self, questions: Tensor, vectors: Tensor) -> Iterator[tuple[int, np.ndarray, float]]:
        """As numbers, and with what they may be off by altogether: (first, near [T, M] float, error).

        In 32 bits, where thousands lie closer together than 16 bits can tell. Without vectors (d = 0), nothing is
        alike.
        """
        if vectors.shape[1] == 0:
            yield 0, np.zeros((len(questions), len(vectors)), dtype=np.float32), 0.0
            return
        if len(questions) < _FEW:
            yield 0, *_of_few(questions, vectors)
            return
        asked, rows = questions.float().numpy(), vectors.float().numpy()
        step = max(1, _WORKSPACE // max(len(vectors), 1))
        for first in range(0, len(questions), step):
            # On processors of AMD, NumPy's library takes two thirds of the time of torch's.
            yield first, asked[first : first + step] @ rows.T, _sum_error(vectors)

    def _of_few(self, questions: Tensor, vectors: Tensor) -> tuple[np.ndarray, float]:
        """As the function, of the copy in 16 bits where there is one."""
        if self._type != torch.bfloat16:
            return _of_few(questions, vectors)
        rows, near = self._copies.of(vectors), np.empty((len(questions), len(vectors)), dtype=np.float32)
        bits = rows.vectors.contiguous().view(torch.int16).numpy().view(np.uint16)
        products_of_bits(questions.contiguous().float().numpy(), bits, near)
        return near, rows.lost + _sum_error(vectors)


def _of_few(questions: Tensor, vectors: Tensor) -> tuple[np.ndarray, float]:
    """Products [Q, M] float32, and how far they may be off: one pass over the vectors, which is what takes the time."""
    near = np.empty((len(questions), len(vectors)), dtype=np.float32)
    products(questions.contiguous().numpy(), vectors.contiguous().numpy(), near)
    return near, _sum_error(vectors)


def _sum_error(vectors: Tensor) -> float:
    """Of the sum of d rounded terms, and of its rounding to be ranked."""
    return (vectors.shape[1] + 8) * torch.finfo(torch.float32).eps


def _rounded(vectors: Tensor, dtype: torch.dtype) -> _Rounded:
    rounded = vectors.to(dtype)
    step = max(1, _WORKSPACE // max(vectors.shape[1], 1))
    lost = 0.0
    for first in range(0, len(vectors), step):
        part = slice(first, first + step)
        lost = max(lost, float((vectors[part].double() - rounded[part].double()).norm(dim=1).max()))
    return _Rounded(rounded, lost)


def _multiplies_bfloat16() -> bool:
    supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(supported and supported())


def values() -> np.ndarray:
    """The number that each 16 bits mean, by the bits as an unsigned number [65536] float32."""
    bits = np.arange(1 << 16, dtype=np.uint32) << 16
    return bits.view(np.float32)
