"""Chunks: limits, overlap, offsets and cover, for any tokenizer and any text."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.chunking import TokenSpans, chunk_document, chunk_documents
from hyce_gpu.config import IndexConfig
from hyce_gpu.schema import Chunk, Document


def words(text: str) -> list[tuple[int, int]]:
    """One token a word or sign."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def letters(text: str) -> list[tuple[int, int]]:
    """One token a code point, white space left out."""
    return [(at, at + 1) for at, char in enumerate(text) if not char.isspace()]


def ascii_words(text: str) -> list[tuple[int, int]]:
    """Drops all but ASCII words, as tokenizers drop control characters."""
    return [match.span() for match in re.finditer(r"[a-zA-Z]+", text)]


def width(char: str) -> int:
    """Bytes in UTF-8; none for white space."""
    return 0 if char.isspace() else len(char.encode("utf-8"))


def fours(text: str) -> list[tuple[int, int]]:
    """One token for each four letters, as tokenizers cut what is no word."""
    return [match.span() for match in re.finditer(r"\w{1,4}", text)]


def bytes_of(text: str) -> list[tuple[int, int]]:
    """One token a byte: several with the same span for one character."""
    return [(at, at + 1) for at, char in enumerate(text) for _ in range(width(char))]


def no_tokens(text: str) -> list[tuple[int, int]]:
    return []


def document(text: str) -> Document:
    return Document(id="d", title="T", text=text, source="d.txt")


def cut(text: str, tokens: int, overlap: int) -> list[str]:
    chunks = chunk_document(document(text), words, IndexConfig(chunk_tokens=tokens, chunk_overlap=overlap))
    return [chunk.text for chunk in chunks]


def cost(spans: list[tuple[int, int]], chunk: Chunk) -> int:
    """Tokens in the chunk; one that is longer than 16 code points counts as one for every four."""
    total = 0
    for start, end in spans:
        inside = min(end, chunk.end) - max(start, chunk.start)
        if inside > 0:
            total += math.ceil(inside / 4) if end - start > 16 else 1
    return total


CONFIGS = st.integers(8, 40).flatmap(
    lambda tokens: st.builds(IndexConfig, chunk_tokens=st.just(tokens), chunk_overlap=st.integers(0, tokens // 2))
)
TEXTS = st.text(max_size=300) | st.text(
    alphabet="ab Ã.。?\n\t\u0301\u0e34\u0e01\u0928\u093f\u200d\u1112\u1161😀👩🏽\ufe0f\x00\u200b漢", max_size=300
)
TOKENIZERS = st.sampled_from([words, letters, ascii_words, no_tokens])


@given(TEXTS, TOKENIZERS | st.just(bytes_of), CONFIGS)
def test_chunks_cover_the_text_in_order(text: str, token_spans: TokenSpans, config: IndexConfig) -> None:
    chunks = chunk_document(document(text), token_spans, config)
    covered = start = 0
    for order, chunk in enumerate(chunks):
        assert (chunk.id, chunk.order, chunk.doc_id, chunk.title) == (f"d#{order}", order, "d", "T")
        assert text[chunk.start : chunk.end] == chunk.text == chunk.text.strip() != ""
        assert chunk.end > covered
        assert chunk.start > start or order == 0
        assert not text[covered : chunk.start].strip()
        covered, start = chunk.end, chunk.start
    assert not text[covered:].strip()


@given(TEXTS, TOKENIZERS, CONFIGS)
def test_chunks_keep_the_limit(text: str, token_spans: TokenSpans, config: IndexConfig) -> None:
    spans = token_spans(text)
    for chunk in chunk_document(document(text), lambda _: spans, config):
        assert cost(spans, chunk) <= config.chunk_tokens


@given(TEXTS, CONFIGS)
def test_several_tokens_of_one_character_all_count(text: str, config: IndexConfig) -> None:
    for chunk in chunk_document(document(text), bytes_of, config):
        assert sum(map(width, chunk.text)) <= config.chunk_tokens


@given(TEXTS, TOKENIZERS, CONFIGS)
def test_overlap_is_bounded(text: str, token_spans: TokenSpans, config: IndexConfig) -> None:
    spans = token_spans(text)
    chunks = chunk_document(document(text), lambda _: spans, config)
    for before, after in pairwise(chunks):
        shared = sum(start >= after.start and end <= before.end for start, end in spans if end - start <= 16)
        assert shared <= config.chunk_overlap * 1.5
        if not config.chunk_overlap:
            assert after.start >= before.end


@given(st.text(alphabet="aกนe\u0301\u0e34\u093f\u0323", min_size=1, max_size=200), TOKENIZERS, CONFIGS)
def test_marks_stay_with_their_letter(text: str, token_spans: TokenSpans, config: IndexConfig) -> None:
    for chunk in chunk_document(document(text), token_spans, config)[1:]:
        # Only a letter with more marks than a chunk can hold is cut.
        marks = re.search("[\u0301\u0e34\u093f\u0323]*$", text[: chunk.start])
        assert not unicodedata.category(text[chunk.start]).startswith("M") or (marks and len(marks[0]) >= 6)


def test_cuts_fall_on_sentence_ends_and_overlap_begins_at_a_sentence() -> None:
    # Four sentences of four tokens; two fit in eight, and one is the overlap of four.
    text = "A b c. D e f. G h i. J k l."
    assert cut(text, 8, 4) == ["A b c. D e f.", "D e f. G h i.", "G h i. J k l."]
    assert cut(text, 8, 0) == ["A b c. D e f.", "G h i. J k l."]


def test_a_sentence_that_fits_alone_is_never_cut() -> None:
    # Two tokens, then eight: together too many.
    assert cut("Yes. One two three four five six seven.", 8, 4) == ["Yes.", "One two three four five six seven."]


def test_a_sentence_longer_than_a_chunk_is_cut_between_words() -> None:
    text = "a b c d e f g h i j k l"
    assert cut(text, 8, 2) == ["a b c d e f g h", "g h i j k l"]
    assert cut(text, 8, 0) == ["a b c d e f g h", "i j k l"]


def test_a_cut_avoids_the_inside_of_a_word() -> None:
    # Tokens of two letters: the eighth would end inside "gghh".
    def pairs(text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\w\w", text)]

    chunks = chunk_document(document("aabb ccdd eeff gg hhii jj"), pairs, IndexConfig(chunk_tokens=8, chunk_overlap=0))
    assert [chunk.text for chunk in chunks] == ["aabb ccdd eeff gg", "hhii jj"]


@pytest.mark.parametrize("text", ["  one two.\n\n three \t", "\u3000一。\n"])
def test_a_document_that_fits_is_one_trimmed_chunk(text: str) -> None:
    chunks = chunk_document(document(text), words, IndexConfig())
    lead = len(text) - len(text.lstrip())
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(lead, lead + len(text.strip()))]


@pytest.mark.parametrize("text", ["", " \n\u2028 "])
def test_a_blank_document_has_no_chunk(text: str) -> None:
    assert chunk_document(document(text), words, IndexConfig()) == []


def test_text_that_the_tokenizer_drops_is_kept() -> None:
    text = "\x01a b\x02 c d e f g h i\x03\x04"
    chunks = chunk_document(document(text), ascii_words, IndexConfig(chunk_tokens=8, chunk_overlap=0))
    assert [chunk.text for chunk in chunks] == ["\x01a b\x02 c d e f g h", "i\x03\x04"]


def test_an_absurd_token_counts_by_length_and_may_be_cut() -> None:
    # 40 code points of one token cost ten; a chunk of eight holds 32 of them.
    text = "ก" * 40
    chunks = chunk_document(document(text), lambda _: [(0, 40)], IndexConfig(chunk_tokens=8, chunk_overlap=0))
    assert [(chunk.start, chunk.end) for chunk in chunks] == [(0, 32), (32, 40)]


def test_a_token_of_sixteen_code_points_is_one() -> None:
    text = "x" * 16
    chunks = chunk_document(document(text), lambda _: [(0, 16)], IndexConfig(chunk_tokens=8, chunk_overlap=0))
    assert len(chunks) == 1


def test_chunks_of_several_documents_come_in_order() -> None:
    documents = [Document("x", "", "one.", "x"), Document("y", "", " ", "y"), Document("a#b", "", "two.", "z")]
    chunks = chunk_documents(documents, words, IndexConfig())
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("x#0", "one."), ("a#b#0", "two.")]


def test_fifty_thousand_tokens_are_fast() -> None:
    # 5,000 sentences of ten tokens; 25 fit in 256, and 3 of them are nearest to an overlap of 32.
    text = "This one has just ten tokens in all here. " * 5000
    assert len(words(text)) == 50_000
    begun = time.perf_counter()
    chunks = chunk_document(document(text), words, IndexConfig())
    assert time.perf_counter() - begun < 10
    # The first holds 25 sentences, each other one 22 new ones: 1 + ceil((5000 - 25) / 22).
    assert len(chunks) == 228
    assert {len(words(chunk.text)) for chunk in chunks[:-1]} == {250}


@pytest.mark.parametrize("token_spans", [words, fours, no_tokens])
def test_two_megabytes_on_one_line(token_spans: TokenSpans) -> None:
    text = "x" * 2_000_000
    begun = time.perf_counter()
    chunks = chunk_document(document(text), token_spans, IndexConfig())
    assert time.perf_counter() - begun < 60
    assert chunks[-1].end == len(text)
