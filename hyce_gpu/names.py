"""Canonical names: when two spellings name one entity (SPEC.md, 1.3). Pure string work, every script kept."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Joiners shape words in Persian, Hindi and others, so they stay; other format characters are invisible noise.
_JOINERS = "\u200c\u200d"
_QUOTES = "\"'`´‘’‚‛“”„‟‹›«»「」『』〝〞〟＂＇"
_EDGES = _QUOTES + ".,;:!?¡¿…、。，．；：！？।॥؟،؛۔·•–—-~|/\\"
_BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">", "《": "》", "〈": "〉", "【": "】", "（": "）", "〔": "〕"}
_BRACKETS |= {"*": "*", "_": "_"}


# Each name of a passage is looked at many times.
@lru_cache(maxsize=1 << 16)
def canonical_name(name: str) -> str:
    """NFKC, case-folded, inner white space collapsed, surrounding quotes and punctuation stripped.

    Letters, digits and symbols of every script stay ("C++", "C#", "周杰伦" and "Müller" keep what tells them apart).
    A name of nothing but punctuation ("!!!") stays as it is. Only a blank name gives "".
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    # Printable is what has no control and no format character.
    spaced = folded if folded.isprintable() else "".join(_visible(char) for char in folded)
    whole = " ".join(spaced.split())
    return _strip_edges(whole) or whole


def _visible(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Cc":
        return " "
    return "" if category == "Cf" and char not in _JOINERS else char


def _strip_edges(name: str) -> str:
    # Nearly all names begin and end with a letter or digit, and those are neither marks nor brackets.
    if name and name[0].isalnum() and name[-1].isalnum():
        return name
    while name:
        stripped = _strip_brackets(_strip_punctuation(name).strip())
        if stripped == name:
            return name
        name = stripped
    return name


def _strip_punctuation(name: str) -> str:
    ended = name.rstrip(_EDGES)
    body = ended.lstrip(_EDGES)
    # ".NET" is not "net": one leading point that touches a letter belongs to the name.
    pointed = ended == "." + body and not body[:1].isspace()
    return ended if pointed else body


def _strip_brackets(name: str) -> str:
    """Takes off brackets that enclose the whole name or have no partner; "(500) days" keeps its own."""
    for opening, closing in _BRACKETS.items():
        if name.startswith(opening) and (name.endswith(closing) or closing not in name):
            return name[1:-1] if name.endswith(closing) else name[1:]
        if name.endswith(closing) and opening not in name:
            return name[:-1]
    return name
