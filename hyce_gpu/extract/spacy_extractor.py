"""Extraction without an LLM: a hyperedge is a sentence with its named entities and its document's title.

Names come from a spaCy pipeline where one is installed for the document's language, and from `terms` elsewhere.
Works on some hundred chunks at a time, whole documents together. Knows nothing of files, vectors or the hypergraph.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from hyce_gpu.errors import MissingBackendError
from hyce_gpu.extract.language import guess_language, is_fragment, load_pipeline, parse, stop_words
from hyce_gpu.extract.mentions import (
    LOWER_WORD,
    DocumentNames,
    KnownTitles,
    Mention,
    acronym_definitions,
    clean_name,
    english_dates,
    mask_markup,
    moved,
    quoted_titles,
    title_name,
    title_tail,
    without_overlaps,
)
from hyce_gpu.extract.terms import TERM_TYPE, find_terms, years
from hyce_gpu.progress import Advance
from hyce_gpu.schema import Chunk, ExtractedEntity, ExtractedHyperedge, ExtractionRecord
from hyce_gpu.sentences import sentence_spans

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc, Span, Token

TITLE_CONFIDENCE = 1.0
# What the recogniser did not see: a quoted title, a run of proper nouns, a title inside a longer name.
UNSEEN_CONFIDENCE = 0.8
# A long enumeration would tie everything to everything.
MAX_MEMBERS = 24

_CHUNKS_AT_ONCE = 256
_TEXTS_A_BATCH = 64
_PROPER_NOUNS = {"PROPN", "NNP", "NNPS"}
_COMMON_NOUNS = {"NOUN", "NN", "NNS"}
_AMOUNTS = frozenset({"CARDINAL", "QUANTITY", "PERCENT", "MONEY"})
# "Second", "the evening", "last year": links between texts that have nothing in common.
_IGNORED_LABELS = frozenset({"ORDINAL", "TIME", "DATE"})


@dataclass
class _Reading:
    """What was read in one chunk; positions count from the chunk's start."""

    chunk: Chunk
    # The chunk's text with its markup blanked.
    text: str
    mentions: list[Mention] = field(default_factory=list)
    error: str = ""


class SpacyExtractor:
    """Named entities of each sentence, tied to the document's title.

    Every sentence with at least two different entities, its title among them, becomes a hyperedge of at most 24
    members. Confidences: title 1.0, recognised name 0.9, quoted title, amount or other proper noun 0.8, rule-based
    term 0.6; a hyperedge has the mean of its members'. The titles of all given chunks are looked for in all texts.

    Raises:
        MissingBackendError: spaCy is not installed.
    """

    name = "spacy"

    def __init__(self) -> None:
        if importlib.util.find_spec("spacy") is None:
            raise MissingBackendError("the spacy extractor needs the package spacy: pip install spacy")
        self._pipelines: dict[str, Language | None] = {}

    def describe(self) -> Mapping[str, str]:
        """The versions of spaCy and of its pipelines: the English one, and those of other languages met so far."""
        self._pipeline("en")
        found = {language: nlp.meta for language, nlp in self._pipelines.items() if nlp is not None}
        versions = {f"pipeline_{code}": f"{of['lang']}_{of['name']} {of['version']}" for code, of in found.items()}
        return {"spacy": importlib.metadata.version("spacy"), "pipeline_en": "none, names by rule", **versions}

    def extract(self, chunks: Sequence[Chunk], advance: Advance) -> Iterator[ExtractionRecord]:
        """One record for each chunk, in order; names are resolved within each document (see `DocumentNames`)."""
        lower = chain.from_iterable(LOWER_WORD.findall(chunk.text) for chunk in chunks)
        titles = KnownTitles(dict.fromkeys(chunk.title for chunk in chunks), stop_words("en").union(lower))
        for documents in _batches(chunks):
            for readings in self._read(documents, titles, advance):
                yield from _records(readings, titles)

    def _read(self, documents: list[list[Chunk]], titles: KnownTitles, advance: Advance) -> list[list[_Reading]]:
        """Finds the mentions of each document; the texts of one pipeline go through it together."""
        read = [[_Reading(chunk, mask_markup(chunk.text)) for chunk in chunks] for chunks in documents]
        waiting: dict[Language, list[_Reading]] = {}
        for readings in read:
            text, starts = _document_text(readings)
            language = guess_language(text)
            _read_by_rule(readings, starts, find_terms(text, language), titles)
            nlp = self._pipeline(language)
            if nlp is None:
                advance(len(readings))
            else:
                waiting.setdefault(nlp, []).extend(readings)
        for nlp, readings in waiting.items():
            for start in range(0, len(readings), _TEXTS_A_BATCH):
                batch = readings[start : start + _TEXTS_A_BATCH]
                _read_by_pipeline(nlp, batch, titles)
                advance(len(batch))
        return read

    def _pipeline(self, language: str) -> Language | None:
        if language not in self._pipelines:
            self._pipelines[language] = load_pipeline(language) if language else None
        return self._pipelines[language]


def _batches(chunks: Sequence[Chunk]) -> Iterator[list[list[Chunk]]]:
    """Whole documents, some hundred chunks together."""
    batch: list[list[Chunk]] = []
    for _, document in groupby(chunks, key=attrgetter("doc_id")):
        batch.append(list(document))
        if sum(map(len, batch)) >= _CHUNKS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _document_text(readings: Sequence[_Reading]) -> tuple[str, list[int]]:
    """The document as far as its chunks cover it, overlaps once, and where each chunk begins in it."""
    parts: list[str] = []
    starts: list[int] = []
    length, end = 0, readings[0].chunk.start
    for reading in readings:
        gap = "\n" if reading.chunk.start > end else ""
        seen = min(max(end - reading.chunk.start, 0), len(reading.text))
        starts.append(length + len(gap) - seen)
        parts += [gap, reading.text[seen:]]
        length += len(gap) + len(reading.text) - seen
        end = max(end, reading.chunk.end)
    return "".join(parts), starts


def _read_by_rule(readings: Sequence[_Reading], starts: list[int], terms: list[Mention], titles: KnownTitles) -> None:
    """Hands each chunk those of the document's terms that lie in it."""
    for reading, start in zip(readings, starts, strict=True):
        end = start + len(reading.text)
        first, last = (bisect_left(terms, place, key=attrgetter("start")) for place in (start, end))
        own = [moved(term, -start) for term in terms[first:last] if term.end <= end]
        reading.mentions = without_overlaps([[*titles.find(reading.text), *own]])


def _read_by_pipeline(nlp: Language, readings: Sequence[_Reading], titles: KnownTitles) -> None:
    """Puts the pipeline's names in the place of the terms, of which the nouns stay in reserve."""
    for reading, doc in zip(readings, parse(nlp, [reading.text for reading in readings]), strict=True):
        if isinstance(doc, str):
            reading.error = doc
        else:
            nouns = [replace(one, spare=True) for one in reading.mentions if _tags(doc, one) & _COMMON_NOUNS]
            reading.mentions = without_overlaps([_mentions(doc, reading.text, titles, nlp.lang == "en"), nouns])


def _mentions(doc: Doc, text: str, titles: KnownTitles, english: bool) -> list[Mention]:
    """All mentions of a parsed text, the surer source first where two overlap."""
    quoted = [_unseen(*span, text, False, "WORK_OF_ART") for span in quoted_titles(text)]
    defined = [_unseen(one.start, one.end, text, english) for one in acronym_definitions(text)]
    ents = [_named(ent, english) for ent in doc.ents]
    types = {(one.start, one.end): one.type for one in ents if not one.spare}
    # At one place a known title comes before the recogniser's name: its article and spelling are the page's.
    names = [replace(one, type=types.get((one.start, one.end), "")) for one in titles.find(text)]
    names += [one for one in ents if not one.spare]
    spare = [*years(text), *(one for one in ents if one.spare)]
    found = without_overlaps(
        [quoted, defined, english_dates(text), names, spare, _proper_runs(doc, text, titles, english)]
    )
    return [one for one in found if one.name]


def _unseen(start: int, end: int, text: str, english: bool, kind: str = "") -> Mention:
    return Mention(start, end, clean_name(text[start:end], english), kind, UNSEEN_CONFIDENCE)


def _named(ent: Span, english: bool) -> Mention:
    if ent.label_ in _IGNORED_LABELS:
        return Mention(ent.start_char, ent.end_char, "", spare=True)
    if ent.label_ in _AMOUNTS:
        before = ent.doc[ent.start - 1] if ent.start else None
        # "3. Name some foods": what opens a sentence numbers it.
        opens = before is None or before.is_space or before.text[-1] in ".!?:"
        name = " ".join(ent.text.split()) if any(map(str.isdigit, ent.text)) and not opens else ""
        return Mention(ent.start_char, ent.end_char, name, ent.label_, UNSEEN_CONFIDENCE, spare=True)
    # A work's article is part of its title.
    name = clean_name(ent.text, english and not (ent.label_ == "WORK_OF_ART" and ent.text[0].isupper()))
    return Mention(ent.start_char, ent.end_char, name, ent.label_)


def _tags(doc: Doc, mention: Mention) -> set[str]:
    span = doc.char_span(mention.start, mention.end, alignment_mode="expand")
    return {tag for token in span or () for tag in (token.pos_, token.tag_)}


def _proper_runs(doc: Doc, text: str, titles: KnownTitles, english: bool) -> list[Mention]:
    """Proper nouns side by side or joined by "of", as the tagger sees them, where the recogniser saw nothing."""
    runs: list[list[Token]] = []
    for token in doc:
        if {token.pos_, token.tag_} & _PROPER_NOUNS and token.text[0].isupper() and not token.is_stop:
            if runs and _joins(doc, runs[-1][-1].i, token.i):
                runs[-1].append(token)
            else:
                runs.append([token])
    # A lone word is a name if the corpus never writes it in lower case.
    names = [run for run in runs if len(run) > 1 or titles.is_name_like(run[0].text)]
    spans = [doc[run[0].i : run[-1].i + 1] for run in names]
    return [_unseen(span.start_char, span.end_char, text, english) for span in spans]


def _joins(doc: Doc, before: int, after: int) -> bool:
    return after - before <= 3 and doc[before + 1 : after].text.lower() in ("", "of", "of the", "for")


def _records(readings: Sequence[_Reading], titles: KnownTitles) -> Iterator[ExtractionRecord]:
    title = title_name(readings[0].chunk.title)
    # What the title itself mentions takes part once a chunk, where its first entity does.
    about = [name for name in (*titles.inside(title), title_tail(title)) if name]
    needs_nouns = _names_little(readings)
    for reading in readings:
        kept = [one for one in reading.mentions if needs_nouns or not one.spare or one.type != TERM_TYPE]
        reading.mentions = _with_inner_titles(kept, about, titles)
    acronyms = chain.from_iterable(acronym_definitions(reading.text) for reading in readings)
    names = DocumentNames(title, [mention for reading in readings for mention in reading.mentions], acronyms)
    yield from (_record(reading, names) for reading in readings)


def _names_little(readings: Sequence[_Reading]) -> bool:
    """Whether a document has so few names that its recurring nouns have to tie its sentences together."""
    named = sum(not one.spare for reading in readings for one in reading.mentions)
    return named < sum(len(sentence_spans(reading.chunk.text)) for reading in readings)


def _with_inner_titles(mentions: Sequence[Mention], about: Sequence[str], titles: KnownTitles) -> list[Mention]:
    """Adds the pages that a longer name mentions: "Ulm" beside "Museum of Ulm"."""
    found: list[Mention] = []
    for one in mentions:
        inner = titles.inside(one.name) if one.type not in ("WORK_OF_ART", "DATE") else []
        names = [*inner, *about] if one is mentions[0] else inner
        found += [one, *(Mention(one.start, one.end, name, "", UNSEEN_CONFIDENCE) for name in names)]
    return found


def _record(reading: _Reading, names: DocumentNames) -> ExtractionRecord:
    chunk = reading.chunk
    place = (chunk.id, chunk.doc_id, chunk.order, chunk.start, chunk.end)
    if reading.error:
        return ExtractionRecord(*place, status="failed", error=reading.error, raw=chunk.text)
    confidences = {names.title: TITLE_CONFIDENCE} if names.title else {}
    for mention in reading.mentions:
        confidences.setdefault(names.resolve(mention.name), mention.confidence)
    entities = tuple(
        ExtractedEntity(name, names.type_of(name), aliases=names.aliases_of(name), confidence=confidence)
        for name, confidence in confidences.items()
    )
    hyperedges = tuple(_hyperedges(reading, names, confidences))
    return ExtractionRecord(*place, status="ok", entities=entities, hyperedges=hyperedges)


def _hyperedges(reading: _Reading, names: DocumentNames, confidences: dict[str, float]) -> Iterator[ExtractedHyperedge]:
    chunk = reading.chunk
    for start, end in sentence_spans(chunk.text):
        inside = [mention for mention in reading.mentions if start <= mention.start < end]
        members = _members([one for one in inside if not one.spare], names)
        members = members if len(members) > 1 else _members(inside, names)
        if len(members) < 2 or is_fragment(chunk.text[start:end]):
            continue
        yield ExtractedHyperedge(
            segment=chunk.text[start:end],
            entities=members,
            start=chunk.start + start,
            end=chunk.start + end,
            confidence=sum(confidences[name] for name in members) / len(members),
            time=next((mention.name for mention in inside if mention.type == "DATE"), ""),
        )


def _members(mentions: Sequence[Mention], names: DocumentNames) -> tuple[str, ...]:
    """The title and the sentence's entities, each once."""
    found = dict.fromkeys([names.title, *(names.resolve(mention.name) for mention in mentions)])
    return tuple(filter(None, found))[:MAX_MEMBERS]
