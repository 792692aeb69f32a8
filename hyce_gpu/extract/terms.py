"""Entities found by rule alone, for any script: what a text names when no trained pipeline reads its language.

Works on one document's text at a time: words that recur in it are the terms of a script without capitals.
Knows letters, words and marks. Knows nothing of chunks, models or hyperedges.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from hyce_gpu.extract.language import (
    HAN,
    cluster_pattern,
    main_script,
    plain_forms,
    script_of,
    stop_words,
    without_glue,
    word_pattern,
)
from hyce_gpu.extract.mentions import Mention, clean_name, moved, quoted_titles, without_overlaps
from hyce_gpu.sentences import sentence_spans

TERM_TYPE = "TERM"
TERM_CONFIDENCE = 0.6
MAX_TERMS_PER_SENTENCE = 8

_CASED = frozenset({"LATIN", "CYRILLIC", "GREEK", "ARMENIAN"})
# At least and at most so many characters (Han), letters with their marks (Thai and its kin), or words.
_HAN_LENGTHS = (2, 8)
_CLUSTER_LENGTHS = (3, 12)
_WORD_LENGTHS = (1, 3)
_LEAST_COUNT = 2
# In a script with capitals a recurring lower-case word has to be longer and more frequent to be a term.
_LEAST_COUNT_LOWER = 3
_LEAST_LETTERS_LOWER = 5
_LEAST_LETTERS = 3
# A Hangul character is a syllable of two or three letters.
_LEAST_SYLLABLES = 2
# Sentences with this many names need no recurring words.
_ENOUGH_NAMES = 2
_MAX_LATIN_WORDS = 5

_HAN_CHARACTER = re.compile(f"[{HAN}]")
_KATAKANA = re.compile(r"[\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff]{3,}(?:[・＝][\u30a1-\u30fa\u30fc-\u30ff]{2,})*")
_YEAR = re.compile(r"(?<![\d.,])\d{4}(?![\d%]|[.,]\d)")
_YEARS = range(1000, 2101)

# Lower-case words inside a name ("Universidad de la Habana"); never conjunctions, which join two names.
_CONNECTORS = frozenset({
    "de", "la", "le", "las", "los", "du", "des", "del", "della", "di", "da", "do", "dos", "das", "van", "von", "der",
    "den", "of", "the", "for", "bin", "ibn", "al",
})  # fmt: skip
# A capital after these may be the sentence's, not the name's.
_OPENERS = frozenset(':•*-–—«“„"¿¡(')


class _Unit(NamedTuple):
    """A word, or in scripts without spaces a character with its marks; `key` is what recurs."""

    start: int
    end: int
    key: str
    script: str = ""


class _Sentence(NamedTuple):
    start: int
    text: str
    words: list[_Unit]


def years(text: str) -> Iterator[Mention]:
    """Four digits, of any script, that read as a year; the name is written in ASCII digits."""
    for match in _YEAR.finditer(text):
        if int(match.group()) in _YEARS:
            yield Mention(match.start(), match.end(), str(int(match.group())), "DATE", spare=True)


def find_terms(text: str, language: str = "") -> list[Mention]:
    """The terms of one document, in order, without overlaps, at most 8 a sentence.

    `text` should have its markup masked. `language` is a spaCy code, or "" where it is unknown; it chooses the stop
    words and the particles.
    """
    sentences = [_sentence(text, start, end) for start, end in sentence_spans(text)]
    main = main_script(text)
    named = [_names(sentence) for sentence in sentences]
    runs = _capitalised(sentences, language) if main in _CASED else [list(_latin_runs(one)) for one in sentences]
    recurring = _recurring(sentences, language, main)
    found: list[Mention] = []
    for sentence, names, run, repeated in zip(sentences, named, runs, recurring, strict=True):
        first = without_overlaps([names, run])[:MAX_TERMS_PER_SENTENCE]
        wanted = repeated if main not in _CASED or len(first) < _ENOUGH_NAMES else []
        terms = without_overlaps([first, *([one] for one in wanted[: MAX_TERMS_PER_SENTENCE - len(first)])])
        found += [moved(term, sentence.start) for term in terms]
    return found


def _term(start: int, end: int, name: str) -> Mention:
    return Mention(start, end, name, TERM_TYPE, TERM_CONFIDENCE)


def _sentence(text: str, start: int, end: int) -> _Sentence:
    sentence = text[start:end]
    words = [
        _Unit(match.start(), match.end(), match.group(), script_of(match.group()[0]))
        for match in word_pattern().finditer(sentence)
    ]
    return _Sentence(start, sentence, words)


def _names(sentence: _Sentence) -> list[Mention]:
    """What is marked as a name whatever the language: quoted titles, katakana runs, years."""
    found = [_term(start, end, sentence.text[start:end]) for start, end in quoted_titles(sentence.text)]
    found += [_term(*match.span(), match.group()) for match in _KATAKANA.finditer(sentence.text)]
    return found + list(years(sentence.text))


def _latin_runs(sentence: _Sentence) -> Iterator[Mention]:
    """Latin words inside a text of another script: names and borrowed terms."""
    run: list[_Unit] = []
    for word in [*sentence.words, None]:
        joins = word and word.script == "LATIN" and run and sentence.text[run[-1].end : word.start] == " "
        if not joins:
            if run and len(run) <= _MAX_LATIN_WORDS and run[-1].end - run[0].start > 1:
                yield _term(run[0].start, run[-1].end, sentence.text[run[0].start : run[-1].end])
            run = []
        if word and word.script == "LATIN":
            run.append(word)


def _capitalised(sentences: Sequence[_Sentence], language: str) -> list[list[Mention]]:
    """Runs of capitalised words. German capitalises every noun, so there a single word has to recur."""
    stops = stop_words(language)
    lower = {word.key for sentence in sentences for word in sentence.words if word.key[0].islower()}
    inside = {
        word.key
        for one in sentences
        for i, word in enumerate(one.words)
        if word.key[0].isupper() and not _opens(one, i)
    }
    runs = [[] if _shouts(one) else list(_capital_runs(one, stops, lower, inside)) for one in sentences]
    if language != "de":
        return runs
    counts = Counter(mention.name for found in runs for mention in found)
    return [[one for one in found if " " in one.name or counts[one.name] >= _LEAST_COUNT] for found in runs]


def _opens(sentence: _Sentence, i: int) -> bool:
    before = sentence.text[: sentence.words[i].start].rstrip()
    return not before or before[-1] in _OPENERS


def _shouts(sentence: _Sentence) -> bool:
    """A heading all in capitals: there a capital tells nothing."""
    long_words = [word.key for word in sentence.words if len(word.key) > 1]
    return len(long_words) > 3 and sum(map(str.isupper, long_words)) > len(long_words) / 2


def _capital_runs(one: _Sentence, stops: frozenset[str], lower: set[str], inside: set[str]) -> Iterator[Mention]:
    i = 0
    while i < len(one.words):
        last = _end_of_run(one, i)
        if last is None:
            i += 1
            continue
        first, i = i, last + 1
        word = one.words[first].key
        if _opens(one, first) and word not in inside and (first == last or _is_common(word, stops, lower)):
            # The capital is the sentence's own.
            first += 1
        if first <= last and one.words[first].key[0].isupper():
            name = clean_name(one.text[one.words[first].start : one.words[last].end], english=False)
            if name and name.lower() not in stops:
                yield _term(one.words[first].start, one.words[last].end, name)


def _is_common(word: str, stops: frozenset[str], lower: set[str]) -> bool:
    return word.lower() in stops or word.lower() in lower


def _end_of_run(one: _Sentence, first: int) -> int | None:
    """The last word of the capitalised run that begins here; None where none begins."""
    if not one.words[first].key[0].isupper():
        return None
    last = first
    for i in range(first + 1, len(one.words)):
        if one.text[one.words[i - 1].end : one.words[i].start] not in (" ", "\u00a0", ". "):
            break
        if one.words[i].key[0].isupper():
            last = i
        elif one.words[i].key not in _CONNECTORS:
            break
    return last


def _recurring(sentences: Sequence[_Sentence], language: str, main: str) -> list[list[Mention]]:
    """For each sentence the words or character runs that recur in the document, the most telling first."""
    texts = [without_glue(sentence.text, language) for sentence in sentences]
    least = _LEAST_COUNT_LOWER if main in _CASED else _LEAST_COUNT
    groups = [
        _repeats(_word_runs(sentences, language), _WORD_LENGTHS, " ", least),
        _repeats([_runs(_HAN_CHARACTER, text) for text in texts], _HAN_LENGTHS, "", _LEAST_COUNT),
        _repeats([_runs(cluster_pattern(), text) for text in texts], _CLUSTER_LENGTHS, "", _LEAST_COUNT),
    ]
    stops = stop_words(language)
    return [
        [term for _, term in sorted(itertools.chain(*found), key=itemgetter(0), reverse=True) if term.name not in stops]
        for found in zip(*groups, strict=True)
    ]


def _runs(pattern: re.Pattern[str], text: str) -> list[list[_Unit]]:
    runs: list[list[_Unit]] = []
    end = -1
    for match in pattern.finditer(text):
        if match.start() != end:
            runs.append([])
        runs[-1].append(_Unit(match.start(), match.end(), match.group()))
        end = match.end()
    return runs


def _word_runs(sentences: Sequence[_Sentence], language: str) -> list[list[list[_Unit]]]:
    """Adjacent content words, each under the form that its inflections share."""
    stops = stop_words(language)
    forms = plain_forms((word.key for sentence in sentences for word in sentence.words), language)
    return [_content_runs(sentence, stops, forms) for sentence in sentences]


def _content_runs(one: _Sentence, stops: frozenset[str], forms: Mapping[str, str]) -> list[list[_Unit]]:
    runs: list[list[_Unit]] = []
    end = -1
    for word in one.words:
        key = forms[word.key]
        if _has_content(key, word.script) and key.lower() not in stops and word.key.lower() not in stops:
            if end < 0 or one.text[end : word.start] != " ":
                runs.append([])
            runs[-1].append(_Unit(word.start, word.end, key))
            end = word.end
    return runs


def _has_content(key: str, script: str) -> bool:
    letters = sum(map(str.isalpha, key))
    if script == "HANGUL":
        # Sentences end in a predicate on -da: it names nothing.
        return letters >= _LEAST_SYLLABLES and not key.endswith("다")
    return letters >= (_LEAST_LETTERS_LOWER if script in _CASED else _LEAST_LETTERS)


def _repeats(
    sentences: Sequence[list[list[_Unit]]], lengths: tuple[int, int], joiner: str, least: int
) -> list[list[tuple[int, Mention]]]:
    """For each sentence (count times length, term) of the unit runs that occur `least` times and are maximal."""
    counts = _maximal_counts([[unit.key for unit in run] for runs in sentences for run in runs], lengths, least)
    return [[found for run in runs for found in _cover(run, counts, lengths, joiner)] for runs in sentences]


def _maximal_counts(runs: Sequence[Sequence[str]], lengths: tuple[int, int], least: int) -> dict[tuple[str, ...], int]:
    """Runs of units with their counts, without those that only ever occur inside one longer run."""
    kept: dict[tuple[str, ...], int] = {}
    shorter: dict[tuple[str, ...], int] | None = None
    for length in range(1, lengths[1] + 1):
        # A run recurs only if both its ends do: most are never counted.
        grams = (tuple(run[i : i + length]) for run in runs for i in range(len(run) - length + 1))
        counts = Counter(gram for gram in grams if shorter is None or (gram[1:] in shorter and gram[:-1] in shorter))
        counts = Counter({gram: count for gram, count in counts.items() if count >= least})
        for gram, count in counts.items():
            for inner in (gram[1:], gram[:-1]):
                if kept.get(inner) == count:
                    del kept[inner]
        if length >= lengths[0]:
            kept.update(counts)
        shorter = counts
    return kept


def _cover(
    run: Sequence[_Unit], counts: Mapping[tuple[str, ...], int], lengths: tuple[int, int], joiner: str
) -> Iterator[tuple[int, Mention]]:
    """The longest recurring terms from left to right, side by side."""
    i = 0
    while i < len(run):
        for length in range(min(lengths[1], len(run) - i), lengths[0] - 1, -1):
            gram = tuple(unit.key for unit in run[i : i + length])
            if gram in counts:
                yield counts[gram] * length, _term(run[i].start, run[i + length - 1].end, joiner.join(gram))
                i += length
                break
        else:
            i += 1
