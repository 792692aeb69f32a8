"""Questions against all rows of a corpus as tables, whose size is known without looking at what they hold.

A table has a row a question, [Q, M], or a column a question, [M, Q]: what the products with a sparse matrix take.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from hyce_kernels import ragged
from hyce_kernels.steps.row_sizes import largest_rows
from hyce_kernels.steps.torch_products import products

# Less than any key.
NO_KEY = torch.iinfo(torch.int64).min
# Cells that a gather may lay out at once.
_WORKSPACE = 1 << 22


@dataclass(frozen=True)
class Rows:
    """CSR rows as a matrix: pointer [R+1], values [N] in 0 .. universe - 1, distinct in each row; weight [N] or one."""

    pointer: Tensor
    values: Tensor
    universe: int
    weight: Tensor | None = None

    def sums(self, table: Tensor) -> Tensor:
        """What the values of each row have in a table [universe, Q], summed and weighed: [R, Q] of its type."""
        rows, columns = len(self.pointer) - 1, table.shape[1]
        if 0 in (rows, columns, len(self.values)):
            return table.new_zeros((rows, columns))
        weight = torch.ones_like(self.values, dtype=table.dtype) if self.weight is None else self.weight.to(table.dtype)
        with warnings.catch_warnings():
            # Torch calls CSR a beta feature at its first use in a process; the products used here are covered by tests.
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            matrix = torch.sparse_csr_tensor(
                self.pointer, self.values, weight, (rows, self.universe), check_invariants=False
            )
        found: Tensor = matrix @ table.contiguous()
        return found

    def holding(self, table: Tensor) -> Tensor:
        """How many values of each row are marked in a table [universe, Q] bool: float32 [R, Q], which is exact."""
        return self.sums(table.float())


def similarities(questions: Tensor, vectors: Tensor) -> Tensor:
    """Every similarity [Q, M], float64; nothing is alike without vectors (d = 0)."""
    if vectors.shape[1] == 0:
        return torch.zeros((len(questions), len(vectors)), dtype=torch.float64, device=vectors.device)
    return products(questions, vectors).double()


def keys(score: Tensor) -> Tensor:
    """One number for each cell [Q, M] that orders by score as 32 bits, then by the lower column: int64, all distinct in
    a row."""
    return ragged.rising_bits(score).bitwise_left_shift_(32).sub_(torch.arange(score.shape[1], device=score.device))


def best(key: Tensor, among: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k best columns of each row, best first: (column [Q, min(k, M)], whether there is one, bool).

    Args:
        key: as `keys` makes it; among: bool [Q, M], those that count.
    """
    found = torch.where(among, key, NO_KEY).topk(min(k, key.shape[1]), dim=1)
    return found.indices, found.values != NO_KEY


def keep_best(key: Tensor, among: Tensor, k: int) -> Tensor:
    """Those of `among` that are the k best of their row: bool [Q, M]; arguments as of `best`, k at least 1."""
    if k >= key.shape[1]:
        return among
    worst = torch.where(among, key, NO_KEY).topk(k, dim=1, sorted=False).values.amin(1, keepdim=True)
    return among & (key >= worst)


def marked(segment: Tensor, ids: Tensor, num_segments: int, universe: int) -> Tensor:
    """A table [universe, Q] bool of pairs."""
    table = torch.zeros((universe, num_segments), dtype=torch.bool, device=ids.device)
    table[ids, segment] = True
    return table


def gather(pointer: Tensor, values: Tensor, rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """As `ragged.gather_rows`, in a size that need not be asked for where that would wait: `most`."""
    return ragged.gather_rows(pointer, values, rows, most if ragged.waits_for(rows) else None)


def around(pointer: Tensor, values: Tensor, segment: Tensor, rows: Tensor, weight: Tensor, shape: torch.Size) -> Tensor:
    """The highest weight of the CSR rows of each question that hold a value: float64 [Q, M], 0 without one.

    Args:
        segment, rows, weight: pairs [P] and what they weigh, not negative.
        shape: (Q, M), M being above all values.
    """
    none = shape[0] * shape[1]
    table = weight.new_zeros(none + 1)
    longest = largest_rows(pointer, 1)
    step = max(1, _WORKSPACE // max(1, longest))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        place, value = gather(pointer, values, rows[part], len(rows[part]) * longest)
        # One pair more, for what a gather may leave over.
        start = torch.cat((segment[part] * shape[1], segment.new_zeros(1)))[place]
        weighs = torch.cat((weight[part], weight.new_zeros(1)))[place]
        cell = torch.where(place < len(rows[part]), start + value, none)
        table.scatter_reduce_(0, cell, weighs, "amax")
    return table[:-1].view(shape)
