"""A corpus changes: what is read again, what is not, and that the records are those of the new corpus either way."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from hyce_gpu.extract import pipelines
from hyce_gpu.extract.columns import rows_with_names
from hyce_gpu.extract.corpus_change import CorpusChange, Standing
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.schema import Chunk, ExtractionRecord

# Documents by id, each with its chunks.
Corpus = dict[str, list[Chunk]]
EXTRACTOR = SpacyExtractor()


def document(name: str, title: str, text: str, cuts: Sequence[tuple[int, int]] = ()) -> list[Chunk]:
    spans = cuts or [(0, len(text))]
    return [Chunk(f"{name}#{i}", name, i, *span, text[slice(*span)], title) for i, span in enumerate(spans)]


def flat(corpus: Corpus) -> list[Chunk]:
    return [chunk for chunks in corpus.values() for chunk in chunks]


def change(old: Corpus, new: Corpus, extractor: SpacyExtractor = EXTRACTOR) -> CorpusChange:
    documents = list(old.values())
    standing = Standing(
        [chunks[0].title for chunks in documents],
        pa.chunked_array(
            [pa.array([chunk.text for chunk in chunks], pa.string()) for chunks in documents], pa.string()
        ),
        np.repeat(np.arange(len(documents)), [len(chunks) for chunks in documents]),
        documents.__getitem__,
    )
    stays = np.array([new.get(name) == chunks for name, chunks in old.items()], dtype=bool)
    came = [chunk for name, chunks in new.items() if old.get(name) != chunks for chunk in chunks]
    return CorpusChange(standing, stays, [chunks[0].title for chunks in new.values()], came, extractor.dependence)


def read_again(old: Corpus, new: Corpus) -> list[str]:
    names = list(old)
    return [names[position] for position in change(old, new).to_read_again]


def records(chunks: Sequence[Chunk], extractor: SpacyExtractor = EXTRACTOR) -> dict[str, ExtractionRecord]:
    return {one.record.chunk_id: one.record for one in extractor.extract(chunks, range(len(chunks)))}


def check(old: Corpus, new: Corpus, extractor: SpacyExtractor = EXTRACTOR) -> int:
    """Every record that is taken over, or made anew of these documents alone, is that of the new corpus; how many."""
    step = change(old, new, extractor)
    names, again = list(old), {list(old)[position] for position in step.to_read_again}
    taken = {name for name in names if new.get(name) == old[name] and name not in again}
    before, expected = records(flat(old), extractor), records(flat(new), extractor)
    apart = [chunk for name in new if name not in taken for chunk in new[name]]
    found = {chunk.id: before[chunk.id] for name in taken for chunk in old[name]}
    found |= records(apart, extractor.within(step))
    assert found == expected
    # A unit that has the same key has the same record, whether it was made of a part or of the whole.
    keys = dict(zip((chunk.id for chunk in flat(new)), extractor.unit_keys(flat(new)), strict=True))
    assert [keys[chunk.id] for chunk in apart] == extractor.within(step).unit_keys(apart)
    old_keys = dict(zip((chunk.id for chunk in flat(old)), extractor.unit_keys(flat(old)), strict=True))
    assert all(before[name] == expected[name] for name in keys if keys[name] == old_keys.get(name))
    assert all(keys[chunk.id] == old_keys[chunk.id] for name in taken for chunk in old[name])
    return len(taken)


BASE = {
    "ulm": document("ulm", "Ulm (Germany)", "Ulm lies on the Danube. Its minster is a church."),
    "vienna": document("vienna", "Vienna", "Mozart lived in Vienna. The glass bead game was played there."),
    "paris": document("paris", "Paris", "Hesse never saw the Museum of Ulm. He went to the Old Town Inn."),
    "clubs": document("clubs", "Clubs", "The hexagon stands in Graz. Players of rugby league met the Beatles."),
}
CHANGES = {
    "nobody mentions it": ("Trondheim", "It lies in Norway, where fjords glitter.", []),
    "a title of lower-case words": ("Glass Bead Game", "Hermann Hesse wrote it in 1943.", []),
    "its sentence form": ("Glass bead game", "Hermann Hesse wrote it in 1943.", ["vienna"]),
    "a title": ("Danube", "It is a river.", ["ulm"]),
    "inside a name": ("Old Town", "It is a quarter.", ["paris"]),
    "with an article": ("The Beatles", "They came from Liverpool.", ["clubs"]),
    "a title that is there": ("Vienna", "It is in Austria.", []),
    "the bare name of one that is there": ("Ulm", "It has a minster.", ["ulm", "paris"]),
    "a title is a common word now": ("Walks", "He drew vienna in lower case.", ["vienna"]),
    "a word matters to nobody": ("Walks", "He drew zithers and quavers.", []),
}


@pytest.mark.parametrize("case", CHANGES)
def test_just_those_are_read_again_that_name_what_came_and_went(case: str) -> None:
    title, text, expected = CHANGES[case]
    more = {**BASE, "new": document("new", title, text)}
    assert read_again(BASE, more) == expected
    assert read_again(more, BASE) == expected
    assert check(BASE, more) == check(more, BASE) == len(BASE) - len(expected)


def test_the_first_of_two_titles_with_one_spelling_has_it() -> None:
    one, other = document("a", "rugby league", "A sport."), document("b", "Rugby league", "A sport.")
    text = document("c", "Clubs", "Many play rugby league. Others play chess in Graz.")
    old, new = {"a": one, "b": other, "c": text}, {"b": other, "a": one, "c": text}
    assert "c" in read_again(old, new)
    check(old, new)


def test_nothing_is_read_again_where_nothing_changed() -> None:
    assert read_again(BASE, BASE) == []
    assert read_again(BASE, {**BASE, "twin": document("twin", "Vienna", "Mozart lived in Vienna.")}) == []
    assert read_again({}, BASE) == []


LATIN = (
    "Ulm Danube Old Town Museum of the in Glass Bead Game glass bead game Rugby league Cannot cannot Don't couldn't "
    "Hexagon hexagon hexagons World Health Organization (WHO) Mozart met lived saw Vienna's l'Amour d'été Café A4 "
    "iPhone_X New-York [York](http://a.b) *Town* and U.S. 1999 5km Mr. İzmir izmir École école straße STRASSE ΟΔΟΣ "
    "οδος . . . , :"
).split()
OTHER = (
    "한국은 한국 경제는 경제 성장은 서울은 서울 Google은 Google 검색을 검색 للنيل النيل نهر والنهر القاهرة تقع "
    "ירושלים בירושלים הכנסת ישראל 北京大学 北京 大学很大。 他在 東京タワー タワー は วัด แม่น้ำเจ้าพระยา ไหลผ่าน "
    "Москва Москве река गंगा नदी . ."
).split()
TITLES = (
    "Ulm|Ulm (Germany)|Ulm, Germany|Old Town|Town|Museum|Museum of Ulm|Glass Bead Game|Glass bead game|Glass|Hexagon|"
    "Rugby league|rugby league|The Beatles|World Health|WHO|Mozart|L'Amour|Amour été|amour été|Café|A4|iPhone_X|York|"
    "New|Cannot|Don|İzmir|École|한국|한국 경제|Google 검색|النيل|نهر النيل|ישראל|北京大学|北京|東京タワー|タワー|"
    "แม่น้ำเจ้าพระยา|Москва|गंगा|x.md|"
).split("|")


def random_document(draw: random.Random, name: str) -> list[Chunk]:
    words = draw.choice([LATIN, LATIN, LATIN + OTHER, OTHER])
    text = "".join(draw.choice(words) + draw.choice([" "] * 12 + ["\n", "", "-"]) for _ in range(draw.randint(3, 40)))
    cut = draw.randint(1, len(text))
    spans = [(0, cut), (max(0, cut - draw.randint(0, 9)), len(text))] if draw.random() < 0.4 and cut < len(text) else []
    title = draw.choice(TITLES) if draw.random() < 0.8 else " ".join(draw.sample(words, 2))
    return document(name, title, text, spans)


def random_change(draw: random.Random) -> tuple[Corpus, Corpus]:
    names = [f"d{i}" for i in range(draw.randint(1, 9))]
    old = {name: random_document(draw, name) for name in names}
    new = {name: chunks for name, chunks in old.items() if draw.random() < 0.9}
    for name in draw.sample(["x", "y", *names], draw.randint(0, 2)):
        new[name] = random_document(draw, name)
    if draw.random() < 0.1:
        new = dict(draw.sample(list(new.items()), len(new)))
    return old, new


@pytest.mark.parametrize("seed", range(4))
def test_random_changes(seed: int) -> None:
    draw = random.Random(seed)
    taken = sum(check(*random_change(draw)) for _ in range(12))
    assert taken


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_by_rule_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "installed_pipelines", lambda code: [])
    draw, extractor = random.Random(seed), SpacyExtractor()
    taken = sum(check(*random_change(draw), extractor) for _ in range(60))
    assert taken


def test_one_pattern_over_a_column_finds_whatever_lower_case_makes_alike() -> None:
    """RE2's letters against Python's: a row that is passed over is not looked at again."""
    for code in range(0x20, 0x20000):
        char = chr(code)
        if char.isalpha() and char.lower() != char:
            column = pa.chunked_array([pa.array([f"x {char}bc"])])
            assert rows_with_names(column, [f"{char.lower()}bc"]).tolist() == [0], hex(code)
            assert rows_with_names(pa.chunked_array([pa.array([f"x {char.lower()}bc"])]), [f"{char}bc"]).tolist() == [0]
