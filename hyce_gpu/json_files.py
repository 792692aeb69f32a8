"""A JSON file as a stream of values: JSON lines, the items of an array, or one object; told apart by content.

Each value comes with where it stands, for messages. Knows nothing of what the values mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hyce_gpu.errors import InputError
from hyce_gpu.text_files import RAW_KEPT, Line, check_is_file, json_safe, json_type, parse_object, read_lines, read_text


@dataclass(frozen=True)
class JsonItem:
    # "dev.jsonl:12" for a line, "dev.json: item 12" for an item of an array (both from 1), else the file's path.
    where: str
    value: Any
    # Why a line could not be read; empty for a good one.
    error: str = ""
    # The line as it stands, where it could not be read.
    line: str = ""

    def raw(self) -> str:
        """As much of it as the ledger keeps."""
        return (self.line or json.dumps(self.value, ensure_ascii=False))[:RAW_KEPT]


def read_json_items(path: Path) -> Iterator[JsonItem]:
    """Streams the values of a file, made safe by `json_safe`. A bad line is an item with `error` set.

    Raises:
        InputError: the file cannot be read, is empty, or is neither JSON lines nor JSON; names the line.
    """
    check_is_file(path)
    return _lines(path) if _is_json_lines(path) else _items(path)


def _is_json_lines(path: Path) -> bool:
    """Whether one of the first two lines is an object by itself; an array may hold such lines, but opens otherwise."""
    first = list(islice((line for line in read_lines(path) if line.text.strip() or line.error), 2))
    if not first:
        raise InputError(f"{path} is empty: expected JSON")
    return first[0].text.lstrip("\ufeff \t").startswith("{") and any(map(_is_object, first))


def _is_object(line: Line) -> bool:
    try:
        parse_object(line.text)
    except InputError:
        return False
    return not line.error


def _lines(path: Path) -> Iterator[JsonItem]:
    for line in read_lines(path):
        where = f"{path}:{line.number}"
        if line.error:
            yield JsonItem(where, None, line.error, line.text)
        elif line.text.strip():
            try:
                yield JsonItem(where, parse_object(line.text))
            except InputError as error:
                yield JsonItem(where, None, str(error), line.text)


def _items(path: Path) -> Iterator[JsonItem]:
    value = _whole(path)
    if isinstance(value, dict):
        yield JsonItem(str(path), _safe(value, path))
    elif isinstance(value, list):
        for number, item in enumerate(value, start=1):
            yield JsonItem(f"{path}: item {number}", _safe(item, path))
    else:
        raise InputError(f"{path}: expected JSON lines, a JSON array or an object, found {json_type(value)}")


def _whole(path: Path) -> Any:
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno})") from error
    except RecursionError as error:
        raise InputError(f"{path}: not readable as JSON: nested too deeply") from error
    except ValueError as error:
        raise InputError(f"{path}: not readable as JSON: {error}") from error


def _safe(value: Any, path: Path) -> Any:
    try:
        return json_safe(value)
    except RecursionError as error:
        raise InputError(f"{path}: not readable as JSON: nested too deeply") from error
