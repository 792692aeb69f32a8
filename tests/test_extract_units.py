"""What a unit of extraction is known by: everything that its record depends on, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hyce_serving.scripted import Scripted

from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.schema import Chunk

EXTRACTOR = SpacyExtractor()


def chunk(text: str, title: str, doc: str, order: int = 0) -> Chunk:
    return Chunk(f"{doc}#{order}", doc, order, 0, len(text), text, title)


def test_a_record_is_the_same_when_only_some_are_wanted() -> None:
    texts = ["Vienna lies in Austria.", "Mozart lived in Vienna.", "He met Haydn there.", "Graz lies in Austria too."]
    chunks = [chunk(texts[0], "Vienna", "a"), *(chunk(t, "Mozart", "b", order=i) for i, t in enumerate(texts[1:]))]
    every = [one.record for one in EXTRACTOR.extract(chunks, range(4))]
    found = list(EXTRACTOR.extract(chunks, [0, 2]))
    assert [(one.position, one.record) for one in found] == [(0, every[0]), (2, every[2])]


def test_a_unit_is_known_by_its_document_and_by_the_titles_and_words_that_matter_to_it() -> None:
    chunks = [chunk("Vienna lies in Austria.", "Vienna", "a"), chunk("Mozart lived there.", "Mozart", "b")]
    keys = EXTRACTOR.unit_keys(chunks)
    assert len(set(keys)) == 2
    assert EXTRACTOR.unit_keys([replace(one, doc_id=one.doc_id + "x", id=one.id + "x") for one in chunks]) == keys
    # A title elsewhere says what is a name here, and so does a word that is written in lower case elsewhere.
    more = [*chunks, chunk("It is a country.", "Austria", "c")]
    assert EXTRACTOR.unit_keys(more)[0] != keys[0]
    assert EXTRACTOR.unit_keys(more)[1] == keys[1]
    more = [*chunks, chunk("He heard mozart.", "Salzburg", "c")]
    assert EXTRACTOR.unit_keys(more)[0] == keys[0]
    assert EXTRACTOR.unit_keys(more)[1] != keys[1]


def test_a_unit_is_known_by_all_chunks_of_its_document() -> None:
    first, second = chunk("Obama was born.", "Lives", "a"), chunk("Barack Obama met Merkel.", "Lives", "a", order=1)
    assert EXTRACTOR.unit_keys([first, second])[0] != EXTRACTOR.unit_keys([first])[0]


def test_a_unit_is_known_by_its_text_and_by_what_shapes_the_reply() -> None:
    def keys(chunks: Sequence[Chunk], max_tokens: int = 1024, **described: str) -> list[bytes]:
        generator = Scripted(lambda _: "", described=described)
        return LlmExtractor(generator, max_tokens).unit_keys(chunks)

    one_chunk = chunk("Ada met Bob.", "Ada", "d")
    (one,) = keys([one_chunk])
    elsewhere = replace(one_chunk, id="e#7", doc_id="e", order=7, start=0, end=70)
    assert keys([elsewhere], path="/moved", device="cuda", engine="vllm 9") == [one]
    others = [
        keys([replace(one_chunk, title="Other")]), keys([replace(one_chunk, text="Other")]), keys([one_chunk], 512),
        keys([one_chunk], seed="1"), keys([one_chunk], weights="abc"), keys([one_chunk], **{"option.revision": "v2"}),
        keys([one_chunk], **{"option.kv_cache_dtype": "fp8"}),
    ]  # fmt: skip
    assert len({one, *(other for (other,) in others)}) == 8
    # Weights that are the same under another name are the same model.
    assert keys([one_chunk], weights="abc", model="/moved") == keys([one_chunk], weights="abc", model="hub/id")
