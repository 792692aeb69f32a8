"""What a store and a batch of its questions take of a device's memory, from sizes alone.

Knows the store's arrays and what one batch of questions lays out. It asks no device, loads no model and moves nothing.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from hyce_serving.model_memory import encoder_bytes

from hyce_gpu.config import Config
from hyce_gpu.online import _INCIDENCE_CELLS, _PASS_CELLS, _PASS_QUESTIONS
from hyce_gpu.store import Store
from hyce_gpu.vector_index import FLAT_UP_TO

MIB, GIB = 1 << 20, 1 << 30
# Questions at once that a plan reckons with: what `hyce answer` takes unless told otherwise.
QUESTIONS = 256
# What an answer takes of the host's memory: its paths, their texts, and the question's sub-hypergraph.
_ANSWER = 384 << 10
# Entities that a question names beside the `entry_entities` nearest.
_MENTIONED = 4


@dataclass(frozen=True)
class Part:
    name: str
    num_bytes: int


@dataclass(frozen=True)
class Sizes:
    """What the workspace of a batch depends on. Means are over incidences: large rows are met more often."""

    entities: int
    hyperedges: int
    passages: int
    dimension: int
    incidences: int
    sizes: np.ndarray  # entities of each hyperedge [E]
    degrees: np.ndarray  # hyperedges of each entity [V]
    words: float  # of a hyperedge
    vocabulary: int

    @property
    def members(self) -> float:
        """Entities of a hyperedge."""
        return _met(self.sizes)

    @property
    def is_indexed(self) -> bool:
        """Whether there are too many hyperedges, or passages, to compare all with every question."""
        return max(self.hyperedges, self.passages) > FLAT_UP_TO

    def largest(self, count: int) -> int:
        """Entities of the `count` largest hyperedges together."""
        return int(np.sort(self.sizes)[::-1][:count].sum())

    def around(self, fanout: float) -> float:
        """Hyperedges of an entity that is met through one of them; of at most `fanout` passages' worth."""
        most = fanout * max(1.0, self.hyperedges / max(1, self.passages))
        return _met(np.minimum(self.degrees, most))


def store_parts(store: Store, config: Config, device: str, total: int, questions: int = QUESTIONS) -> tuple[Part, ...]:
    """Everything beside the LLM: tensors, index, workspace, encoder."""
    backend = "numba" if not device.startswith("cuda") and find_spec("numba") else "torch"
    return (
        Part("store tensors", sum(part.num_bytes for part in store_bytes(store))),
        Part("vector index", index_bytes(store, device, total)),
        Part("workspace", workspace_bytes(sizes_of(store), config, questions, backend)),
        Part("encoder", encoder_bytes(store.manifest["encoder"]["name"]) or 0),
    )


def store_bytes(store: Store) -> tuple[Part, ...]:
    """The tensors of `store.hypergraph()`, to the byte, without building it; see `Hypergraph` and `Passages`.

    With E rows of hyperedges and bare chunks, V entities, P passages, N incidences and T words, 8 bytes an integer or
    double: incidence both ways 8·(E+1 + V+1 + 2N); confidences 16·E; vectors 4·d·(V + E + P); passages
    8·(2E + P+1 + P + 2V); words 8·(E+1) + 12·T.
    """
    edges, entities = len(store.array("passage")), store.counts["entities"]
    passages, incidences = len(store.array("subject")), len(store.array("member"))
    vectors = [store.array(f"{name}_vectors").nbytes for name in ("entity", "hyperedge", "chunk")]
    return (
        Part("incidence", 8 * (edges + 1 + entities + 1 + 2 * incidences)),
        Part("confidences", 16 * edges),
        Part("entity vectors", vectors[0]),
        Part("hyperedge vectors", vectors[1]),
        Part("passage vectors", vectors[2]),
        Part("passages", 8 * (2 * edges + passages + 1 + passages + 2 * entities)),
        Part("words", 8 * (edges + 1) + 12 * len(store.array("term"))),
    )


def index_bytes(store: Store, device: str, total: int) -> int:
    """FAISS's index of the entities, and those of hyperedges and passages where there are any.

    On a GPU: the exact index with the scratch that FAISS takes for itself there (512 MiB, 1 or 1.5 GiB, by the size of
    the card, `total` bytes); inverted files stay on the host, and so does everything with a CPU build of FAISS.
    """
    if not device.startswith("cuda"):
        return sum(file.stat().st_size for file in store.generation.glob("*.faiss"))
    import faiss

    if store.counts["entities"] > FLAT_UP_TO or not hasattr(faiss, "StandardGpuResources"):
        return 0
    scratch = 512 * MIB if total <= 4 * GIB else GIB if total <= 8 * GIB else 1536 * MIB
    return (store.generation / "entities.faiss").stat().st_size + scratch


def sizes_of(store: Store) -> Sizes:
    pointer, terms = store.array("member_pointer"), store.array("term_pointer")
    degrees = np.bincount(store.array("member"), minlength=store.counts["entities"])
    edges, width = store.array("hyperedge_vectors").shape
    rows = store.counts["entities"], edges, len(store.array("subject")), width, int(pointer[-1])
    return Sizes(*rows, np.diff(pointer), degrees, _met(np.diff(terms)), store.counts["terms"])


def workspace_bytes(sizes: Sizes, config: Config, questions: int = QUESTIONS, backend: str = "torch") -> int:
    """What one batch lays out beside the store, from above.

    A pass takes Q questions: with numba 512, with torch so many that Q · max(V, E, P, words, 4 · I) stays below 2^24,
    where the `max_hyperedges` largest hyperedges hold I entities: what the sub-hypergraph of a question may take. Its
    stages give back what they took, so their sum bounds the peak:

        tables     60 · Q · max(V, E, P) for similarities, scores and their sort keys, 9 for a word; two tiles of 64-bit
                   products, 8 · min(2^24, M · max(d, Q)) each; 48 for a hyperedge around one of the (entry_entities + 4
                   named ones) entities, at most 2^22 at a time.
        pairs      28 · d bytes a (question, entity) pair, at most 2^23 / d pairs at a time.
        subgraph   I incidences a question: both ways, 64-bit state, weights and the plan, 240 bytes each.
        evidence   K x K tables of K = evidence_units, 64 bytes a cell.

    Where an index finds what is nearest for `linked`, there are pairs in place of the tables: 80 bytes for every word,
    or member, of every pair; 80 for each pair that is met, repeats counted, and 160 for each that is scored. The pairs
    of a question are the nearest, those of the nearest passages, those around its entities, and over bridges:
    bridge_sources · members · around(bridge_fanout).

    The loops of numba lay out less: 48 bytes a pair that is met, 120 a scored one (in `paper` only those that are
    kept), 160 an incidence, a tile of 6 · min(2^24, Q · E), a 16-bit copy of the vectors, and 20 · V + 28 · E a thread.
    They run on the host, where the answers lie as well: 384 KiB each.

    Peaks over `Engine.retrieve` of 256 MuSiQue questions on a CPU (2026-12-02), on the stores of 100 questions of
    MuSiQue and HotpotQA, were between a quarter and nine tenths of it with numba, with either method. With torch, over
    `reason` of 200 questions on 25,000 synthetic hyperedges (2026-12-03), between a quarter and a half.
    """
    reached, pairs = _pairs(sizes, config)
    tables = 64 * config.evidence_units**2
    if backend == "numba":
        incidences = min(config.max_hyperedges, pairs) * sizes.members
        num = min(questions, _PASS_QUESTIONS)
        if config.method == "paper":
            reached, pairs = 0, config.max_hyperedges
        ragged = 48 * reached + 120 * pairs + 160 * incidences + tables
        threads = (os.cpu_count() or 1) * (20 * sizes.entities + 28 * sizes.hyperedges)
        copies = 2 * (sizes.hyperedges + sizes.passages) * sizes.dimension
        tile = 6 * min(_PASS_CELLS, num * sizes.hyperedges)
        return math.ceil(num * ragged + threads + copies + tile + questions * _ANSWER)
    return math.ceil(_torch_bytes(sizes, config, questions, reached, pairs))


def _torch_bytes(sizes: Sizes, config: Config, questions: int, reached: float, pairs: float) -> float:
    incidences, rows = sizes.largest(config.max_hyperedges), max(sizes.hyperedges, sizes.passages)
    cells = max(sizes.entities, rows)
    widest = max(cells, sizes.vocabulary, _INCIDENCE_CELLS * incidences, 1)
    num = min(questions, max(1, _PASS_CELLS // widest))
    each, compared = 240.0 * incidences + 64 * config.evidence_units**2, float(incidences)
    if config.method == "linked" and sizes.is_indexed:
        compared = max(pairs, incidences)
        each += 80 * (reached + pairs * max(sizes.words, sizes.members)) + 160 * pairs
        more = _products(sizes, num)
    else:
        around = (config.entry_entities + _MENTIONED) * int(sizes.degrees.max(initial=0))
        each += 60 * cells + (9 * sizes.vocabulary if config.method == "linked" else 0)
        more = 48 * min(1 << 22, num * around) + 16 * min(_PASS_CELLS, rows * max(sizes.dimension, num))
    return num * each + 28 * min(1 << 23, int(num * compared * sizes.dimension)) + more


def _pairs(sizes: Sizes, config: Config) -> tuple[float, float]:
    """Hyperedges that a question meets, repeats counted, and those that are scored."""
    if config.method == "paper":
        budget = min(config.candidate_budget, sizes.hyperedges)
        return min(sizes.incidences, budget * sizes.members * sizes.around(math.inf)), budget
    near = config.nearest_hyperedges + config.nearest_passages * sizes.hyperedges / max(1, sizes.passages)
    entered = (config.entry_entities + _MENTIONED) * sizes.around(config.entry_fanout)
    bridged = config.bridge_sources * sizes.members * sizes.around(config.bridge_fanout)
    reached = near + entered + bridged
    return reached, min(near + entered, sizes.hyperedges) + min(bridged, sizes.hyperedges)


def _products(sizes: Sizes, num: int) -> int:
    """Of those that no index finds."""
    rows = max((rows for rows in (sizes.hyperedges, sizes.passages) if rows <= FLAT_UP_TO), default=0)
    return 24 * num * rows + 16 * min(_PASS_CELLS, rows * max(sizes.dimension, num))


def _met(counts: np.ndarray) -> float:
    """The mean count, each weighed by itself: what somebody sees who comes by one of the counted."""
    total = float(counts.sum())
    return float((counts.astype(np.float64) ** 2).sum()) / total if total else 0.0
