"""Nearest vectors, with FAISS (SPEC.md, 1.4 and section 2, step 1): every row up to a size, beyond it an inverted file.

What FAISS finds is ranked again exactly, so that neither the batch nor the order in which it sums decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from hyce_kernels.steps import steps

from hyce_gpu.errors import MissingBackendError, StoreError
from hyce_gpu.file_pieces import rows_in_base, rows_replaced

# What FAISS finds is ranked again: take a few more than asked for. It may sum in another order for another batch size,
# and an inverted file tells rows apart by 8 bits a number.
_SPARE, _ROUGH_SPARE = 8, 0.25
# Beyond this many rows, looking at all of them costs more than the rest of retrieval together.
FLAT_UP_TO = 100_000
# Lists of the inverted file, as a multiple of the root of the number of rows, and how many of them a search reads.
_LISTS_PER_ROOT, PROBES = 4, 32
# K-means sees this many rows a list, this often: more changes recall by less than a point, and takes minutes.
_ROWS_PER_LIST, _ROUNDS = 40, 10
# An inverted file is made anew for this many times its lists.
_LISTS_OUTGROWN = 1.25
# How recall is measured when an index is built.
_ASKED, _ASKED_K = 64, 100
_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Indexes:
    """What a corpus has beside its vectors where looking at all of them takes too long; None: look at all."""

    hyperedges: VectorIndex | None = None
    passages: VectorIndex | None = None


def _faiss() -> Any:
    try:
        import faiss
    except ImportError as error:
        raise MissingBackendError(
            f"FAISS cannot be imported ({error}); install it with: pip install 'hyce-gpu[cpu]' or 'hyce-gpu[gpu]'"
        ) from error
    return faiss


@dataclass(frozen=True)
class Since:
    """What became of the vectors since an index was built of them: more rows, and others in the place of some."""

    # How many rows it was built of.
    built_of: int
    # Numbers of the rows that are others now, ascending [n] int64.
    replaced: np.ndarray

    @classmethod
    def of(cls, vectors: Path) -> Self:
        """By the pieces of the array's file."""
        return cls(rows_in_base(vectors), rows_replaced(vectors))

    def loose(self, count: int) -> np.ndarray:
        """Numbers of the rows, of `count`, that the index does not know as they are, ascending."""
        old = self.replaced[self.replaced < self.built_of]
        return np.concatenate((old, np.arange(self.built_of, count)))


class VectorIndex:
    def __init__(self, index: Any, vectors: np.ndarray, loose: np.ndarray | None = None) -> None:
        """Args:
        vectors: the unit vectors [M, d] that `index` was built from.
        loose: numbers of those that it does not know as they are: every search looks at them.
        """
        self._index, self._vectors = index, vectors
        self._loose = np.zeros(0, dtype=np.int64) if loose is None else loose
        self._loose_rows = torch.from_numpy(np.ascontiguousarray(vectors[self._loose], dtype=np.float32))
        self._rows = torch.from_numpy(np.ascontiguousarray(vectors, dtype=np.float32))
        self._centres: np.ndarray | None = None
        if hasattr(index, "quantizer"):
            index.nprobe = min(PROBES, index.nlist)
            self._centres = _faiss().downcast_index(index.quantizer).reconstruct_n(0, index.nlist).astype(np.float64)

    @classmethod
    def build(cls, vectors: np.ndarray, flat_up_to: int = FLAT_UP_TO) -> VectorIndex:
        """Args:
        flat_up_to: the number of rows up to which every search looks at all of them.
        """
        faiss, (count, width) = _faiss(), vectors.shape
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        index = faiss.IndexFlatIP(max(width, 1))
        if count > flat_up_to:
            lists = _lists_for(count)
            # 8 bits a number: a search takes as long as reading its lists does.
            kind = faiss.ScalarQuantizer.QT_8bit
            index = faiss.IndexIVFScalarQuantizer(
                faiss.IndexFlatIP(width), width, lists, kind, faiss.METRIC_INNER_PRODUCT
            )
            index.cp.niter, index.cp.max_points_per_centroid = _ROUNDS, _ROWS_PER_LIST
            index.train(rows)
        if count:
            index.add(rows)
        return cls(index, vectors)

    @classmethod
    def grown(cls, path: Path, vectors: np.ndarray, since: Since) -> VectorIndex:
        """The index at `path` with the rows that it lacks; built anew where it was made for far fewer."""
        faiss, loose = _faiss(), since.loose(len(vectors))
        index = faiss.read_index(str(path))
        if not hasattr(index, "quantizer") or _lists_for(len(vectors)) > _LISTS_OUTGROWN * index.nlist:
            return cls.build(vectors)
        index.remove_ids(loose[loose < since.built_of])
        index.add_with_ids(np.ascontiguousarray(vectors[loose], dtype=np.float32), loose)
        return cls(index, vectors)

    @classmethod
    def open(cls, path: Path, vectors: np.ndarray, device: str, since: Since | None = None) -> VectorIndex:
        """Opens the index as FAISS wrote it; on a CUDA device with faiss-gpu it moves to the GPU.

        Args:
            since: by default, the index was built of the vectors as they are.

        Raises:
            StoreError: not an index, or not of these vectors.
        """
        faiss = _faiss()
        try:
            # The lists of an inverted file stay on the disk until they are searched; a flat index is read.
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
        except (RuntimeError, MemoryError) as error:
            raise StoreError(f"broken store: {path} is no FAISS index; see hyce verify") from error
        expected = since.built_of if since else len(vectors)
        if index.ntotal != expected:
            raise StoreError(f"broken store: {path} holds {index.ntotal} vectors, expected {expected}")
        if index.metric_type != faiss.METRIC_INNER_PRODUCT or (len(vectors) and index.d != vectors.shape[1]):
            raise StoreError(f"broken store: {path} is an index of other vectors; see hyce verify")
        loose = since.loose(len(vectors)) if since else None
        if device.startswith("cuda") and hasattr(faiss, "StandardGpuResources") and not hasattr(index, "quantizer"):
            if loose is not None and len(loose):
                index, loose = faiss.IndexFlatIP(vectors.shape[1]), None
                index.add(np.ascontiguousarray(vectors, dtype=np.float32))
            number = int(device.partition(":")[2] or 0)
            index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), number, index)
        return cls(index, vectors, loose)

    @property
    def is_exact(self) -> bool:
        """Whether a search looks at every row."""
        return self._centres is None

    def write(self, path: Path) -> None:
        _faiss().write_index(self._index, str(path))

    def candidates(self, queries: np.ndarray, k: int) -> np.ndarray:
        """The k nearest rows of each query [Q, d] that the index finds, and a few more: [Q, more], -1 for none."""
        spare = _SPARE + (0 if self.is_exact else int(k * _ROUGH_SPARE))
        wanted = min(k + spare, len(self._vectors)) if k else 0
        if wanted == 0:
            return np.zeros((len(queries), 0), dtype=np.int64)
        rows = np.ascontiguousarray(queries, dtype=np.float32)
        if self._centres is None:
            found = np.asarray(self._index.search(rows, wanted)[1])
        else:
            lists, alike = self._nearest_lists(rows)
            found = np.asarray(self._index.search_preassigned(rows, wanted, lists, alike)[1])
        if found.size and not -1 <= found.min() <= found.max() < len(self._vectors):
            # Nobody looks at all of a large file before it is searched.
            raise StoreError("broken store: an index names a row that is not there; see hyce verify")
        if not len(self._loose):
            return found
        found[np.isin(found, self._loose)] = -1
        near = self._loose[_nearest(rows, self._loose_rows, wanted)]
        return np.concatenate((found, near), axis=1)

    def nearest(self, queries: np.ndarray, k: int) -> list[list[int]]:
        """The k most similar rows of each query [Q, d], best first, ties by lower number."""
        if self._is_searched_here:
            # Exact and best first already.
            return self._search(queries, k).tolist()  # type: ignore[no-any-return]
        found = self.candidates(queries, k)
        score = np.einsum("qd,qkd->qk", queries.astype(np.float64), self._vectors[found].astype(np.float64))
        falling = np.where(found >= 0, -score.astype(np.float32), np.inf)
        order = np.lexsort((found, falling))[:, :k]
        ranked = np.take_along_axis(found, order, axis=1).tolist()
        return [[row for row in rows if row >= 0] for rows in ranked]

    def recall(self, queries: np.ndarray, k: int) -> float:
        """The share of the k truly nearest rows that `nearest` finds."""
        k = min(k, len(self._vectors))
        best = np.full((len(queries), k), -np.inf, dtype=np.float32)
        truth = np.full((len(queries), k), -1, dtype=np.int64)
        for start in range(0, len(self._vectors), _ROWS_AT_ONCE):
            block = self._vectors[start : start + _ROWS_AT_ONCE]
            rows = np.arange(start, start + len(block))
            score = np.concatenate((best, queries @ block.T), axis=1)
            row = np.concatenate((truth, np.broadcast_to(rows, (len(queries), len(rows)))), axis=1)
            order = np.argpartition(-score, k - 1, axis=1)[:, :k]
            best, truth = np.take_along_axis(score, order, axis=1), np.take_along_axis(row, order, axis=1)
        pairs = zip(self.nearest(queries, k), truth.tolist(), strict=True)
        return sum(len(set(found) & set(true)) for found, true in pairs) / max(1, truth.size)

    def described(self) -> dict[str, Any]:
        """For a manifest: the kind of index, how much it reads, and what it finds of what looking at all rows finds.

        The questions are rows of its own, spread evenly.
        """
        if self.is_exact:
            return {"kind": "flat"}
        asked = np.linspace(0, len(self._vectors) - 1, _ASKED, dtype=np.int64)
        recall = self.recall(np.asarray(self._vectors[asked], dtype=np.float32), _ASKED_K)
        return {
            "kind": "ivf, 8 bits a number", "lists": self._index.nlist, "probes": self._index.nprobe,
            "recall": {"k": _ASKED_K, "questions": _ASKED, "of_flat": round(recall, 4)},
        }  # fmt: skip

    @property
    def _is_searched_here(self) -> bool:
        """On a CPU, FAISS takes several times as long to look at every row."""
        return self.is_exact and not hasattr(self._index, "getDevice")

    def _search(self, queries: np.ndarray, k: int) -> np.ndarray:
        """The k nearest of all rows, best first [Q, k]."""
        return _nearest(np.ascontiguousarray(queries, dtype=np.float32), self._rows, k)

    def _nearest_lists(self, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lists to read [Q, probes] and their similarity; in 64 bit, where FAISS would depend on the batch."""
        assert self._centres is not None
        probes = self._index.nprobe
        alike = (queries.astype(np.float64) @ self._centres.T).astype(np.float32)
        lists = np.argpartition(-alike, probes - 1, axis=1)[:, :probes]
        return lists.astype(np.int64), np.take_along_axis(alike, lists, axis=1)


def _lists_for(rows: int) -> int:
    return int(_LISTS_PER_ROOT * rows**0.5)


def _nearest(queries: np.ndarray, rows: torch.Tensor, k: int) -> np.ndarray:
    """The k nearest of all rows, best first [Q, k]; all of them, where there are fewer."""
    k = min(k, len(rows))
    if k == 0:
        return np.zeros((len(queries), 0), dtype=np.int64)
    found: np.ndarray = steps("auto", "cpu").nearest(torch.from_numpy(queries), rows, k)[1].numpy()
    return found.reshape(len(queries), k)
