"""Extractions as models and other tools write them; each expected value was worked out from the text by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.extract.parse import Parsed, ParseError, join, parse_extraction
from hyce_gpu.schema import Chunk, ExtractedEntity, Relation

TEXT = "Ada Marsh designed the Tern Bridge. It stands in Wexmouth.\nThe  city opened it in 1938, as “a gift”."
# "Ada … Bridge." is 0 to 35, "It … Wexmouth." 36 to 58, "The  city … gift”." 59 to 100.
START = 1000


def chunk(text: str = TEXT, title: str = "Ada Marsh", start: int = START, id: str = "d#0") -> Chunk:
    return Chunk(id, "d", 0, start, start + len(text), text, title)


def edge(*members: Any, **fields: Any) -> dict[str, Any]:
    return {"segment": "It stands in Wexmouth.", "entities": list(members), **fields}


def read(value: object, **where: Any) -> Parsed:
    return parse_extraction(value, chunk(), **where)


def names(parsed: Parsed) -> list[str]:
    return [entity.name for entity in parsed.entities]


@pytest.mark.parametrize(
    "value",
    [
        {"entities": ["Tern Bridge", "Wexmouth"], "hyperedges": [edge("Tern Bridge", "Wexmouth")]},
        {
            "entities": [{"entity": "Tern Bridge"}, {"entity_name": "Wexmouth"}],
            "edges": edge("Tern Bridge", "Wexmouth"),
        },
        {"hyperedges": [{"sentence": "It stands in Wexmouth.", "members": [{"name": "Tern Bridge"}, "Wexmouth"]}]},
        {"result": {"facts": [{"text": "It stands in Wexmouth.", "participants": ["Tern Bridge", "Wexmouth"]}]}},
        {"description": "It stands in Wexmouth.", "nodes": ["Tern Bridge", "Wexmouth"]},
        [edge("Tern Bridge", "Wexmouth")],
        ["Tern Bridge", edge("TERN  bridge", "Wexmouth", "wexmouth.")],
    ],
)
def test_reads_one_hyperedge_of_two_from_every_shape(value: object) -> None:
    parsed = read(value)
    assert names(parsed) == ["Tern Bridge", "Wexmouth"]
    (found,) = parsed.hyperedges
    assert found.entities == ("Tern Bridge", "Wexmouth")
    assert (found.segment, found.start, found.end) == ("It stands in Wexmouth.", START + 36, START + 58)
    assert found.confidence == 1.0
    assert parsed.notes == []


def test_relations_beside_the_entities_make_hyperedges_of_their_sentences() -> None:
    triples = [["Ada Marsh", "designed", "Tern Bridge"], ["Wexmouth", "has", "tern bridge"], ["Ada Marsh", "lived"]]
    parsed = read({"entities": ["Ada Marsh"], "triples": triples})
    assert [(item.start - START, item.end - START) for item in parsed.hyperedges] == [(0, 35), (0, 58)]
    assert parsed.hyperedges[0].relations == (Relation("Ada Marsh", "designed", "Tern Bridge"),)
    assert parsed.hyperedges[1].entities == ("Wexmouth", "Tern Bridge")
    assert parsed.notes == ["dropped relation without head, predicate or tail: Ada Marsh, lived"]


def test_a_relation_beside_the_hyperedges_joins_the_one_that_holds_its_ends() -> None:
    parsed = read({"hyperedges": [edge("Tern Bridge", "Wexmouth")], "relations": ["Tern Bridge", "in", "Wexmouth"]})
    (found,) = parsed.hyperedges
    assert found.relations == (Relation("Tern Bridge", "in", "Wexmouth"),)


@pytest.mark.parametrize("value", [1, "A", None, True, {}, {"foo": 1}, {"foo": {"bar": []}}, [1, 2], [[]], [{"a": 1}]])
def test_refuses_what_has_no_known_shape(value: object) -> None:
    with pytest.raises(ParseError, match="expected"):
        read(value)


@pytest.mark.parametrize("value", [[], {"entities": []}, {"entities": None, "hyperedges": []}])
def test_an_empty_extraction_is_one(value: object) -> None:
    assert read(value) == Parsed((), (), [])


def test_drops_what_the_passage_does_not_hold_unless_told_otherwise() -> None:
    value = {"entities": ["Atlantis", "Ada"], "hyperedges": [edge("Ada", "Atlantis"), edge("Ada", "1938", "Rome")]}
    parsed = read(value)
    assert names(parsed) == ["Ada", "1938"]
    assert [item.entities for item in parsed.hyperedges] == [("Ada", "1938")]
    dropped = "dropped entity that the passage does not hold"
    assert parsed.notes == [
        f"{dropped}: Atlantis", f"{dropped}: Atlantis",
        "dropped hyperedge with fewer than two entities: It stands in Wexmouth.", f"{dropped}: Rome",
    ]  # fmt: skip
    assert names(read(value, grounded=False)) == ["Atlantis", "Ada", "1938", "Rome"]


@pytest.mark.parametrize(
    ("text", "name", "held"),
    [
        ("He used it.", "US", False), ("The US, he said.", "US", True), ("Tirana", "Iran", False),
        ("Irans", "Iran", True),
        ("in Москве жил", "Москва", True), ("in Минске жил", "Москва", False), ("使用AI技术", "AI", True),
        ("周杰伦出生", "周杰伦", True), ("C++ and C", "C++", True), ("C only", "C++", False),
        ("the “Red” one", 'the "Red" one', True), ("1914–18", "1914-18", True), ("New\nYork", "NEW YORK", True),
    ],
)  # fmt: skip
def test_compares_names_with_the_text_canonically(text: str, name: str, held: bool) -> None:
    parsed = parse_extraction({"entities": [name]}, chunk(text, title=""))
    assert names(parsed) == ([name] if held else [])


def test_the_title_holds_names_too() -> None:
    assert names(parse_extraction(["Ada Marsh"], chunk("She left."))) == ["Ada Marsh"]


def test_duplicates_collapse_and_keep_the_higher_confidence() -> None:
    first = {"name": "Tern Bridge", "confidence": 0.4, "aliases": ["the Tern"], "role": "work"}
    second = {"name": "tern bridge", "confidence": "60%", "aliases": ["It", "THE TERN"], "type": "bridge", "role": "x"}
    parsed = read({"entities": [first, second]}, grounded=False)
    expected = ExtractedEntity("Tern Bridge", "bridge", "work", ("the Tern", "It"), "", 0.6)
    assert parsed.entities == (expected,)


def test_an_alias_names_its_entity_and_stands_in_for_a_name_that_the_passage_lacks() -> None:
    value = {
        "entities": [{"name": "The Bridge of Terns", "aliases": ["Tern Bridge", "Gull Bridge"]}, {"name": "Wexmouth"}],
        "hyperedges": [edge("tern bridge", "Wexmouth")],
    }
    parsed = read(value)
    assert names(parsed) == ["Tern Bridge", "Wexmouth"]
    assert parsed.entities[0].aliases == ()
    assert parsed.notes == [
        "dropped alias that the passage does not hold: Gull Bridge",
        "named an entity by its alias, since the passage does not hold its name: The Bridge of Terns",
    ]
    kept = read(value, grounded=False)
    assert kept.hyperedges[0].entities == ("The Bridge of Terns", "Wexmouth")


def test_control_characters_leave_the_names() -> None:
    parsed = read({"entities": ["Tern\x00 \u202eBridge\x07", "\x01\ud800", "Wex\u200bmouth", 1938]})
    assert names(parsed) == ["Tern Bridge", "Wexmouth", "1938"]


def test_entities_that_are_none_are_noted() -> None:
    parsed = read({"entities": [None, True, {"type": "x"}, ["a"], "1938"], "hyperedges": [7, "text"]})
    assert names(parsed) == ["1938"]
    assert [note.partition(":")[0] for note in parsed.notes] == [
        *["dropped entity without a name"] * 4, *["dropped hyperedge of no known shape"] * 2,
    ]  # fmt: skip


def test_confidences_time_and_reliability() -> None:
    (found,) = read([edge("1938", "Wexmouth", confidence="9/10", time=1938, reliability="high")]).hyperedges
    assert (found.confidence, found.time, found.reliability) == (0.9, "1938", 0.8)
    parsed = read([edge("1938", "Wexmouth", confidence="sure", reliability=-1)])
    assert (parsed.hyperedges[0].confidence, parsed.hyperedges[0].reliability) == (0.5, None)
    assert parsed.notes == ["ignored a reliability that is none: -1", "replaced a confidence that is none: sure"]


def test_relations_keep_the_entities_own_spelling_or_go() -> None:
    relations = [
        {"head": "TERN BRIDGE", "predicate": "in", "tail": "wexmouth", "confidence": 8},
        {"subject": "Tern Bridge", "relation": "in", "object": "Wexmouth"},
        ["Ada Marsh", "designed", "Tern Bridge"],
        ["Tern Bridge", "is", "tern bridge"],
    ]
    value = {"entities": ["Ada Marsh"], "hyperedges": [edge("Tern Bridge", "Wexmouth", relations=relations)]}
    parsed = read(value)
    assert parsed.hyperedges[0].relations == (Relation("Tern Bridge", "in", "Wexmouth", 0.8),)
    assert parsed.notes == [
        "dropped relation that joins no two of its entities: Ada Marsh, Tern Bridge",
        "dropped relation that joins no two of its entities: Tern Bridge, tern bridge",
    ]


@pytest.mark.parametrize(
    ("segment", "start", "end"),
    [
        ("It stands in Wexmouth.", 36, 58),
        (" it stands\n in Wexmouth ", 36, 57),
        ("The city opened it in 1938, as \"a gift\".", 59, 100),
        ("Wexmouth. The city", 49, 68),
    ],
)  # fmt: skip
def test_a_segment_of_the_text_has_its_exact_offsets(segment: str, start: int, end: int) -> None:
    (found,) = read([edge("1938", "Wexmouth", segment=segment)]).hyperedges
    assert (found.segment, found.start, found.end) == (TEXT[start:end], START + start, START + end)


def test_a_segment_in_other_words_has_the_chunks_offsets() -> None:
    (found,) = read([edge("1938", "Wexmouth", segment="Wexmouth  opened\x00 its\nbridge.")]).hyperedges
    assert (found.segment, found.start, found.end) == ("Wexmouth opened its bridge.", START, START + len(TEXT))


def test_a_segment_from_elsewhere_that_names_no_member_is_made_up() -> None:
    value = [edge("1938", "Wexmouth", segment="He was crowned.")]
    assert read(value).hyperedges == ()
    assert read(value).notes == [
        "dropped hyperedge whose segment is not the passage's and names none of its entities: He was crowned."
    ]
    assert read(value, grounded=False).hyperedges[0].segment == "He was crowned."


def test_an_alias_that_names_another_entity_is_ignored() -> None:
    parsed = read([{"name": "Tern Bridge", "aliases": ["Wexmouth", "the Tern"]}, {"name": "Wexmouth"}])
    assert [entity.aliases for entity in parsed.entities] == [("the Tern",), ()]
    assert parsed.notes == ["ignored an alias that names another entity: Wexmouth"]


def test_given_offsets_tell_equal_segments_apart() -> None:
    text = "A met B. A met B."
    value = [{"segment": "A met B.", "entities": ["A", "B"], "start": at, "end": 0} for at in (5, 14, 6, "x", -(9**30))]
    parsed = parse_extraction(value, chunk(text, start=5))
    assert [item.start for item in parsed.hyperedges] == [5, 14, 5, 5, 5]


@pytest.mark.parametrize(
    ("members", "start", "end"),
    [
        (["Ada Marsh", "Tern Bridge"], 0, 35),
        (["Tern Bridge", "Wexmouth"], 0, 58),
        (["Wexmouth", "1938"], 36, 100),
        (["Ada Marsh", "1938"], 0, 100),
    ],
)
def test_without_a_segment_the_shortest_run_of_sentences_stands(members: list[str], start: int, end: int) -> None:
    (found,) = read([{"entities": members, "hyperedges": [{"entities": members}]}]).hyperedges
    assert (found.segment, found.start, found.end) == (TEXT[start:end], START + start, START + end)


def test_without_a_segment_and_a_sentence_with_its_names_the_whole_chunk_stands() -> None:
    (found,) = read({"hyperedges": [{"entities": ["X", "Y"]}]}, grounded=False).hyperedges
    assert (found.segment, found.start, found.end) == (TEXT, START, START + len(TEXT))


def test_join_keeps_the_first_spelling_everywhere() -> None:
    one, two = (
        read([edge("Ada Marsh", "Wexmouth")]),
        read([edge("ada marsh", "1938", relations=[["ADA MARSH", "in", "1938"]])]),
    )
    whole = join([one, two])
    assert names(whole) == ["Ada Marsh", "Wexmouth", "1938"]
    assert [item.entities for item in whole.hyperedges] == [("Ada Marsh", "Wexmouth"), ("Ada Marsh", "1938")]
    assert whole.hyperedges[1].relations == (Relation("Ada Marsh", "in", "1938"),)


KEYS = st.sampled_from(
    "entities hyperedges relations triples name aliases segment text members head predicate tail confidence start time "
    "reliability edges nodes description".split()
) | st.text(max_size=3)  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(
    ["Ada Marsh", "1938", "Wexmouth", "It stands in Wexmouth.", "the  CITY"]
)  # fmt: skip
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5))


@given(JSON, st.booleans())
def test_any_json_is_read_or_refused(value: object, grounded: bool) -> None:
    try:
        parsed = read(value, grounded=grounded)
    except ParseError:
        return
    own = {entity.name for entity in parsed.entities}
    confidences = [entity.confidence for entity in parsed.entities]
    for found in parsed.hyperedges:
        assert len(set(found.entities)) >= 2
        assert set(found.entities) <= own
        assert all({item.head, item.tail} <= set(found.entities) for item in found.relations)
        is_chunk = (found.start, found.end) == (START, START + len(TEXT))
        assert is_chunk or found.segment == TEXT[found.start - START : found.end - START]
        confidences += [found.confidence, *(item.confidence for item in found.relations)]
        confidences += [] if found.reliability is None else [found.reliability]
    assert all(0.0 <= confidence <= 1.0 for confidence in confidences)
