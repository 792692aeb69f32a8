r"""An OpenIE cache → extraction records, one chunk a passage: what HippoRAG and its kin have extracted is not lost.

Two forms: JSON lines of {"id", "title", "text", "entities", "triples"}, and HippoRAG's one object whose "docs" hold
{"idx", "passage", "extracted_entities", "extracted_triples"}, a passage being "title\ntext". The triples become
hyperedges in `parse`, as they do where `records` reads such lines. Knows no models and writes no files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hyce_gpu.errors import InputError
from hyce_gpu.extract.parse import ParseError, parse_extraction
from hyce_gpu.extract.reply import first, is_triple, relation_list
from hyce_gpu.json_files import JsonItem, read_json_items
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Chunk, Document, ExtractedHyperedge, ExtractionRecord
from hyce_gpu.text_files import RAW_KEPT, is_blank, json_type

_STAGE = "extract"
_ENTITIES = ("entities", "extracted_entities")
_TRIPLES = ("triples", "extracted_triples")
_KNOWN = (
    'expected an OpenIE cache: JSON lines with "id", "title", "text", "entities" and "triples", or an object whose '
    '"docs" have "passage", "extracted_entities" and "extracted_triples"'
)


def read_openie(
    path: Path, ledger: Ledger, corpus: Sequence[Document] | None = None
) -> tuple[list[Document], list[ExtractionRecord]]:
    """The documents that the cache has passages of, and a record of each, in the cache's order.

    A passage that cannot be used is set aside, as is each triple that is none, under its document's id.

    Args:
        corpus: the documents that the records are for; a passage finds its own by its text, or by its id where it has
            no text. Without it the documents are the cache's passages.

    Raises:
        InputError: the file cannot be read, or holds no passage that can be used.
    """
    reader = _Reader(ledger, _Known(corpus) if corpus is not None else None)
    entries_before = len(ledger)
    for number, item in enumerate(_passages(path), start=1):
        reader.read(item, f"passage-{number}")
    if not reader.documents:
        problem = next((f"; {entry.where}: {entry.reason}" for entry in ledger.entries[entries_before:]), "")
        raise InputError(f"{path}: {_KNOWN}; found no passage that can be used{problem}")
    return list(reader.documents.values()), reader.records


def _passages(path: Path) -> Iterator[JsonItem]:
    for item in read_json_items(path):
        docs = item.value.get("docs") if isinstance(item.value, dict) else None
        if isinstance(docs, list):
            yield from (JsonItem(f"{path}: docs item {number}", doc) for number, doc in enumerate(docs, start=1))
        else:
            yield item


@dataclass(frozen=True)
class _Cached:
    """One passage of a cache, its shape checked."""

    id: str
    title: str
    text: str
    fields: Mapping[str, Any]


class _Known:
    """Finds a passage's document in a corpus."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._by_id = {document.id: document for document in documents}
        self._by_text: dict[str, list[Document]] = {}
        for document in documents:
            for key in {_key(document.text), _key(f"{document.title} {document.text}")}:
                self._by_text.setdefault(key, []).append(document)

    def find(self, cached: _Cached) -> Document:
        """Raises: InputError: no document is the passage's."""
        if not cached.text:
            found = [self._by_id[cached.id]] if cached.id in self._by_id else []
        else:
            found = self._by_text.get(_key(f"{cached.title} {cached.text}")) or self._by_text.get(_key(cached.text), [])
        if not found:
            what = "text" if cached.text else "id"
            raise InputError(f"no document of the corpus has the {what} of passage {cached.id!r}")
        # Documents of one text: the id tells which, if any has it.
        return next((document for document in found if document.id == cached.id), found[0])


def _key(text: str) -> str:
    return " ".join(text.split())


class _Reader:
    def __init__(self, ledger: Ledger, known: _Known | None) -> None:
        self.documents: dict[str, Document] = {}
        self.records: list[ExtractionRecord] = []
        self._ledger = ledger
        self._known = known

    def read(self, item: JsonItem, fallback_id: str) -> None:
        try:
            cached = _cached(item, fallback_id)
            document = self._known.find(cached) if self._known else _document(cached, item.where)
            if document.id in self.documents:
                raise InputError(f"document {document.id!r} has a record already: its passage is repeated")
        except InputError as error:
            self._ledger.set_aside(_STAGE, item.where, str(error), item.raw())
            return
        self.documents[document.id] = document
        self.records.append(self._record(document, cached.fields))

    def _record(self, document: Document, fields: Mapping[str, Any]) -> ExtractionRecord:
        chunk = Chunk(f"{document.id}#0", document.id, 0, 0, len(document.text), document.text, document.title)
        place = (chunk.id, chunk.doc_id, chunk.order, chunk.start, chunk.end)
        try:
            entities = first(fields, _ENTITIES) or []
            if not isinstance(entities, list):
                raise InputError(f"expected a list as entities, found {json_type(entities)}")
            triples = self._triples(document, first(fields, _TRIPLES))
            parsed = parse_extraction({"entities": entities, "triples": triples}, chunk, grounded=False)
        except (InputError, ParseError) as error:
            self._ledger.set_aside(_STAGE, document.id, str(error))
            return ExtractionRecord(*place, "failed", error=str(error))
        for note in parsed.notes:
            if note.startswith("dropped"):
                self._ledger.set_aside(_STAGE, document.id, note)
        return ExtractionRecord(*place, "ok", parsed.entities, tuple(map(_each_relation_once, parsed.hyperedges)))

    def _triples(self, document: Document, found: Any) -> list[Any]:
        """Those of the right shape. The parser would drop the others too, but say less about them."""
        triples = relation_list({"triples": found})
        for item in triples:
            if not _is_relation(item):
                reason = f"dropped triple: expected [head, relation, tail] as strings, found {_shape(item)}"
                self._ledger.set_aside(_STAGE, document.id, reason, json.dumps(item, ensure_ascii=False)[:RAW_KEPT])
        return list(filter(_is_relation, triples))


def _each_relation_once(edge: ExtractedHyperedge) -> ExtractedHyperedge:
    # Caches repeat triples; whoever reads the record again would drop the repetitions.
    return replace(edge, relations=tuple(dict.fromkeys(edge.relations)))


def _is_relation(item: object) -> bool:
    return is_triple(item) or isinstance(item, dict)


def _shape(item: object) -> str:
    return f"an array of {len(item)}" if isinstance(item, list) else json_type(item)


def _cached(item: JsonItem, fallback_id: str) -> _Cached:
    """Raises: InputError: the item is no passage of an OpenIE cache."""
    fields = item.value
    if item.error:
        raise InputError(item.error)
    if not isinstance(fields, dict):
        raise InputError(f"expected an object, found {json_type(fields)}")
    if not any(key in fields for key in (*_ENTITIES, *_TRIPLES)):
        found = ", ".join(list(fields)[:6]) or "none"
        raise InputError(f"expected the keys entities and triples, found {found}")
    title, text = _title_and_text(fields)
    return _Cached(_id(fields, fallback_id), title, text, fields)


def _title_and_text(fields: Mapping[str, Any]) -> tuple[str, str]:
    text, passage, title = fields.get("text"), fields.get("passage"), fields.get("title")
    for name, value in (("text", text), ("passage", passage), ("title", title)):
        if value is not None and not isinstance(value, str):
            raise InputError(f"expected a string as {name}, found {json_type(value)}")
    if text is None and passage is not None:
        head, _, rest = passage.partition("\n")
        return (title or head, rest) if not is_blank(rest) else (title or "", passage)
    return title or "", text or ""


def _id(fields: Mapping[str, Any], fallback: str) -> str:
    value = first(fields, ("id", "idx"))
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int))):
        raise InputError(f"expected a string or a whole number as id, found {json_type(value)}")
    return fallback if value is None or is_blank(str(value)) else str(value)


def _document(cached: _Cached, where: str) -> Document:
    if is_blank(cached.text):
        raise InputError(f"passage {cached.id!r} has no text: give the documents with --corpus")
    return Document(cached.id, cached.title, cached.text, where)
