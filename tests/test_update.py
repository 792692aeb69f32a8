"""A store that lives: after any changes it is what an index of the final documents would be, and nothing is redone."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hyce_serving import Encoder
from hyce_serving.requests import GenerationRequest
from hyce_serving.scripted import Scripted

from hyce_gpu import extractors, update_job
from hyce_gpu.config import Config
from hyce_gpu.engine import Engine
from hyce_gpu.errors import InputError, OutputError, StoreError
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.index_job import run_index
from hyce_gpu.indexing import index_corpus
from hyce_gpu.merge_job import merge_stores
from hyce_gpu.store import Store
from hyce_gpu.update_job import Models

CHANGES, SEED = 25, 7
MODELS = Models(device="cpu")
Rows = list[dict[str, str]]


def _reply(request: GenerationRequest) -> str:
    """The words with a capital and a digit are the entities; all of them take part in one hyperedge."""
    text = request.messages[-1]["content"].partition("<passage>\n")[2].partition("\n</passage>")[0]
    names = list(dict.fromkeys(word.strip(".") for word in text.split() if word[0].isupper() and word[-2:-1].isdigit()))
    return json.dumps({"entities": names, "hyperedges": [{"segment": text, "entities": names}]})


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = Scripted(_reply)
    monkeypatch.setattr(extractors, "Generator", lambda *_, **__: model)
    return model


def _row(name: str, numbers: Sequence[int]) -> dict[str, str]:
    return {
        "id": name,
        "title": name.title(),
        "text": f"{' met '.join(f'Ada{n}.' for n in numbers)} in Rome{numbers[0]}.",
    }


def _write(folder: Path, rows: Rows) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def _index(folder: Path, rows: Rows, encoder: Encoder, name: str = "store") -> Path:
    root = folder / name
    index_corpus([_write(folder, rows)], root, encoder, LlmExtractor(Scripted(_reply)))
    return root


def _content(root: Path) -> dict[str, object]:
    """All that a store says, without vectors, accounts and where its documents were read."""
    store = Store.open(root)
    found: dict[str, object] = {
        "counts": store.counts,
        "documents": [(one.id, one.title, one.text) for one in store.documents()],
        "chunks": store.chunks(),
        "records": store.records(),
        "words": store.table("terms").column("word").to_pylist(),
        "names": store.names_and_aliases(),
        "hyperedges": [store.hyperedge(number) for number in range(store.counts["hyperedges"])],
    }
    graph = store.hypergraph()
    return {**found, "members": graph.member.tolist(), "pointer": graph.member_pointer.tolist()}


def _assert_same(one: Path, other: Path) -> None:
    assert _content(one) == _content(other)
    for name in ("entity_vectors", "hyperedge_vectors", "chunk_vectors"):
        np.testing.assert_allclose(Store.open(one).array(name), Store.open(other).array(name), atol=1e-6)


def test_a_random_life_equals_an_index_of_what_is_left(tmp_path: Path, model: Scripted, encoder: Encoder) -> None:
    draw = random.Random(SEED)
    rows = [_row(f"d{number}", [number, number + 1]) for number in range(6)]
    root = _index(tmp_path, rows, encoder)
    for number in range(CHANGES):
        kind = draw.choice(["add", "remove", "update", "sync"] if len(rows) > 2 else ["add"])
        if kind == "add":
            new = [_row(f"new{number}-{k}", draw.sample(range(12), 3)) for k in range(draw.randint(1, 2))]
            rows += new
            update_job.add(root, [_write(tmp_path, new)], MODELS)
        elif kind == "remove":
            gone = draw.choice(rows)
            rows.remove(gone)
            update_job.remove(root, [gone["id"]], MODELS)
        else:
            place = draw.randrange(len(rows))
            rows[place] = _row(rows[place]["id"], draw.sample(range(12), 2))
            rows.append(_row(f"more{number}", draw.sample(range(12), 2)))
            if kind == "sync":
                draw.shuffle(rows)
                del rows[0]
            update_job.update(root, [_write(tmp_path, rows)], MODELS, sync=kind == "sync")
    scratch = _index(tmp_path, rows, encoder, "scratch")
    _assert_same(root, scratch)
    questions = [f"Whom did Ada{n} meet?" for n in range(12)]
    answers = [Engine.open(one, device="cpu", config=Config()).retrieve(questions) for one in (root, scratch)]
    for one, other in zip(*answers, strict=True):
        assert [path.segment for path in one.paths] == [path.segment for path in other.paths]
        assert [path.score for path in one.paths] == pytest.approx([path.score for path in other.paths], abs=1e-5)


def test_only_what_changed_is_extracted_and_embedded(
    tmp_path: Path, model: Scripted, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [_row(f"d{number}", [number, number + 1]) for number in range(5)]
    root = _index(tmp_path, rows, encoder)
    embedded: list[str] = []
    encode = Encoder.encode

    def encode_and_tell(self: Encoder, texts: Sequence[str], *more: object) -> np.ndarray:
        embedded.extend(texts)
        return encode(self, texts, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "encode", encode_and_tell)
    rows[3]["text"] = "Ada3. met Ada99. in Rome3."
    assert update_job.update(root, [_write(tmp_path, rows)], MODELS) is not None
    assert model.asked == 1
    # The encoder's fingerprint is taken from fixed sentences each time.
    assert {text for text in embedded if "Ada9" in text or "Rome" in text} == {
        "Ada99",
        "D3: Ada3. met Ada99. in Rome3.",
    }
    assert not any(text.startswith("D0") for text in embedded)
    # The same again: nothing to do, no new generation.
    current = (root / "CURRENT").read_text()
    assert update_job.update(root, [_write(tmp_path, rows)], MODELS) is None
    assert (root / "CURRENT").read_text() == current
    assert model.asked == 1


def test_removed_text_is_in_no_answer_and_after_compact_in_no_file(
    tmp_path: Path, model: Scripted, encoder: Encoder
) -> None:
    rows = [_row("a", [1, 2]), _row("b", [3, 4]), {**_row("c", [3, 4]), "title": "B"}]
    rows[0]["text"] = "Secret1. met Secret2. in Rome1."
    root = _index(tmp_path, rows, encoder)
    update_job.remove(root, ["a", "b"], MODELS)
    with Engine.open(root, device="cpu") as engine:
        (answer,) = engine.retrieve(["Whom did Secret1 meet in Rome3?"])
    # A paragraph that two documents had keeps the other's provenance.
    assert {source.doc_id for path in answer.paths for source in path.sources} == {"c"}
    assert any(b"Secret1" in path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert update_job.compact(root) > 0
    assert not any(b"Secret" in path.read_bytes() for path in root.rglob("*") if path.is_file())
    assert [one.id for one in Store.open(root).documents()] == ["c"]
    # What is left can still be changed without asking again.
    update_job.add(root, [_write(tmp_path, [_row("z", [8, 9])])], MODELS)
    assert model.asked == 1


def test_what_cannot_be_changed_is_named(tmp_path: Path, model: Scripted, encoder: Encoder) -> None:
    root = _index(tmp_path, [_row("a", [1, 2])], encoder)
    before = _content(root)
    with pytest.raises(InputError, match="the store has another document 'a'; replace it with hyce update"):
        update_job.add(root, [_write(tmp_path, [_row("a", [3, 4])])], MODELS)
    with pytest.raises(InputError, match="unknown document 'aa'; did you mean 'a'"):
        update_job.remove(root, ["aa"], MODELS)
    with pytest.raises(InputError, match="no document would be left"):
        update_job.remove(root, ["a"], MODELS)
    with pytest.raises(StoreError, match="no store at"):
        update_job.remove(tmp_path / "none", ["a"], MODELS)
    assert _content(root) == before


def test_stores_merge_into_what_both_corpora_would_give(tmp_path: Path, encoder: Encoder) -> None:
    left = [_row("a", [1, 2]), _row("b", [2, 3])]
    right = [_row("b", [2, 3]), _row("c", [3, 1])]
    one, two = _index(tmp_path, left, encoder, "one"), _index(tmp_path, right, encoder, "two")
    merge_stores([one, two], tmp_path / "both")
    _assert_same(tmp_path / "both", _index(tmp_path, [*left, right[1]], encoder, "scratch"))
    with pytest.raises(OutputError, match="it is one of the stores"):
        merge_stores([one, two], one)
    other = _index(tmp_path, [_row("a", [7, 8])], encoder, "other")
    with pytest.raises(InputError, match="has another document 'a'"):
        merge_stores([one, other], tmp_path / "more")


def test_spacy_reads_again_only_what_a_change_of_titles_and_words_touches(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "title": "Vienna", "text": "Mozart lived in Vienna. There they played the Glass Bead Game."},
        {"id": "b", "title": "Salzburg", "text": "Mozart was born in Salzburg."},
        {"id": "c", "title": "Glass Bead Game", "text": "Hermann Hesse wrote it in 1943."},
        {"id": "d", "title": "Calw", "text": "Hermann Hesse was born in Calw."},
    ]
    root, scratch = tmp_path / "store", tmp_path / "scratch"

    def read() -> int:
        run_index([_write(tmp_path, left)], scratch, "spacy", None, None, None, "cpu", {})
        _assert_same(root, scratch)
        units: int = Store.open(root).manifest["accounts"]["stages"]["extract"]["units"]
        return units

    left = rows[:2]
    run_index([_write(tmp_path, left)], root, "spacy", None, None, None, "cpu", {})
    left = rows[:3]
    update_job.add(root, [_write(tmp_path, rows[2:3])], MODELS)
    assert read() == 2
    left = rows
    update_job.add(root, [_write(tmp_path, rows[3:])], MODELS)
    assert read() == 1
    assert list(Store.open(root).generation.glob("documents+*.arrow"))
    left = [rows[0], rows[1], rows[3]]
    update_job.remove(root, ["c"], MODELS)
    assert read() == 1


def test_what_the_merge_sets_aside_stands_in_the_ledger_once(tmp_path: Path, model: Scripted, encoder: Encoder) -> None:
    rows = [{"id": name, "title": "", "text": f"nothing about {name}."} for name in ("a", "b")]
    root = _index(tmp_path, rows[:1], encoder)
    update_job.reembed(root, encoder.name, "cpu")
    update_job.add(root, [_write(tmp_path, rows[1:])], MODELS)
    entries = [json.loads(line) for line in (root / "ledger.jsonl").read_text().splitlines()]
    assert [one["stage"] for one in entries] == ["merge"]
