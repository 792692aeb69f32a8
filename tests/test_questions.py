"""Question files: every line that is not blank stays one question, asked or not."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.questions import read_questions
from hyce_gpu.schema import Question


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def test_jsonl_questions(tmp_path: Path, ledger: Ledger) -> None:
    lines = [
        '{"id": "a", "question": "Who?", "answer": "Me", "hops": 2}',
        "",
        '{"question": "What?"}',
        '{"id": 5, "question": "Where?"}',
        '{"id": "a", "question": "Again?"}',
        '{"id": " ", "question": "When?"}',
    ]
    assert read_questions(write(tmp_path / "q.jsonl", "\n".join(lines)), ledger) == [
        Question("a", "Who?", {"answer": "Me", "hops": 2}),
        Question("q3", "What?"),
        Question("5", "Where?"),
        Question("a", "Again?"),
        Question("q6", "When?"),
    ]
    assert not ledger


def test_text_questions(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "q.txt", "Who?\r\n\n  \n Where\u2028or when? \n\x00\n")
    assert read_questions(path, ledger) == [
        Question("q1", "Who?"),
        Question("q4", "Where\u2028or when?"),
        Question("q5", "\x00", error="the question is blank"),
    ]
    assert [(entry.stage, entry.where, entry.reason) for entry in ledger] == [
        ("question", f"{path}:5", "the question is blank")
    ]


@pytest.mark.parametrize(
    ("line", "question"),
    [
        ('{"id": "x"}', Question("x", "", error='expected a string "question", but it is missing')),
        ('{"id": "x", "question": null}', Question("x", "", error='expected a string "question", but it is null')),
        ('{"question": 3, "n": 1}', Question("q2", "", {"n": 1}, 'expected a string "question", but it is a number')),
        ('{"question": ""}', Question("q2", "", error="the question is empty")),
        ('{"question": " \\u200b"}', Question("q2", " \u200b", error="the question is blank")),
        ("Who?", Question("q2", "", error="not JSON: Expecting value (column 1)")),
        ("[1]", Question("q2", "", error="expected a JSON object, found an array (column 1)")),
        ("[" * 100_000, Question("q2", "", error="not readable as JSON: nested too deeply")),
    ],
)
def test_lines_that_cannot_be_asked_stay(line: str, question: Question, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "q.jsonl", f'{{"question": "One?"}}\n{line}\n{{"question": "Three?"}}')
    assert read_questions(path, ledger) == [Question("q1", "One?"), question, Question("q3", "Three?")]
    (entry,) = ledger
    assert (entry.stage, entry.where, entry.reason, entry.raw) == ("question", f"{path}:2", question.error, line[:500])


def test_an_id_of_another_type_is_replaced_and_noted(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "q.jsonl", '{"id": [1], "question": "Who?"}\n{"id": true, "question": "Who?"}')
    assert read_questions(path, ledger) == [Question("q1", "Who?"), Question("q2", "Who?")]
    assert [entry.reason for entry in ledger] == [
        "expected a string or a whole number as \"id\", found an array; 'q1' is used",
        "expected a string or a whole number as \"id\", found a boolean; 'q2' is used",
    ]


def test_lone_surrogates_are_replaced(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "q.jsonl", '{"id": "\\ud800", "question": "a\\udc00?", "m": ["\\ud83d\\ude00", "\\ud83d"]}')
    assert read_questions(path, ledger) == [Question("\ufffd", "a\ufffd?", {"m": ["😀", "\ufffd"]})]


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ],
)
def test_encodings(mark: bytes, encoding: str, tmp_path: Path, ledger: Ledger) -> None:
    lines = write(tmp_path / "q.jsonl", mark + '{"question": "誰?"}\n{"question": "Ċ?"}'.encode(encoding))
    plain = write(tmp_path / "q.txt", mark + "誰?\r\nĊ?".encode(encoding))
    expected = [Question("q1", "誰?"), Question("q2", "Ċ?")]
    assert read_questions(lines, ledger) == expected
    assert read_questions(plain, ledger) == expected


@pytest.mark.parametrize("name", ["q.jsonl", "q.txt"])
def test_a_line_that_cannot_be_decoded_stays(name: str, tmp_path: Path, ledger: Ledger) -> None:
    good = b'{"question": "One?"}\n'
    path = write(tmp_path / name, good + b"\xff?\n" + good)
    first, second, third = read_questions(path, ledger)
    # The good line has 21 bytes.
    error = "not UTF-8: byte 0xff at byte 21 (invalid start byte); save it as UTF-8"
    assert (second.id, second.text, second.error) == ("q2", "", error)
    assert (first.error, third.error) == ("", "")
    assert [(entry.where, entry.reason) for entry in ledger] == [(f"{path}:2", error)]


@pytest.mark.parametrize("content", ["", "\n \r\n"])
@pytest.mark.parametrize("name", ["q.jsonl", "q.txt"])
def test_a_file_without_questions_is_an_error(name: str, content: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError, match="no question in"):
        read_questions(path, ledger)


@pytest.mark.parametrize("name", ["q.md", "q.json", "q"])
def test_an_unknown_type_is_an_error(name: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / name, "Who?")
    with pytest.raises(InputError) as raised:
        read_questions(path, ledger)
    assert str(raised.value) == f"{path} is of an unknown type; known types of questions: .jsonl, .txt"


def test_missing_files_and_folders_are_errors(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        read_questions(tmp_path / "none.txt", ledger)
    with pytest.raises(InputError, match="not a regular file"):
        read_questions(tmp_path, ledger)


def test_utf_32_is_an_error(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match="UTF-32"):
        read_questions(write(tmp_path / "q.txt", "Who?".encode("utf-32")), ledger)
