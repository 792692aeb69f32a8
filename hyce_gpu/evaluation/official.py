"""The records of the benchmarks' official files → documents and questions with labels.

HotpotQA and 2WikiMultihopQA (one shape), MuSiQue, and GraphRAG-Bench. Pure functions of one decoded record; a record
that cannot be used is an `InputError`. Knows no files.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hyce_gpu.errors import InputError
from hyce_gpu.schema import Document, Question
from hyce_gpu.text_files import is_blank, json_type

MUSIQUE = "musique"
HOTPOT = "hotpotqa"
TWO_WIKI = "2wiki"
GRAPHRAG_BENCH = "graphrag-bench"
# Files that are a part of a data set only.
GRAPHRAG_CORPUS = "graphrag-bench corpus"
GRAPHRAG_QUESTIONS = "graphrag-bench questions"
TWO_WIKI_ALIASES = "2wiki aliases"

KNOWN_FORMATS = (
    "HotpotQA and 2WikiMultihopQA (a JSON array of {_id, question, answer, supporting_facts, context}), MuSiQue (JSON "
    "lines of {id, question, answer, paragraphs}), GraphRAG-Bench (a folder with the corpus, {corpus_name, context}, "
    "and the questions, {id, source, question, answer, question_type}), or a folder with corpus.jsonl and "
    "questions.jsonl"
)

# The first format whose keys a record has is its own.
_KEYS = {
    MUSIQUE: {"question", "paragraphs"},
    HOTPOT: {"_id", "question", "context"},
    GRAPHRAG_CORPUS: {"corpus_name", "context"},
    GRAPHRAG_QUESTIONS: {"question", "question_type", "source"},
    TWO_WIKI_ALIASES: {"Q_id", "aliases"},
}
_ONLY_TWO_WIKI = ("evidences", "evidences_id", "answer_id", "entity_ids")
# "3hop1__140786_2053_5289": three hops, in the first of their shapes.
_HOPS_IN_ID = re.compile(r"(\d+)hop\d*(?=__)")


def recognise(record: Mapping[str, Any]) -> str:
    """The format of a file that holds such records; "" if it is none that is known."""
    found = next((name for name, keys in _KEYS.items() if keys <= record.keys()), "")
    return TWO_WIKI if found == HOTPOT and any(key in record for key in _ONLY_TWO_WIKI) else found


def passage(prefix: str, title: str, text: str, where: str) -> Document:
    """A document whose id depends on its content alone: one passage has one id in every file."""
    content = hashlib.sha256(f"{title}\n{text}".encode()).hexdigest()
    return Document(f"{prefix}-{content[:12]}", title, text, where)


def read_hotpot(
    record: Mapping[str, Any], where: str, prefix: str, aliases: Mapping[str, Sequence[str]]
) -> tuple[Question, list[Document]]:
    """A question of HotpotQA or 2WikiMultihopQA and its context. `aliases`: names of an answer by its `answer_id`.

    A passage is supporting if its title is among the supporting facts'. The full-wiki setting may lack some:
    "supporting_missing" names them. Passages without text are left out.

    Raises:
        InputError: the record has another shape.
    """
    context = [_titled(entry, where, prefix) for entry in _list(record, "context")]
    documents = [document for document in context if not is_blank(document.text)]
    extra = _answer(record, aliases.get(str(record.get("answer_id")), ())) | _kept(record, "type", "level")
    if "supporting_facts" in record:
        titles = _supporting_titles(record)
        extra["supporting_ids"] = _ids(document for document in documents if document.title in titles)
        missing = [title for title in titles if all(document.title != title for document in documents)]
        extra |= {"supporting_missing": missing} if missing else {}
        # Each hop has a passage of its own in both data sets.
        extra |= {"hops": len(titles)} if titles else {}
    extra |= {"context_ids": _ids(documents)} | _kept(record, "evidences", "answer_id")
    return Question(_string(record, "_id"), _string(record, "question"), extra), documents


def _titled(entry: Any, where: str, prefix: str) -> Document:
    match entry:
        case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
            return passage(prefix, title, _joined(sentences), where)
    raise InputError("expected each item of context to be [title, [sentence, ...]]")


def _joined(sentences: Sequence[str]) -> str:
    """HotpotQA's sentences begin with their space, 2WikiMultihopQA's do not."""
    text = ""
    for sentence in sentences:
        is_apart = not text or not sentence or text[-1].isspace() or sentence[0].isspace()
        text += sentence if is_apart else f" {sentence}"
    return text.strip()


def _supporting_titles(record: Mapping[str, Any]) -> list[str]:
    facts = _list(record, "supporting_facts")
    if not all(isinstance(fact, list) and fact and isinstance(fact[0], str) for fact in facts):
        raise InputError("expected each item of supporting_facts to be [title, sentence number]")
    return list(dict.fromkeys(fact[0] for fact in facts))


def read_musique(record: Mapping[str, Any], where: str, prefix: str) -> tuple[Question, list[Document]]:
    """A question of MuSiQue and its paragraphs.

    Raises:
        InputError: the record has another shape, or its question is one of those made unanswerable.
    """
    if record.get("answerable") is False:
        raise InputError("not answerable: its paragraphs were chosen to lack the evidence")
    paragraphs = [_paragraph(entry, where, prefix) for entry in _list(record, "paragraphs")]
    usable = [pair for pair in paragraphs if not is_blank(pair[1].text)]
    name = _string(record, "id")
    extra = _answer(record, record.get("answer_aliases") or ())
    if any("is_supporting" in entry for entry, _ in paragraphs):
        extra["supporting_ids"] = _ids(document for entry, document in usable if entry.get("is_supporting") is True)
    steps = record.get("question_decomposition")
    extra |= _hops(name, steps) | {"context_ids": _ids(document for _, document in usable)}
    if isinstance(steps, list):
        by_number = {number: document.id for entry, document in usable if isinstance(number := entry.get("idx"), int)}
        extra["decomposition"] = [_step(step, by_number) for step in steps if isinstance(step, dict)]
    return Question(name, _string(record, "question"), extra), [document for _, document in usable]


def _paragraph(entry: Any, where: str, prefix: str) -> tuple[Mapping[str, Any], Document]:
    match entry:
        case {"title": str(title), "paragraph_text": str(text)}:
            return entry, passage(prefix, title, text, where)
    raise InputError("expected each item of paragraphs to have a title and a paragraph_text")


def _hops(name: str, steps: Any) -> dict[str, Any]:
    in_id = _HOPS_IN_ID.match(name)
    if in_id:
        return {"type": in_id.group(), "hops": int(in_id.group(1))}
    return {"hops": len(steps)} if isinstance(steps, list) and steps else {}


def _step(step: Mapping[str, Any], by_number: Mapping[int, str]) -> dict[str, Any]:
    number = step.get("paragraph_support_idx")
    supporting = by_number.get(number) if isinstance(number, int) else None
    return _kept(step, "question", "answer", "id") | {"supporting_id": supporting}


def read_graphrag_text(record: Mapping[str, Any], where: str, prefix: str) -> Document:
    """One text of GraphRAG-Bench: a whole novel, or the whole medical corpus.

    Raises:
        InputError: the record has another shape, or its text is blank.
    """
    name, text = _string(record, "corpus_name"), _string(record, "context")
    return passage(prefix, name, text, where)


def read_graphrag_question(record: Mapping[str, Any], sources: Collection[str]) -> Question:
    """A question of GraphRAG-Bench. It has no passage labels: its evidence is statements, not places.

    Args:
        sources: the names of the texts that were read.

    Raises:
        InputError: the record has another shape, or asks about a text that was not read.
    """
    source = _string(record, "source")
    if source not in sources:
        raise InputError(f"its source {source!r} is not in the corpus")
    extra = _answer(record, ()) | _kept(record, "source", "evidence_relations", "evidence_triple")
    extra["type"] = _string(record, "question_type")
    evidence = record.get("evidence")
    # The medical questions have one statement where the novels' have a list.
    extra["evidence"] = [evidence] if isinstance(evidence, str) else evidence or []
    return Question(_string(record, "id"), _string(record, "question"), extra)


def _answer(record: Mapping[str, Any], aliases: Any) -> dict[str, Any]:
    """The answer and its other names; nothing where the answer is withheld, as in test sets."""
    answer = record.get("answer")
    if answer is None:
        return {}
    if not isinstance(answer, str):
        raise InputError(f"expected a string as answer, found {json_type(answer)}")
    if not isinstance(aliases, (list, tuple)) or not all(isinstance(alias, str) for alias in aliases):
        raise InputError("expected a list of strings as the answer's aliases")
    return {"answer": answer, "aliases": [alias for alias in dict.fromkeys(aliases) if alias != answer]}


def _kept(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: record[name] for name in names if record.get(name) is not None}


def _ids(documents: Iterable[Document]) -> list[str]:
    return list(dict.fromkeys(document.id for document in documents))


def _string(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        found = f"found {json_type(value)}" if name in record else "but it is missing"
        raise InputError(f"expected a string as {name}, {found}")
    if is_blank(value):
        raise InputError(f"{name} is blank")
    return value


def _list(record: Mapping[str, Any], name: str) -> list[Any]:
    value = record.get(name)
    if not isinstance(value, list):
        raise InputError(f"expected a list as {name}, found {json_type(value)}")
    return value
