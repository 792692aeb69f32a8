"""The names in a text that a spaCy pipeline has parsed: what its recogniser, its tagger and the text's marks say.

Knows one text at a time. Knows nothing of chunks, documents or hyperedges.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hyce_gpu.extract.known_titles import KnownTitles
from hyce_gpu.extract.mentions import (
    Mention,
    acronym_definitions,
    clean_name,
    english_dates,
    quoted_titles,
    without_overlaps,
)
from hyce_gpu.extract.terms import years

if TYPE_CHECKING:
    from spacy.tokens import Doc, Span, Token

# What the recogniser did not see: a quoted title, a run of proper nouns, a title inside a longer name.
UNSEEN_CONFIDENCE = 0.8
_PROPER_NOUNS = {"PROPN", "NNP", "NNPS"}
_COMMON_NOUNS = {"NOUN", "NN", "NNS"}
_AMOUNTS = frozenset({"CARDINAL", "QUANTITY", "PERCENT", "MONEY"})
# "Second", "the evening", "last year": links between texts that have nothing in common.
_IGNORED_LABELS = frozenset({"ORDINAL", "TIME", "DATE"})


def parsed_mentions(doc: Doc, text: str, titles: KnownTitles, english: bool) -> list[Mention]:
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


def is_common_noun(doc: Doc, mention: Mention) -> bool:
    return bool(_tags(doc, mention) & _COMMON_NOUNS)


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
