"""A data set's files → one `Dataset`: distinct passages, and questions with their labels.

Takes a folder with our corpus.jsonl and questions.jsonl, or official files as they are downloaded, whose format is
told by their content. Knows files and what goes together; the shapes of records are in `official`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from hyce_gpu.errors import InputError
from hyce_gpu.evaluation import official
from hyce_gpu.evaluation.official import GRAPHRAG_BENCH, GRAPHRAG_CORPUS, GRAPHRAG_QUESTIONS, TWO_WIKI_ALIASES
from hyce_gpu.json_files import JsonItem, read_json_items
from hyce_gpu.ledger import Ledger
from hyce_gpu.questions import read_questions
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Document, Question
from hyce_gpu.text_files import json_type

_OUR_FILES = ("corpus.jsonl", "questions.jsonl")
_ALIASES_FILE = "id_aliases.json"
_SUFFIXES = (".json", ".jsonl")
_SHOWN_KEYS = 8


@dataclass(frozen=True)
class Dataset:
    # "musique", "hotpotqa", "2wiki", "graphrag-bench", or the name of a folder of ours.
    name: str
    # Distinct passages.
    documents: Sequence[Document]
    # `extra` has, where known: answer, aliases, supporting_ids (of documents), type, hops.
    questions: Sequence[Question]


def read_dataset(path: Path, ledger: Ledger) -> Dataset:
    """Reads a data set from a folder or a single file.

    Records that cannot be used are set aside with their position, as are files in a folder that belong to no known
    format. A question that is repeated with its id is read once.

    Raises:
        InputError: nothing is there; a file given by name that is not JSON or of no known format; a folder without any
            known file or with several data sets; one half of GraphRAG-Bench; no question or no passage in the end.
    """
    if os.path.isdir(path) and all((path / name).is_file() for name in _OUR_FILES):
        corpus, questions = (path / name for name in _OUR_FILES)
        return Dataset(path.resolve().name, read_corpus([corpus], ledger), read_questions(questions, ledger))
    entries_before = len(ledger)
    files = _files_under(path, ledger) if os.path.isdir(path) else _files_beside(path)
    pool = _Pool(_name(path, files), ledger)
    for file in sorted(files, key=lambda file: _READING_ORDER.get(file.format, len(_READING_ORDER))):
        for item in file.items:
            pool.read(item, file.format)
    if not pool.questions or not pool.documents:
        lacking = "question" if not pool.questions else "passage"
        first = next((f": {entry.where}: {entry.reason}" for entry in ledger.entries[entries_before:]), "")
        raise InputError(f"no usable {lacking} in {path}{first}")
    return Dataset(pool.name, list(pool.documents.values()), pool.questions)


@dataclass(frozen=True)
class _File:
    format: str
    items: Iterator[JsonItem]


# Names and texts before the questions that refer to them.
_READING_ORDER = {TWO_WIKI_ALIASES: 0, GRAPHRAG_CORPUS: 1}


def _opened(path: Path) -> _File:
    """The file with its format. Raises: InputError: it is not JSON, or of no known format."""
    items = read_json_items(path)
    head: list[JsonItem] = []
    found = "no object"
    for item in items:
        head.append(item)
        if isinstance(item.value, dict):
            name = official.recognise(item.value)
            if name:
                return _File(name, chain(head, items))
            found = f"an object with the keys {', '.join(list(item.value)[:_SHOWN_KEYS]) or '(none)'}"
            break
        if not item.error:
            found = json_type(item.value)
    raise InputError(f"{path} is of no known format; known: {official.KNOWN_FORMATS}; found {found}")


def _files_beside(path: Path) -> list[_File]:
    """The file, and the aliases that 2WikiMultihopQA puts beside it."""
    file = _opened(path)
    aliases = path.with_name(_ALIASES_FILE)
    has_aliases = file.format == official.TWO_WIKI and aliases.is_file()
    return [file, _opened(aliases)] if has_aliases else [file]


def _files_under(folder: Path, ledger: Ledger) -> list[_File]:
    files: list[_File] = []
    first = f"no {' or '.join(_SUFFIXES)} file"
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.suffix.lower() not in _SUFFIXES or not path.is_file():
            continue
        try:
            files.append(_opened(path))
        except InputError as error:
            ledger.set_aside("read", str(path), str(error))
            first = str(error) if first.startswith("no ") else first
    if not files:
        raise InputError(f"no data set in {folder}; known: {official.KNOWN_FORMATS}; found {first}")
    return files


def _name(path: Path, files: Sequence[_File]) -> str:
    """The one data set that the files are. Raises: InputError: they are several, or a part of one."""
    formats = {file.format for file in files}
    halves = {GRAPHRAG_CORPUS, GRAPHRAG_QUESTIONS}
    names = formats - halves - {TWO_WIKI_ALIASES} | ({GRAPHRAG_BENCH} if formats & halves else set())
    if len(names) > 1:
        raise InputError(f"{path} holds several data sets ({', '.join(sorted(names))}): give one of them")
    if not names:
        raise InputError(f"{path} holds only the aliases of 2WikiMultihopQA: give the folder with its questions")
    if len(formats & halves) == 1:
        raise InputError(
            f"{path} holds only {min(formats)}: give the folder that holds both the corpus and the questions"
        )
    return min(names)


class _Pool:
    """Collects what the records hold; one passage becomes one document, whichever questions it comes with."""

    def __init__(self, name: str, ledger: Ledger) -> None:
        self.name = name
        self.documents: dict[str, Document] = {}
        self.questions: list[Question] = []
        self._ledger = ledger
        self._asked: set[tuple[str, str]] = set()
        self._sources: set[str] = set()
        # Wikidata id → other names.
        self._aliases: dict[str, list[str]] = {}

    def read(self, item: JsonItem, form: str) -> None:
        """Adds what the item holds, all of it or nothing."""
        try:
            if item.error:
                raise InputError(item.error)
            if not isinstance(item.value, dict):
                raise InputError(f"expected an object, found {json_type(item.value)}")
            self._add(item, form)
        except InputError as error:
            stage = "read" if form in _READING_ORDER else "question"
            self._ledger.set_aside(stage, item.where, str(error), item.raw())

    def _add(self, item: JsonItem, form: str) -> None:
        record = item.value
        if form == TWO_WIKI_ALIASES:
            self._add_aliases(record)
        elif form == GRAPHRAG_CORPUS:
            document = official.read_graphrag_text(record, item.where, self.name)
            self._sources.add(document.title)
            self.documents.setdefault(document.id, document)
        elif form == GRAPHRAG_QUESTIONS:
            self._ask(official.read_graphrag_question(record, self._sources), [])
        elif form == official.MUSIQUE:
            self._ask(*official.read_musique(record, item.where, self.name))
        else:
            self._ask(*official.read_hotpot(record, item.where, self.name, self._aliases))

    def _add_aliases(self, record: dict[str, object]) -> None:
        names = [record.get("aliases"), record.get("demonyms") or []]
        if not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in names):
            raise InputError("expected lists of strings as aliases and demonyms")
        self._aliases.setdefault(str(record.get("Q_id")), []).extend(chain(*names))  # type: ignore[arg-type]

    def _ask(self, question: Question, documents: Sequence[Document]) -> None:
        if (question.id, question.text) in self._asked:
            raise InputError(f"question {question.id!r} is repeated")
        self._asked.add((question.id, question.text))
        self.questions.append(question)
        for document in documents:
            self.documents.setdefault(document.id, document)
