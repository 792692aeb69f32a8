"""Records files: written whole, read line by line, every bad line set aside with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyce_gpu.errors import InputError, OutputError
from hyce_gpu.extract.records import read_records, record_to_json, write_records
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Document, ExtractedEntity, ExtractedHyperedge, ExtractionRecord, Relation

A = Document("a", "Ada Marsh", "Ada Marsh designed the Tern Bridge. It opened in 1938.", "corpus.jsonl:1")
B = Document("7", "", "Müller lebt in Köln.", "corpus.jsonl:2")
C = Document("c", "周杰伦", "周杰伦出生于台北。", "corpus.jsonl:3")
# A's sentences are 0 to 35 and 36 to 54.
EDGE = {"segment": "It opened in 1938.", "entities": ["Tern Bridge", "1938"]}


def record(doc: Document, order: int, start: int, end: int, *edges: ExtractedHyperedge) -> ExtractionRecord:
    names = dict.fromkeys(name for edge in edges for name in edge.entities)
    entities = tuple(ExtractedEntity(name, "thing", "", (f"{name}!x",), "d", 0.7) for name in names)
    return ExtractionRecord(f"{doc.id}#{order}", doc.id, order, start, end, "ok", entities, edges)


RECORDS = [
    record(
        A, 0, 0, 35,
        ExtractedHyperedge(
            "Ada Marsh designed the Tern Bridge.", ("Ada Marsh", "Tern Bridge"), 0, 35, 0.9, "1930s", 0.5,
            (Relation("Ada Marsh", "designed", "Tern Bridge", 0.8),),
        ),
        ExtractedHyperedge("A bridge by Marsh", ("Ada Marsh", "Tern Bridge"), 0, 35),
    ),
    record(A, 1, 36, 54, ExtractedHyperedge("opened in 1938", ("Tern Bridge", "1938"), 39, 53)),
    record(B, 0, 0, 20, ExtractedHyperedge("Müller lebt in Köln.", ("Müller", "Köln"), 0, 20)),
    ExtractionRecord("c#0", "c", 0, 0, 9, "failed", error="cut off", raw="[{"),
]  # fmt: skip


def read(tmp_path: Path, *lines: Any, documents: tuple[Document, ...] = (A,), **options: Any) -> Any:
    path = tmp_path / "records.jsonl"
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    ledger = Ledger()
    return *read_records(path, documents, ledger, **options), ledger


def line(**fields: Any) -> dict[str, Any]:
    return {"doc_id": "a", "hyperedges": [EDGE], **fields}


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(RECORDS, path)
    ledger = Ledger()
    chunks, records = read_records(path, [A, B, C], ledger)
    assert records == RECORDS
    assert [chunk.text for chunk in chunks] == [A.text[:35], A.text[36:], B.text, C.text]
    assert [chunk.title for chunk in chunks] == ["Ada Marsh", "Ada Marsh", "", "周杰伦"]
    assert [(entry.where, entry.reason) for entry in ledger] == [(f"{path}:4", "cut off")]
    assert [item.name for item in tmp_path.iterdir()] == ["records.jsonl"]


def test_a_line_holds_the_documented_fields() -> None:
    found = json.loads(json.dumps(record_to_json(RECORDS[0])))
    assert list(found) == ["chunk_id", "doc_id", "order", "start", "end", "status", "entities", "hyperedges"]
    assert found["entities"][0] == {
        "name": "Ada Marsh", "type": "thing", "role": "", "aliases": ["Ada Marsh!x"], "description": "d",
        "confidence": 0.7,
    }  # fmt: skip
    assert found["hyperedges"][0] == {
        "segment": "Ada Marsh designed the Tern Bridge.", "start": 0, "end": 35, "confidence": 0.9, "time": "1930s",
        "entities": ["Ada Marsh", "Tern Bridge"], "reliability": 0.5,
        "relations": [{"head": "Ada Marsh", "predicate": "designed", "tail": "Tern Bridge", "confidence": 0.8}],
    }  # fmt: skip
    assert record_to_json(RECORDS[3])["error"] == "cut off"


def test_missing_ids_orders_and_offsets_are_filled_in(tmp_path: Path) -> None:
    lines = [line(), line(order=4), line(start=36), line(doc_id=7, hyperedges=[])]
    chunks, records, ledger = read(tmp_path, *lines, documents=(B, A))
    assert [(chunk.id, chunk.order, chunk.start, chunk.end) for chunk in chunks] == [
        ("7#0", 0, 0, 20), ("a#0", 0, 0, 54), ("a#4", 4, 0, 54), ("a#5", 5, 36, 54),
    ]  # fmt: skip
    assert [(item.chunk_id, item.status, len(item.hyperedges)) for item in records[1:3]] == [
        ("a#0", "ok", 1), ("a#4", "ok", 1),
    ]  # fmt: skip
    assert (records[1].hyperedges[0].start, records[1].hyperedges[0].end) == (36, 54)
    assert not ledger


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON"), ("[]", "expected a JSON object, found an array"), ("\x00", "not JSON"),
        ("[" * 100_000, "nested too deeply"), ('{"doc_id": "a", "x": ' + "9" * 5000 + "}", "not readable"),
        (line(doc_id="zz"), "unknown doc_id 'zz'"), ({"hyperedges": []}, "no doc_id"),
        (line(doc_id=["a"]), "expected a string as doc_id, found an array"),
        (line(chunk_id="first"), "repeated chunk_id 'first'"), (line(chunk_id=True), "expected a string as chunk_id"),
        (line(order="1"), "expected an integer as order, found a string '1'"),
        (line(start=True), "expected an integer as start"),
        (line(end=5.0), "expected an integer as end, found a number"),
        (line(order=-1), "out of range"), (line(start=-1), "out of range"), (line(end=55), "out of range"),
        (line(start=9, end=9), "out of range"), (line(start=30, end=20), "out of range"),
        (line(end=10**30), "out of range"),
        (line(status="done"), "found 'done'"), (line(status="failed", error=3), "strings as error and raw"),
        (line(entities={}), "expected a list as entities, found an object"),
        (line(hyperedges="x"), "expected a list as hyperedges, found a string"),
        ({"doc_id": "a"}, "expected the keys entities and hyperedges, found none"),
    ],
)  # fmt: skip
def test_a_bad_line_is_set_aside_and_the_rest_goes_on(tmp_path: Path, bad: Any, reason: str) -> None:
    chunks, records, ledger = read(tmp_path, line(chunk_id="first"), "", bad, line(start=36))
    assert [chunk.id for chunk in chunks] == ["first", "a#1"]
    assert all(item.status == "ok" for item in records)
    (entry,) = ledger
    assert (entry.stage, entry.where) == ("extract", f"{tmp_path / 'records.jsonl'}:3")
    assert reason in entry.reason
    raw = bad if isinstance(bad, str) else json.dumps(bad)
    assert entry.raw == raw[:500]


def test_undecodable_bytes_are_one_bad_line(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_bytes(json.dumps(line()).encode() + b"\r\n" + b'{"doc_id": "\xff"}\n' + json.dumps(line()).encode())
    ledger = Ledger()
    chunks, _ = read_records(path, [A], ledger)
    assert [chunk.id for chunk in chunks] == ["a#0", "a#1"]
    assert [entry.where for entry in ledger] == [f"{path}:2"]


def test_failed_records_keep_their_chunk(tmp_path: Path) -> None:
    chunks, records, ledger = read(tmp_path, line(status="failed", error="cut off", raw="[{"), line(status="failed"))
    assert [(item.status, item.error, item.raw, item.hyperedges) for item in records] == [
        ("failed", "cut off", "[{", ()), ("failed", "extraction failed, without a reason", "", ()),
    ]  # fmt: skip
    assert len(chunks) == len(ledger) == 2


def test_a_document_without_a_record_stays_as_text(tmp_path: Path) -> None:
    chunks, records, ledger = read(tmp_path, line(), line(doc_id="c", end="x"), documents=(C, A, B))
    assert [(chunk.id, chunk.text) for chunk in chunks] == [("c#0", C.text), ("a#0", A.text), ("7#0", B.text)]
    assert [(item.status, item.error) for item in records] == [
        ("failed", "no record for document"), ("ok", ""), ("failed", "no record for document"),
    ]  # fmt: skip
    assert [(entry.where, entry.reason) for entry in ledger][1:] == [
        ("c", "no record for document"), ("7", "no record for document"),
    ]  # fmt: skip


def test_names_that_the_text_lacks_stay_unless_asked_otherwise(tmp_path: Path) -> None:
    made = line(hyperedges=[{**EDGE, "entities": ["Pont des Sternes", "1938"]}])
    _, (record,), ledger = read(tmp_path, made)
    assert record.hyperedges[0].entities == ("Pont des Sternes", "1938")
    assert not ledger
    _, (record,), ledger = read(tmp_path, made, grounded=True)
    assert record.hyperedges == ()
    assert [entry.reason for entry in ledger] == [
        "dropped entity that the passage does not hold: Pont des Sternes; "
        "dropped hyperedge with fewer than two entities: It opened in 1938."
    ]


def test_repairs_go_without_saying_and_drops_do_not(tmp_path: Path) -> None:
    edges = [
        {**EDGE, "confidence": "sure"},
        *[{"segment": f"s{number}", "entities": ["a", "A."]} for number in range(7)],
    ]
    _, (record,), ledger = read(tmp_path, line(hyperedges=edges))
    assert [item.confidence for item in record.hyperedges] == [0.5]
    (entry,) = ledger
    assert entry.reason.count("dropped hyperedge with fewer than two entities") == 5
    assert entry.reason.endswith("; and 2 more")


def test_triples_beside_entities_are_read_as_other_tools_write_them(tmp_path: Path) -> None:
    openie = {"doc_id": "a", "title": A.title, "text": A.text, "entities": ["Ada Marsh"]}
    _, (record,), _ = read(tmp_path, {**openie, "triples": [["Ada Marsh", "designed", "Tern Bridge"]]})
    (edge,) = record.hyperedges
    assert (edge.segment, edge.entities) == (A.text[:35], ("Ada Marsh", "Tern Bridge"))


def test_files_without_a_usable_record_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"records\.jsonl: .*none that can be used; line 1: not JSON"):
        read(tmp_path, "nonsense", line(doc_id="zz"))
    with pytest.raises(InputError, match=r"records\.jsonl: .*none that can be used$"):
        read(tmp_path, "")
    for path in (tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(InputError, match=str(path)):
            read_records(path, [A], Ledger())


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> Iterator[ExtractionRecord]:
        yield RECORDS[0]
        raise RuntimeError("stopped")

    path = tmp_path / "records.jsonl"
    write_records(RECORDS[:1], path)
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="stopped"):
        write_records(broken(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OutputError, match="cannot write the records"):
        write_records(RECORDS, path / "below.jsonl")


NAMES = st.text(min_size=1, max_size=6).map(lambda name: f"x{name}y")


@given(st.lists(st.lists(NAMES, min_size=2, max_size=4), max_size=4), st.floats(0, 1), st.integers(0, 30))
def test_a_second_reading_changes_nothing(tmp_path_factory: Any, members: Any, confidence: float, start: int) -> None:
    folder = tmp_path_factory.mktemp("records")
    edges = [{"entities": names, "confidence": confidence, "segment": names[0]} for names in members]
    _, first, _ = read(folder, line(hyperedges=edges, entities=[], start=start))
    write_records(first, folder / "again.jsonl")
    _, second = read_records(folder / "again.jsonl", [A], Ledger())
    assert second == first
