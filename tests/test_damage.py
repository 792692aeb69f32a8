"""Damage to stores with inverted files, and to what a model's extraction leaves: named, and no answer is wrong.

Small stores that no model was asked for are in test_verify, where each damage is repaired as well.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hyce_serving.encoder import Encoder
from hyce_serving.requests import GenerationRequest
from hyce_serving.scripted import Scripted

from hyce_gpu import cross_references, repair_job, store_files, store_write
from hyce_gpu.engine import Engine
from hyce_gpu.entities_job import Pair, apply
from hyce_gpu.errors import StoreError
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.indexing import index_corpus
from hyce_gpu.repair_job import repair
from hyce_gpu.schema import Answer
from hyce_gpu.store import Store
from hyce_gpu.vector_index import VectorIndex
from hyce_gpu.verify import verify

FLAT_UP_TO = 100
# Documents of a store, whether its indexes are inverted files, and what its places are called.
KINDS = {"llm": (12, False, "Town"), "ivf": (140, True, "Town")}
QUESTIONS = ["What lies near Town5 in Land2?", "Which town is near a land?", "Where are Town7 and Town3?"]
IN_GENERATION = [
    "documents.arrow", "chunks.arrow", "entities.arrow", "hyperedges.arrow", "merges.arrow", "terms.arrow",
    "decisions.arrow", "member_pointer.npy", "member.npy", "passage.npy", "subject.npy", "term_pointer.npy", "term.npy",
    "term_count.npy", "entity_vectors.npy", "hyperedge_vectors.npy", "chunk_vectors.npy", "entities.faiss",
    "records.jsonl", "manifest.json",
]  # fmt: skip
INDEXES = ["hyperedges.faiss", "passages.faiss"]
CACHED = "cache/extractions.sqlite"
BESIDE = ["CURRENT", "ledger.jsonl", CACHED]
CASES = [(kind, name) for kind in KINDS for name in (*IN_GENERATION, *(INDEXES if kind == "ivf" else []), *BESIDE)]
# The only copies of texts and extractions.
LOST = ("documents.arrow", "records.jsonl")
# Of these a question reads a few rows: where they are large, they are not hashed at every open.
READ_IN_PART = [
    "entities.faiss", *INDEXES, "entity_vectors.npy", "hyperedge_vectors.npy", "chunk_vectors.npy", "records.jsonl"
]  # fmt: skip


def _reply(request: GenerationRequest) -> str:
    text = request.messages[-1]["content"].partition("<passage>\n")[2].partition("\n</passage>")[0]
    if "poison" in text:
        return "no JSON at all"
    names = [word.strip(".") for word in text.split() if word[0].isupper()]
    return json.dumps({"entities": names, "hyperedges": [{"segment": text, "entities": names}]})


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(device="cpu")


@pytest.fixture(scope="module", autouse=True)
def _inverted_files_from_a_hundred_vectors_on() -> Iterator[None]:
    build: Any = VectorIndex.build
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VectorIndex, "build", lambda vectors: build(vectors, flat_up_to=FLAT_UP_TO))
        for module in (store_write, cross_references):
            patch.setattr(module, "FLAT_UP_TO", FLAT_UP_TO)
        yield


def _index(folder: Path, encoder: Encoder, count: int, name: str) -> Path:
    rows = [
        {"id": f"d{n}", "title": f"{name}{n}", "text": f"{name}{n} is near {name}{(n * 7 + 1) % count} in Land{n % 9}."}
        for n in range(count)
    ]
    rows[3]["text"] += " It is poison."
    lines = [json.dumps(row) + "\n" for row in rows]
    (folder / "corpus.jsonl").write_text("".join(lines) + "no JSON\n")
    index_corpus([folder / "corpus.jsonl"], folder / "store", encoder, LlmExtractor(Scripted(_reply)))
    apply(folder / "store", [Pair("", f"{name}1", f"{name}2"), Pair("", f"{name}4", f"{name}5", "apart")], device="cpu")
    return folder / "store"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, encoder: Encoder) -> dict[str, Path]:
    made = {}
    for kind, (count, _, name) in KINDS.items():
        made[kind] = _index(tmp_path_factory.mktemp(kind), encoder, count, name)
        made[f"other {kind}"] = _index(tmp_path_factory.mktemp("other"), encoder, count + 9, "Burg")
        # So that it is at another generation.
        apply(made[f"other {kind}"], [Pair("", "Burg6", "Burg7")], device="cpu")
    return made


@pytest.fixture(scope="module")
def expected(sound: dict[str, Path], encoder: Encoder) -> dict[str, list[Answer]]:
    return {kind: _answers(sound[kind], encoder) for kind in KINDS}


def _answers(root: Path, encoder: Encoder) -> list[Answer]:
    with Engine.open(root, encoder=encoder, device="cpu") as engine:
        return engine.retrieve(QUESTIONS)


def _answers_or_refusal(root: Path, encoder: Encoder) -> list[Answer] | str:
    try:
        return _answers(root, encoder)
    except StoreError as error:
        return str(error)


def _file(root: Path, name: str) -> Path:
    return root / name if name in BESIDE else root / (root / "CURRENT").read_text().strip() / name


def _flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :]


def _damages(name: str, data: bytes, foreign: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield "half", data[: len(data) // 2]
    yield "missing", None
    yield "swapped", foreign
    # Bits of the cache are flipped one by one in test_unit_checks.
    if name != CACHED:
        yield "short", data[:-1]
        places = [0, len(data) // 2, len(data) - 1]
        yield from ((f"flipped at {place}", _flipped(data, place, place % 8)) for place in places)


def test_the_stores_are_what_these_tests_need(sound: dict[str, Path]) -> None:
    for kind, (_, is_ivf, _) in KINDS.items():
        names = {path.name for path in _file(sound[kind], "manifest.json").parent.iterdir()}
        assert names >= {*IN_GENERATION, *(INDEXES if is_ivf else [])}
        assert Store.open(sound[kind]).entity_index().is_exact != is_ivf
        assert all(_file(sound[kind], name).exists() for name in BESIDE)
        assert verify(sound[kind]) == []


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_damage_is_named_and_no_answer_is_wrong(
    kind: str, name: str, sound: dict[str, Path], encoder: Encoder, expected: dict[str, list[Answer]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    root = Path(shutil.copytree(sound[kind], tmp_path / "store"))
    file = _file(root, name)
    data, foreign = file.read_bytes(), _file(sound[f"other {kind}"], name).read_bytes()
    for damage, damaged in _damages(name, data, foreign):
        file.unlink() if damaged is None else file.write_bytes(damaged)
        parts = [finding.part for finding in verify(root)]
        told = _answers_or_refusal(root, encoder)
        is_legal = (name, damage) in {
            # Its last line end says nothing.
            ("manifest.json", "short"),
            # Stores without failures, or after hyce compact, have none; another's is of no store.
            ("ledger.jsonl", "missing"), ("ledger.jsonl", "swapped"),
            (CACHED, "missing"), (CACHED, "swapped"),
        }  # fmt: skip
        # A ledger's texts have no checksum.
        assert is_legal or parts == [name] or (name == "ledger.jsonl" and damage.startswith("flipped")), (damage, parts)
        if name in ("ledger.jsonl", CACHED) or is_legal:
            assert told == expected[kind], damage
        else:
            # A line end of CURRENT that is missing or another one misleads no one.
            assert (isinstance(told, str) and "\n" not in told) or (name == "CURRENT" and told == expected[kind]), (
                damage
            )
        file.write_bytes(data)
    # One repair, of a middle bit: every other damage leads to the same.
    monkeypatch.setattr(repair_job, "Encoder", lambda *_: encoder)
    file.write_bytes(data[: len(data) // 2])
    done, lost = repair(root)
    assert bool(lost) == (name in LOST)
    assert (verify(root) == []) == (name not in LOST), done
    if name not in LOST:
        assert _segments(_answers(root, encoder)) == _segments(expected[kind])


@pytest.mark.parametrize("name", READ_IN_PART)
def test_in_large_files_a_flipped_bit_is_an_error_or_found_by_verify_and_never_a_traceback(
    name: str, sound: dict[str, Path], encoder: Encoder, expected: dict[str, list[Answer]], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    root = Path(shutil.copytree(sound["ivf"], tmp_path / "store"))
    file, rng = _file(root, name), random.Random(name)
    data = file.read_bytes()
    monkeypatch.setattr(store_files, "_CHECKED_AT_OPEN", 0)
    # The head, the sizes and the row numbers of the inverted lists, the vectors.
    places = [*range(0, 160, 9), len(data) - 1, *(rng.randrange(len(data)) for _ in range(12))]
    if (lists := data.find(b"ilar")) >= 0:
        places += [lists + rng.randrange(400) for _ in range(12)]
    for place in places:
        file.write_bytes(_flipped(data, place, rng.randrange(8)))
        told = _answers_or_refusal(root, encoder)
        assert [finding.part for finding in verify(root)] == [name], place
        assert "\n" not in told
    file.write_bytes(data)
    assert _answers(root, encoder) == expected["ivf"]


def _segments(answers: list[Answer]) -> set[tuple[str, str]]:
    """What was found; vectors move by about 1e-7 with the batch that a text is embedded in."""
    return {(answer.question, path.segment) for answer in answers for path in answer.paths}
