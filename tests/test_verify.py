"""Damage of every kind to every file of a store: found, named, and rebuilt where anything else holds what it held."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hyce_serving.encoder import Encoder

from hyce_gpu import repair_job
from hyce_gpu.engine import Engine
from hyce_gpu.errors import StoreError
from hyce_gpu.index_job import run_index
from hyce_gpu.repair_job import repair
from hyce_gpu.schema import Answer
from hyce_gpu.store import Store
from hyce_gpu.store_files import FORMAT, manifest_checksum
from hyce_gpu.table_files import write_table
from hyce_gpu.vector_index import VectorIndex
from hyce_gpu.verify import CURRENT, verify

TOWNS = [
    ("hall", "Carnegie Hall", "Carnegie Hall stands in New York. It was paid for by Andrew Carnegie."),
    ("man", "Andrew Carnegie", "Andrew Carnegie was born in Dunfermline in Scotland. He led Carnegie Steel."),
    ("fuji", "富士山", "富士山は静岡県と山梨県にある。Mount Fuji stands on Honshu in Japan."),
    ("pyramid", "Louvre Pyramid", "I. M. Pei built the Louvre Pyramid in Paris. Pei was born in Guangzhou."),
    ("ferry", "Ferry", "The ferry of Orkney links Stromness and Scrabster."),
    ("bare", "", "it rained, and nobody came."),
]
OTHERS = [
    ("hall", "Royal Albert Hall", "The Royal Albert Hall stands in London. Queen Victoria opened it."),
    ("sea", "Aral Sea", "The Aral Sea lies between Kazakhstan and Uzbekistan. The Amu Darya fed it."),
]
QUESTIONS = ["Where was the man born who paid for Carnegie Hall?", "On which island stands 富士山?"]
# The only copies of texts and extractions.
LOST = ("documents.arrow", "records.jsonl")
NAMES = [
    "documents.arrow", "chunks.arrow", "entities.arrow", "hyperedges.arrow", "merges.arrow", "terms.arrow",
    "member_pointer.npy", "member.npy", "passage.npy", "subject.npy", "term_pointer.npy", "term.npy", "term_count.npy",
    "entity_vectors.npy", "hyperedge_vectors.npy", "chunk_vectors.npy", "entities.faiss", "records.jsonl",
    "manifest.json", CURRENT,
]  # fmt: skip
DAMAGES = ("half", "short", "flipped", "missing", "swapped")


def _index(folder: Path, rows: list[tuple[str, str, str]]) -> Path:
    lines = [json.dumps(dict(zip(("id", "title", "text"), row, strict=True))) for row in rows]
    (folder / "corpus.jsonl").write_text("\n".join([*lines, "no JSON"]) + "\n")
    run_index([folder / "corpus.jsonl"], folder / "store", "spacy", None, None, None, "cpu", {})
    return folder / "store"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _index(tmp_path_factory.mktemp("sound"), TOWNS)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("other")
    _index(folder, OTHERS)
    # Twice, so that it is at another generation.
    return _index(folder, OTHERS)


@pytest.fixture(scope="module")
def expected(sound: Path, encoder: Encoder) -> list[Answer]:
    return _answers(sound, encoder)


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Path:
    shutil.copytree(sound, tmp_path / "store")
    return tmp_path / "store"


def _answers(root: Path, encoder: Encoder) -> list[Answer]:
    with Engine.open(root, encoder=encoder, device="cpu") as engine:
        return engine.retrieve(QUESTIONS)


def _generation(root: Path) -> Path:
    return sorted(root.glob("gen-*"))[-1]


def _file(root: Path, name: str) -> Path:
    return root / name if name in (CURRENT, "ledger.jsonl") else _generation(root) / name


def _damage(file: Path, damage: str, foreign: Path) -> bool:
    """Whether the file is another one now."""
    whole = file.read_bytes()
    middle = len(whole) // 2
    damaged = {
        "half": whole[:middle],
        "short": whole[:-1],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "missing": None,
        "swapped": foreign.read_bytes(),
    }[damage]
    if damaged is None:
        file.unlink()
    else:
        file.write_bytes(damaged)
    return damaged != whole


def _refusal(root: Path) -> str:
    """What opening it says; "" where it opens."""
    try:
        Store.open(root)
    except StoreError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", NAMES)
def test_every_damage_to_every_file_is_named_and_repaired_or_said_to_be_lost(
    name: str, damage: str, store: Path, other: Path, encoder: Encoder, expected: list[Answer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # The model once, not a hundred times.
    monkeypatch.setattr(repair_job, "Encoder", lambda *_: encoder)
    changed = _damage(_file(store, name), damage, _file(other, name))
    refusal = _refusal(store)
    assert "\n" not in refusal
    found = verify(store)
    if not changed:
        # Two stores without aliases have the same table of merges.
        assert (name, damage, refusal, found) == ("merges.arrow", "swapped", "", [])
        return
    if (name, damage) == ("manifest.json", "short"):
        # Its last line end says nothing.
        assert (refusal, found) == ("", [])
        return
    assert [finding.part for finding in found] == [name], found
    done, lost = repair(store)
    if name in LOST:
        assert done == []
        assert len(lost) == 1
        assert lost[0].startswith(f"{name} holds the only copy of the ")
        assert lost[0].endswith("run 'hyce index' with the same corpus; what the cache holds is not extracted again")
        assert [finding.part for finding in verify(store)] == [name]
        return
    assert (lost, len(done) >= 1, done[0].startswith(name)) == ([], True, True)
    assert verify(store) == []
    assert _answers(store, encoder) == expected


def test_a_sound_store_has_no_finding_and_is_left_alone(store: Path) -> None:
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and path.name != "LOCK"}
    assert verify(store) == []
    assert repair(store) == ([], [])
    assert {path: path.read_bytes() for path in before} == before
    assert _generation(store).name == "gen-000001"


def test_what_is_no_store_is_refused_and_not_made_one(tmp_path: Path) -> None:
    for act in (verify, repair):
        with pytest.raises(StoreError, match="no store at"):
            act(tmp_path / "none")
        with pytest.raises(StoreError, match="no store at"):
            act(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_all_damage_is_named_at_once_and_repaired_together_without_a_helping_hand(
    store: Path, other: Path, encoder: Encoder, expected: list[Answer]
) -> None:
    names = ["chunks.arrow", "member.npy", "entities.faiss", "ledger.jsonl", CURRENT]
    for name, damage in zip(names, ("half", "flipped", "missing", "half", "flipped"), strict=True):
        _damage(_file(store, name), damage, _file(other, name))
    (_generation(store) / "stray.npy").write_bytes(b"")
    assert sorted(finding.part for finding in verify(store)) == sorted([*names, "stray.npy"])
    done, lost = repair(store, device="cpu")
    assert (sorted(line.split()[0] for line in done), lost) == (sorted([*names, "stray.npy"]), [])
    assert verify(store) == []
    assert _answers(store, encoder) == expected
    # The damaged one stays, for whoever wants to look.
    assert [path.name for path in sorted(store.glob("gen-*"))] == ["gen-000001", "gen-000002"]


def test_what_waits_for_a_lost_source_is_listed_with_it(store: Path, other: Path) -> None:
    for name in ("documents.arrow", "entities.faiss"):
        _damage(_file(store, name), "half", _file(other, name))
    shutil.rmtree(store / "cache")
    done, lost = repair(store)
    assert done == []
    assert lost == [
        "documents.arrow holds the only copy of the texts: run 'hyce index' with the same corpus; "
        "there is no cache: all is extracted again",
        "entities.faiss needs the sources: not rebuilt",
    ]


def test_a_lost_manifest_and_lost_documents_are_both_said(store: Path, other: Path) -> None:
    _file(store, "manifest.json").unlink()
    for damage in ("half", "swapped"):
        _damage(_file(store, "documents.arrow"), damage, _file(other, "documents.arrow"))
        done, lost = repair(store)
        assert done == []
        assert any("run 'hyce index' with the same corpus" in line for line in lost)


def test_a_damaged_ledger_is_written_anew_alone(store: Path, other: Path) -> None:
    for damage in ("half", "short"):
        shutil.copy(_file(other, "ledger.jsonl"), store)
        _damage(store / "ledger.jsonl", damage, store / "ledger.jsonl")
        assert [finding.part for finding in verify(store)] == ["ledger.jsonl"]
        assert [line.split()[0] for line in repair(store)[0]] == ["ledger.jsonl"]
        assert verify(store) == []
    assert _generation(store).name == "gen-000001"


def test_current_goes_to_the_newest_sound_generation(other: Path, tmp_path: Path) -> None:
    shutil.copytree(other, tmp_path / "store")
    root = tmp_path / "store"
    # As a kill between two renames leaves it: the newer one is whole, and not yet current.
    (root / CURRENT).write_text("gen-000001\n")
    assert verify(root) == []
    (root / CURRENT).write_text("gen-00000")
    assert [str(finding) for finding in verify(root)] == [
        "CURRENT: expected the name of a generation and a line end, found 'gen-00000'; "
        "is rebuilt from the generations that are there"
    ]
    assert repair(root) == (["CURRENT names gen-000002, the newest sound generation"], [])
    (root / CURRENT).write_text("gen-00")
    (root / "gen-000002" / "member.npy").unlink()
    assert repair(root)[0] == [
        "CURRENT names gen-000001, the newest sound generation; gen-000002 is newer, and damaged"
    ]
    assert Store.open(root).generation.name == "gen-000001"


def test_another_format_is_not_damage_that_a_repair_could_mend(store: Path) -> None:
    manifest = _file(store, "manifest.json")
    manifest.write_text(manifest.read_text().replace(FORMAT, "hyce-store/9"))
    _without_checksum(manifest)
    assert [(one.part, one.rebuilt_from) for one in verify(store)] == [("the store format", "")]
    assert repair(store)[0] == []


def _without_checksum(manifest: Path) -> None:
    kept = {key: value for key, value in json.loads(manifest.read_text()).items() if key != "sha256"}
    manifest.write_text(json.dumps(kept))


def test_any_bit_of_a_manifest_with_a_checksum_is_guarded(store: Path) -> None:
    file = _file(store, "manifest.json")
    manifest = {key: value for key, value in json.loads(file.read_text()).items() if key != "accounts"}
    whole = json.dumps({**manifest, "sha256": manifest_checksum(manifest)}).encode()
    file.write_bytes(whole)
    assert verify(store) == []
    for place in range(0, len(whole) - 80, 23):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        parts = {finding.part for finding in verify(store)}
        # White space between two values is all that may become something else of the same meaning.
        assert parts == {"manifest.json"} or json.loads(file.read_bytes()) == json.loads(whole), (place, parts)


def _write_array(change: Callable[[np.ndarray], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        array = np.load(path)
        changed = change(array)
        np.save(path, array if changed is None else changed)

    return write


def _write_column(column: str, change: Callable[[list[Any]], Any]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        table = pa.ipc.open_file(path.read_bytes()).read_all()
        values = table[column].to_pylist()
        change(values)
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        write_table(table.set_column(place, field, pa.array(values, field.type)), path)

    return write


def _put(place: int, value: Any) -> Callable[[Any], None]:
    def change(values: Any) -> None:
        values[place] = value

    return change


def _move_source(values: list[Any]) -> None:
    values[0][0]["start"] += 1
    values[0][0]["end"] += 1


def _in_unknown_chunk(values: list[Any]) -> None:
    values[0][0]["chunk_id"] = "nowhere"


def _turn_lines(path: Path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[::-1]))


def _index_of_others(path: Path) -> None:
    vectors = np.load(path.with_name("entity_vectors.npy"))
    VectorIndex.build(np.roll(vectors, len(vectors) // 2, axis=1)).write(path)


@pytest.mark.parametrize(
    ("name", "write", "expected"),
    [
        ("member.npy", _write_array(_put(0, 10**6)), "numbers from 0 to"),
        ("member.npy", _write_array(lambda a: a[::-1].copy()), "numbers that rise within each row"),
        ("member_pointer.npy", _write_array(_put(1, 10**6)), "numbers that rise from 0 to"),
        ("passage.npy", _write_array(_put(0, -1)), "numbers from 0 to 5"),
        ("passage.npy", _write_array(_put(0, 5)), "the chunk of each hyperedge's first source"),
        ("subject.npy", _write_array(_put(0, -2)), "numbers from -1 to"),
        ("term_count.npy", _write_array(_put(0, 0)), "numbers above 0"),
        ("term.npy", _write_array(_put(0, -1)), "numbers from 0 to"),
        ("term_count.npy", _write_array(lambda a: a[:-1]), "rows"),
        ("chunk_vectors.npy", _write_array(_put(2, np.nan)), "rows of length 1, or of zeros"),
        ("chunk_vectors.npy", _write_array(lambda a: a * 1.01), "rows of length 1, or of zeros"),
        ("chunk_vectors.npy", _write_array(lambda a: a.astype(np.float64)), "float32 with 2 axes"),
        ("entity_vectors.npy", _write_array(_put(1, 1.0)), "rows of length 1, or of zeros"),
        ("hyperedge_vectors.npy", _write_array(lambda a: np.eye(len(a), dtype=np.float32)), "384 numbers a row"),
        ("chunks.arrow", _write_column("end", _put(0, 10**6)), "places within the document's text"),
        ("chunks.arrow", _write_column("document", _put(0, 99)), "numbers from 0 to 5"),
        ("chunks.arrow", _write_column("id", _put(0, "man#0")), "each id once"),
        ("terms.arrow", _write_column("word", _put(0, None)), "each word once"),
        ("hyperedges.arrow", _write_column("sources", _move_source), "segments as their document has them"),
        ("hyperedges.arrow", _write_column("sources", _in_unknown_chunk), "sources in known chunks"),
        ("records.jsonl", _turn_lines, "the chunks' places in their order"),
        ("records.jsonl", lambda path: path.write_text("{}\n"), "one record a line"),
        ("entities.faiss", _index_of_others, "to find each of 8 vectors by itself"),
        ("entities.faiss", lambda path: path.write_bytes(b"no index"), "values that can be checked"),
    ],
)  # fmt: skip
def test_parts_that_do_not_fit_are_named_though_every_checksum_is_right(
    name: str, write: Callable[[Path], None], expected: str, store: Path
) -> None:
    file = _file(store, name)
    write(file)
    _seal_again(file)
    found = verify(store)
    assert {one.part for one in found} == {name}, found
    assert any(expected in one.expected for one in found), found


def _seal_again(file: Path) -> None:
    path = file.with_name("manifest.json")
    manifest = json.loads(path.read_text())
    data = file.read_bytes()
    manifest["files"][file.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest.pop("sha256", None)
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "count", ["documents", "chunks", "bare_chunks", "entities", "hyperedges", "incidences", "relations", "terms"]
)
def test_a_count_that_is_not_so_is_the_manifests(store: Path, count: str) -> None:
    path = _file(store, "manifest.json")
    manifest = json.loads(path.read_text())
    manifest["counts"][count] += 1
    manifest.pop("sha256", None)
    path.write_text(json.dumps(manifest))
    assert {finding.part for finding in verify(store)} == {"manifest.json"}
