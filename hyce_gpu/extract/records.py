"""Extraction records as a file: one JSON line a chunk, written whole or not at all, read with every line checked.

A bad line goes to the ledger and the rest goes on. Knows the format (README, "Formats") and nothing of models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hyce_gpu.atomic import atomic_text
from hyce_gpu.errors import InputError
from hyce_gpu.extract.parse import Parsed, ParseError, parse_extraction
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Chunk, Document, ExtractedEntity, ExtractedHyperedge, ExtractionRecord, Relation
from hyce_gpu.text_files import RAW_KEPT, Line, check_is_file, json_type, parse_object, read_lines

# What places a record; everything else on its line is the extraction.
_PLACE = {"chunk_id", "doc_id", "order", "start", "end", "status", "error", "raw", "text", "title"}
_SHOWN_NOTES = 5


def record_to_json(record: ExtractionRecord) -> dict[str, Any]:
    """The record as the fields of its line; `error` and `raw` only where there is something to say."""
    # asdict copies every string's container anew, which takes longer than all the rest of a record.
    hyperedges = [
        {**vars(edge), "relations": [vars(relation) for relation in edge.relations]} for edge in record.hyperedges
    ]
    fields = {**vars(record), "entities": [vars(entity) for entity in record.entities], "hyperedges": hyperedges}
    return {key: value for key, value in fields.items() if key not in ("error", "raw") or value}


def record_from_json(fields: Mapping[str, Any]) -> ExtractionRecord:
    """The record of a line that `record_to_json` gave: as it was, nothing is looked up or repaired."""
    entities = tuple(ExtractedEntity(**{**one, "aliases": tuple(one["aliases"])}) for one in fields["entities"])
    hyperedges = tuple(
        ExtractedHyperedge(
            **{**one, "entities": tuple(one["entities"]), "relations": tuple(Relation(**r) for r in one["relations"])}
        )
        for one in fields["hyperedges"]
    )
    return ExtractionRecord(**{**fields, "entities": entities, "hyperedges": hyperedges})


def write_records(records: Iterable[ExtractionRecord], path: Path) -> None:
    """Writes one line a record, as the records come.

    Raises:
        OutputError: the file cannot be written; an older one stays as it was.
    """
    with atomic_text(path, "the records") as file:
        file.writelines(json.dumps(record_to_json(record)) + "\n" for record in records)


def read_records(
    path: Path, documents: Sequence[Document], ledger: Ledger, grounded: bool = False
) -> tuple[list[Chunk], list[ExtractionRecord]]:
    """Chunks and their records, in the order of the documents and of their chunks.

    A line that cannot be used is set aside, as is what is dropped from a usable one. A document without any record
    becomes one chunk with a "failed" record, so that its text stays retrievable.

    Args:
        grounded: drop entities that their chunk does not hold. Names made canonical elsewhere may stand nowhere.

    Raises:
        InputError: the file cannot be read, or none of its lines can be used.
    """
    check_is_file(path)
    reader = _Reader(path, documents, ledger, grounded)
    for line in read_lines(path):
        if line.text.strip() or line.error:
            reader.read(line)
    if not reader.found:
        raise InputError(
            f"{path}: expected one extraction record a line, found none that can be used{reader.first_problem}"
        )
    reader.add_missing()
    place = {document.id: at for at, document in enumerate(documents)}
    found = sorted(reader.found, key=lambda pair: (place[pair[0].doc_id], pair[0].order, pair[0].start))
    return [chunk for chunk, _ in found], [record for _, record in found]


class _Reader:
    def __init__(self, path: Path, documents: Sequence[Document], ledger: Ledger, grounded: bool) -> None:
        self.found: list[tuple[Chunk, ExtractionRecord]] = []
        # What is wrong with the first line that was set aside, for a message.
        self.first_problem = ""
        self._path = path
        self._documents = {document.id: document for document in documents}
        self._ledger = ledger
        self._grounded = grounded
        self._chunk_ids: set[str] = set()
        # Document id → the order of its next chunk.
        self._next_order: dict[str, int] = {}

    def read(self, line: Line) -> None:
        try:
            if line.error:
                raise InputError(line.error)
            fields = parse_object(line.text)
            chunk = self._chunk(fields)
            record = self._record(chunk, fields, line)
        except (InputError, ParseError) as error:
            self.first_problem = self.first_problem or f"; line {line.number}: {error}"
            self._set_aside(line, str(error))
            return
        self._add(chunk, record)

    def add_missing(self) -> None:
        with_record = {chunk.doc_id for chunk, _ in self.found}
        for document in self._documents.values():
            if document.id not in with_record:
                reason = "no record for document"
                self._ledger.set_aside("extract", document.id, reason)
                chunk = self._chunk({"doc_id": document.id})
                self._add(chunk, _record_of(chunk, "failed", error=reason))

    def _add(self, chunk: Chunk, record: ExtractionRecord) -> None:
        self.found.append((chunk, record))
        self._chunk_ids.add(chunk.id)
        self._next_order[chunk.doc_id] = max(self._next_order.get(chunk.doc_id, 0), chunk.order + 1)

    def _set_aside(self, line: Line, reason: str) -> None:
        self._ledger.set_aside("extract", f"{self._path}:{line.number}", reason, line.text[:RAW_KEPT])

    def _chunk(self, fields: Mapping[str, Any]) -> Chunk:
        doc_id = _identity(fields, "doc_id")
        document = self._documents.get(doc_id)
        if document is None:
            raise InputError(f"unknown doc_id {doc_id!r}: no document of the corpus has it" if doc_id else "no doc_id")
        order = _integer(fields, "order", self._next_order.get(doc_id, 0))
        start, end = _integer(fields, "start", 0), _integer(fields, "end", len(document.text))
        if order < 0 or not 0 <= start <= end <= len(document.text) or (start == end and document.text):
            raise InputError(
                f"order {order}, start {start} or end {end} is out of range: the text has 0 to {len(document.text)}"
            )
        chunk_id = _identity(fields, "chunk_id") or f"{doc_id}#{order}"
        if chunk_id in self._chunk_ids:
            raise InputError(f"repeated chunk_id {chunk_id!r}")
        return Chunk(chunk_id, doc_id, order, start, end, document.text[start:end], document.title)

    def _record(self, chunk: Chunk, fields: Mapping[str, Any], line: Line) -> ExtractionRecord:
        status, error, raw = fields.get("status", "ok"), fields.get("error", ""), fields.get("raw", "")
        if status not in ("ok", "failed") or not isinstance(error, str) or not isinstance(raw, str):
            raise InputError(f'expected "ok" or "failed" as status, and strings as error and raw; found {status!r:.40}')
        if status == "failed":
            error = error or "extraction failed, without a reason"
            self._set_aside(line, error)
            return _record_of(chunk, "failed", error=error, raw=raw)
        for key in ("entities", "hyperedges"):
            if not isinstance(fields.get(key, []), list):
                raise InputError(f"expected a list as {key}, found {json_type(fields[key])}")
        extraction = {key: value for key, value in fields.items() if key not in _PLACE}
        parsed = parse_extraction(extraction, chunk, self._grounded)
        self._report_dropped(parsed, line)
        return _record_of(chunk, "ok", parsed, error)

    def _report_dropped(self, parsed: Parsed, line: Line) -> None:
        dropped = [note for note in parsed.notes if note.startswith("dropped")]
        more = f"; and {len(dropped) - _SHOWN_NOTES} more" if len(dropped) > _SHOWN_NOTES else ""
        if dropped:
            self._set_aside(line, "; ".join(dropped[:_SHOWN_NOTES]) + more)


def _record_of(
    chunk: Chunk, status: str, parsed: Parsed | None = None, error: str = "", raw: str = ""
) -> ExtractionRecord:
    entities, hyperedges = (parsed.entities, parsed.hyperedges) if parsed else ((), ())
    place = (chunk.id, chunk.doc_id, chunk.order, chunk.start, chunk.end)
    return ExtractionRecord(*place, status, entities, hyperedges, error, raw)


def _identity(fields: Mapping[str, Any], key: str) -> str:
    """An id as text, "" where there is none; corpora number their documents too."""
    value = fields.get(key)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise InputError(f"expected a string as {key}, found {json_type(value)}")
    return str(value)


def _integer(fields: Mapping[str, Any], key: str, default: int) -> int:
    value = fields.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"expected an integer as {key}, found {json_type(value)} {value!r:.40}")
    return value
