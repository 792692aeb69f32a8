"""What never waits for the device: torch says so on CUDA, and without it the operations that would wait do.

All of retrieval, of both methods, once the entry entities are there, up to the evidence and its chains. Not among it is
what an inverted file finds, which comes from the host.

`Waits` records, on any device, the operations whose result has a size or a value that the host must fetch. It knows
torch's operations only: what a library does inside one of them, it does not see.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hyce_kernels import ragged
from hyce_kernels.propagation import Masked, Packed, Structure, plan, run
from hyce_kernels.steps import Steps, steps
from hyce_kernels.steps.search import Scored
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from hyce_gpu import Config, Hypergraph
from hyce_gpu.assemble import Assembly, assemble
from hyce_gpu.chains import Traced, trace_chains
from hyce_gpu.expand import Candidates, Entry, expand
from hyce_gpu.linked import evidence
from hyce_gpu.linked.candidates import Asked, find_candidates, score
from hyce_gpu.linked.walk import walk
from hyce_gpu.propagate import propagate
from hyce_gpu.select import subgraph_of
from hyce_gpu.similarity import Similarity

RESTART, STEPS = 0.3, 3
TOLERANCE = {torch.float64: {"rtol": 1e-11, "atol": 1e-14}, torch.float32: {"rtol": 5e-5, "atol": 1e-7}}
# Their result is a number on the host, or a tensor whose size depends on values.
WAITING = set(
    "_local_scalar_dense item nonzero masked_select _unique _unique2 unique_consecutive unique_dim bincount equal "
    "is_nonzero".split()
)
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}


class Waits(TorchDispatchMode):
    """Counts, by name, the operations under it that would make the host wait for a CUDA device."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        reason = _why_it_waits(func, args, kwargs)
        if reason:
            self.found[reason] += 1
        return func(*args, **kwargs)


def _why_it_waits(func: Any, args: Any, kwargs: Any) -> str | None:
    name = func.overloadpacket.__name__
    if name in WAITING:
        return name
    # Without the size of its output it has to add the repeats up first.
    if name == "repeat_interleave" and func._overloadname == "Tensor" and kwargs.get("output_size") is None:
        return "repeat_interleave without output_size"
    if name in INDEXING and any(one is not None and one.dtype in (torch.bool, torch.uint8) for one in args[1]):
        return f"{name} by a mask"
    # Unless told otherwise, it looks at its lengths.
    if name == "segment_reduce" and not kwargs.get("unsafe", False):
        return "segment_reduce that checks its lengths"
    if name in ("_to_copy", "copy_") and _crosses(name, args, kwargs):
        return f"{name} between devices"
    return None


def _crosses(name: str, args: Any, kwargs: Any) -> bool:
    """A copy between host and device, in either direction, that was not asked to run on its own."""
    source, target = (args[1], args[0].device) if name == "copy_" else (args[0], kwargs.get("device"))
    on_its_own = kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])
    return target is not None and torch.device(target).type != source.device.type and not on_its_own


def _packed(device: str = "cpu") -> Packed:
    """Questions of 3, 0 and 2 entities, the second with no hyperedge; weights of either kind."""
    arrays = torch.tensor([0, 1, 1, 2, 3, 4]), torch.tensor([0, 2, 4, 6]), torch.tensor([0, 3, 3, 5])
    hyperedges = torch.tensor([0, 2, 2, 3])
    weights = torch.tensor([0.5, 2, 1]).double(), torch.tensor([1, 2, 3, 4, 5.0]).double()
    return _moved(Packed(*arrays, hyperedges, 5, *weights), device)


def _masked(device: str = "cpu") -> Masked:
    mask = torch.tensor([[True, False, True], [False, False, True]])
    weights = torch.tensor([[0.5, 1, 2], [1, 1, 3]]).double(), torch.tensor([1.0, 2, 3]).double()
    return _moved(Masked(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 2, 4]), 3, mask, *weights), device)


def _moved(structure: Any, device: str) -> Any:
    parts = {name: one.to(device) if isinstance(one, Tensor) else one for name, one in vars(structure).items()}
    return type(structure)(**parts)


def _start(structure: Structure) -> Tensor:
    """Packed, of every entity; masked, of those of the question's own hyperedges."""
    if isinstance(structure, Packed):
        return torch.arange(1, 6, dtype=torch.float64, device=structure.device)
    return torch.tensor([[0.25, 0, 0.5], [0.75, 0, 0.25], [0, 0, 0.25]], dtype=torch.float64, device=structure.device)


LAYOUTS = pytest.mark.parametrize("layout", [_packed, _masked], ids=["packed", "masked"])
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=str)


@LAYOUTS
@DTYPES
def test_torch_waits_for_nothing(layout: Any, dtype: torch.dtype) -> None:
    structure = layout()
    start = _start(structure).to(dtype)
    with Waits() as waits:
        run(plan(structure, dtype, "torch"), start, RESTART, STEPS)
    assert waits.found == {}


def test_what_waits_is_recorded() -> None:
    values, mask = torch.tensor([1, 2, 2]), torch.tensor([True, False, True])
    with Waits() as waits:
        values.max().item()
        values.nonzero()
        values[mask]
        values[mask] = 0
        torch.unique(values)
        torch.bincount(values)
        torch.equal(values, values)
        torch.repeat_interleave(values)
        torch.segment_reduce(values.double(), "sum", lengths=torch.tensor([1, 2]))
    assert waits.found == {
        "_local_scalar_dense": 1, "nonzero": 1, "index by a mask": 1, "index_put_ by a mask": 1, "_unique2": 1,
        "bincount": 1, "equal": 1, "repeat_interleave without output_size": 1,
        "segment_reduce that checks its lengths": 1,
    }  # fmt: skip


def test_what_does_not_wait_is_not_recorded() -> None:
    values = torch.tensor([1, 2, 2])
    with Waits() as waits:
        torch.repeat_interleave(values, output_size=5)
        torch.segment_reduce(values.double(), "sum", lengths=torch.tensor([1, 2]), unsafe=True)
        values[torch.tensor([0, 2])].cumsum(0).to(torch.float32)
        torch.searchsorted(values, values)
    assert waits.found == {}


def test_a_copy_between_devices_is_recorded() -> None:
    # A tensor without values stands for one on a device; nothing is copied.
    elsewhere, here = torch.empty(2, device="meta"), torch.empty(2)
    to_copy, copy = torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default
    assert _why_it_waits(to_copy, (elsewhere,), {"device": torch.device("cpu")}) == "_to_copy between devices"
    assert _why_it_waits(to_copy, (here,), {"device": torch.device("meta")}) == "_to_copy between devices"
    assert _why_it_waits(copy, (here, elsewhere), {}) == "copy_ between devices"
    assert _why_it_waits(copy, (here, elsewhere, True), {}) is None
    assert _why_it_waits(to_copy, (elsewhere,), {"dtype": torch.float64}) is None
    assert _why_it_waits(copy, (elsewhere, elsewhere), {}) is None


@dataclass(frozen=True)
class Corpus:
    """Three questions, one of them without entry entities, over a hypergraph of 40 entities."""

    hypergraph: Hypergraph
    asked: Asked
    to_entities: Similarity

    @classmethod
    def on(cls, device: str, chosen: Steps) -> Corpus:
        generator = torch.Generator().manual_seed(3)

        def unit(rows: int) -> Tensor:
            drawn = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
            return torch.nn.functional.normalize(drawn, dim=1)

        members = torch.randint(0, 40, (60, 3), generator=generator).tolist()
        subject = [row[0] for row in members[::3]]
        hypergraph = Hypergraph.from_members(
            40, members, entity_vectors=unit(40), hyperedge_vectors=unit(60), passage_subject=subject,
            hyperedge_passage=[edge // 3 for edge in range(60)], hyperedge_terms=[{edge % 5: 1} for edge in range(60)],
        ).to(device)  # fmt: skip
        questions = unit(3).to(device)
        pairs = torch.tensor([[0, 1], [0, 7], [2, 4]]).to(device)
        to_hyperedges = Similarity(questions, hypergraph.hyperedge_vectors, chosen)
        to_passages = Similarity(questions, hypergraph.passages.vectors, chosen)
        entry = Entry(3, pairs[:, 0], pairs[:, 1])
        asked = Asked(entry, pairs[:, 0], pairs[:, 1] % 5, to_hyperedges, to_passages, chosen)
        return cls(hypergraph, asked, Similarity(questions, hypergraph.entity_vectors, chosen))


Evidence = tuple[Scored | Candidates, Assembly, Traced]


def _paper(corpus: Corpus) -> Evidence:
    config, asked, hypergraph = Config.paper(), corpus.asked, corpus.hypergraph
    found = expand(hypergraph, asked.entry, asked.to_hyperedges, config)
    subgraph = subgraph_of(hypergraph, found.question, found.hyperedge, found.score, 3, asked.steps)
    confidence = propagate(hypergraph, subgraph, asked.entry, corpus.to_entities, config)
    assembly = assemble(hypergraph, subgraph, confidence, config)
    return found, assembly, trace_chains(hypergraph, subgraph, assembly, confidence.is_entry, config)


def _linked(corpus: Corpus) -> Evidence:
    # Fewer candidates than hyperedges, of which some questions have fewer still.
    config, asked = Config.linked(nearest_hyperedges=4, nearest_passages=2, bridge_fanout=4), corpus.asked
    hypergraph = corpus.hypergraph
    found = find_candidates(hypergraph, asked, config)
    subgraph = subgraph_of(hypergraph, found.segment, found.hyperedge, score(found, config), 3, asked.steps)
    relevance = found.scaled.clamp(0, 1)
    walked = walk(hypergraph, subgraph, asked.entry, relevance, found.mixed, config)
    assembly = evidence.assemble(hypergraph, subgraph, walked, relevance, found.entry, config)
    return found, assembly, trace_chains(hypergraph, subgraph, assembly, walked.is_entry, config)


METHODS = pytest.mark.parametrize("method", [_paper, _linked], ids=["paper", "linked"])


@METHODS
def test_nothing_waits_between_entry_and_evidence(
    method: Callable[[Corpus], Evidence], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = Corpus.on("cpu", steps("torch", "cpu"))
    expected = method(corpus)
    monkeypatch.setattr(ragged, "waits_for", lambda _: True)
    with Waits() as waits:
        found = method(corpus)
    assert waits.found == {}
    # Rows that mean nothing are among them.
    assert (found[0].hyperedge < 0).any()
    assert (found[1].row >= 0).any()
    assert (found[2].value > 0).any()
    _assert_same(found, expected)


def _assert_same(found: Evidence, expected: Evidence) -> None:
    assert found[0].hyperedge.tolist() == expected[0].hyperedge.tolist()
    assert found[1].row.tolist() == expected[1].row.tolist()
    torch.testing.assert_close(found[1].score.cpu(), expected[1].score)
    torch.testing.assert_close(found[2].value.cpu(), expected[2].value)


def test_similarities_and_membership_wait_for_nothing() -> None:
    corpus = Corpus.on("cpu", steps("torch", "cpu"))
    to_hyperedges, entry = corpus.asked.to_hyperedges, corpus.asked.entry
    with Waits() as waits:
        to_hyperedges.steps.nearest(to_hyperedges.questions, to_hyperedges.vectors, 5)
        to_hyperedges.pairs(entry.question, entry.entity)
        to_hyperedges.steps.contains(entry.question, entry.entity, entry.question, entry.entity, 3, 40)
    assert waits.found == {}


@contextmanager
def _waiting_is_an_error() -> Iterator[None]:
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("backend", ["torch", "triton"])
@LAYOUTS
@DTYPES
def test_cuda_waits_for_nothing(backend: str, layout: Any, dtype: torch.dtype) -> None:
    if find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    structure = layout("cuda")
    start = _start(structure).to(dtype)
    # Compiles, and makes the handles of the libraries: what is done once may wait.
    run(plan(structure, dtype, backend), start, RESTART, STEPS)
    torch.cuda.synchronize()
    with _waiting_is_an_error():
        found = run(plan(structure, dtype, backend), start, RESTART, STEPS)
    expected = run(plan(layout(), torch.float64, "reference"), _start(layout()), RESTART, STEPS)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, **TOLERANCE[dtype])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@METHODS
def test_cuda_waits_for_nothing_between_entry_and_evidence(method: Callable[[Corpus], Evidence]) -> None:
    corpus = Corpus.on("cuda", steps("auto", "cuda"))
    # Compiles, and makes the handles of the libraries: what is done once may wait.
    method(corpus)
    torch.cuda.synchronize()
    with _waiting_is_an_error():
        found = method(corpus)
    _assert_same(found, method(Corpus.on("cpu", steps("torch", "cpu"))))
