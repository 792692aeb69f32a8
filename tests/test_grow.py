"""A store that documents were added to is, row by row, the store of all documents."""

from __future__ import annotations

import random
import re
import shutil
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hyce_gpu import cross_references, grow_job, repair_job, store_grow, store_write
from hyce_gpu.accounts import Accounts
from hyce_gpu.config import IndexConfig
from hyce_gpu.decisions import Decision, decision
from hyce_gpu.errors import StoreError
from hyce_gpu.file_pieces import rows_in_base
from hyce_gpu.grow_job import grow
from hyce_gpu.indexing import Extraction, build
from hyce_gpu.ledger import Ledger
from hyce_gpu.repair_job import repair
from hyce_gpu.schema import Chunk, Document, ExtractedEntity, ExtractedHyperedge, ExtractionRecord, Relation
from hyce_gpu.store import Store
from hyce_gpu.store_files import writing
from hyce_gpu.store_grow import write_as_one
from hyce_gpu.store_parts import ARRAYS, SCHEMAS
from hyce_gpu.table_files import read_table
from hyce_gpu.vector_index import VectorIndex
from hyce_gpu.verify import verify

# Names of a few entities in several spellings; some are titles of documents as well.
NAMES = [
    "Ada", "ADA", "Ada Byron", "Lady Lovelace", "Babbage", "Charles Babbage", "Ulm", "Ulm (Germany)", "富士山", "Fuji",
    "Mount Fuji", "Ångström", "Turin", "Torino", "Lyon", "Zürich", "Engine", *(f"Name {n}" for n in range(40)),
]  # fmt: skip
# A sentence that many documents have.
SHARED = ("Everybody met everybody.", ("Ada", "Turin"))
TYPES = ["", "", "person", "place", "Person"]
SEEDS = range(30)


class _Encoder:
    """Vectors that tell texts apart: what a real model would take minutes for."""

    name, dimension = "numbers", 8

    def encode(self, texts: Sequence[str], advance: Callable[[int], object] | None = None) -> np.ndarray:
        rows = [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(8) for text in texts]
        vectors = np.array(rows, dtype=np.float32).reshape(len(texts), 8)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def fingerprint(self) -> list[list[float]]:
        return [[0.0]]


def _document(draw: random.Random, number: int) -> tuple[Document, list[Chunk], list[ExtractionRecord]]:
    title = draw.choice([*NAMES, f"Page {number}", ""])
    texts = [
        draw.choice(["one", "two three", "three four five", f"own words {number}"]) for _ in range(draw.randint(1, 3))
    ]
    document = Document(f"d{number}", title, " ".join(texts), "c.jsonl:1", {})
    chunks, records, at = [], [], 0
    for order, text in enumerate(texts):
        place = (f"d{number}#{order}", document.id, order, at, at + len(text))
        chunks.append(Chunk(*place, text, title))
        records.append(_record(draw, place, text))
        at += len(text) + 1
    return document, chunks, records


def _record(draw: random.Random, place: tuple[Any, ...], text: str) -> ExtractionRecord:
    names = [*SHARED[1], *draw.sample(NAMES[12:], 2)] if draw.random() < 0.3 else draw.sample(NAMES, draw.randint(2, 4))
    entities = tuple(
        ExtractedEntity(
            name, draw.choice(TYPES), draw.choice(["", "role"]), description=draw.choice(["", "", f"about {name}"]),
            aliases=tuple(draw.sample(NAMES, int(draw.random() < 0.08))), confidence=draw.choice([0.5, 0.75, 1.0]),
        )
        for name in names
    )  # fmt: skip
    edges = []
    if names[:2] == list(SHARED[1]):
        relation = Relation(*names[:1], "met", names[1], draw.choice([0.25, 0.5]))
        edges.append(ExtractedHyperedge(SHARED[0], SHARED[1], place[3], place[4], 0.5, relations=(relation,)))
    for _ in range(draw.choice([0, 1, 1, 2])):
        members = tuple(draw.sample(names, draw.randint(1, len(names))))
        ends = draw.sample(names, 2)
        relations = (Relation(ends[0], "met", ends[1], draw.choice([0.25, 0.5])),) * draw.choice([0, 1])
        segment, confidence = draw.choice([text, text.upper()]), draw.choice([0.5, 1.0])
        edges.append(ExtractedHyperedge(segment, members, place[3], place[4], confidence, relations=relations))
    return ExtractionRecord(*place, "ok", entities, tuple(edges))


def _extraction(
    parts: Sequence[tuple[Document, list[Chunk], list[ExtractionRecord]]], decisions: Any = ()
) -> Extraction:
    documents = [document for document, _, _ in parts]
    chunks, records = ([one for part in parts for one in part[place]] for place in (1, 2))
    return Extraction(documents, chunks, records, {"name": "test"}, decisions)


def _build(root: Path, extraction: Extraction) -> Path:
    with writing(root) as writer:
        build(writer, extraction, _Encoder(), asdict(IndexConfig()), Accounts(), Ledger())  # type: ignore[arg-type]
    return root


def _grow(root: Path, extraction: Extraction) -> bool:
    with writing(root) as writer:
        counts = grow(writer, Store.open(root), extraction, _Encoder(), Accounts(), Ledger())  # type: ignore[arg-type]
    return counts is not None


def _assert_equal(one: Path, other: Path) -> None:
    left, right = Store.open(one), Store.open(other)
    for name in SCHEMAS:
        assert left.table(name).to_pylist() == right.table(name).to_pylist(), name
    names = [read_table(store.generation / "names.arrow").to_pylist() for store in (left, right)]
    assert names[0] == names[1]
    for name in ARRAYS:
        np.testing.assert_array_equal(left.array(name), right.array(name), name)
    assert left.records() == right.records()
    for name in ("counts", "corpus", "config", "encoder", "extractor"):
        assert left.manifest[name] == right.manifest[name], name


def _decisions(draw: random.Random) -> tuple[Decision, ...]:
    one, other, third = draw.sample([name for name in NAMES if name != "ADA"], 3)
    return draw.choice([(), (decision(one, other),), (decision(one, other), decision(one, third, "apart"))])


@pytest.mark.parametrize("seed", SEEDS)
def test_additions_equal_one_build(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    parts = [_document(draw, number) for number in range(draw.randint(2, 14))]
    decisions = _decisions(draw)
    root, count = tmp_path / "store", draw.randint(1, len(parts) - 1)
    _build(root, _extraction(parts[:count], decisions))
    while count < len(parts):
        more = parts[count : count + draw.randint(1, 3)]
        if not _grow(root, _extraction(more, decisions)):
            _build(root, _extraction(parts[: count + len(more)], decisions))
        count += len(more)
    scratch = _build(tmp_path / "scratch", _extraction(parts, decisions))
    _assert_equal(root, scratch)
    assert verify(root) == []
    with writing(root) as writer:
        write_as_one(writer, Store.open(root))
    files = [{path.name: path.read_bytes() for path in Store.open(one).generation.iterdir()} for one in (root, scratch)]
    assert {name for name in files[0] if files[0][name] != files[1].get(name)} <= {"manifest.json"}
    assert set(files[0]) == set(files[1])


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with pieces of every kind, and one of the same documents without."""
    folder, draw = tmp_path_factory.mktemp("grown"), random.Random(10)
    parts = [_document(draw, number) for number in range(24)]
    root = _build(folder / "store", _extraction(parts[:12]))
    for number in range(12, 24):
        if not _grow(root, _extraction(parts[number : number + 1])):
            _build(root, _extraction(parts[: number + 1]))
    return root, _build(folder / "scratch", _extraction(parts))


PIECES = [
    "documents.arrow", "chunks.arrow", "entities.arrow", "hyperedges.arrow", "terms.arrow", "names.arrow",
    "member_pointer.raw", "member.raw", "passage.raw", "subject.raw", "subject.npz", "term_pointer.raw", "term.raw",
    "term_count.raw", "entity_vectors.raw", "entity_vectors.npz", "hyperedge_vectors.raw", "chunk_vectors.raw",
    "records.jsonl",
]  # fmt: skip


def _pieces(root: Path, kind: str) -> list[Path]:
    stem, suffix = kind.split(".")
    return sorted(Store.open(root).generation.glob(f"{stem}+*.{suffix}"))


@pytest.mark.parametrize("kind", PIECES)
def test_every_damage_to_a_piece_is_found_and_repaired(
    kind: str, grown: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(shutil.copytree(grown[0], tmp_path / "store"))
    first, *others = _pieces(root, kind)
    data = first.read_bytes()
    damages = [data[: len(data) // 2], data[:-1], None, *(one.read_bytes() for one in others[:1])]
    damages += [data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :] for place in (0, len(data) - 1)]
    for damaged in damages:
        first.unlink() if damaged is None else first.write_bytes(damaged)
        assert [finding.part for finding in verify(root)] == [first.name]
        with pytest.raises(StoreError, match=re.escape(first.name)):
            Store.open(root)
    monkeypatch.setattr(repair_job, "Encoder", lambda *_, **__: _Encoder())
    done, lost = repair(root)
    if kind in ("documents.arrow", "records.jsonl"):
        assert "holds the only copy" in lost[0]
    else:
        assert (len(done), lost) == (1, [])
        assert done[0].startswith(f"{first.name} from documents.arrow")
        _assert_equal(root, grown[1])
        assert verify(root) == []


def test_a_reader_keeps_its_generation_and_a_change_links_what_is_there(
    grown: tuple[Path, Path], tmp_path: Path
) -> None:
    draw = random.Random(1)
    parts = [_document(draw, number) for number in range(8)]
    root = _build(tmp_path / "store", _extraction(parts[:7]))
    before = Store.open(root)
    held, records = before.array("entity_vectors").copy(), before.records()
    assert _grow(root, _extraction(parts[7:]))
    after = Store.open(root)
    for path in before.generation.iterdir():
        if path.name not in ("manifest.json", "merges.arrow"):
            assert path.samefile(after.generation / path.name)
    np.testing.assert_array_equal(before.array("entity_vectors"), held)
    assert before.records() == records
    assert len(after.documents()) == 8


def test_pieces_become_one_after_some_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_grow, "MAX_PIECES", 3)
    draw = random.Random(2)
    parts = [_document(draw, number) for number in range(12)]
    root = _build(tmp_path / "store", _extraction(parts[:2]))
    most = 0
    for number in range(2, 12):
        if not _grow(root, _extraction(parts[number : number + 1])):
            _build(root, _extraction(parts[: number + 1]))
        most = max(most, len(_pieces(root, "documents.arrow")))
    assert most == 3
    _assert_equal(root, _build(tmp_path / "scratch", _extraction(parts)))


def test_a_search_finds_what_came_after_the_inverted_file_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build: Any = VectorIndex.build
    monkeypatch.setattr(VectorIndex, "build", lambda vectors: build(vectors, flat_up_to=30))
    for module in (store_grow, store_write, cross_references):
        monkeypatch.setattr(module, "FLAT_UP_TO", 30)
    draw = random.Random(3)
    parts = [_document(draw, number) for number in range(60)]
    root = _build(tmp_path / "store", _extraction(parts[:48]))
    for number in range(48, 60):
        if not _grow(root, _extraction(parts[number : number + 1])):
            _build(root, _extraction(parts[: number + 1]))
    store = Store.open(root)
    index, count = store.indexes().hyperedges, len(store.array("hyperedge_vectors"))
    assert index is not None
    assert not index.is_exact
    tail = np.arange(rows_in_base(store.generation / "hyperedge_vectors.npy"), count)
    assert len(tail)
    rows = np.array(store.array("hyperedge_vectors")[tail])
    assert [found[0] for found in index.nearest(rows, 1)] == tail.tolist()
    assert verify(root) == []
    with writing(root) as writer:
        write_as_one(writer, store)
    index = Store.open(root).indexes().hyperedges
    assert index is not None
    assert [found[0] for found in index.nearest(rows, 1)] == tail.tolist()
    assert verify(root) == []


def test_much_at_once_is_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grow_job, "_ALWAYS_ADDED", 2)
    draw = random.Random(4)
    parts = [_document(draw, number) for number in range(6)]
    root = _build(tmp_path / "store", _extraction(parts[:3]))
    before = (root / "CURRENT").read_text()
    assert not _grow(root, _extraction(parts[3:]))
    assert (root / "CURRENT").read_text() == before
