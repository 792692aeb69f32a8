"""The entity index: nearest entities by vector, with FAISS (SPEC.md, 1.4 and section 2, step 1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hyce_gpu.errors import MissingBackendError, StoreError

# FAISS may sum in another order for another batch size: take a few more than asked for and rank them exactly.
_SPARE = 8


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingBackendError(
            f"FAISS cannot be imported ({error}); install it with: pip install 'hyce-gpu[cpu]' or 'hyce-gpu[gpu]'"
        ) from error
    return faiss


class EntityIndex:
    def __init__(self, index: Any, vectors: np.ndarray) -> None:
        """`vectors`: the unit entity vectors [V, d] that `index` was built from."""
        self._index, self._vectors = index, vectors

    @classmethod
    def build(cls, vectors: np.ndarray) -> EntityIndex:
        index = _faiss().IndexFlatIP(max(vectors.shape[1], 1))
        if len(vectors):
            index.add(np.ascontiguousarray(vectors, dtype=np.float32))
        return cls(index, vectors)

    @classmethod
    def open(cls, path: Path, vectors: np.ndarray, device: str) -> EntityIndex:
        """Opens the index as FAISS wrote it; on a CUDA device with faiss-gpu it moves to the GPU.

        Raises:
            StoreError: not an index, or not of these vectors.
        """
        faiss = _faiss()
        try:
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            raise StoreError(f"broken store: {path} is no FAISS index; build the store again") from error
        if index.ntotal != len(vectors):
            raise StoreError(f"broken store: {path} holds {index.ntotal} vectors, expected {len(vectors)}")
        if device.startswith("cuda") and hasattr(faiss, "StandardGpuResources"):
            number = int(device.partition(":")[2] or 0)
            index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
        return cls(index, vectors)

    def write(self, path: Path) -> None:
        _faiss().write_index(self._index, str(path))

    def nearest(self, queries: np.ndarray, k: int) -> list[list[int]]:
        """The k most similar entities of each query [Q, d], best first, ties by lower id."""
        wanted = min(k + _SPARE, len(self._vectors)) if k else 0
        if wanted == 0:
            return [[] for _ in queries]
        _, found = self._index.search(np.ascontiguousarray(queries, dtype=np.float32), wanted)
        return [self._ranked(query, ids[ids >= 0])[:k] for query, ids in zip(queries, found, strict=True)]

    def _ranked(self, query: np.ndarray, ids: np.ndarray) -> list[int]:
        score = (self._vectors[ids].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        ranked: list[int] = ids[np.lexsort((ids, -score))].tolist()
        return ranked
