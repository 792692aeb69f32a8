"""How long the rows of a CSR array are, known on the host: what bounds a gather whose size the device would tell.

Fetched once for each array of row pointers, and kept for as long as it lives.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from hyce_kernels.steps.copies import Copies


def largest_rows(pointer: Tensor, k: int) -> int:
    """How many values the k largest rows hold together; all where there are fewer.

    Args:
        pointer: row pointers [R+1] of the CSR array. The first call for a tensor waits for its device.
    """
    totals = _totals.of(pointer)
    return int(totals[min(k, len(totals) - 1)])


def _running(pointer: Tensor) -> np.ndarray:
    """What the largest 0, 1, .. R rows hold together [R+1]."""
    sizes = np.sort(np.diff(pointer.cpu().numpy()))[::-1]
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))


_totals: Copies[np.ndarray] = Copies(_running)
