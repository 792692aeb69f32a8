"""Files become questions: .jsonl, or .txt with one question a line.

A line that cannot be asked stays a question with an error, so that the answers keep one line for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Question
from hyce_gpu.text_files import RAW_KEPT, Line, check_is_file, is_blank, json_type, parse_object, read_lines

_STAGE = "question"
_TYPES = (".jsonl", ".txt")


def read_questions(path: Path, ledger: Ledger) -> list[Question]:
    """Reads one question from each line that is not blank, in order; ids may repeat.

    A line that holds no question has `error` set and an entry in the ledger. An id of another type than string or whole
    number only has an entry: the question is asked under the id of its line.

    Raises:
        InputError: an unknown type of file; a file that cannot be read; no line that is not blank.
    """
    check_is_file(path)
    kind = path.suffix.lower()
    if kind not in _TYPES:
        raise InputError(f"{path} is of an unknown type; known types of questions: {', '.join(_TYPES)}")
    read = _json_question if kind == ".jsonl" else _plain_question
    questions = []
    for line in read_lines(path):
        if line.error or line.text.strip():
            question, notice = read(line)
            questions.append(question)
            if notice:
                ledger.set_aside(_STAGE, f"{path}:{line.number}", notice, line.text[:RAW_KEPT])
    if not questions:
        raise InputError(f"no question in {path}: every line is blank")
    return questions


def _plain_question(line: Line) -> tuple[Question, str]:
    """The question, and what the ledger has to say about it."""
    if line.error:
        return _unasked(line, line.error)
    text = line.text.strip()
    error = "the question is blank" if is_blank(text) else ""
    return Question(_fallback_id(line), text, error=error), error


def _json_question(line: Line) -> tuple[Question, str]:
    """The question, and what the ledger has to say about it."""
    if line.error:
        return _unasked(line, line.error)
    try:
        fields = parse_object(line.text)
    except InputError as unreadable:
        return _unasked(line, str(unreadable))
    text, error = fields.get("question"), _error(fields)
    extra = {name: value for name, value in fields.items() if name not in ("id", "question")}
    name, notice = _id(fields.get("id"), _fallback_id(line))
    return Question(name, text if isinstance(text, str) else "", extra, error), error or notice


def _unasked(line: Line, error: str) -> tuple[Question, str]:
    return Question(_fallback_id(line), "", error=error), error


def _fallback_id(line: Line) -> str:
    return f"q{line.number}"


def _id(value: Any, fallback: str) -> tuple[str, str]:
    """The id, and a notice if one was given that cannot be used."""
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
        return fallback, f'expected a string or a whole number as "id", found {json_type(value)}; {fallback!r} is used'
    return (fallback, "") if value is None or is_blank(str(value)) else (str(value), "")


def _error(fields: Mapping[str, Any]) -> str:
    """Why the fields hold no question that can be asked; "" if they do."""
    text = fields.get("question")
    if not isinstance(text, str):
        found = f"is {json_type(text)}" if "question" in fields else "is missing"
        return f'expected a string "question", but it {found}'
    if is_blank(text):
        return "the question is blank" if text else "the question is empty"
    return ""
