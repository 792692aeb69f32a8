"""Are the constants of `linked` picked to fit the questions that they are measured on? Cross-validation over questions.

    python benchmarks/crossvalidate.py DATA=STORE ... [--folds 5] [--seed 0]

DATA is a folder that `hyce eval --data` reads, STORE a store of its corpus. In each fold, the setting with the best
mean recall on the other folds is applied to the questions of this one: the figure "held out" never saw its own
questions. The settings are the defaults with one constant changed at a time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from hyce_gpu import Config, Engine
from hyce_gpu.evaluation.datasets import read_dataset
from hyce_gpu.evaluation.scores import RECALL_AT, labels
from hyce_gpu.ledger import Ledger
from hyce_gpu.measures import passages, recall
from hyce_gpu.progress import progress

# The neighbours of each default.
GRID = {
    "entry_entities": (1, 3, 5),
    "passage_share": (0.3, 0.7),
    "weight_lexical": (0.0, 0.15, 0.5),
    "relevance_rank": (200, 800),
    "relevance_power": (1.0, 2.0),
    "weight_entry": (0.2, 0.6),
    "weight_link": (0.5, 0.75),
    "entry_bridge": (0.0, 0.5, 1.0),
    "side_bridge": (0.5, 1.0),
    "weight_propagation": (0.4, 1.0),
    "restart": (0.15, 0.5),
    "propagation_steps": (2, 8),
    "seed_temperature": (0.02, 0.1),
    "max_hyperedges": (256, 1024),
}


def settings() -> Iterator[tuple[str, Config]]:
    yield "defaults", Config()
    for name, values in GRID.items():
        for value in values:
            yield f"{name}={value}", Config.linked(**{name: value})


def measure(data: Path, store: Path, configs: list[Config]) -> np.ndarray:
    """Recall of every question under every setting [S, Q, K]; K as in RECALL_AT."""
    questions = [q for q in read_dataset(data, Ledger()).questions if labels(q) and not q.error]
    with Engine.open(store) as engine, progress(data.name, len(configs), "settings") as advance:
        rows = []
        for config in configs:
            engine.config = config
            found = [passages(answer.paths) for answer in engine.retrieve(questions)]
            pairs = list(zip(found, map(labels, questions), strict=True))
            rows.append([[recall(got, wanted, k) for k in RECALL_AT] for got, wanted in pairs])
            advance()
    return np.asarray(rows)


def held_out(score: np.ndarray, folds: int, seed: int) -> tuple[np.ndarray, list[int]]:
    """(the setting that each question gets [Q], the setting picked in each fold), from mean recalls [S, Q]."""
    fold = np.random.default_rng(seed).permutation(score.shape[1]) % folds
    picked = [int(score[:, fold != one].mean(1).argmax()) for one in range(folds)]
    return np.asarray(picked)[fold], picked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", nargs="+", metavar="DATA=STORE")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names, configs = zip(*settings(), strict=True)
    found = [measure(*map(Path, pair.split("=", 1)), list(configs)) for pair in options.pairs]
    sizes = [one.shape[1] for one in found]
    # A data set counts as much as another one, however many questions it has.
    weight = np.repeat([1 / (len(sizes) * size) for size in sizes], sizes) * sum(sizes)
    every = np.concatenate(found, axis=1)
    choice, picked = held_out(every.mean(2) * weight, options.folds, options.seed)
    print(f"picked in the {options.folds} folds: {', '.join(names[one] for one in picked)}", file=sys.stderr)
    start = 0
    print("data, n, measure, defaults, held out, best setting on the same questions")
    for pair, one in zip(options.pairs, found, strict=True):
        own = choice[start : start + one.shape[1]]
        start += one.shape[1]
        chosen = one[own, np.arange(one.shape[1])]
        for place, k in enumerate(RECALL_AT):
            best = int(one.mean(1)[:, place].argmax())
            figures = one[0, :, place].mean(), chosen[:, place].mean(), one[best, :, place].mean()
            told = ", ".join(f"{figure:.3f}" for figure in figures)
            print(f"{Path(pair.split('=')[0]).name}, {one.shape[1]}, recall@{k}, {told} ({names[best]})")


if __name__ == "__main__":
    main()
