"""Text as files hold it: lines and whole texts in UTF-8 or UTF-16, and JSON values made safe to keep.

Knows encodings, line ends, surrogates and blank text. Knows nothing of documents or questions.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hyce_gpu.errors import InputError

# As much of a bad line as the ledger keeps, in code points.
RAW_KEPT = 500

_UTF_32_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF_16_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BLOCK_BYTES = 1 << 20
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Line:
    # From 1.
    number: int
    # Without its line end; what could be read of it where `error` is set.
    text: str
    # Why it could not be decoded; empty for a good line.
    error: str = ""


def replace_surrogates(text: str) -> str:
    """Lone surrogates become U+FFFD one for one, so that offsets keep and the text can be written as UTF-8."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def is_blank(text: str) -> bool:
    """Whether nothing is there to read: only white space, control and format characters."""
    return all(unicodedata.category(char)[0] == "Z" or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def json_safe(value: Any) -> Any:
    """The value as strict JSON can hold it: no lone surrogates, NaN and infinities as None, dates and bytes as text.

    Raises:
        RecursionError: it is nested too deeply.
    """
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, dict):
        return {replace_surrogates(str(key)): json_safe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float)) else replace_surrogates(str(value))


def parse_object(line: str) -> dict[str, Any]:
    """The JSON object on one line, made safe by `json_safe`.

    Raises:
        InputError: the line is not JSON, or JSON but not an object; says why and in which column.
    """
    try:
        # Files that were put together by `cat` have a byte order mark inside.
        value = json_safe(json.loads(line.removeprefix("\ufeff")))
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error.msg} (column {error.colno})") from error
    except ValueError as error:
        raise InputError(f"not readable as JSON: {error}") from error
    except RecursionError as error:
        raise InputError("not readable as JSON: nested too deeply") from error
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, found {json_type(value)} (column 1)")
    return value


def json_type(value: Any) -> str:
    """What JSON calls the type of a value, with its article."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "a boolean"
    if isinstance(value, (str, list, dict)):
        return "a string" if isinstance(value, str) else "an array" if isinstance(value, list) else "an object"
    return "a number"


def check_is_file(path: Path) -> None:
    """Refuses what is not there, and what could not be read to an end (a pipe, a device).

    Raises:
        InputError: no regular file is there.
    """
    if not os.path.exists(path):
        raise InputError(f"cannot read {path}: there is no such file or folder")
    if not os.path.isfile(path):
        raise InputError(f"cannot read {path}: it is not a regular file")


def read_lines(path: Path) -> Iterator[Line]:
    r"""Streams the lines of a file. A line ends at \n or \r\n only, never at U+2028, U+0085 or a lone \r.

    In UTF-8 a line that cannot be decoded is one `Line` with `error` set; the others are not touched.

    Raises:
        InputError: the file cannot be read, or is in another encoding.
    """
    try:
        with path.open("rb") as file:
            encoding = _encoding(file, path)
            yield from _utf8_lines(file) if encoding == "utf-8" else _utf16_lines(file, encoding)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def read_text(path: Path) -> str:
    """The whole text of a file, line ends as they are, without byte order mark.

    Raises:
        InputError: the file cannot be read or decoded; names the byte.
    """
    try:
        with path.open("rb") as file:
            encoding = _encoding(file, path)
            skipped = file.tell()
            content = file.read()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return replace_surrogates(content.decode(encoding, "strict" if encoding == "utf-8" else "surrogatepass"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {_undecodable(error, encoding, skipped)}") from error


def _encoding(file: IO[bytes], path: Path) -> str:
    """The encoding by the byte order mark; leaves the file behind the mark."""
    head = file.read(4096)
    if head.startswith(_UTF_32_MARKS):
        raise InputError(f"{path} is in UTF-32 (byte order mark at byte 0); save it as UTF-8")
    if head[:2] in _UTF_16_MARKS:
        file.seek(2)
        return _UTF_16_MARKS[head[:2]]
    if _looks_like_utf16(head):
        at = head.index(0)
        raise InputError(
            f"{path} is neither UTF-8 nor UTF-16 with byte order mark (NUL at byte {at}); save it as UTF-8"
        )
    file.seek(3 if head.startswith(codecs.BOM_UTF8) else 0)
    return "utf-8"


def _looks_like_utf16(head: bytes) -> bool:
    """Latin text in UTF-16 is valid UTF-8, with a NUL beside each letter; it must not pass for text."""
    halves = (head[::2], head[1::2])
    return len(head) >= 8 and any(half.count(0) * 5 >= len(half) * 4 for half in halves)


def _undecodable(error: UnicodeDecodeError, encoding: str, offset: int) -> str:
    """The reason as one phrase; `offset` is where the decoded bytes begin in the file."""
    if encoding != "utf-8":
        return f"not {encoding.upper()}: {error.reason} at byte {offset + error.start}"
    found = error.object[error.start]
    return f"not UTF-8: byte 0x{found:02x} at byte {offset + error.start} ({error.reason}); save it as UTF-8"


def _utf8_lines(file: IO[bytes]) -> Iterator[Line]:
    offset = file.tell()
    for number, raw in enumerate(file, start=1):
        try:
            yield Line(number, _without_end(raw.decode("utf-8")))
        except UnicodeDecodeError as error:
            yield Line(number, _without_end(raw.decode("utf-8", "replace")), _undecodable(error, "utf-8", offset))
        offset += len(raw)


def _utf16_lines(file: IO[bytes], encoding: str) -> Iterator[Line]:
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")
    number, pieces = 1, [""]
    while block := file.read(_BLOCK_BYTES):
        head, *lines = decoder.decode(block).split("\n")
        pieces.append(head)
        for line in lines:
            yield Line(number, _without_end(replace_surrogates("".join(pieces))))
            number, pieces = number + 1, [line]
    rest, error = "".join(pieces), ""
    try:
        rest += decoder.decode(b"", final=True)
    except UnicodeDecodeError as found:
        error = _undecodable(found, encoding, file.tell() - len(found.object))
    if rest or error:
        yield Line(number, _without_end(replace_surrogates(rest)), error)


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
