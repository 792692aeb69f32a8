"""JSON files as streams: lines, arrays and objects told apart by content, each value with its place."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.json_files import JsonItem, read_json_items


def write(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "x.json"
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "places", "values"),
    [
        ('{"a": 1}\n\n{"a": 2}\n', [":1", ":3"], [{"a": 1}, {"a": 2}]),
        ('\ufeff{"a": 1}', [":1"], [{"a": 1}]),
        ('{\n"a": 1\n}', [""], [{"a": 1}]),
        ('[{"a": 1}, 2]', [": item 1", ": item 2"], [{"a": 1}, 2]),
        ('[\n{"a": 1}\n]', [": item 1"], [{"a": 1}]),
        ("[]", [], []),
        ('["\\ud800", NaN]', [": item 1", ": item 2"], ["\ufffd", None]),
    ],
)
def test_forms(content: str, places: list[str], values: list[object], tmp_path: Path) -> None:
    path = write(tmp_path, content)
    items = list(read_json_items(path))
    assert [item.where for item in items] == [f"{path}{place}" for place in places]
    assert [item.value for item in items] == values


def test_a_bad_first_line_of_many_is_one_bad_item(tmp_path: Path) -> None:
    path = write(tmp_path, b'{"a": \xff}\n{"a": 2}\n{"a"\n')
    first, second, third = read_json_items(path)
    assert (first.where, first.line) == (f"{path}:1", '{"a": \ufffd}')
    assert first.error == "not UTF-8: byte 0xff at byte 6 (invalid start byte); save it as UTF-8"
    assert second == JsonItem(f"{path}:2", {"a": 2})
    assert third.error == "not JSON: Expecting ':' delimiter (column 5)"
    assert third.raw() == '{"a"'


def test_utf_16(tmp_path: Path) -> None:
    for content in ('{"a": "誰"}\n{"a": 2}', '[{"a": "誰"}, {"a": 2}]'):
        path = write(tmp_path, codecs.BOM_UTF16_LE + content.encode("utf-16-le"))
        assert [item.value for item in read_json_items(path)] == [{"a": "誰"}, {"a": 2}]


def test_the_ledger_keeps_500_characters() -> None:
    assert JsonItem("x: item 1", ["é" * 600]).raw() == '["' + "é" * 498


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"x\.json is empty"),
        (" \n\n", r"x\.json is empty"),
        ("[1,\n2\n3]", r"x\.json:3: not JSON: Expecting ',' delimiter \(column 1\)"),
        ("null", "expected JSON lines, a JSON array or an object, found null"),
        ("[" * 100_000, r"x\.json: not readable as JSON: nested too deeply"),
        ("[" + "9" * 5000 + "]", r"x\.json: not readable as JSON: Exceeds the limit"),
    ],
)
def test_what_is_not_json_is_refused(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        list(read_json_items(write(tmp_path, content)))


def test_missing_files_and_folders_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(InputError, match=f"cannot read {path}"):
            read_json_items(path)
