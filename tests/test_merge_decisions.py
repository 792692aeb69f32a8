"""Decisions about names in the merge: what is the same, what is apart, and which of both wins."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.decisions import APART, Decision, decision
from hyce_gpu.errors import InputError
from hyce_gpu.merge import AliasMerge, merge
from hyce_gpu.schema import ExtractedEntity, ExtractedHyperedge, ExtractionRecord


def _record(doc: str, *entities: ExtractedEntity, edge: Sequence[str] = ()) -> ExtractionRecord:
    edges = (ExtractedHyperedge("x", tuple(edge), 0, 1),) if edge else ()
    return ExtractionRecord(f"{doc}#0", doc, 0, 0, 100, "ok", entities, edges)


def _clusters(records: Sequence[ExtractionRecord], *decisions: Decision) -> set[frozenset[str]]:
    """Each entity as the names that it has."""
    merged = merge(records, decisions)
    return {frozenset((one.name, *one.aliases)) for one in merged.entities}


def test_same_joins_names_of_different_types_and_is_recorded_without_an_alias() -> None:
    records = [
        _record("a", ExtractedEntity("Heron", type="ship"), ExtractedEntity("Ada"), edge=["Heron", "Ada"]),
        _record("b", ExtractedEntity("The Heron", type="org"), ExtractedEntity("Ole"), edge=["The Heron", "Ole"]),
    ]
    merged = merge(records, [decision("the heron", "HERON")])
    assert [(one.name, one.aliases) for one in merged.entities] == [("Heron", ("The Heron",)), ("Ada", ()), ("Ole", ())]
    assert [edge.members for edge in merged.hyperedges] == [(0, 1), (0, 2)]
    assert merged.merges == (AliasMerge("heron", "the heron", ""),)


def test_apart_beats_an_alias_also_through_a_third_name() -> None:
    bay = ExtractedEntity("Elgar Bay", aliases=("Elgar",))
    town = ExtractedEntity("Elgar", aliases=("Elgar Town",))
    records = [_record("a", bay, town, ExtractedEntity("Elgar Town"))]
    assert _clusters(records) == {frozenset({"Elgar Bay", "Elgar", "Elgar Town"})}
    # "Elgar" joins the bay first; then the town would come to the bay through it.
    merged = merge(records, [decision("Elgar Bay", "Elgar Town", APART)])
    assert [one.canonical for one in merged.entities] == ["elgar bay", "elgar town"]
    assert merged.merges == (AliasMerge("elgar", "elgar bay", "elgar"),)


def test_apart_holds_for_all_that_is_the_same() -> None:
    records = [
        _record("a", ExtractedEntity("Tidal Board", aliases=("TB",)), ExtractedEntity("TB"), ExtractedEntity("Taxes"))
    ]
    # The board is kept apart from a name that is the same as its alias.
    merged = merge(records, [decision("Tidal Board", "Taxes", APART), decision("TB", "Taxes")])
    assert [one.canonical for one in merged.entities] == ["tidal board", "tb"]
    assert merged.merges == (AliasMerge("tb", "taxes", ""),)


def test_a_join_outlives_the_name_that_it_went_through() -> None:
    records = [_record("a", ExtractedEntity("A. Marsh"), ExtractedEntity("Marsh, Ada"))]
    through = [decision("A. Marsh", "Ada Marsh"), decision("Ada Marsh", "Marsh, Ada")]
    assert len(merge(records, through).entities) == 1
    assert len(merge(records, through[:1]).entities) == 2


def test_a_decision_does_not_part_what_an_alias_joined() -> None:
    board = ExtractedEntity("Tidal Board", type="org", aliases=("TB",))
    records = [_record("a", board, ExtractedEntity("TB", type="org"), ExtractedEntity("Tide House", type="place"))]
    assert len(merge(records, [decision("Tidal Board", "Tide House")]).entities) == 1


def test_contradictions_name_the_pairs() -> None:
    with pytest.raises(InputError, match="'a' and 'c' are apart, and the same as 'a' = 'b' = 'c'"):
        merge([], [decision("A", "B"), decision("C", "B"), decision("C", "A", APART)])
    with pytest.raises(InputError, match="'a' and 'b' are apart, and the same as 'a' = 'b'"):
        merge([], [decision("A", "B"), decision("B", "A", APART)])
    with pytest.raises(InputError, match="are one name already"):
        decision("Ada", "ADA")
    with pytest.raises(InputError, match="unknown verdict 'aparte'; did you mean 'apart'"):
        decision("Ada", "Ole", "aparte")


NAMES = "abcdefgh"
pairs_of_names = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(lambda pair: pair[0] != pair[1])
some_records = st.lists(
    st.builds(
        lambda name, kind, alias: _record(f"{name}{alias}", ExtractedEntity(name, type=kind, aliases=(alias,))),
        st.sampled_from(NAMES), st.sampled_from(["", "x", "y"]), st.sampled_from(NAMES),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@given(some_records, st.lists(pairs_of_names, max_size=6), st.lists(pairs_of_names, max_size=3), st.randoms())
def test_the_order_of_decisions_does_not_matter_and_all_of_them_hold(
    records: list[ExtractionRecord], same: list[tuple[str, str]], apart: list[tuple[str, str]], draw: object
) -> None:
    decisions = [decision(*pair) for pair in same] + [decision(*pair, APART) for pair in apart]
    shuffled = list(decisions)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    try:
        merged = merge(records, decisions)
    except InputError as error:
        with pytest.raises(InputError, match=re.escape(str(error))):
            merge(records, shuffled)
        return
    assert merge(records, shuffled) == merged
    # Follow the recorded merges: what is the same is one, what is apart is not.
    names = {entity.name for record in records for entity in record.entities}
    entity_of = {name: {name} for name in names}
    for one in merged.merges:
        joined = entity_of[one.first] | entity_of[one.second]
        entity_of.update(dict.fromkeys(joined, joined))
    for one, other in same:
        assert not {one, other} <= names or other in entity_of[one]
    for one, other in apart:
        assert not {one, other} <= names or other not in entity_of[one]
    assert len({id(cluster) for cluster in entity_of.values()}) == len(merged.entities)
