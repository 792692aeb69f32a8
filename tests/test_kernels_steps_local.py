"""The steps on sub-hypergraphs: each backend against plain loops over lists, on structures that hypothesis makes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch
from hyce_kernels import linking_reference
from hyce_kernels.steps import Steps, steps
from hyce_kernels.steps.local import Local
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

# The first call of a loop compiles it.
EXAMPLES = settings(max_examples=40, deadline=None)
ENTITIES = 70
# No powers of two: numbers that 32 bits would not hold.
SIDE, ENTRY_BRIDGE, TEMPERATURE = 0.7, 0.3, 0.1


@pytest.fixture(params=("torch", "numba"), scope="module")
def backend(request: pytest.FixtureRequest) -> Steps:
    return steps(request.param, "cpu")


def ids(values: Sequence[int]) -> Tensor:
    return torch.tensor(values, dtype=torch.long)


def numbers(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@dataclass(frozen=True)
class Problem:
    """For each question its hyperedges as (id, members); -1 for none. Eighths of each hyperedge and entity tie."""

    questions: list[list[tuple[int, list[int]]]]
    score: list[float]  # of each hyperedge
    weight: list[float]  # of each entity of the corpus
    passage: list[int]  # of each hyperedge
    subject: list[int]  # of each passage
    entries: list[list[int]]  # of each question
    trailing: int  # rows behind the last that nothing covers

    @property
    def members(self) -> list[list[int]]:
        return [members for edges in self.questions for _, members in edges]

    @property
    def entities(self) -> list[list[int]]:
        return [sorted({v for _, members in edges for v in members}) for edges in self.questions]

    @property
    def question(self) -> list[int]:
        return [one for one, edges in enumerate(self.questions) for _ in edges]

    @property
    def hyperedge(self) -> list[int]:
        return [edge for edges in self.questions for edge, _ in edges]

    @property
    def subjects(self) -> list[int]:
        return [self.subject[one] for one in self.passage]

    def places(self, one: int) -> list[int]:
        """The local hyperedges of a question."""
        return [at for at, number in enumerate(self.question) if number == one]

    def local_entity(self, one: int, entity: int) -> int:
        return sum(map(len, self.entities[:one])) + self.entities[one].index(entity)

    @property
    def is_entry(self) -> list[bool]:
        return [v in entries for vs, entries in zip(self.entities, self.entries, strict=True) for v in vs]

    @property
    def local(self) -> Local:
        # What stands behind the last rows is of no hyperedge and of no entity.
        entities = [(one, v) for one, vs in enumerate(self.entities) for v in vs]
        pairs = [
            (at, self.local_entity(self.question[at], v)) for at, row in enumerate(self.members) for v in sorted(row)
        ]
        pairs += [(len(self.members), len(entities)) for _ in range(self.trailing)]
        entities += [(len(self.questions) - 1, -1) for _ in range(self.trailing)]
        return Local(
            ids(self.hyperedge), ids(self.question), pointers(map(len, self.questions)),
            ids([v for _, v in entities]), ids([one for one, _ in entities]),
            pointers(map(len, self.entities)), pointers(map(len, self.members)),
            ids([at for at, _ in pairs]), ids([v for _, v in pairs]),
        )  # fmt: skip

    def of_entities(self, values: Sequence[bool]) -> Tensor:
        """Of each local entity, trailing rows included."""
        return torch.tensor([*values, *[True] * (len(self.local.entity) - len(values))], dtype=torch.bool)

    @property
    def entry_pairs(self) -> tuple[Tensor, Tensor]:
        pairs = [(one, v) for one, entries in enumerate(self.entries) for v in sorted(set(entries))]
        return ids([one for one, _ in pairs]), ids([v for _, v in pairs])


def pointers(counts: object) -> Tensor:
    return torch.cat((ids([0]), ids(list(counts)).cumsum(0)))  # type: ignore[call-overload]


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Questions without hyperedges, hyperedges without entities, and hubs among them."""
    entity, eighth = st.integers(0, ENTITIES - 1), st.integers(0, 8).map(lambda n: n / 8)
    few = st.sampled_from([0, 1, 5, 64, 69])
    row = st.one_of(st.lists(few, max_size=4, unique=True), st.just(list(range(ENTITIES))), st.just([]))
    questions = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(row, max_size=6))
        # Ids in no order, as those of hyperedges that stand by their score.
        edges = draw(st.permutations(range(len(rows))))
        questions.append([(-1, []) if draw(st.integers(0, 4)) == 0 else one for one in zip(edges, rows, strict=True)])
    count = sum(map(len, questions))
    return Problem(
        questions,
        draw(st.lists(eighth, min_size=count, max_size=count)),
        [draw(st.sampled_from([0.25, 0.5, 0.75])) if v in (0, 1, 5, 64, 69) else 0.1 for v in range(ENTITIES)],
        draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)),
        draw(st.lists(st.sampled_from([-1, 0, 5, 69]), min_size=3, max_size=3)),
        [draw(st.lists(st.one_of(entity, few), max_size=3)) for _ in questions],
        draw(st.integers(0, 2)),
    )


def ranked(problem: Problem, places: Sequence[int], score: Sequence[float]) -> list[int]:
    held = [at for at in places if problem.hyperedge[at] >= 0]
    return sorted(held, key=lambda at: (-score[at], problem.hyperedge[at]))


@EXAMPLES
@given(problems(), st.integers(1, 4), st.lists(st.integers(0, 4), min_size=ENTITIES, max_size=ENTITIES))
def test_walk_start(backend: Steps, problem: Problem, seeds: int, degree: list[int]) -> None:
    local = problem.local
    found = backend.walk_start(
        local, ids(degree), *problem.entry_pairs, numbers(problem.score), seeds, TEMPERATURE
    )  # fmt: skip
    count = sum(map(len, problem.entities))
    start, rarity, is_entry = (one[:count].tolist() for one in found)
    assert is_entry == problem.is_entry
    assert rarity == [1 / max(1, degree[v]) for vs in problem.entities for v in vs]
    expected = [value for one in range(len(problem.questions)) for value in starts(problem, one, degree, seeds)]
    assert start == pytest.approx(expected, rel=1e-12)


def starts(problem: Problem, one: int, degree: list[int], seeds: int) -> list[float]:
    rarity = {v: 1 / max(1, degree[v]) for v in problem.entities[one]}
    given, places = dict.fromkeys(rarity, 0.0), problem.places(one)
    most = max((problem.score[at] for at in places), default=0.0)
    for at in ranked(problem, places, problem.score)[:seeds]:
        size = sum(rarity[v] for v in problem.members[at])
        for v in problem.members[at]:
            given[v] += math.exp((problem.score[at] - most) / TEMPERATURE) * rarity[v] / size
    entered = {v: rarity[v] * (v in problem.entries[one]) for v in rarity}
    both = [sum(pair) for pair in zip(shares(given.values()), shares(entered.values()), strict=True)]
    return shares(both)


def shares(values: object) -> list[float]:
    found: list[float] = list(values)  # type: ignore[call-overload]
    return [one / (sum(found) + 1e-12) for one in found]


@EXAMPLES
@given(problems())
def test_link(backend: Steps, problem: Problem) -> None:
    found = backend.link(
        problem.local, numbers(problem.weight), problem.of_entities(problem.is_entry), ENTRY_BRIDGE,
        ids(problem.passage), ids(problem.subjects), numbers(problem.score), SIDE,
    )  # fmt: skip
    expected: list[float] = []
    for one, entries in enumerate(problem.entries):
        at = slice(len(expected), len(expected) + len(problem.questions[one]))
        weight = [value * (ENTRY_BRIDGE if v in entries else 1) for v, value in enumerate(problem.weight)]
        columns = problem.members[at], problem.passage[at], problem.subjects[at], problem.score[at]
        expected += linking_reference.link(*columns, weight, SIDE)
    # Three factors, multiplied in another order.
    assert found.tolist() == pytest.approx(expected)


@EXAMPLES
@given(problems())
def test_group_share(backend: Steps, problem: Problem) -> None:
    local, pairs = problem.local, list(zip(problem.question, problem.passage, strict=True))
    number = backend.numbered(local.edge_question, ids(problem.passage), len(problem.questions), 3)
    total = {pair: sum(s for s, other in zip(problem.score, pairs, strict=True) if other == pair) for pair in pairs}
    most = {one: max(value for pair, value in total.items() if pair[0] == one) for one, _ in pairs}
    found = backend.group_share(local, number, numbers(problem.score))
    assert found.tolist() == pytest.approx([total[pair] / (most[pair[0]] + 1e-12) for pair in pairs])


@EXAMPLES
@given(problems(), st.integers(1, 4), st.integers(0, 3))
def test_best_of_groups(backend: Steps, problem: Problem, k: int, below: int) -> None:
    local, score = problem.local, [value - below / 8 for value in problem.score]
    number = backend.numbered(local.edge_question, ids(problem.passage), len(problem.questions), 3)
    expected = []
    for one in range(len(problem.questions)):
        best: dict[int, int] = {}
        for at in ranked(problem, problem.places(one), score):
            best.setdefault(problem.passage[at], at)
        kept = [at for at in best.values() if score[at] >= 0][:k]
        expected += kept + [-1] * (k - len(kept))
    assert backend.best_of_groups(local, number, numbers(score), k).tolist() == expected


@EXAMPLES
@given(problems())
def test_member_sums(backend: Steps, problem: Problem) -> None:
    values = [problem.weight[v] for vs in problem.entities for v in vs]
    local = problem.local
    sums = [sum(problem.weight[v] for v in row) for row in problem.members]
    all_values = numbers(values + [1.0] * (len(local.entity) - len(values)))
    assert backend.member_sums(local, all_values).tolist() == pytest.approx(sums)
    assert backend.member_sums(local, all_values > 0).tolist() == [len(row) for row in problem.members]


@EXAMPLES
@given(problems(), st.integers(1, 5), st.data())
def test_chain_links(backend: Steps, problem: Problem, width: int, data: st.DataObject) -> None:
    rows: list[int] = []
    for one in range(len(problem.questions)):
        chosen = data.draw(st.permutations(ranked(problem, problem.places(one), problem.score)))[:width]
        rows += [*chosen, *[-1] * (width - len(chosen))]
    is_path = [row >= 0 and data.draw(st.booleans()) for row in rows]
    passage = [problem.passage[row] if row >= 0 else -1 for row in rows]
    subject = [problem.subject[one] if one >= 0 else -1 for one in passage]
    strength, through, start, entry = backend.chain_links(
        problem.local, ids(rows), torch.tensor(is_path), numbers(problem.weight),
        problem.of_entities(problem.is_entry), ENTRY_BRIDGE, ids(passage), ids(subject), width, SIDE,
    )  # fmt: skip
    for number in range(len(problem.questions)):
        units = [row if takes else -1 for row, takes in zip(rows, is_path, strict=True)][number * width :][:width]
        expected = [[bridge(problem, number, one, other) for other in units] for one in units]
        assert strength[number].flatten().tolist() == pytest.approx([cell[0] for line in expected for cell in line])
        assert through[number].tolist() == [[by for _, by in line] for line in expected]
        begins = [begin(problem, number, row) for row in units]
        if not any(value for value, _ in begins):
            begins[0] = (1.0, -1)
        assert list(zip(start[number].tolist(), entry[number].tolist(), strict=True)) == begins


def bridge(problem: Problem, number: int, one: int, other: int) -> tuple[float, int]:
    best, by = 0.0, -1
    if min(one, other) < 0 or problem.passage[one] == problem.passage[other]:
        return best, by
    for entity in sorted({*problem.members[one]} & {*problem.members[other]}):
        weight = problem.weight[entity] * (ENTRY_BRIDGE if entity in problem.entries[number] else 1)
        subjects = problem.subjects[one], problem.subjects[other]
        strength = weight * linking_reference.bridge_factor(entity, *subjects, SIDE)
        if strength > best:
            best, by = strength, problem.local_entity(number, entity)
    return best, by


def begin(problem: Problem, number: int, row: int) -> tuple[float, int]:
    """The highest weight of an entry that a unit holds, and the lowest entity that has it."""
    held = sorted({*problem.members[row]} & {*problem.entries[number]}) if row >= 0 else []
    best = max(held, key=lambda entity: problem.weight[entity], default=-1)
    return (problem.weight[best], problem.local_entity(number, best)) if held else (0.0, -1)
