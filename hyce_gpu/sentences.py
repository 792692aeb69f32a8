"""Sentence spans of a text in any script, by rules: no model, no language detection, linear time.

Two steps: lines become blocks (paragraphs, list items, headings, table rows), then each block is cut after its enders.
Knows nothing of tokens or documents. Thai and Lao write no enders: there, a sentence is a whole paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

# Enders that need white space behind them: in these scripts they also stand inside numbers and names.
_SPACED = ".!?…‥‼‽⁇⁈⁉"
# Unicode's Sentence_Terminal without the ASCII ones, for the scripts in living use, and Tibetan's shad.
_UNSPACED = "。！？｡．︒︖︕﹒﹖﹗।॥؟؞؝۔܀܁܂։።፧፨၊။៕។᠃᠉߹᥄᥅᭚᭛᭞᭟᰻᰼᱾᱿⳹⳺⳻⸮꓿꘎꘏꛳꛷꡶꡷꣎꣏꤯꧈꧉꩝꩞꩟꫰꫱꯫།༎"
_CLOSERS = "”’»›)]}）］｝」』】〕〉》｣〗〙"
# Marks that open as well as close; “ and ‘ close in German. The sentence so far tells which.
_EITHER = "\"'“‘*_`«‹"
_RUN = re.compile(
    f"(?P<enders>[{_SPACED}{_UNSPACED}]++(?: [{_SPACED}]++(?=\\s|$))*+)"
    f"(?P<closers>[{re.escape(_CLOSERS + _EITHER)}]*+(?:\\[\\d{{1,3}}\\])*+)"
)
_MARKS = re.compile(f"[{re.escape(_EITHER)}]+")
_SPACE = re.compile(r"\s*")
_NEXT_WORD = re.compile(f"[{re.escape(_EITHER)}([{{¿¡]*(\\w*)")
# How far a rule looks back; longer "words" are not abbreviations.
_LOOK_BACK = 32


def _words(line: str) -> frozenset[str]:
    return frozenset(line.split())


# Never the last word of a sentence. All words are compared without case, and without the final point.
_TITLES = _words(
    "mr mrs ms dr prof ste mt ft rev gen col sgt capt lt cpl gov sen rep hon supt cmdr adm maj messrs mme mlle "
    "vs e.g i.e cf viz approx bzw z.b d.h u.a ca sr sra srta dra fr frl hr ing dipl ee ph डॉ श्री"
)
# The last word only where a frequent first word follows.
_NAMES = _words("st jr inc ltd co corp bros dept assn univ")
_BEFORE_NUMBER = _words(
    "no nos nr p pp vol vols ch fig figs sec sect art eq ed v op cap pág pag núm nº abs bd kap "
    "jan feb mar apr jun jul aug sep sept oct nov dec п стр рис гл ст"
)
_FIRST_WORDS = _words(
    "the he she it they we you this that these those there in on at from after before when while however but and "
    "his her its their an as although for"
)
_GERMAN_DATES = _words("januar februar märz april mai juni juli august september oktober november dezember jahrhundert")
_ACRONYM = re.compile(r"(?:\w\.)+\w")
_ENUMERATOR = re.compile(r"\d{1,3}(?:\.\d{1,3})*|[ivxIVX]{1,5}|\w")

_BLOCK_LINE = re.compile(
    r"[-*+•‣◦▪●○·]\s"  # list items
    r"|\(?\d{1,3}[.)]\s|[٠-٩۰-۹०-९０-９]{1,3}[.)）、]|[一二三四五六七八九十]{1,3}、"
    r"|#{1,6}\s|#{2,6}"  # headings
    r"|\||>|```|~~~|</?[A-Za-z!]"  # table rows, quotations, fences, HTML
    r"|(?:[-=*_]\s?){3,}$"  # rules
)
# Nothing on the next line can belong to these.
_CLOSED_LINE = re.compile(r"#{1,6}\s|#{2,6}|\||```|~~~|<.*>$|(?:[-=*_]\s?){3,}$")
# Nobody wraps wider; a longer line shows that line breaks are paragraph breaks.
_WIDEST_WRAP = 160
_NARROWEST_WRAP = 40


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Spans `(start, end)` of the sentences, in code points.

    They are ordered, do not overlap, begin and end with something that is not white space, and together hold
    everything that is not white space.
    """
    return [span for start, end in _blocks(text) for span in _block_sentences(text, start, end)]


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Groups of lines that can share a sentence."""
    begin = position = 0
    lines = text.splitlines(keepends=True)
    in_front_matter = _front_matter_lines(lines)
    widths = _paragraph_widths(lines)
    previous = ""
    for number, line in enumerate(lines):
        stripped = line.strip()
        apart = number < in_front_matter or _breaks(previous, stripped, widths[number])
        if apart and position > begin:
            yield begin, position
            begin = position
        position += len(line)
        previous = "" if number < in_front_matter else stripped
    yield begin, position


def _front_matter_lines(lines: list[str]) -> int:
    """The number of leading lines that are YAML front matter, its two fences included."""
    if not lines or lines[0].lstrip("\ufeff").rstrip() != "---":
        return 0
    for number, line in enumerate(lines[1:], start=2):
        if line.rstrip() in ("---", "..."):
            return number
    return 0


def _paragraph_widths(lines: list[str]) -> list[int]:
    """For each line, the length of the longest line of its paragraph."""
    widths: list[int] = []
    paragraph: list[int] = []
    for line in [*lines, ""]:
        length = len(line.strip())
        paragraph.append(length)
        if not length:
            widths += [max(paragraph)] * len(paragraph)
            paragraph = []
    return widths


def _breaks(previous: str, line: str, width: int) -> bool:
    """Whether a sentence cannot go on from one line to the next; `width` is that of their paragraph."""
    if not previous or not line or _CLOSED_LINE.match(previous):
        return True
    if line.startswith(">"):
        return not previous.startswith(">")
    if max(len(previous), len(line)) > _WIDEST_WRAP or _BLOCK_LINE.match(line):
        return True
    # Wrapping leaves no line this short ("Article 9" above its text), unless a word that long came next.
    return width >= _NARROWEST_WRAP and len(previous) * 3 <= width and len(line.split(maxsplit=1)[0]) * 2 < width


def _block_sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    start = _skip_space(text, start, end)
    for run in _RUN.finditer(text, start, end):
        stop = _sentence_end(text, start, run, end)
        if stop:
            yield start, stop
            start = _skip_space(text, stop, end)
    stop = start + len(text[start:end].rstrip())
    if stop > start:
        yield start, stop


def _skip_space(text: str, start: int, end: int) -> int:
    found = _SPACE.match(text, start, end)
    return found.end() if found else start


def _sentence_end(text: str, start: int, run: re.Match[str], end: int) -> int:
    """Where the sentence from `start` ends if it does with these enders; 0 if it goes on."""
    stop = run.end()
    follows = _skip_space(text, stop, end)
    if not _has_words(text, start, run.start()):
        return 0
    if follows == end:
        return end if stop == end else stop
    if run["enders"][-1] in _UNSPACED:
        return _unspaced_end(text, start, run)
    if follows == stop or not _ends_before(text, start, run, follows):
        return 0
    return stop


def _has_words(text: str, start: int, stop: int) -> bool:
    # The bound keeps a text of nothing but enders linear.
    return stop - start > _LOOK_BACK or any(char.isalnum() for char in text[start:stop])


def _unspaced_end(text: str, start: int, run: re.Match[str]) -> int:
    stop = run.end("enders")
    if text[stop - 1] in "．۔" and text[stop : stop + 1].isdigit():
        return 0
    while stop < run.end():
        marks = _MARKS.match(text, stop, run.end())
        if marks and not _closes(text, start, marks):
            break
        stop = marks.end() if marks else stop + 1
    # A Japanese quotation goes on: 「…。」と言った.
    quoted = stop > run.end("enders") and text[stop : stop + 1] in ("と", "が", "を", "の", "に")
    return 0 if quoted else stop


def _closes(text: str, start: int, marks: re.Match[str]) -> bool:
    """Whether quotation or emphasis marks close: the same ones stand open in the sentence so far."""
    if marks.end() == len(text) or text[marks.end()].isspace():
        return True
    # Bounded, so that sentences without an end stay linear.
    return text.count(marks[0], max(start, marks.start() - 500), marks.start()) % 2 == 1


def _ends_before(text: str, start: int, run: re.Match[str], follows: int) -> bool:
    """Whether enders before white space end the sentence, by the words on both sides."""
    found = _NEXT_WORD.match(text, follows)
    word = found[1] if found else ""
    goes_on = word[:1].islower() and not text[start].islower()
    if run["enders"] != ".":
        # "Why?" he asked. And "Wait… what": the sentence goes on.
        return not (goes_on and (run["closers"] or run["enders"][-1] in ".…‥"))
    before = text[max(start, run.start() - _LOOK_BACK) : run.start()].split()
    stem = before[-1].lstrip("\"'“‘«([{„*_¿¡") if before else ""
    if _ENUMERATOR.fullmatch(stem) and run.start() - start <= len(before[-1]):
        return False
    return not (goes_on or _is_abbreviation(stem, word))


def _is_abbreviation(stem: str, following: str) -> bool:
    folded, after = stem.casefold(), following.casefold()
    if folded in _TITLES:
        return True
    if folded in _BEFORE_NUMBER and following[:1].isdigit():
        return True
    if folded.isdigit() and len(folded) <= 2:
        return after in _GERMAN_DATES
    is_initial = len(stem) == 1 and stem.lower() != stem.upper()
    return (is_initial or folded in _NAMES or bool(_ACRONYM.fullmatch(stem))) and after not in _FIRST_WORDS
