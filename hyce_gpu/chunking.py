"""Documents become overlapping chunks of bounded token counts, cut at sentence ends where possible (SPEC.md, 1.1).

A document is laid out as units: pieces that no cut divides, which together hold all that is not white space. Chunks are
runs of units. Knows no tokenizer: the caller says where the tokens of a text stand.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from hyce_gpu.config import IndexConfig
from hyce_gpu.schema import Chunk, Document
from hyce_gpu.sentences import sentence_spans

# The code point spans of a text's tokens, in order, as a Hugging Face fast tokenizer's offsets; gaps are allowed.
TokenSpans = Callable[[str], list[tuple[int, int]]]

# Longer than any real token: an unknown-token that stands for a whole run of unknown script.
_LONGEST_TOKEN = 16
# What such a run would cost with a tokenizer that knew it.
_CODE_POINTS_PER_TOKEN = 4
# Of the emoji sequences and the letters that attach without being marks: ZWJ, skin tones, flag tags, Thai and Lao AM,
# the vowels and finals of decomposed Hangul.
_ATTACHING = (
    (0x200D, 0x200D), (0x1F3FB, 0x1F3FF), (0xE0020, 0xE007F), (0xE33, 0xE33), (0xEB3, 0xEB3), (0x1160, 0x11FF)
)  # fmt: skip
# From Thai to Myanmar, Khmer, and Chinese and Japanese.
_UNSPACED_SCRIPTS = ((0xE00, 0x109F), (0x1780, 0x17FF), (0x2E80, 0xA4CF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))


def chunk_documents(documents: Iterable[Document], token_spans: TokenSpans, config: IndexConfig) -> list[Chunk]:
    """The chunks of all documents, in the documents' order."""
    return [chunk for document in documents for chunk in chunk_document(document, token_spans, config)]


def chunk_document(document: Document, token_spans: TokenSpans, config: IndexConfig) -> list[Chunk]:
    """Cuts a document into chunks of at most `chunk_tokens` tokens that share about `chunk_overlap`.

    `document.text[chunk.start:chunk.end] == chunk.text`. Everything that is not white space is in some chunk. Each one
    ends behind the one before it, and begins and ends with something that is not white space. A blank text has none.
    """
    layout = _lay_out(document.text, token_spans(document.text), config.chunk_tokens)
    return [
        _chunk(document, order, layout.units[first].start, layout.units[last - 1].end)
        for order, (first, last) in enumerate(_windows(layout, config))
    ]


def _chunk(document: Document, order: int, start: int, end: int) -> Chunk:
    return Chunk(
        id=f"{document.id}#{order}",
        doc_id=document.id,
        order=order,
        start=start,
        end=end,
        text=document.text[start:end],
        title=document.title,
    )


class _Unit(NamedTuple):
    start: int
    end: int
    # In tokens; 0 for text that the tokenizer dropped.
    cost: int


@dataclass(frozen=True)
class _Layout:
    text: str
    units: list[_Unit]
    # cost_before[i] is the cost of units[:i]. [units + 1]
    cost_before: list[int]
    # The units that begin a sentence, rising, with one past the last unit as an end.
    sentence_starts: list[int]

    def cost(self, first: int, last: int) -> int:
        return self.cost_before[last] - self.cost_before[first]

    def next_sentence(self, unit: int) -> int:
        """The first sentence start behind `unit`."""
        return self.sentence_starts[bisect_right(self.sentence_starts, unit)]

    def sentence_starts_within(self, first: int, last: int) -> list[int]:
        begin, end = bisect_left(self.sentence_starts, first), bisect_right(self.sentence_starts, last)
        return self.sentence_starts[begin:end]

    def begins_word(self, unit: int) -> bool:
        return _begins_word(self.text, self.units[unit].start)


def _lay_out(text: str, spans: list[tuple[int, int]], limit: int) -> _Layout:
    units = list(_join_clusters(text, _cover(text, _tokens(text, spans)), limit))
    begins = {start for start, _ in sentence_spans(text)}
    return _Layout(
        text=text,
        units=units,
        cost_before=list(accumulate((unit.cost for unit in units), initial=0)),
        sentence_starts=[number for number, unit in enumerate(units) if unit.start in begins] + [len(units)],
    )


def _tokens(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[_Unit]:
    """The spans without white space and without overlap."""
    held = _Unit(0, 0, 0)
    for start, end in spans:
        start, end = _trim(text, max(start, held.end), min(end, len(text)))
        if end > start:
            yield held
            held = _Unit(start, end, 1)
        else:
            # One of several tokens for one character, which belong together.
            held = held._replace(cost=held.cost + 1)
    yield held


def _cover(text: str, tokens: Iterable[_Unit]) -> Iterator[_Unit]:
    """Units for the tokens and for the text between them."""
    position = 0
    for token in tokens:
        if token.start > position:
            yield from _divide(text, _Unit(*_trim(text, position, token.start), cost=0))
        yield from _divide(text, token)
        position = token.end
    yield from _divide(text, _Unit(*_trim(text, position, len(text)), cost=0))


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return start, end


def _divide(text: str, unit: _Unit) -> list[_Unit]:
    """The unit itself, its pieces where it is absurdly long, nothing where it is empty."""
    if unit.end - unit.start <= _LONGEST_TOKEN:
        return [unit] if unit.end > unit.start else []
    steps = range(unit.start, unit.end, _CODE_POINTS_PER_TOKEN)
    pieces = (_trim(text, step, min(step + _CODE_POINTS_PER_TOKEN, unit.end)) for step in steps)
    return [_Unit(start, end, 1) for start, end in pieces if end > start]


def _join_clusters(text: str, units: Iterable[_Unit], limit: int) -> Iterator[_Unit]:
    """Joins units where a cut between them would part a letter from its marks, up to the size of a chunk."""
    held = _Unit(0, 0, 0)
    for unit in units:
        if 0 < held.end == unit.start and held.cost + unit.cost <= limit and _attaches(text, unit.start):
            held = _Unit(held.start, unit.end, held.cost + unit.cost)
            continue
        if held.end:
            yield held
        held = unit
    if held.end:
        yield held


def _attaches(text: str, position: int) -> bool:
    char = text[position]
    if char.isascii():
        return False
    joined = text[position - 1] == "\u200d" or any(low <= ord(char) <= high for low, high in _ATTACHING)
    return joined or unicodedata.category(char).startswith("M")


def _windows(layout: _Layout, config: IndexConfig) -> Iterator[tuple[int, int]]:
    """Runs of units `[first, last)`, one a chunk; each ends behind the one before it."""
    first = covered = 0
    while covered < len(layout.units):
        last = _cut(layout, first, covered, config.chunk_tokens)
        yield first, last
        first, covered = _overlap_start(layout, first, last, config), last


def _cut(layout: _Layout, first: int, covered: int, limit: int) -> int:
    """Where the chunk from `first` ends: behind `covered`, and within the limit unless one unit exceeds it."""
    furthest = bisect_right(layout.cost_before, layout.cost_before[first] + limit) - 1
    furthest = max(furthest, covered + 1)
    if furthest == len(layout.units):
        return furthest
    sentence = layout.sentence_starts[bisect_right(layout.sentence_starts, furthest) - 1]
    if sentence > covered:
        following = layout.cost(sentence, layout.next_sentence(sentence))
        # A sentence that exceeds any chunk is cut in any case; one that fits is kept whole, however short this chunk.
        if following <= limit or layout.cost(first, sentence) * 2 >= limit:
            return sentence
    return _last_word_end(layout, furthest, max(covered, first + (furthest - first) * 3 // 4))


def _last_word_end(layout: _Layout, furthest: int, floor: int) -> int:
    """The last cut between words behind `floor`, or `furthest` inside one enormous word."""
    return next((cut for cut in range(furthest, floor, -1) if layout.begins_word(cut)), furthest)


def _begins_word(text: str, position: int) -> bool:
    """Behind white space or punctuation; or any letter of a script without spaces."""
    before, char = text[position - 1 : position], text[position]
    unspaced = any(low <= ord(char) <= high for low, high in _UNSPACED_SCRIPTS)
    return not before or before.isspace() or (char.isalnum() and (unspaced or not before.isalnum()))


def _overlap_start(layout: _Layout, first: int, cut: int, config: IndexConfig) -> int:
    """Where the next chunk begins: near `chunk_overlap` tokens before the cut, at a sentence start where there is one.

    What comes next has priority: a whole sentence behind the cut must still fit where a chunk can hold it.
    """
    if cut == len(layout.units) or not config.chunk_overlap:
        return cut
    room = config.chunk_tokens - _needed_behind(layout, cut, config.chunk_tokens)
    aim = min(config.chunk_overlap, room)
    least = _first_within(layout, first, cut, min(config.chunk_overlap * 3 // 2, room))
    most = _first_within(layout, first, cut, aim // 2)
    near = layout.sentence_starts_within(least, min(most, cut - 1))
    if near:
        return min(near, key=lambda unit: abs(layout.cost(unit, cut) - aim))
    start = _first_within(layout, first, cut, aim)
    return next((unit for unit in range(start, cut) if layout.begins_word(unit)), start)


def _needed_behind(layout: _Layout, cut: int, limit: int) -> int:
    """Tokens that the chunk after a cut must have room for besides its overlap."""
    sentence = layout.cost(cut, layout.next_sentence(cut))
    whole = layout.sentence_starts_within(cut, cut) and sentence <= limit
    return sentence if whole else layout.cost(cut, cut + 1)


def _first_within(layout: _Layout, first: int, cut: int, tokens: int) -> int:
    """The first unit behind `first` from which at most `tokens` tokens lead to the cut."""
    return min(max(bisect_left(layout.cost_before, layout.cost_before[cut] - tokens), first + 1), cut)
