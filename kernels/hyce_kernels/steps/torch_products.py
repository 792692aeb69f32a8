"""Similarities as torch operations: of single pairs, and of every question with every row. Sums in 64 bit."""

from __future__ import annotations

import torch
from torch import Tensor

# Values held in 64 bit at once; bounds the workspace to 128 MB.
_WORKSPACE = 1 << 24


def pair_products(questions: Tensor, vectors: Tensor, question: Tensor, row: Tensor) -> Tensor:
    """As `contract.Steps.pair_products` says."""
    result = torch.empty(len(row), dtype=vectors.dtype, device=row.device)
    step = max(1, _WORKSPACE // (2 * max(vectors.shape[1], 1)))
    for start in range(0, len(row), step):
        part = slice(start, start + step)
        left, right = questions[question[part]].double(), vectors[row[part]].double()
        result[part] = (left * right).sum(1).clamp_(0, 1)
    return result.double()


def products(questions: Tensor, vectors: Tensor) -> Tensor:
    """Every similarity [Q, M], summed in 64 bit and rounded to the type of the vectors."""
    result = torch.empty((len(questions), len(vectors)), dtype=vectors.dtype, device=vectors.device)
    left = questions.double()
    rows = max(1, _WORKSPACE // max(vectors.shape[1], len(questions)))
    for start in range(0, len(vectors), rows):
        tile = vectors[start : start + rows].double()
        result[:, start : start + rows] = (left @ tile.T).clamp_(0, 1)
    return result
