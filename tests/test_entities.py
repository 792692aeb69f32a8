"""What people decide about entities: proposals, decisions that are applied and undone, and stores that keep them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hyce_serving import Encoder

from hyce_gpu.engine import Engine
from hyce_gpu.entities_job import Pair, apply, listed, read_pairs, undo
from hyce_gpu.errors import InputError
from hyce_gpu.indexing import index_corpus
from hyce_gpu.store import Store
from hyce_gpu.suggest_job import suggest
from hyce_gpu.verify import verify

# Each fact names its entities; the spellings of one person are two.
FACTS = (
    ("Zoë Müller built the Lark Mill in Oster.", ["Zoë Müller", "Lark Mill", "Oster"]),
    ("Zoe Muller sold the Lark Mill to Ida Brandt in Oster.", ["Zoe Muller", "Lark Mill", "Ida Brandt", "Oster"]),
    ("Пётр Ильин писал в Озерске.", ["Пётр Ильин", "Озерск"]),
    ("Петр Ильин жил в Озерске.", ["Петр Ильин", "Озерск"]),
    ("The probe Kestrel 11 flew past Oster.", ["Kestrel 11", "Oster"]),
    ("The probe Kestrel 12 flew past Oster.", ["Kestrel 12", "Oster"]),
)


@pytest.fixture
def root(tmp_path: Path, encoder: Encoder) -> Path:
    rows = [{"id": f"d{n}", "text": text} for n, (text, _) in enumerate(FACTS)]
    records = [
        {
            "doc_id": f"d{n}",
            "entities": [{"name": name} for name in names],
            "hyperedges": [{"segment": text, "entities": names}],
        }
        for n, (text, names) in enumerate(FACTS)
    ]
    for name, lines in (("corpus", rows), ("records", records)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    index_corpus([tmp_path / "corpus.jsonl"], tmp_path / "store", encoder, None, tmp_path / "records.jsonl")
    return tmp_path / "store"


def test_suggest_finds_spellings_in_any_script_and_no_other_number(root: Path) -> None:
    found = {frozenset((one.first, one.second)) for one in suggest(root, 0.6, 100)}
    assert frozenset(("Zoë Müller", "Zoe Muller")) in found
    assert frozenset(("Пётр Ильин", "Петр Ильин")) in found
    assert frozenset(("Kestrel 11", "Kestrel 12")) not in found


def _files(root: Path) -> dict[str, bytes]:
    generation = root / (root / "CURRENT").read_text().strip()
    names = sorted(path.name for path in generation.iterdir())
    return {name: (generation / name).read_bytes() for name in names if not name.startswith("manifest")}


def test_apply_makes_one_entity_of_two_and_undo_gives_the_store_back(root: Path) -> None:
    before, counts = _files(root), Store.open(root).counts
    change = apply(root, [Pair("", "zoë müller", "Zoe Muller")], device="cpu")
    assert (change.decided, change.joined) == (1, 1)
    assert Store.open(root).counts["entities"] == counts["entities"] - 1
    assert verify(root) == []
    assert [row["verdict"] for row in listed(root)] == ["same"]
    with Engine.open(root, device="cpu") as engine:
        answer = engine.retrieve(["What did Zoe Muller build?"])[0]
    first = next(path for path in answer.paths if path.segment == FACTS[0][0])
    assert first.entities == ("Zoë Müller", "Lark Mill", "Oster")
    assert answer.entry[0] == "Zoë Müller"
    # What was decided against is not proposed again, and what was undone is as if it had never been.
    undo(root, [Pair("", "Zoe Muller", "Zoë Müller")], device="cpu")
    after = _files(root)
    assert after.keys() == before.keys()
    for name in before:
        if name.endswith("_vectors.npy"):
            generation = root / (root / "CURRENT").read_text().strip()
            old = np.frombuffer(before[name][128:], dtype=np.float32)
            new = np.load(generation / name).reshape(-1)
            np.testing.assert_allclose(new, old, atol=1e-6)
        elif not name.endswith(".faiss"):
            assert after[name] == before[name], name


def test_apart_is_not_proposed_again(root: Path) -> None:
    apply(root, [Pair("", "Zoë Müller", "Zoe Muller", "apart")], device="cpu")
    found = {frozenset((one.first, one.second)) for one in suggest(root, 0.6, 100)}
    assert frozenset(("Zoë Müller", "Zoe Muller")) not in found


def test_a_name_that_the_store_lacks_is_told_with_its_line(root: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text('{"first": "Ida Brandt", "second": "Oster"}\n{"first": "Ida Brant", "second": "Oster"}\n')
    before = _files(root)
    with pytest.raises(InputError, match=r"pairs\.jsonl:2.*Ida Brant.*ida brandt"):
        apply(root, read_pairs(pairs), device="cpu")
    assert _files(root) == before
