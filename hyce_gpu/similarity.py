"""Similarity of questions to vectors (SPEC.md, section 2, step 2): min(1, max(0, a·b)).

Dot products are summed in 64 bit and then rounded, so that a question's numbers do not depend on which other questions
or how many candidates share its batch, and equal vectors tie exactly, whatever order the hardware sums in.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Values held in 64 bit at once; bounds the workspace to 128 MB.
_WORKSPACE = 1 << 24
# A gathered pair costs about this many times a cell of the dense product.
_GATHER_COST = 16


class Similarity:
    """Similarities of Q questions to the rows of one vector table, dense or pair by pair, whichever is less work."""

    def __init__(self, questions: Tensor, vectors: Tensor) -> None:
        """Takes unit vectors: `questions` [Q, d] and `vectors` [M, d]."""
        self._questions = questions
        self._vectors = vectors
        self._dense: Tensor | None = None

    def pairs(self, question: Tensor, row: Tensor) -> Tensor:
        """sim(question, row) for each pair [P], float64, rounded to the type of the vectors."""
        if self._vectors.shape[1] == 0:
            return torch.zeros(len(row), dtype=torch.float64, device=row.device)
        cells = len(self._questions) * len(self._vectors)
        if self._dense is None and len(row) * _GATHER_COST >= cells:
            self._dense = self._product()
        if self._dense is not None:
            return self._dense[question, row].double()
        return self._gathered(question, row).double()

    def nearest(self, k: int) -> tuple[Tensor, Tensor]:
        """The k most similar rows of each question, ranked as 32-bit numbers, ties by lower row; none without vectors.

        Returns:
            (question [T], row [T]): sorted by question; the rows of a question in no particular order.
        """
        k = min(k, len(self._vectors)) if self._vectors.shape[1] else 0
        if self._dense is None and k:
            self._dense = self._product()
        if self._dense is None:
            return (torch.zeros(0, dtype=torch.long, device=self._vectors.device),) * 2
        # One number that orders by similarity, then by row: similarities are not negative, so their bits ascend.
        rows = torch.arange(len(self._vectors), device=self._vectors.device)
        key = (self._dense.float().view(torch.int32).long() << 32) - rows
        found = key.topk(k, dim=1, sorted=False).indices
        question = torch.arange(len(found), device=found.device)
        return question.repeat_interleave(k), found.flatten()

    def _product(self) -> Tensor:
        size = (len(self._questions), len(self._vectors))
        result = torch.empty(size, dtype=self._vectors.dtype, device=self._vectors.device)
        questions = self._questions.double()
        rows = max(1, _WORKSPACE // max(self._vectors.shape[1], len(questions)))
        for start in range(0, len(self._vectors), rows):
            tile = self._vectors[start : start + rows].double()
            result[:, start : start + rows] = (questions @ tile.T).clamp_(0, 1)
        return result

    def _gathered(self, question: Tensor, row: Tensor) -> Tensor:
        result = torch.empty(len(row), dtype=self._vectors.dtype, device=row.device)
        step = max(1, _WORKSPACE // (2 * self._vectors.shape[1]))
        for start in range(0, len(row), step):
            part = slice(start, start + step)
            left, right = self._questions[question[part]].double(), self._vectors[row[part]].double()
            result[part] = (left * right).sum(1).clamp_(0, 1)
        return result
