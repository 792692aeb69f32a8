"""The problems of `gpu_check`: random sub-hypergraphs of both layouts, each with what the reference finds for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from hyce_kernels import propagation
from hyce_kernels.propagation import Masked, Packed, Structure
from hyce_kernels.propagation.triton_backend import MOST_FITS
from torch import Tensor

Results = tuple[Tensor, Tensor]
RESTART = 0.5
# `packed`: questions, hyperedges and entities of each; `masked`: questions, hyperedges, entities; `compiling`: seconds
# that numba takes at first.
FULL = SimpleNamespace(
    packed=(1024, 128, 400), masked=(64, 2048, 4096), hub=10_000, corpus=25_000, batches=(1, 16, 256, 1024),
    copied=1 << 30, runs=(3, 100), compiling=60.0, steps=10,
)  # fmt: skip
QUICK = SimpleNamespace(
    packed=(3, 4, 9),
    masked=(2, 8, 6),
    hub=40,
    corpus=400,
    batches=(1, 16),
    copied=1 << 22,
    runs=(1, 2),
    compiling=0.0,
    steps=2,
)


@dataclass(frozen=True)
class Problem:
    name: str
    structure: Structure  # on the device, as `start`
    start: Tensor  # float64
    steps: int
    expected: Results


def packed(rng: np.random.Generator, shapes: Sequence[tuple[int, int]], hub: int = -1) -> Packed:
    """Questions of (entities, hyperedges), 2 to 8 draws each; the first entity of question `hub` is in all of its."""
    entities, edges = np.array(shapes, dtype=np.int64).T
    size = rng.integers(2, 9, edges.sum())
    question = np.repeat(np.arange(len(shapes)), edges)
    of = np.repeat(question, size)
    first, pointer, last = (np.concatenate(([0], np.cumsum(counts))) for counts in (entities, size, edges))
    entity = first[of] + rng.integers(0, entities[of])
    entity[pointer[:-1][question == hub]] = first[hub]
    arrays = (torch.from_numpy(one) for one in (entity, pointer, first, last))
    weights = (torch.from_numpy(rng.random(count) + 0.05) for count in (edges.sum(), entities.sum()))
    return Packed.distinct(*arrays, int(first[-1]), *weights)


def masked(rng: np.random.Generator, questions: int, edges: int, entities: int) -> Masked:
    """A hypergraph with a hub; half of its hyperedges for each question, none for the first, all for the last."""
    one = packed(rng, [(entities, edges)], hub=0)
    mask = rng.random((edges, questions)) < 0.5
    mask[:, 0], mask[:, -1] = False, True
    weight = torch.from_numpy(rng.random((edges, questions)) + 0.05)
    return Masked(one.entity, one.member_pointer, entities, torch.from_numpy(mask), weight, one.entity_weight)


def problems(rng: np.random.Generator, sizes: SimpleNamespace, device: str) -> Iterator[Problem]:
    """Each with what the reference finds for it; "packed" and "masked" are timed."""
    questions, edges, entities = sizes.packed
    odd = [(7, 6), (0, 0), (5, 0), (40, sizes.hub), (MOST_FITS + 1, 50), (30, 20)]
    structures = {
        "packed, small": packed(rng, [(20, 30), (0, 0), (9, 7)]),
        "packed, odd (empty, hub, too large for registers)": packed(rng, odd, hub=3),
        "masked, odd (empty, hub)": masked(rng, 3, min(sizes.hub, 500), 30),
        "packed": packed(rng, [(entities, edges)] * questions),
        "masked": masked(rng, *sizes.masked),
    }
    for name, structure in structures.items():
        plan = propagation.plan(structure, torch.float64, "reference")
        # An entity that has a hyperedge gets something back from it; one that has none must stand at 0 where masked.
        has = propagation.run(plan, torch.ones(plan.shape, dtype=torch.float64), 0.0, 1)[0] > 0
        start = torch.from_numpy(rng.random(plan.shape)) * has
        expected = propagation.run(plan, start, RESTART, sizes.steps)
        parts = {key: one.to(device) if isinstance(one, Tensor) else one for key, one in vars(structure).items()}
        yield Problem(name, type(structure)(**parts), start.to(device), sizes.steps, expected)


def step_bytes(structure: Structure, itemsize: int) -> int:
    """The least that one step reads and writes where caches keep nothing but what it gathers.

    Pointers and indexes both ways, int64, and U, once; c, r, Dv⁻¹ and the new c of each entity, W De⁻¹ and the flow,
    written and read, of each hyperedge; these for each question where the layout is masked.
    """
    index = structure.entity if isinstance(structure, Packed) else structure.member
    copies = 1 if isinstance(structure, Packed) else structure.num_questions
    entities, edges = structure.num_entities, structure.num_hyperedges
    return 8 * (2 * len(index) + entities + edges + 2) + itemsize * (entities + copies * (4 * entities + 3 * edges))
