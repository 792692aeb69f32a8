"""OpenIE caches: both forms, their noise, and the way from a cache to records that read like the cache itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hyce_gpu.errors import InputError, OutputError
from hyce_gpu.extract.openie import read_openie
from hyce_gpu.extract.records import read_records
from hyce_gpu.import_job import run_import
from hyce_gpu.ledger import Ledger, ledger_path
from hyce_gpu.merge import merge
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Document, ExtractedHyperedge, Relation

# Its sentences are 0 to 35 and 36 to 54.
TEXT = "Ada Marsh designed the Tern Bridge. It opened in 1938."
DESIGNED = ["Ada Marsh", "designed", "Tern Bridge"]
BRIDGE = {
    "id": "p1", "title": "Ada Marsh", "text": TEXT, "entities": ["Ada Marsh", "1938"],
    "triples": [DESIGNED, ["Tern Bridge", "opened in", "1938"]],
}  # fmt: skip
RIVER = {
    "id": "p2", "title": "Sill", "text": "The Sill is a river.", "entities": [],
    "triples": [["Sill", "is a", "river"]],
}  # fmt: skip
EDGES = (
    ExtractedHyperedge(
        TEXT[:35], ("Ada Marsh", "Tern Bridge"), 0, 35, relations=(Relation("Ada Marsh", "designed", "Tern Bridge"),)
    ),
    ExtractedHyperedge(TEXT, ("Tern Bridge", "1938"), 0, 54, relations=(Relation("Tern Bridge", "opened in", "1938"),)),
)


def cache(tmp_path: Path, *passages: Any) -> Path:
    path = tmp_path / "openie.jsonl"
    path.write_text("\n".join(map(json.dumps, passages)), encoding="utf-8")
    return path


def hipporag(tmp_path: Path, *passages: dict[str, Any], indent: int | None = None, **changes: Any) -> Path:
    docs = [
        {
            "idx": f"chunk-{passage['id']}", "passage": f"{passage['title']}\n{passage['text']}",
            "extracted_entities": passage["entities"], "extracted_triples": passage["triples"], **changes,
        }
        for passage in passages
    ]  # fmt: skip
    path = tmp_path / "openie_results.json"
    path.write_text(json.dumps({"docs": docs, "avg_ent_chars": 9.5, "avg_ent_words": 1.5}, indent=indent), "utf-8")
    return path


def test_a_passage_is_one_chunk_and_its_triples_are_hyperedges(tmp_path: Path, ledger: Ledger) -> None:
    path = cache(tmp_path, BRIDGE, RIVER)
    documents, (bridge, river) = read_openie(path, ledger)
    assert documents == [
        Document("p1", "Ada Marsh", TEXT, f"{path}:1"), Document("p2", "Sill", "The Sill is a river.", f"{path}:2"),
    ]  # fmt: skip
    assert (bridge.chunk_id, bridge.doc_id, bridge.order, bridge.start, bridge.end) == ("p1#0", "p1", 0, 0, 54)
    assert [entity.name for entity in bridge.entities] == ["Ada Marsh", "1938", "Tern Bridge"]
    assert bridge.hyperedges == EDGES
    assert (river.chunk_id, river.hyperedges[0].entities) == ("p2#0", ("Sill", "river"))
    assert not ledger


@pytest.mark.parametrize("indent", [None, 2])
def test_hipporags_file_gives_the_same(indent: int | None, tmp_path: Path, ledger: Ledger) -> None:
    path = hipporag(tmp_path, BRIDGE, RIVER, indent=indent)
    documents, records = read_openie(path, ledger)
    assert [(document.id, document.title, document.text) for document in documents] == [
        ("chunk-p1", "Ada Marsh", TEXT), ("chunk-p2", "Sill", "The Sill is a river."),
    ]  # fmt: skip
    assert documents[1].source == f"{path}: docs item 2"
    assert records[0].hyperedges == EDGES
    assert not ledger


@pytest.mark.parametrize(
    ("changes", "title", "text"),
    [
        ({"passage": "No title here."}, "", "No title here."),
        ({"passage": "No text here.\n"}, "", "No text here.\n"),
        ({"passage": "T\na\nb"}, "T", "a\nb"),
        # HippoRAG's first version keeps the parts beside the passage.
        ({"title": "A\nB", "text": "c"}, "A\nB", "c"),
    ],
)
def test_a_passage_has_its_title_in_front(changes: Any, title: str, text: str, tmp_path: Path, ledger: Ledger) -> None:
    ((document,), _) = read_openie(hipporag(tmp_path, BRIDGE, **changes), ledger)
    assert (document.title, document.text) == (title, text)


def test_a_passage_without_an_id_has_its_position(tmp_path: Path, ledger: Ledger) -> None:
    documents, _ = read_openie(cache(tmp_path, BRIDGE, {**RIVER, "id": None}, {**RIVER, "id": 7, "text": "x"}), ledger)
    assert [document.id for document in documents] == ["p1", "passage-2", "7"]


def test_each_malformed_triple_is_set_aside_under_its_passage(tmp_path: Path, ledger: Ledger) -> None:
    bad = [["Sill", "is long"], ["a", "b", "c", "d"], "Sill", ["Sill", "is", 3], ["Sill", "is", "Sill"], ["", "b", "c"]]
    _, (bridge, _) = read_openie(cache(tmp_path, {**BRIDGE, "triples": [*bad, DESIGNED, DESIGNED]}, RIVER), ledger)
    assert bridge.hyperedges == EDGES[:1]
    expected = "dropped triple: expected [head, relation, tail] as strings, found"
    assert [(entry.stage, entry.where, entry.reason, entry.raw) for entry in ledger] == [
        ("extract", "p1", f"{expected} an array of 2", '["Sill", "is long"]'),
        ("extract", "p1", f"{expected} an array of 4", '["a", "b", "c", "d"]'),
        ("extract", "p1", f"{expected} a string", '"Sill"'),
        ("extract", "p1", f"{expected} an array of 3", '["Sill", "is", 3]'),
        ("extract", "p1", "dropped relation without head, predicate or tail: , b, c", ""),
        ("extract", "p1", "dropped relation that joins no two of its entities: Sill, Sill", ""),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ([1], "expected a JSON object, found an array (column 1)"),
        ({"id": "x", "text": "y"}, "expected the keys entities and triples, found id, text"),
        ({**BRIDGE, "id": [1]}, "expected a string or a whole number as id, found an array"),
        ({**BRIDGE, "text": 5}, "expected a string as text, found a number"),
        ({**BRIDGE, "id": "x", "text": " "}, "passage 'x' has no text: give the documents with --corpus"),
        (RIVER, "document 'p2' has a record already: its passage is repeated"),
    ],
)
def test_a_bad_passage_is_set_aside(bad: Any, reason: str, tmp_path: Path, ledger: Ledger) -> None:
    path = cache(tmp_path, RIVER, bad, BRIDGE)
    documents, records = read_openie(path, ledger)
    assert [document.id for document in documents] == [record.doc_id for record in records] == ["p2", "p1"]
    assert [(entry.where, entry.reason, entry.raw) for entry in ledger] == [
        (f"{path}:2", reason, json.dumps(bad)[:500])
    ]


def test_a_passage_whose_extraction_is_unusable_keeps_its_text(tmp_path: Path, ledger: Ledger) -> None:
    documents, (record,) = read_openie(cache(tmp_path, {**BRIDGE, "entities": "Ada"}), ledger)
    assert documents[0].text == TEXT
    assert (record.status, record.error) == ("failed", "expected a list as entities, found a string")
    assert [(entry.where, entry.reason) for entry in ledger] == [("p1", record.error)]


CORPUS = [
    Document("a", "Ada Marsh", "Ada Marsh  designed the Tern Bridge.\nIt opened in 1938.", ""),
    Document("b", "", "Sill\nThe Sill is a river.", ""),
    Document("p2", "", "Sill\nThe Sill is a river.", ""),
]


def test_with_a_corpus_a_passage_finds_its_document_by_its_text(tmp_path: Path, ledger: Ledger) -> None:
    documents, records = read_openie(cache(tmp_path, BRIDGE, RIVER), ledger, CORPUS)
    # "p1" is another document's id or none; of two equal texts "p2" has the passage's own id.
    assert documents == [CORPUS[0], CORPUS[2]]
    # The offsets are the corpus's: one more space.
    assert [(edge.start, edge.end) for edge in records[0].hyperedges] == [(0, 36), (0, 55)]
    assert not ledger


def test_with_a_corpus_a_passage_without_text_goes_by_its_id(tmp_path: Path, ledger: Ledger) -> None:
    bare = {"entities": [], "triples": [["Sill", "is a", "river"]]}
    path = cache(tmp_path, {"id": "b", **bare}, {"id": "z", **bare}, {**RIVER, "text": "Elsewhere."})
    documents, _ = read_openie(path, ledger, CORPUS)
    assert documents == [CORPUS[1]]
    assert [entry.reason for entry in ledger] == [
        "no document of the corpus has the id of passage 'z'", "no document of the corpus has the text of passage 'p2'",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ['{"docs": []}', '{"docs": 3}', '[{"question": "Who?"}]', "[]"])
def test_a_file_that_is_no_cache_is_refused(content: str, tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "cache.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(
        InputError, match=r"cache\.json: expected an OpenIE cache: .* found no passage that can be used"
    ):
        read_openie(path, ledger)


def test_import_writes_records_a_corpus_and_a_ledger(tmp_path: Path) -> None:
    path = hipporag(tmp_path, {**BRIDGE, "triples": [*BRIDGE["triples"], ["x"]]}, RIVER)
    out, corpus = tmp_path / "records.jsonl", tmp_path / "corpus.jsonl"
    counts, ledger = run_import(path, out, corpus_out=corpus)
    # Ada Marsh, 1938, Tern Bridge; Sill, river.
    assert counts == {"records": 2, "entities": 5, "hyperedges": 3, "relations": 3}
    assert json.loads(corpus.read_text(encoding="utf-8").splitlines()[0]) == {
        "id": "chunk-p1", "title": "Ada Marsh", "text": TEXT,
    }  # fmt: skip
    assert ledger_path(out) == tmp_path / "records.jsonl.ledger.jsonl"
    (entry,) = map(json.loads, ledger_path(out).read_text(encoding="utf-8").splitlines())
    assert (len(ledger), entry["where"], entry["raw"]) == (1, "chunk-p1", '["x"]')
    again = Ledger()
    _, (bridge, river) = read_records(out, read_corpus([corpus], again), again)
    assert (bridge.hyperedges, river.hyperedges[0].segment) == (EDGES, "The Sill is a river.")
    assert not again


def test_the_records_merge_to_what_the_cache_read_directly_does(tmp_path: Path) -> None:
    corpus, direct = tmp_path / "corpus.jsonl", tmp_path / "direct.jsonl"
    corpus.write_text("\n".join(map(json.dumps, (BRIDGE, RIVER))), encoding="utf-8")
    direct.write_text("\n".join(json.dumps({**one, "doc_id": one["id"]}) for one in (BRIDGE, RIVER)), encoding="utf-8")
    counts, ledger = run_import(corpus, tmp_path / "records.jsonl")
    documents = read_corpus([corpus], ledger)
    expected, found = (merge(read_records(path, documents, ledger)[1]) for path in (direct, tmp_path / "records.jsonl"))
    assert found == expected
    assert len(found.hyperedges) == counts["hyperedges"] == 3
    assert not ledger


def test_import_for_a_corpus_at_hand(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(json.dumps({"id": "mine", "title": "Ada Marsh", "text": TEXT}), encoding="utf-8")
    counts, ledger = run_import(hipporag(tmp_path, BRIDGE, RIVER), tmp_path / "r.jsonl", [corpus])
    assert (counts["records"], len(ledger)) == (1, 1)
    assert json.loads((tmp_path / "r.jsonl").read_text(encoding="utf-8"))["doc_id"] == "mine"


def test_a_later_import_without_a_loss_removes_the_ledger(tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    run_import(cache(tmp_path, {**RIVER, "triples": [["x"]]}), out)
    assert ledger_path(out).exists()
    run_import(cache(tmp_path, RIVER), out)
    assert not ledger_path(out).exists()


def test_import_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    path = cache(tmp_path, BRIDGE)
    before = path.read_bytes()
    with pytest.raises(InputError, match="--corpus and --corpus-out exclude each other"):
        run_import(path, tmp_path / "r.jsonl", [path], tmp_path / "c.jsonl")
    with pytest.raises(InputError, match=r"openie\.jsonl is named twice"):
        run_import(path, path)
    with pytest.raises(InputError, match=r"r\.jsonl is named twice"):
        run_import(path, tmp_path / "r.jsonl", corpus_out=tmp_path / "r.jsonl")
    with pytest.raises(OutputError, match="cannot write the records"):
        run_import(path, tmp_path)
    assert path.read_bytes() == before
