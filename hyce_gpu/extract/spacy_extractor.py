"""Extraction without an LLM: a hyperedge is a sentence with its named entities and its document's title.

Names come from a spaCy pipeline where one is installed for the document's language, and from `terms` elsewhere.
Works on some hundred chunks at a time, whole documents together. Knows nothing of files, vectors or the hypergraph.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from hyce_gpu.errors import MissingBackendError
from hyce_gpu.extract import Extracted
from hyce_gpu.extract.corpus_change import CorpusChange
from hyce_gpu.extract.dependence import Dependence, depends_on
from hyce_gpu.extract.known_titles import KnownTitles
from hyce_gpu.extract.language import guess_language, is_fragment, stop_words
from hyce_gpu.extract.mentions import (
    LOWER_WORD,
    DocumentNames,
    Mention,
    acronym_definitions,
    moved,
    title_name,
    title_tail,
    without_overlaps,
)
from hyce_gpu.extract.parsed import UNSEEN_CONFIDENCE, is_common_noun, parsed_mentions
from hyce_gpu.extract.pieces import TitleIndex
from hyce_gpu.extract.pipelines import load_pipeline, parse, pipeline_versions
from hyce_gpu.extract.readings import Reading, document_text, readings_of
from hyce_gpu.extract.terms import TERM_TYPE, find_terms
from hyce_gpu.schema import Chunk, ExtractedEntity, ExtractedHyperedge, ExtractionRecord
from hyce_gpu.sentences import sentence_spans
from hyce_gpu.units import unit_key

if TYPE_CHECKING:
    from spacy.language import Language

TITLE_CONFIDENCE = 1.0
# A long enumeration would tie everything to everything.
MAX_MEMBERS = 24

# Another number when other code makes other records of the same text.
_RECORDS = "spacy/1"
_CHUNKS_AT_ONCE = 256
_TEXTS_A_BATCH = 64


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
        self._corpus: tuple[Sequence[Chunk], KnownTitles] | None = None
        self._change: CorpusChange | None = None

    def within(self, change: CorpusChange) -> SpacyExtractor:
        """An extractor to which the chunks it is given are whole documents of the corpus that `change` leads to."""
        one = copy(self)
        one._change, one._corpus = change, None
        return one

    def describe(self) -> Mapping[str, str]:
        """The versions of the rules, of spaCy and of its pipelines that are installed, whichever the corpus needs."""
        return {
            "rules": _RECORDS,
            "spacy": importlib.metadata.version("spacy"),
            "pipelines": ", ".join(pipeline_versions()) or "none: names by rule",
        }

    def unit_keys(self, chunks: Sequence[Chunk]) -> list[bytes]:
        """Keys of the document, which shares its names, and of those titles and words of the corpus that may matter."""
        titles = self._known_titles(chunks)
        index = TitleIndex(titles.spellings, self.dependence.pieces)
        shaped_by = [_RECORDS, dict(self.describe())]
        keys: list[bytes] = []
        for document in _documents(chunks):
            found = self.dependence.find(readings_of(document), index)
            depends = titles.digest() if found.unknown else depends_on(found, titles)
            first = document[0].start
            texts = [[one.start - first, one.end - first, one.text] for one in document]
            whole = unit_key(shaped_by, document[0].title, texts, depends).hex()
            keys += [unit_key(whole, place) for place in range(len(document))]
        return keys

    @cached_property
    def dependence(self) -> Dependence:
        return Dependence.of_pipelines()

    def _known_titles(self, chunks: Sequence[Chunk]) -> KnownTitles:
        # A job asks for the keys of the same chunks that it then has extracted.
        if self._corpus is None or self._corpus[0] is not chunks:
            self._corpus = chunks, self._change.known_titles(chunks) if self._change else _titles_of(chunks)
        return self._corpus[1]

    def extract(self, chunks: Sequence[Chunk], wanted: Sequence[int]) -> Iterator[Extracted]:
        """The records, in order; names are resolved within each document (see `DocumentNames`)."""
        titles = self._known_titles(chunks)
        places = {chunks[position].id: position for position in wanted}
        documents = {chunks[position].doc_id for position in wanted}
        for batch in _batches([chunk for chunk in chunks if chunk.doc_id in documents]):
            for readings in self._read(batch, titles):
                records = _records(readings, titles)
                yield from (Extracted(places[one.chunk_id], one) for one in records if one.chunk_id in places)

    def _read(self, documents: list[list[Chunk]], titles: KnownTitles) -> list[list[Reading]]:
        """Finds the mentions of each document; the texts of one pipeline go through it together."""
        read = [readings_of(chunks) for chunks in documents]
        waiting: dict[Language, list[Reading]] = {}
        for readings in read:
            text, starts = document_text(readings)
            language = guess_language(text)
            _read_by_rule(readings, starts, find_terms(text, language), titles)
            nlp = self._pipeline(language)
            if nlp is not None:
                waiting.setdefault(nlp, []).extend(readings)
        for nlp, readings in waiting.items():
            for start in range(0, len(readings), _TEXTS_A_BATCH):
                _read_by_pipeline(nlp, readings[start : start + _TEXTS_A_BATCH], titles)
        return read

    def _pipeline(self, language: str) -> Language | None:
        if language not in self._pipelines:
            self._pipelines[language] = load_pipeline(language) if language else None
        return self._pipelines[language]


def _titles_of(chunks: Sequence[Chunk]) -> KnownTitles:
    lower = chain.from_iterable(LOWER_WORD.findall(chunk.text) for chunk in chunks)
    return KnownTitles(dict.fromkeys(chunk.title for chunk in chunks), stop_words("en").union(lower))


def _documents(chunks: Sequence[Chunk]) -> Iterator[list[Chunk]]:
    return (list(document) for _, document in groupby(chunks, key=attrgetter("doc_id")))


def _batches(chunks: Sequence[Chunk]) -> Iterator[list[list[Chunk]]]:
    """Whole documents, some hundred chunks together."""
    batch: list[list[Chunk]] = []
    for document in _documents(chunks):
        batch.append(document)
        if sum(map(len, batch)) >= _CHUNKS_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _read_by_rule(readings: Sequence[Reading], starts: list[int], terms: list[Mention], titles: KnownTitles) -> None:
    """Hands each chunk those of the document's terms that lie in it."""
    for reading, start in zip(readings, starts, strict=True):
        end = start + len(reading.text)
        first, last = (bisect_left(terms, place, key=attrgetter("start")) for place in (start, end))
        own = [moved(term, -start) for term in terms[first:last] if term.end <= end]
        reading.mentions = without_overlaps([[*titles.find(reading.text), *own]])


def _read_by_pipeline(nlp: Language, readings: Sequence[Reading], titles: KnownTitles) -> None:
    """Puts the pipeline's names in the place of the terms, of which the nouns stay in reserve."""
    for reading, doc in zip(readings, parse(nlp, [reading.text for reading in readings]), strict=True):
        if isinstance(doc, str):
            reading.error = doc
        else:
            nouns = [replace(one, spare=True) for one in reading.mentions if is_common_noun(doc, one)]
            reading.mentions = without_overlaps([parsed_mentions(doc, reading.text, titles, nlp.lang == "en"), nouns])


def _records(readings: Sequence[Reading], titles: KnownTitles) -> Iterator[ExtractionRecord]:
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


def _names_little(readings: Sequence[Reading]) -> bool:
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


def _record(reading: Reading, names: DocumentNames) -> ExtractionRecord:
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


def _hyperedges(reading: Reading, names: DocumentNames, confidences: dict[str, float]) -> Iterator[ExtractedHyperedge]:
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
