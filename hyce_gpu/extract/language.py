"""Which script and language a text is in, told cheaply.

Knows scripts, stop words and particles. Knows nothing of pipelines, chunks, entities or hyperedges.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path

# Languages that share a script are told apart by their stop words; the others by the script alone.
_LATIN = [
    "en", "de", "fr", "es", "pt", "it", "nl", "sv", "da", "nb", "fi", "pl",
    "cs", "sk", "hu", "ro", "hr", "tr", "id", "vi", "ca", "et", "lt",
]  # fmt: skip
_RIVALS = {
    "LATIN": _LATIN,
    "CYRILLIC": ["ru", "uk", "bg", "sr", "mk"],
    "ARABIC": ["ar", "fa", "ur"],
    "DEVANAGARI": ["hi", "mr", "ne"],
}
_ONLY = {
    "CJK": "zh", "HIRAGANA": "ja", "KATAKANA": "ja", "HANGUL": "ko", "THAI": "th", "HEBREW": "he", "GREEK": "el",
    "ARMENIAN": "hy", "BENGALI": "bn", "TAMIL": "ta", "TELUGU": "te", "GUJARATI": "gu", "KANNADA": "kn",
    "MALAYALAM": "ml", "SINHALA": "si", "ETHIOPIC": "am",
}  # fmt: skip
LANGUAGES = tuple(dict.fromkeys([*(code for codes in _RIVALS.values() for code in codes), *_ONLY.values()]))
# What the first word of a character's Unicode name does not say.
_SCRIPT_OF_PREFIX = {
    "IDEOGRAPHIC": "CJK",
    "KATAKANA-HIRAGANA": "KATAKANA",
    "HALFWIDTH": "KATAKANA",
    "FULLWIDTH": "LATIN",
}

# Scripts without spaces between words, as ranges of a character class: Han; Thai, Lao, Burmese and Khmer.
HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff々〇"
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNSPACED_SCRIPTS = frozenset({"CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "MYANMAR", "KHMER"})

# Shorter ones are headings, bullets and table cells.
_MIN_SENTENCE_WORDS = 3
_MIN_SENTENCE_CHARACTERS = 6

_SAMPLE_CHARACTERS = 4000
# One Han character carries about as much as three letters of an alphabet.
_HAN_WEIGHT = 3
# Japanese with this share of kana is still Japanese; Chinese text quotes less of it.
_KANA_SHARE = 0.1
# Running text of a known language has more stop words than this; below it the language is not one of ours.
_LEAST_STOP_WORD_SHARE = 0.12
# In a text of so few words, fewer different stop words are no evidence against the script's commonest language.
_SHORT, _EVIDENCE = 40, 3
# Not `\w`: it splits Devanagari words at their vowel signs.
_WORD = re.compile(r"[^\s\d!-/:-@\[-`{-~«»“”„…–—।،؛؟]+")
# Short texts hit several lists; a text is in one of these languages more often than in their neighbours.
_BONUS = {"en": 1.5, "de": 1.2, "fr": 1.2, "es": 1.2, "ru": 1.2}

# Words that glue others together in scripts without spaces; a term does not cross them.
_GLUE = {
    "zh": re.compile("[的了是在和与與及或但也而且并並以于於之其这這那被就都你我您他她它们們]"),
    "th": re.compile(
        "(?:และ|ที่|การ|ความ|ของ|ใน|จะ|เป็น|ได้|ให้|โดย|หรือ|กับ|แก่|ต่อ|ซึ่ง|ว่า|ไม่|ทุก|นี้|นั้น|ตาม|จาก|ด้วย|เพื่อ|ย่อม|ถูก|มี)"
        "(?![\u0e30-\u0e3a\u0e45-\u0e4e])"
    ),
}
# Korean particles, the longest first; what Hebrew and Arabic write onto the next word; elided Romance articles.
_PARTICLES = (
    "으로서", "에게는", "에서는", "에게서", "에서", "으로", "에게", "까지", "부터", "이나",
    "은", "는", "이", "가", "을", "를", "의", "에", "와", "과", "도", "로",
)  # fmt: skip
_HEBREW_PREFIXES = "ובהלמשכ"
_BEFORE_ARTICLE = re.compile(r"^(?:[وبكف]ال|لل)(?=\w{2})")
_ELIDED = re.compile(r"^(?:[dlmnst]|qu|un|dell|nell|all|sull|dall)['’](?=\w)", re.IGNORECASE)

# Names need neither syntax nor lemmas. English proper nouns show in the tags, without the attribute ruler.


@lru_cache(maxsize=65536)
def script_of(char: str) -> str:
    """The script of a letter ("LATIN", "CJK", "THAI"); "" for whatever is not a letter."""
    if unicodedata.category(char)[0] != "L":
        return ""
    prefix = unicodedata.name(char, "").split(" ")[0]
    return _SCRIPT_OF_PREFIX.get(prefix, prefix)


@lru_cache(maxsize=1)
def combining_marks() -> str:
    """The combining marks of the living scripts, for a character class: `\\w` leaves them out."""
    return "".join(chr(code) for code in range(0x300, 0xFE30) if unicodedata.category(chr(code))[0] == "M")


@lru_cache(maxsize=1)
def token_pattern() -> re.Pattern[str]:
    """Runs of letters and digits of any script, with their marks."""
    return re.compile(rf"(?:\w[{combining_marks()}\u200c\u200d]*)+")


@lru_cache(maxsize=1)
def word_pattern() -> re.Pattern[str]:
    """Runs of spaced letters with their marks and joiners; inner apostrophes and hyphens belong to the word."""
    letter = rf"[^\W_{HAN}{UNSPACED}\u3041-\u30ff]"
    return re.compile(
        rf"{letter}[{combining_marks()}\u200c\u200d]*(?:['’&‑-]?(?:{letter}[{combining_marks()}\u200c\u200d]*))*"
    )


@lru_cache(maxsize=1)
def cluster_pattern() -> re.Pattern[str]:
    """A letter of an unspaced script with its marks; Thai and Lao write some vowels before their consonant."""
    follow = rf"[{combining_marks()}\u0e30\u0e32\u0e33\u0e45\u0eb0\u0eb2\u0eb3]*"
    return re.compile(rf"[\u0e40-\u0e44\u0ec0-\u0ec4]?[{UNSPACED}]{follow}")


def main_script(text: str) -> str:
    """The script that most of the text is written in; "" for a text without letters."""
    counts = _script_counts(text)
    return counts.most_common(1)[0][0] if counts else ""


def guess_language(text: str) -> str:
    """The spaCy code of the text's language, or "" where it cannot be told.

    Looks at the script and, where languages share it, at the share of words that are stop words of each.
    """
    sample = _sample(text)
    script = main_script(sample)
    if script == "CJK" and _has_kana(sample):
        return "ja"
    if script in _RIVALS:
        return _by_stop_words(sample, _RIVALS[script])
    return _ONLY.get(script, "")


def is_fragment(sentence: str) -> bool:
    """Whether it is too short to state anything; scripts without spaces count characters."""
    if main_script(sentence) in _UNSPACED_SCRIPTS:
        return len(sentence) < _MIN_SENTENCE_CHARACTERS
    return len(sentence.split()) < _MIN_SENTENCE_WORDS


def _sample(text: str) -> str:
    """The beginning and the middle: a document may open with another language's title or licence."""
    if len(text) <= _SAMPLE_CHARACTERS:
        return text
    half, middle = _SAMPLE_CHARACTERS // 2, len(text) // 2
    return text[:half] + " " + text[middle : middle + half]


def _script_counts(text: str) -> Counter[str]:
    counts = Counter(script for script in map(script_of, _sample(text)) if script)
    if "CJK" in counts:
        counts["CJK"] *= _HAN_WEIGHT
    return counts


def _has_kana(text: str) -> bool:
    counts = Counter(map(script_of, text))
    kana = counts["HIRAGANA"] + counts["KATAKANA"]
    return kana >= _KANA_SHARE * (kana + counts["CJK"])


def _by_stop_words(text: str, languages: list[str]) -> str:
    words = [word.lower() for word in _WORD.findall(text)]
    weights = _stop_word_weights(tuple(languages))
    scores = dict.fromkeys(languages, 0.0)
    hits: dict[str, list[str]] = {language: [] for language in languages}
    for word in words:
        for language, weight in weights.get(word, ()):
            scores[language] += weight
            hits[language].append(word)
    # `max` keeps the first of equals: the lists begin with the most common language.
    best = max(languages, key=scores.__getitem__)
    if len(words) < _SHORT and len(set(hits[best])) < _EVIDENCE:
        return languages[0] if hits[languages[0]] else ""
    return best if len(hits[best]) > _LEAST_STOP_WORD_SHARE * len(words) else ""


@lru_cache(maxsize=8)
def _stop_word_weights(languages: tuple[str, ...]) -> dict[str, list[tuple[str, float]]]:
    """word -> (language, weight): a word that many languages share tells little."""
    owners: dict[str, list[str]] = {}
    for language in languages:
        # Single consonants ("b", "d", "m") are initials and units more often than words.
        for word in stop_words(language).difference("bcdfghjklmnpqrstvwxz"):
            owners.setdefault(word, []).append(language)
    return {word: [(owner, _BONUS.get(owner, 1.0) / len(of) ** 0.5) for owner in of] for word, of in owners.items()}


@lru_cache(maxsize=64)
def stop_words(language: str) -> frozenset[str]:
    """spaCy's stop words of a language, lower-cased, split into single words; empty for an unknown language."""
    package = importlib.util.find_spec("spacy")
    if not language or package is None or not package.submodule_search_locations:
        return frozenset()
    file = Path(package.submodule_search_locations[0], "lang", language, "stop_words.py")
    # Run alone: importing them as modules also builds each language's tokenizer, three seconds for all.
    words = runpy.run_path(str(file))["STOP_WORDS"] if file.exists() else ()
    return frozenset(part for word in words for part in word.lower().replace("_", " ").split())


def without_glue(text: str, language: str) -> str:
    """The text with the glue words of a script without spaces blanked; every offset stays."""
    glue = _GLUE.get(language)
    return glue.sub(lambda match: " " * len(match.group()), text) if glue else text


def plain_forms(words: Iterable[str], language: str) -> dict[str, str]:
    """word -> the form that its inflections share: particles and elided articles cut, lower case."""
    if language in ("ko", "he"):
        return _stems(set(words), _without_particle if language == "ko" else _without_prefix)
    if language == "ar":
        return {word: _BEFORE_ARTICLE.sub("ال", word) for word in words}
    return {word: _ELIDED.sub("", word).lower() for word in words}


def _stems(words: set[str], cut: Callable[[str], str]) -> dict[str, str]:
    """A stem counts where it is seen in two forms: a word seen in one may just begin or end like that."""
    stems = {word: cut(word) for word in words}
    forms = Counter(stem for word, stem in stems.items() if stem != word)
    return {word: stem if forms[stem] + (stem in words) > 1 else word for word, stem in stems.items()}


def _without_particle(word: str) -> str:
    fitting = (part for part in _PARTICLES if word.endswith(part) and len(word) - len(part) >= 2)
    return word.removesuffix(next(fitting, ""))


def _without_prefix(word: str) -> str:
    return word[1:] if word[0] in _HEBREW_PREFIXES and len(word) > 3 else word
