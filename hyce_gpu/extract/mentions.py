"""Mentions: where a text names an entity, how the name is cleaned, and which names of one document are one entity.

Pure string work for any language. Knows nothing of models, chunks or hyperedges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hyce_gpu.names import canonical_name

_PERSON_TYPES = ("PERSON", "PER")
# Names recur, and canonical_name walks each of their characters.
_key = lru_cache(maxsize=65536)(canonical_name)


@dataclass(frozen=True, slots=True)
class Mention:
    """A name at text[start:end]; `name` is its cleaned form."""

    start: int
    end: int
    name: str
    type: str = ""
    confidence: float = 0.9
    # Counts only in a sentence that names nothing else besides the title: a year or an amount links too much.
    spare: bool = False


def moved(mention: Mention, offset: int) -> Mention:
    return replace(mention, start=mention.start + offset, end=mention.end + offset)


# What each part of the pattern begins with or contains: most texts have none of it, and each part costs time.
_SIGNS = re.compile(r"[<>\[\]|`*_#@&\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]|://|www\.")
_PLAIN_MARKUP = (
    r"```.*?(?:```|\Z)|<!--.*?-->|</?[A-Za-z!][^<>\n]{0,300}>"
    r"|\]\([^()\s]*(?:\s+\"[^\"\n]*\")?\)|\]\[[^\]\n]*\]"
    r"|\b(?:https?|ftp)://[^\s<>()\[\]]+|\bwww\.[^\s<>()\[\]]+"
)
_ADDRESSES = r"|[\w.+-]+@[\w-]+\.[\w.-]+|\w*&(?:\#\w{1,6}|[A-Za-z]{2,8}\d{0,2});\w*"
_SINGLE_SIGNS = r"|(?<!\w)[#_]+|_+(?!\w)|[\[\]|`*]|[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]"
_MARKUP = re.compile(_PLAIN_MARKUP + _ADDRESSES + _SINGLE_SIGNS, re.DOTALL)
_MARKUP_WITHOUT_ADDRESSES = re.compile(_PLAIN_MARKUP + _SINGLE_SIGNS, re.DOTALL)
_QUOTED = re.compile(
    r"[“„]([^“”„\n]{2,60})[”“]|``([^`'\n]{2,60})''|\"([^\"\n]{2,60})\"|«([^«»\n]{2,60})»"
    r"|《([^《》\n]{2,40})》|〈([^〈〉\n]{2,40})〉|「([^「」\n]{2,40})」|『([^『』\n]{2,40})』"
)
_SENTENCE_END = re.compile(r"[.!?]\s|[。！？]")
MAX_NAME_WORDS = 10
_MAX_NAME_CHARACTERS = 80

_ARTICLE = re.compile(r"^(?:the|a|an)\s+(?=\S)", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’](?:s|S)?$")
_EDGES = " \t\n\"'`´‘’“”„«»,;:!?¡¿…·•–—-/\\*=+<>~^"
# "Ulm (Germany)" and "Ulm, Germany": what the text itself calls the page's subject.
_QUALIFIER = re.compile(r"\s*(?:\([^()]*\)|,\s(?:(?!\band\b)[^,])*)\s*$")
# "Margraviate of Austria" and "Ulm, Germany" are about the last name as well.
_TITLE_TAIL = re.compile(r"(?:,|\bof|\bin)(?: the)? ((?:[^\W\d_a-z][^\s,]*)(?: [^\W\d_a-z][^\s,]*)*)$")
_FILE_ENDING = re.compile(r"\.(?:md|markdown|txt|text|rst|html?|jsonl?|pdf)$", re.IGNORECASE)

LOWER_WORD = re.compile(r"\b[^\W\d_A-Z]\w{2,}")
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(rf"(?:\d{{1,2}} )?(?:{MONTHS})(?: \d{{1,2}})?,? \d{{4}}(?!\d)")
# How many characters before an acronym its full name is looked for.
ACRONYM_REACH = 120
BRACKETED_ACRONYM = re.compile(r"\(\s*([^\W\d_][\w&.-]{1,9})\s*\)")
_WORD = re.compile(r"[^\W_][\w'’.&]*")
# Words that an acronym may leave out.
_SMALL_WORDS = frozenset({
    "of", "the", "and", "for", "in", "on", "to", "a", "an", "at", "de", "la", "le", "les", "du", "des", "der", "die",
    "das", "und", "für", "von", "y", "e", "et", "del", "da", "do",
})  # fmt: skip


def mask_markup(text: str) -> str:
    """The text with links, tags, code blocks, markdown signs and control characters blanked; every offset stays."""
    if not _SIGNS.search(text):
        return text
    markup = _MARKUP if "@" in text or "&" in text else _MARKUP_WITHOUT_ADDRESSES
    return markup.sub(lambda match: " " * len(match.group()), text)


def clean_name(text: str, english: bool = True) -> str:
    """The name without edges, possessive and English article; "" for what cannot name anything."""
    # A name does not run over a line's end: what follows belongs to the next heading or cell.
    name = " ".join(text.strip().split("\n")[0].split()).strip(_EDGES)
    name = _POSSESSIVE.sub("", _without_lone_bracket(name)).strip(_EDGES)
    name = _ARTICLE.sub("", name, count=1) if english else name
    short_enough = len(name) <= _MAX_NAME_CHARACTERS and len(name.split()) <= MAX_NAME_WORDS
    return name if len(name) > 1 and short_enough and any(map(str.isalpha, name)) else ""


def _without_lone_bracket(name: str) -> str:
    for opening, closing in ("()", "[]"):
        if name.count(opening) != name.count(closing):
            name = name.strip(opening + closing).strip()
    return name


def title_name(title: str) -> str:
    """The title as an entity's name: as it stands, without a file's ending; "" for a blank one."""
    name = _FILE_ENDING.sub("", " ".join(title.split())).strip()
    # Hardly ever blank, and of a big corpus all titles are looked at.
    return name if name[:1].isalnum() or _key(name) else ""


def bare_title(title: str) -> str:
    """The title without its qualifier: "Ulm" for "Ulm (Germany)" and for "Ulm, Germany"."""
    return (_QUALIFIER.sub("", title) or title) if "(" in title or "," in title else title


def title_tail(title: str) -> str:
    """The place or group that a title ends in; "" where it ends in none."""
    tail = _TITLE_TAIL.search(title)
    return clean_name(tail.group(1)) if tail else ""


def quoted_titles(text: str) -> Iterator[tuple[int, int]]:
    """Spans inside quotation marks that look like a title, not like speech."""
    for match in _QUOTED.finditer(text):
        start, end = match.span(match.lastindex or 0)
        inside = text[start:end].rstrip(" ,.;:")
        if _looks_like_title(inside.strip()):
            yield start + len(inside) - len(inside.lstrip()), start + len(inside)


def _looks_like_title(words: str) -> bool:
    if not words or words[0].islower() or _SENTENCE_END.search(words):
        return False
    long_words = [word for word in words.split() if len(word) > 3]
    lower = sum(word[0].islower() for word in long_words)
    return len(words.split()) <= 8 and lower * 2 <= len(long_words) and any(map(str.isalnum, words))


def english_dates(text: str) -> list[Mention]:
    """Dates with a month and a year: exact enough to link texts, as a bare year is not."""
    return [Mention(*match.span(), match.group(), "DATE") for match in _DATE.finditer(text)]


def without_overlaps(ranked: Iterable[Sequence[Mention]]) -> list[Mention]:
    """Mentions in the text's order; of two that overlap the one of the earlier list stays, then the longer one."""
    taken: list[Mention] = []
    covered: set[int] = set()
    for mentions in ranked:
        for mention in sorted(mentions, key=lambda mention: (mention.start - mention.end, mention.start)):
            places = range(mention.start, mention.end)
            if covered.isdisjoint(places):
                taken.append(mention)
                covered.update(places)
    return sorted(taken, key=lambda mention: mention.start)


@dataclass(frozen=True, slots=True)
class Acronym:
    """A definition in the text, "World Health Organization (WHO)": where the full name stands, and the short form."""

    start: int
    end: int
    full: str
    short: str


def acronym_definitions(text: str) -> Iterator[Acronym]:
    """Full names that are followed by their initials in brackets."""
    for match in BRACKETED_ACRONYM.finditer(text):
        words = list(_WORD.finditer(text, max(0, match.start() - ACRONYM_REACH), match.start()))
        start = _start_of_full_name(words, match.group(1))
        if start is not None and "\n" not in text[start : match.start()]:
            end = words[-1].end()
            yield Acronym(start, end, text[start:end], match.group(1))


def _start_of_full_name(words: Sequence[re.Match[str]], short: str) -> int | None:
    """Where the words begin whose initials spell `short`, read backwards from the last one."""
    letters = [char for char in short if char.isalpha()]
    if len(letters) < 2 or sum(char.isupper() for char in letters) < 2:
        return None
    wanted = [char.casefold() for char in letters]
    for word in reversed(words):
        initial = word.group()[0].casefold()
        if initial == wanted[-1]:
            wanted.pop()
            if not wanted:
                return word.start() if word.group()[0].isupper() else None
        elif word.group().lower() not in _SMALL_WORDS:
            return None
    return None


class DocumentNames:
    """Which names of one document are one entity: spellings of the title, acronyms, and short forms of persons."""

    def __init__(self, title: str, mentions: Sequence[Mention], acronyms: Iterable[Acronym]) -> None:
        self.title = title
        self._spelling: dict[str, str] = {}
        types: dict[str, Counter[str]] = {}
        for mention in mentions:
            self._spelling.setdefault(_key(mention.name), mention.name)
            types.setdefault(_key(mention.name), Counter())[mention.type] += 1
        self._full = self._short_persons([key for key, of in types.items() if of.most_common(1)[0][0] in _PERSON_TYPES])
        self._full |= {_ARTICLE.sub("", _key(title), count=1): title, _key(title): title} if title else {}
        # Full name -> short form, from definitions only: an alias counts in the whole corpus.
        self._aliases: dict[str, str] = {}
        for acronym in acronyms:
            self._define(clean_name(acronym.full), acronym.short)
        self._types: dict[str, Counter[str]] = {}
        for key, counts in types.items():
            self._types.setdefault(self.resolve(key), Counter()).update(counts)

    def _define(self, full: str, short: str) -> None:
        if full and _key(short) == _key(self.title):
            self._full[_key(full)] = self.title
        elif full:
            self._full.setdefault(_key(short), self.resolve(full))
            self._aliases.setdefault(self.resolve(full), short)

    def resolve(self, name: str) -> str:
        """The name by which the document's records call the entity."""
        key = _key(name)
        return self._full.get(key) or self._full.get(_ARTICLE.sub("", key)) or self._spelling.get(key, name)

    def aliases_of(self, name: str) -> tuple[str, ...]:
        return (self._aliases[name],) if name in self._aliases else ()

    def type_of(self, name: str) -> str:
        """The most frequent type among the mentions of the entity; "" where none was typed."""
        typed = Counter({kind: count for kind, count in self._types.get(name, {}).items() if kind})
        return typed.most_common(1)[0][0] if typed else ""

    def _short_persons(self, persons: Sequence[str]) -> dict[str, str]:
        """Obama -> Barack Obama, where the document has one such person; a longer form of the title -> the title."""
        bare = bare_title(self.title)
        title = _key(bare).split()
        found = {key: self.title for key in persons if len(title) > 1 and _is_longer_form(key.split(), title)}
        # A title may be a person that the text only ever calls by the last name.
        is_name = len(title) > 1 and all(word[0].isupper() for word in bare.split())
        fulls = {title[-1]: {self.title}} if is_name else {}
        for words in (key.split() for key in persons if " " in key):
            name = self.title if words == title else found.get(" ".join(words), self._spelling[" ".join(words)])
            for part in {words[0], words[-1]}:
                fulls.setdefault(part, set()).add(name)
        short = {key: fulls[key] for key in persons if key in fulls}
        return found | {key: min(names) for key, names in short.items() if len(names) == 1}


def _is_longer_form(words: Sequence[str], title: Sequence[str]) -> bool:
    """James Earl Carter for Earl Carter: the same last name, the title's words in order, and more."""
    rest = iter(words)
    return len(words) > len(title) and words[-1] == title[-1] and all(part in rest for part in title)
