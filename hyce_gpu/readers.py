"""Files become documents: .jsonl, .parquet, .txt, .md, and folders of them.

What cannot be used inside a file or a folder is set aside in the ledger; what was asked for by name and cannot be used
is an error. Knows formats, not encodings (`text_files`) and not chunks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Document
from hyce_gpu.text_files import (
    RAW_KEPT,
    check_is_file,
    is_blank,
    json_safe,
    json_type,
    parse_object,
    read_lines,
    read_text,
    replace_surrogates,
)

if TYPE_CHECKING:
    import pyarrow as pa

_STAGE = "read"
_ROWS_AT_ONCE = 1024


def read_corpus(paths: Sequence[Path], ledger: Ledger) -> list[Document]:
    """Reads all documents of the files and folders, in order; folders recursively, sorted, without hidden entries.

    Lines, rows and files inside folders that cannot be used go to the ledger, as do documents whose id was read before.

    Raises:
        InputError: a path that does not exist; a file given by name that cannot be read, is of an unknown type, or is
            not what its name says; or no usable document in the end.
    """
    corpus = _Corpus(ledger)
    entries_before = len(ledger)
    for path in paths:
        if os.path.isdir(path):
            _read_folder(path, corpus)
        else:
            _read_file(path, path.name, corpus)
    if not corpus.documents:
        places = ", ".join(str(path) for path in paths) or "an empty list of paths"
        first = next(iter(ledger.entries[entries_before:]), None)
        reason = (
            f"{first.where}: {first.reason}" if first else f"no text in any file of a known type ({_known_types()})"
        )
        raise InputError(f"no usable document in {places}: first reason: {reason}")
    return list(corpus.documents.values())


class _Corpus:
    """Documents by id, and the ledger for what does not become one."""

    def __init__(self, ledger: Ledger) -> None:
        self.documents: dict[str, Document] = {}
        self.ledger = ledger
        self._files: dict[str, str] = {}

    def file_name(self, path: Path, name: str) -> str:
        """What ids made of this file start with: its name, or its path where another file had that name."""
        real = os.path.realpath(path)
        return name if self._files.setdefault(name, real) == real else path.as_posix()

    def set_aside(self, where: str, reason: str, raw: str = "") -> None:
        self.ledger.set_aside(_STAGE, replace_surrogates(where), reason, raw[:RAW_KEPT])

    def add(self, document: Document) -> None:
        first = self.documents.setdefault(document.id, document)
        if first is not document:
            same = "the same text" if first.text == document.text else "another text"
            reason = f"id {document.id!r} was read before, from {first.source}, with {same}"
            self.set_aside(document.source, reason, document.text)

    def add_record(self, fields: Mapping[str, Any], place: _Place, raw: str) -> None:
        """Adds one line or row, or sets it aside."""
        try:
            self.add(_document(fields, place))
        except InputError as error:
            self.set_aside(place.source, str(error), raw)


@dataclass(frozen=True)
class _Place:
    """Where a record stands: for people, and as an id for a record that has none."""

    source: str
    fallback_id: str


def _document(fields: Mapping[str, Any], place: _Place) -> Document:
    text, title = fields.get("text"), fields.get("title")
    if not isinstance(text, str):
        found = f"is {json_type(text)}" if "text" in fields else "is missing"
        raise InputError(f'expected a string "text", but it {found}')
    if is_blank(text):
        raise InputError('"text" is blank' if text else '"text" is empty')
    return Document(
        id=_id(fields.get("id"), place.fallback_id),
        title=title if isinstance(title, str) else "",
        text=text,
        source=replace_surrogates(place.source),
        metadata={name: value for name, value in fields.items() if name not in ("id", "text", "title")},
    )


def _id(value: Any, fallback: str) -> str:
    if value is None or (isinstance(value, str) and is_blank(value)):
        return replace_surrogates(fallback)
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(f'expected a string or a whole number as "id", found {json_type(value)}')
    return str(value)


def _read_folder(folder: Path, corpus: _Corpus) -> None:
    for path in _files_under(folder, corpus):
        try:
            _read_file(path, path.relative_to(folder).as_posix(), corpus)
        except InputError as error:
            corpus.set_aside(str(path), str(error))


def _files_under(folder: Path, corpus: _Corpus) -> Iterator[Path]:
    """The files in sorted order. Links are followed, but no folder is entered twice."""
    entered: set[str] = set()
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        real = os.path.realpath(path)
        if not os.path.isdir(path):
            yield path
        elif real not in entered:
            entered.add(real)
            waiting += reversed(_listed(path, path == folder, corpus))


def _listed(folder: Path, by_name: bool, corpus: _Corpus) -> list[Path]:
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not name.startswith(".")]
    except OSError as error:
        reason = f"cannot list the folder {folder}: {error.strerror}"
        if by_name:
            raise InputError(reason) from error
        corpus.set_aside(str(folder), reason)
        return []


def _read_file(path: Path, name: str, corpus: _Corpus) -> None:
    """Reads one file; `name` is what ids are made of.

    Raises:
        InputError: the file as a whole cannot be used.
    """
    check_is_file(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path} is of an unknown type; known types: {_known_types()}")
    reader(path, corpus.file_name(path, name), corpus)


def _known_types() -> str:
    return ", ".join(_READERS)


def _read_jsonl(path: Path, name: str, corpus: _Corpus) -> None:
    for line in read_lines(path):
        place = _Place(f"{path}:{line.number}", f"{name}:{line.number}")
        if line.error:
            corpus.set_aside(place.source, line.error, line.text)
        elif line.text.strip():
            try:
                fields = parse_object(line.text)
            except InputError as error:
                corpus.set_aside(place.source, str(error), line.text)
            else:
                corpus.add_record(fields, place, line.text)


def _read_plain(path: Path, name: str, corpus: _Corpus) -> None:
    _add_text(path, name, path.stem, read_text(path), corpus)


def _read_markdown(path: Path, name: str, corpus: _Corpus) -> None:
    text = read_text(path)
    _add_text(path, name, _markdown_title(text) or path.stem, text, corpus)


def _add_text(path: Path, name: str, title: str, text: str, corpus: _Corpus) -> None:
    fields = {"id": replace_surrogates(name), "title": replace_surrogates(title), "text": text}
    corpus.add_record(fields, _Place(str(path), name), text)


def _markdown_title(text: str) -> str:
    """The front matter's title, else the first heading outside of code; "" without either."""
    in_front_matter = in_code = False
    for number, line in enumerate(text.splitlines()):
        stripped = line.strip()
        if stripped == "---" and (number == 0 or in_front_matter):
            in_front_matter = number == 0
        elif in_front_matter and line.startswith("title:"):
            title = line.removeprefix("title:").strip().strip("\"'")
            if title:
                return title
        elif stripped.startswith(("```", "~~~")):
            in_code = not in_code
        elif not (in_front_matter or in_code) and (title := _heading(line)):
            return title
    return ""


def _heading(line: str) -> str:
    """The text of an ATX heading ("## Title ##"); "" for any other line."""
    marks, _, rest = line.strip().partition(" ")
    if not 1 <= len(marks) <= 6 or marks.strip("#"):
        return ""
    title = rest.strip()
    closed = title.rstrip("#")
    # "# C#" keeps its sign: a closing sequence stands apart.
    return closed.strip() if not closed or closed.endswith((" ", "\t")) else title


def _read_parquet(path: Path, name: str, corpus: _Corpus) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow)
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                columns = [_readable(column) for column in batch.columns]
                for index in range(batch.num_rows):
                    row += 1
                    place = _Place(f"{path}:row {row}", f"{name}:{row}")
                    _add_row(batch.schema.names, [column[index] for column in columns], place, corpus)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot read {path} as Parquet: {' '.join(str(error).split())}") from error


def _check_columns(path: Path, schema: pa.Schema) -> None:
    import pyarrow as pa

    at = schema.get_field_index("text")
    kind = schema.field(at).type if at >= 0 else None
    if kind is not None and pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind is None or not (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    ):
        found = ", ".join(f"{field.name} ({field.type})" for field in schema) or "none"
        raise InputError(f'{path}: expected one string column "text", found columns: {found}')


def _readable(column: pa.Array) -> pa.Array:
    """Timestamps in microseconds: Python holds no nanoseconds."""
    import pyarrow as pa

    kind = column.type
    in_nanoseconds = pa.types.is_timestamp(kind) and kind.unit == "ns"
    return column.cast(pa.timestamp("us", tz=kind.tz), safe=False) if in_nanoseconds else column


def _add_row(names: list[str], values: list[pa.Scalar], place: _Place, corpus: _Corpus) -> None:
    try:
        fields = {name: json_safe(value.as_py()) for name, value in zip(names, values, strict=True)}
    # Bytes that are not UTF-8, a date that Python cannot hold, an unknown time zone.
    except (ValueError, OverflowError, KeyError) as error:
        corpus.set_aside(place.source, f"a value cannot be read: {error}")
        return
    corpus.add_record(fields, place, str(fields.get("text")))


_READERS = {".jsonl": _read_jsonl, ".txt": _read_plain, ".md": _read_markdown, ".parquet": _read_parquet}


def corpus_line(document: Document) -> str:
    """The document as a line of a corpus.jsonl, without metadata; reads back with the same id, title and text."""
    return json.dumps({"id": document.id, "title": document.title, "text": document.text}) + "\n"
