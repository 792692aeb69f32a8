"""What retrieval costs a question as corpus and batch grow: `python benchmarks/growth.py [HYPEREDGES ...]`.

A script of its own, since a corpus of a million hyperedges takes minutes to make and 10 GB. Best of three; corpora too
large to compare every vector with every question go by inverted files, whose recall is printed.
"""

from __future__ import annotations

import argparse
import resource
import time

import synthetic

from hyce_gpu import Config
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.vector_index import Indexes, VectorIndex

BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
# Of the paper's method beyond this many hyperedges: larger batches only take longer.
_LARGE, _LARGE_BATCH = 100_000, 64


def _indexes(hypergraph: Hypergraph) -> list[VectorIndex]:
    indexes = []
    for vectors in (hypergraph.entity_vectors, hypergraph.hyperedge_vectors, hypergraph.passages.vectors):
        start = time.perf_counter()
        indexes.append(VectorIndex.build(vectors.numpy()))
        print(f"  index of {len(vectors):,} vectors: {time.perf_counter() - start:.1f} s", flush=True)
    return indexes


def _seconds(hypergraph: Hypergraph, indexes: list[VectorIndex], asked: synthetic.Questions, config: Config) -> float:
    start = time.perf_counter()
    synthetic.retrieve(hypergraph, indexes[0], asked, config, indexes=Indexes(indexes[1], indexes[2]))
    return time.perf_counter() - start


def measure(num_hyperedges: int) -> None:
    print(f"{num_hyperedges:,} hyperedges", flush=True)
    hypergraph = synthetic.corpus(num_hyperedges)
    indexes = _indexes(hypergraph)
    for method, config in (("linked", Config.linked()), ("paper", Config.paper())):
        for size in BATCHES:
            if method == "paper" and num_hyperedges > _LARGE and size > _LARGE_BATCH:
                continue
            asked = synthetic.questions(hypergraph, size)
            best = min(_seconds(hypergraph, indexes, asked, config) for _ in range(3))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
            print(f"  {method} {size:>5,} questions: {best * 1e3:,.1f} ms, {size / best:,.0f}/s, peak {peak:.2f} GB")
    asked = synthetic.questions(hypergraph, 100)
    for name, index, k in zip(("entities", "hyperedges", "passages"), indexes, (5, 256, 20), strict=True):
        told = "all rows are read" if index.is_exact else f"{index.recall(asked.vectors, k):.3f} of the {k} nearest"
        print(f"  search of {name}: {told}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hyperedges", nargs="*", type=int, default=[25_000, 1_000_000])
    for number in parser.parse_args().hyperedges:
        measure(number)


if __name__ == "__main__":
    main()
