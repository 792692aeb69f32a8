"""Similarity of questions to vectors (SPEC.md, section 2, step 2): min(1, max(0, a·b)).

Dot products are summed in 64 bit and then rounded, so that a question's numbers do not depend on which other questions
or how many candidates share its batch, and equal vectors tie exactly, whatever order the hardware sums in.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hyce_kernels.steps import Steps
from torch import Tensor

from hyce_gpu.vector_index import VectorIndex


@dataclass(frozen=True)
class Similarity:
    """Similarities of Q questions to the rows of one vector table."""

    questions: Tensor  # [Q, d] unit length
    vectors: Tensor  # [M, d] unit length; d is 0 where there are none
    steps: Steps
    # Where looking at every row takes too long.
    index: VectorIndex | None = None

    def pairs(self, question: Tensor, row: Tensor) -> Tensor:
        """sim(question, row) for each pair [P], float64, rounded to the type of the vectors."""
        if self.vectors.shape[1] == 0:
            return torch.zeros(len(row), dtype=torch.float64, device=row.device)
        return self.steps.pair_products(self.questions, self.vectors, question, row)

    def indexed(self, k: int) -> tuple[Tensor, Tensor] | None:
        """Those of the k most similar rows of each question that the index finds; None where every row is looked at.

        Ranked as 32-bit numbers, ties by lower row.

        Returns:
            (question [T], row [T]): sorted by question, best first.
        """
        if self.index is None or self.index.is_exact:
            return None
        return self._ranked(torch.from_numpy(self.index.candidates(self.questions.cpu().numpy(), k)), k)

    def _ranked(self, found: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k best of the rows that an index found [Q, more], -1 for none."""
        question, place = torch.nonzero(found >= 0, as_tuple=True)
        row = found[question, place].to(self.vectors.device)
        question = question.to(row.device)
        best = self.steps.top_per_segment(question, self.pairs(question, row), len(self.questions), k, row)
        return question[best], row[best]
