"""Corpus files of lines and of text: their fields, and everything that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyce_gpu.ledger import Ledger
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Document

GOOD = '{"id": "good", "text": "Good."}'


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def reason_for(line: str | bytes, folder: Path) -> tuple[str, str]:
    """The reason and raw text in the ledger for a line between two good ones."""
    raw = line.encode("utf-8") if isinstance(line, str) else line
    path = write(folder / "c.jsonl", GOOD.encode() + b"\n" + raw + b"\n" + b'{"id": "last", "text": "Last."}')
    ledger = Ledger()
    assert [document.id for document in read_corpus([path], ledger)] == ["good", "last"]
    (entry,) = ledger
    assert (entry.stage, entry.where) == ("read", f"{path}:2")
    return entry.reason, entry.raw


def test_jsonl_fields(tmp_path: Path, ledger: Ledger) -> None:
    line = {"id": "a", "title": "A", "text": " Text. ", "lang": "en", "nested": {"x": [1, 2.5, None, True]}}
    path = write(tmp_path / "c.jsonl", json.dumps(line) + "\n")
    expected = Document("a", "A", " Text. ", f"{path}:1", {"lang": "en", "nested": {"x": [1, 2.5, None, True]}})
    assert read_corpus([path], ledger) == [expected]
    assert not ledger


def test_jsonl_ids(tmp_path: Path, ledger: Ledger) -> None:
    ids = ['" a/b#1\\n"', "7", "-12345678901234567890123", '""', '" \\u200b"', "null", "NaN"]
    lines = [f'{{"id": {name}, "text": "t{number}"}}' for number, name in enumerate(ids)]
    path = write(tmp_path / "c.jsonl", "\n".join([*lines, '{"text": "none"}']))
    found = [document.id for document in read_corpus([path], ledger)]
    expected = [
        " a/b#1\n",
        "7",
        "-12345678901234567890123",
        "c.jsonl:4",
        "c.jsonl:5",
        "c.jsonl:6",
        "c.jsonl:7",
        "c.jsonl:8",
    ]
    assert found == expected


@pytest.mark.parametrize(
    ("value", "kind"), [("true", "a boolean"), ("1.5", "a number"), ("[1]", "an array"), ("{}", "an object")]
)
def test_jsonl_ids_of_other_types_are_set_aside(value: str, kind: str, tmp_path: Path) -> None:
    line = f'{{"id": {value}, "text": "t"}}'
    assert reason_for(line, tmp_path) == (f'expected a string or a whole number as "id", found {kind}', line)


@pytest.mark.parametrize("title", ["null", "5", "[]", "NaN"])
def test_jsonl_titles_of_other_types_are_empty(title: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "c.jsonl", f'{{"title": {title}, "text": "t"}}')
    assert read_corpus([path], ledger)[0].title == ""


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "x"}', 'expected a string "text", but it is missing'),
        ('{"text": null}', 'expected a string "text", but it is null'),
        ('{"text": 5}', 'expected a string "text", but it is a number'),
        ('{"text": ["a"]}', 'expected a string "text", but it is an array'),
        ('{"text": ""}', '"text" is empty'),
        ('{"text": " \\n\\u3000"}', '"text" is blank'),
        ('{"text": "\\u0000\\u200b\\u0007\\ufeff"}', '"text" is blank'),
        ("oops", "not JSON: Expecting value (column 1)"),
        ('{"text": "a"', "not JSON: Expecting ',' delimiter (column 13)"),
        ('{"text": "a"} x', "not JSON: Extra data (column 15)"),
        ('["a"]', "expected a JSON object, found an array (column 1)"),
        ('"a"', "expected a JSON object, found a string (column 1)"),
        ("null", "expected a JSON object, found null (column 1)"),
        ('{"text": "a", "x": ' + "[" * 100_000, "not readable as JSON: nested too deeply"),
        ('{"text": "a", "x": ' + "[" * 600 + "]" * 600 + "}", "not readable as JSON: nested too deeply"),
    ],
)
def test_jsonl_lines_that_are_set_aside(line: str, reason: str, tmp_path: Path) -> None:
    assert reason_for(line, tmp_path) == (reason, line[:500])


def test_a_huge_number_is_set_aside(tmp_path: Path) -> None:
    reason, raw = reason_for('{"text": "a", "n": ' + "9" * 5000 + "}", tmp_path)
    assert reason.startswith("not readable as JSON: Exceeds the limit")
    assert len(raw) == 500


def test_a_line_in_latin_1_is_set_aside_alone(tmp_path: Path) -> None:
    # The good line has 31 bytes and a line end; the umlaut is the 12th byte of the bad one.
    reason, raw = reason_for('{"text": "aü"}'.encode("latin-1"), tmp_path)
    assert reason == "not UTF-8: byte 0xfc at byte 43 (invalid start byte); save it as UTF-8"
    assert raw == '{"text": "a\ufffd"}'


def test_lines_end_at_line_feeds_only(tmp_path: Path, ledger: Ledger) -> None:
    text = "a\u2028b\u2029c\x85d"
    path = write(tmp_path / "c.jsonl", f'\r\n{{"text": "{text}"}}\r\n \t\r\n\n{{"text": "second"}}\r\n')
    assert [(document.text, document.source) for document in read_corpus([path], ledger)] == [
        (text, f"{path}:2"),
        ("second", f"{path}:5"),
    ]
    assert not ledger


def test_lone_surrogates_become_replacement_characters_one_for_one(tmp_path: Path, ledger: Ledger) -> None:
    given = r'"id": "i\udc00", "title": "\ud83d\ude00\ud800", "text": "a\ud800b\udfffc", "m": {"k\ud800": ["\udc00"]}'
    path = write(tmp_path / "c.jsonl", "{" + given + "}")
    (document,) = read_corpus([path], ledger)
    assert (document.id, document.title, document.text) == ("i\ufffd", "😀\ufffd", "a\ufffdb\ufffdc")
    assert document.metadata == {"m": {"k\ufffd": ["\ufffd"]}}


def test_control_characters_stay(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "c.jsonl", '{"text": "a\\u0000b\\u0001"}')
    plain = write(tmp_path / "p.txt", b"x\x00y\x0bz\r\n")
    assert [document.text for document in read_corpus([path, plain], ledger)] == ["a\x00b\x01", "x\x00y\x0bz\r\n"]


def test_numbers_that_json_does_not_know_become_null(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "c.jsonl", '{"text": "a", "x": NaN, "y": [Infinity, 1e999, 2.5]}')
    assert read_corpus([path], ledger)[0].metadata == {"x": None, "y": [None, None, 2.5]}


def test_the_first_of_a_repeated_id_stays(tmp_path: Path, ledger: Ledger) -> None:
    lines = ['{"id": "a", "text": "one"}', '{"id": "a", "text": "two"}', '{"id": "a", "text": "one"}']
    path = write(tmp_path / "c.jsonl", "\n".join(lines))
    assert [document.text for document in read_corpus([path], ledger)] == ["one"]
    assert [(entry.where, entry.reason, entry.raw) for entry in ledger] == [
        (f"{path}:2", f"id 'a' was read before, from {path}:1, with another text", "two"),
        (f"{path}:3", f"id 'a' was read before, from {path}:1, with the same text", "one"),
    ]


def test_a_file_given_twice_is_read_once(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "a.txt", "text")
    assert len(read_corpus([path, path], ledger)) == 1
    assert len(ledger) == 1


def test_text_titles_and_ids(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "My notes.v2.TXT", "# Not a heading\ntext")
    assert read_corpus([path], ledger) == [
        Document("My notes.v2.TXT", "My notes.v2", "# Not a heading\ntext", str(path))
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("intro\n\n## The *title* ##\n# Later", "The *title*"),
        ("# C#\n", "C#"),
        ("#\n#hashtag\n####### seven\n###### six", "six"),
        ("```sh\n# comment\n```\n# Real", "Real"),
        ('---\nlang: en\ntitle: "Front: it"\n---\n# Heading', "Front: it"),
        ("---\nlang: en\n---\n# Heading", "Heading"),
        ("---\ntitle:\n---\ntext", "stem"),
        ("no heading\ntitle: not this", "stem"),
    ],
)
def test_markdown_titles(text: str, title: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "stem.md", text)
    assert read_corpus([path], ledger) == [Document("stem.md", title, text, str(path))]


def test_a_blank_text_is_set_aside(tmp_path: Path, ledger: Ledger) -> None:
    empty, blank = write(tmp_path / "a.txt", ""), write(tmp_path / "b.md", " \n\x00")
    good = write(tmp_path / "c.txt", "text")
    assert len(read_corpus([empty, blank, good], ledger)) == 1
    assert [(entry.where, entry.reason) for entry in ledger] == [
        (str(empty), '"text" is empty'),
        (str(blank), '"text" is blank'),
    ]
