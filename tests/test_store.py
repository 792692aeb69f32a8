"""The store on disk: whole or not at all, refused when it is not what it should be."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import numpy as np
import pytest

from hyce_gpu.errors import OutputError, StoreError
from hyce_gpu.merge import merge
from hyce_gpu.provenance import provenance
from hyce_gpu.schema import Chunk, Document, ExtractedHyperedge, ExtractionRecord, Relation
from hyce_gpu.store import Store
from hyce_gpu.store_files import FORMAT, writing
from hyce_gpu.store_write import Contents, write_store

TEXT = "Ada met Bob. 富士山 is high."


def _contents(segment: str = "Ada met Bob.") -> Contents:
    document = Document("d1", "Title", TEXT, "c.jsonl:1", {"year": 1843})
    chunks = [Chunk("d1#0", "d1", 0, 0, 12, TEXT[:12], "Title"), Chunk("d1#1", "d1", 1, 13, 25, TEXT[13:25], "Title")]
    relation = Relation("Ada", "met", "Bob", 0.5)
    edge = ExtractedHyperedge(segment, ("Ada", "Bob"), 0, 12, 0.9, relations=(relation,))
    records = [
        ExtractionRecord("d1#0", "d1", 0, 0, 12, "ok", (), (edge,)),
        ExtractionRecord("d1#1", "d1", 1, 13, 25, "ok"),
    ]
    vectors = np.eye(3, dtype=np.float32)
    merged = merge(records)
    return Contents(
        [document], chunks, records, merged, provenance(chunks, merged), vectors[:2], vectors[[2, 1]], vectors[:2]
    )


def _write(root: Path, segment: str = "Ada met Bob.") -> Path:
    with writing(root) as writer:
        write_store(writer, _contents(segment), {"encoder": {"name": "e", "dimension": 3}, "extractor": {"name": "x"}})
    return root


def _generation(root: Path) -> Path:
    return root / (root / "CURRENT").read_text().strip()


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    store = Store.open(_write(tmp_path / "s"))
    assert store.counts["hyperedges"] == 1
    assert store.counts["bare_chunks"] == 1
    hypergraph = store.hypergraph()
    assert hypergraph.member.tolist() == [0, 1]
    assert hypergraph.confidence.tolist() == [0.9, 0.0]
    assert hypergraph.relation_confidence.tolist() == [0.5, 0.0]
    row = store.hyperedge(0)
    assert row["segment"] == "Ada met Bob."
    assert row["sources"] == [{"doc_id": "d1", "chunk_id": "d1#0", "start": 0, "end": 12}]
    source, text = store.chunk(1)
    assert (source.start, text) == (13, TEXT[13:25])
    assert json.loads(store.document("d1")["metadata"]) == {"year": 1843}
    assert store.entity_index().nearest(np.eye(3, dtype=np.float32)[1:2], 5) == [[1, 0]]


def test_a_new_generation_replaces_the_old_one_and_a_reader_keeps_its_own(tmp_path: Path) -> None:
    before = Store.open(_write(tmp_path / "s"))
    after = Store.open(_write(tmp_path / "s", "Ada saw Bob."))
    assert before.hyperedge(0)["segment"] == "Ada met Bob."
    assert after.hyperedge(0)["segment"] == "Ada saw Bob."
    assert before.hypergraph().hyperedge_vectors.tolist() == [[0, 0, 1], [0, 1, 0]]


def test_the_same_contents_give_the_same_bytes(tmp_path: Path) -> None:
    one, two = _generation(_write(tmp_path / "a")), _generation(_write(tmp_path / "b"))
    assert (one / "manifest.json").read_bytes() == (two / "manifest.json").read_bytes()


def test_a_failed_write_leaves_the_old_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _write(tmp_path / "s")
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(np, "save", lambda *_: (_ for _ in ()).throw(full))
    with pytest.raises(OutputError, match="No space left on device"):
        _write(root, "Ada saw Bob.")
    assert Store.open(root).hyperedge(0)["segment"] == "Ada met Bob."


def test_missing_foreign_and_broken_stores_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the directory does not exist"):
        Store.open(tmp_path / "none")
    (tmp_path / "file.txt").write_text("mine")
    with pytest.raises(StoreError, match="no readable CURRENT"):
        Store.open(tmp_path)
    with pytest.raises(OutputError, match=r"is not a store and not empty \(it holds 'file.txt'\)"):
        _write(tmp_path)
    with pytest.raises(OutputError, match="it is a file"):
        _write(tmp_path / "file.txt")


def test_another_version_is_refused(tmp_path: Path) -> None:
    manifest = _generation(_write(tmp_path / "s")) / "manifest.json"
    manifest.write_text(manifest.read_text().replace(FORMAT, "hyce-store/9"))
    with pytest.raises(
        StoreError,
        match="store format 'hyce-store/9', this version reads hyce-store/2 and hyce-store/3 and hyce-store/4",
    ):
        Store.open(tmp_path / "s")


NAMES = [
    "documents.arrow", "chunks.arrow", "entities.arrow", "hyperedges.arrow", "merges.arrow",
    "member.npy", "member_pointer.npy", "entity_vectors.npy", "hyperedge_vectors.npy", "chunk_vectors.npy",
    "entities.faiss", "records.jsonl", "manifest.json",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("damage", ["half", "short", "missing"])
def test_every_missing_or_cut_file_is_found_at_open(tmp_path: Path, name: str, damage: str) -> None:
    file = _generation(_write(tmp_path / "s")) / name
    whole = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        # One byte off the manifest is its last newline, which says nothing; take the brace as well.
        file.write_bytes(whole[: len(whole) // 2] if damage == "half" else whole[:-2])
    with pytest.raises(StoreError, match="broken store"):
        Store.open(tmp_path / "s")


def test_a_second_writer_is_refused_while_the_first_one_lives(tmp_path: Path) -> None:
    root = _write(tmp_path / "s")
    with (root / "LOCK").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match=r"is being written by process \d+ on"):
            _write(root)
    _write(root)
