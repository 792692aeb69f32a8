"""Merging of extraction records: which names are one entity, which hyperedges are one, and what they keep."""

from __future__ import annotations

from hyce_gpu.decisions import APART, decision
from hyce_gpu.drafts import AliasMerge
from hyce_gpu.merge import merge
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import ExtractedEntity, ExtractedHyperedge, ExtractionRecord, Relation, Source


def _record(
    doc: str, entities: list[ExtractedEntity], hyperedges: list[ExtractedHyperedge] | None = None
) -> ExtractionRecord:
    return ExtractionRecord(f"{doc}#0", doc, 0, 0, 100, "ok", tuple(entities), tuple(hyperedges or ()))


def _edge(
    segment: str, *names: str, confidence: float = 1.0, relations: tuple[Relation, ...] = ()
) -> ExtractedHyperedge:
    return ExtractedHyperedge(segment, names, 0, len(segment), confidence, relations=relations)


def test_names_of_every_script_stay_apart_and_non_empty() -> None:
    names = ["C", "C++", "C#", ".NET", "周杰伦", "Müller", "Mueller", "ნინო", "!!!"]
    assert len({canonical_name(name) for name in names}) == len(names)
    assert all(canonical_name(name) for name in names)


def test_spellings_of_one_name_are_one_entity() -> None:
    assert canonical_name(" “The  Hague” ") == canonical_name("the hague,") == "the hague"
    assert canonical_name("ＴＯＫＹＯ") == canonical_name("Tokyo") == "tokyo"
    assert canonical_name("Straße") == canonical_name("STRASSE") == "strasse"
    assert canonical_name("(500) Days of Summer") == "(500) days of summer"


def test_merged_confidence_is_the_highest_and_never_a_sum() -> None:
    first = _record("a", [ExtractedEntity("Ada", confidence=0.9)], [_edge("x", "Ada", "Bob", confidence=0.7)])
    second = _record("b", [ExtractedEntity("ADA", confidence=0.8)], [_edge("X ", "Bob", "Ada", confidence=0.6)])
    merged = merge([first, second])
    assert [entity.name for entity in merged.entities] == ["Ada", "Bob"]
    assert merged.entities[0].confidence == 0.9
    (edge,) = merged.hyperedges
    assert edge.confidence == 0.7
    assert edge.sources == (Source("a", "a#0", 0, 1), Source("b", "b#0", 0, 2))


def test_an_entity_named_twice_counts_once_and_a_lone_one_is_no_hyperedge() -> None:
    merged = merge([_record("a", [], [_edge("x", "Ada", "ada", "Bob"), _edge("y", "Ada", "“Ada”")])])
    assert [edge.members for edge in merged.hyperedges] == [(0, 1)]
    assert merged.too_small == 1


def test_alias_links_its_entity_to_the_one_it_names() -> None:
    who = ExtractedEntity("World Health Organization", type="ORG", aliases=("WHO",))
    merged = merge([_record("a", [who]), _record("b", [ExtractedEntity("WHO", type="org")])])
    assert len(merged.entities) == 1
    assert merged.merges == (AliasMerge("who", "world health organization", "who"),)


def test_alias_that_is_the_name_of_a_third_links_nothing() -> None:
    texas = ExtractedEntity("Paris, Texas", type="GPE", aliases=("Paris",))
    hilton = ExtractedEntity("Paris Metro", type="GPE", aliases=("Paris",))
    merged = merge([_record("a", [texas, hilton, ExtractedEntity("Paris", type="GPE")])])
    assert len(merged.entities) == 3
    assert merged.merges == ()


def test_alias_does_not_link_entities_of_different_types() -> None:
    amazon = ExtractedEntity("Amazon.com", type="ORG", aliases=("Amazon",))
    river = ExtractedEntity("Amazon River", type="LOC", aliases=("Amazon",))
    assert len(merge([_record("a", [amazon, river])]).entities) == 2
    unknown = ExtractedEntity("Amazon River", aliases=("Amazon",))
    assert len(merge([_record("a", [amazon, unknown])]).entities) == 1


def test_a_merge_can_be_undone() -> None:
    who = ExtractedEntity("World Health Organization", aliases=("WHO",))
    records = [_record("a", [who, ExtractedEntity("WHO")])]
    (done,) = merge(records).merges
    assert len(merge(records, [decision(done.first, done.second, APART)]).entities) == 2


def test_relations_unite_and_speak_of_the_merged_names() -> None:
    low, high = Relation("ADA", "knows", "Bob", 0.4), Relation("Ada", "knows", "Bob", 0.8)
    first = _record("a", [ExtractedEntity("Ada")], [_edge("x", "Ada", "Bob", relations=(low,))])
    second = _record("b", [], [_edge("x", "Ada", "Bob", relations=(high,))])
    (edge,) = merge([first, second]).hyperedges
    assert edge.relations == (Relation("Ada", "knows", "Bob", 0.8),)
