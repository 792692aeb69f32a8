"""Proposals of entities that may be one: what counts as alike in which script, and which pairs are looked at."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hyce_serving import Encoder
from typer.testing import CliRunner

from hyce_gpu import entities_job
from hyce_gpu.cli import app
from hyce_gpu.entities_job import Pair
from hyce_gpu.entity_candidates import BLOCK, candidates
from hyce_gpu.entity_likeness import Company, Named, propose
from hyce_gpu.errors import ConfigError
from hyce_gpu.hypergraph import Hypergraph
from hyce_gpu.indexing import index_corpus
from hyce_gpu.name_likeness import Rarity, compare, folded, looks
from hyce_gpu.store import Store
from hyce_gpu.suggest_job import suggest

# One hyperedge each, with the entities that it names; the pairs that are one stand together.
EDGES = [
    ("Zoë Brännlund mapped Vireo Sound with Ole.", ["Zoë Brännlund", "Vireo Sound", "Ole"]),
    ("Zoe Brannlund left Vireo Sound for Ole.", ["Zoe Brannlund", "Vireo Sound", "Ole"]),
    ("Алёна Громкова пела в Вырицком доме.", ["Алёна Громкова", "Вырицкий дом"]),
    ("Алена Громкова уехала из Вырицкого дома.", ["Алена Громкова", "Вырицкий дом"]),
    ("林小溪学院在青石镇。", ["林小溪学院", "青石镇"]),
    ("林小溪學院離開青石镇。", ["林小溪學院", "青石镇"]),
    ("أَمين الزهري سكن دار الندى.", ["أَمين الزهري", "دار الندى"]),
    ("امين الزهري ترك دار الندى.", ["امين الزهري", "دار الندى"]),
    ("The Harbour Union of Telk met at Telk Hall.", ["Harbour Union of Telk", "Telk Hall"]),
    ("HUT voted at Telk Hall.", ["HUT", "Telk Hall"]),
    ("Probe Kestrel 11 passed Orm.", ["Kestrel 11", "Orm"]),
    ("Probe Kestrel 12 passed Orm.", ["Kestrel 12", "Orm"]),
    ("King Oswin IV held Brae.", ["Oswin IV", "Brae"]),
    ("King Oswin V held Brae.", ["Oswin V", "Brae"]),
    ("Rain fell in 1911 on Brae.", ["1911", "Brae"]),
    ("Rain fell in 1912 on Brae.", ["1912", "Brae"]),
]
EXPECTED = {
    ("Zoë Brännlund", "Zoe Brannlund"), ("Алёна Громкова", "Алена Громкова"), ("林小溪学院", "林小溪學院"),
    ("أَمين الزهري", "امين الزهري"), ("Harbour Union of Telk", "HUT"),
}  # fmt: skip
NEVER = [("Kestrel 11", "Kestrel 12"), ("Oswin IV", "Oswin V"), ("1911", "1912")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suggest")
    corpus, records = folder / "corpus.jsonl", folder / "records.jsonl"
    corpus.write_text("".join(json.dumps({"id": f"d{n}", "text": text}) + "\n" for n, (text, _) in enumerate(EDGES)))
    rows = [
        {
            "chunk_id": f"d{n}#0", "doc_id": f"d{n}", "order": 0, "start": 0, "end": len(text), "status": "ok",
            "entities": [{"name": name} for name in names], "hyperedges": [{"segment": text, "entities": names}],
        }
        for n, (text, names) in enumerate(EDGES)
    ]  # fmt: skip
    records.write_text("".join(json.dumps(row) + "\n" for row in rows))
    index_corpus([corpus], folder / "store", Encoder(device="cpu"), None, records)
    return folder / "store"


def test_folding_keeps_what_tells_names_apart() -> None:
    assert folded("Zoë  BRÄNNLUND-Løve") == "zoe brannlund love"
    assert folded("أَمين") == folded("امين")
    assert folded("Ёж") == "еж"
    assert folded("U.N.") == "un"
    assert folded("St. Telk's") == "st telks"
    # Voicing marks and vowel signs are no accents.
    assert folded("が") != folded("か")
    assert folded("कि") != folded("कु")
    assert len({folded(name) for name in ("C", "C++", "C#")}) == 3


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("Apollo 11", "Apollo 12", True), ("Apollo", "Apollo 11", True), ("Henry IV", "Henry V", True),
        ("1911", "1912", True), ("1,000", "100,0", True), ("1950", "1950s", True), ("第三舰队", "第四舰队", True),
        ("٢٠١١", "2011", False), ("May 6, 1945", "6 May 1945", False), ("John D. Telk", "John Telk", False),
        ("Kim Il", "KIM Il", False),
    ],
)  # fmt: skip
def test_numbers_in_any_script(one: str, other: str, differ: bool) -> None:
    assert compare(looks(one), looks(other), Rarity([])).numbers_differ is differ


def test_evidence_of_names() -> None:
    names = list(map(looks, ["Ada Marsh", "Marsh", "Marsh Hall", "Oslo", "United Nations", "UN", "Abdel Telk"]))
    rarity = Rarity(names)
    marsh = compare(names[0], names[1], rarity)
    # Pairs of "^adamarsh$" (9) and "^marsh$" (6): m-a, a-r, r-s, s-h, h-$ are shared. Of three names with "marsh" one
    # is the short one: each of the others is as likely.
    assert marsh.letters == pytest.approx(2 * 5 / 15)
    assert marsh.contained == 0.5
    # log(1 + 7/3) of "marsh" beside log(1 + 7/1) of "ada".
    assert marsh.words == pytest.approx(np.log(10 / 3) / (np.log(10 / 3) + np.log(8)))
    assert compare(names[4], names[5], rarity).initials
    assert not compare(names[4], names[3], rarity).initials
    assert compare(looks("Abdul Telk"), names[6], rarity).respelled
    # Dice .63 is below what a spelling has.
    assert not compare(looks("Eastern Telk"), looks("Western Telk"), rarity).respelled
    assert compare(looks("ООН"), looks("Организация Объединённых Наций"), rarity).initials


def test_neighbours_are_counted_without_the_pair() -> None:
    graph = Hypergraph.from_members(6, [[0, 1, 2], [3, 1], [0, 3], [4, 5]])
    # Neighbours of 0 are 1, 2 (and 3), of 3 they are 1 (and 0): one shared, of two in all; the fewer are one.
    assert Company(graph).shared(0, 3) == (1, 0.5, 1 / 3, 1)
    assert Company(graph).shared(0, 4) == (0, 0.0, 0.0, 0)


def _nearest(vectors: np.ndarray) -> list[list[int]]:
    return [np.argsort(-(vectors @ row), kind="stable").tolist() for row in vectors]


def test_candidates_share_a_key_or_are_near() -> None:
    names = ["Telk Hall", "TELK-HALL", "Orm", "Brae", "Telk Hal", "Ossa"]
    vectors = np.eye(6, dtype=np.float32)
    vectors[3] = vectors[2] * 0.8 + vectors[3] * 0.6
    pairs, cosine = candidates(
        names, [(), (), ("Vale",), (), (), ("vale",)], vectors, lambda rows, k: [r[:k] for r in _nearest(vectors)]
    )
    # One name in two spellings, one letter less, near vectors, and a shared alias.
    assert pairs.tolist() == [[0, 1], [0, 4], [1, 4], [2, 3], [2, 5]]
    assert cosine == pytest.approx([0, 0, 0, 0.8, 0])


def test_what_everyone_shares_makes_no_pairs() -> None:
    names = [f"{chr(0x4E00 + n)} Ltd" for n in range(BLOCK + 1)]
    vectors = np.ones((len(names), 1), dtype=np.float32)
    pairs, _ = candidates(names, [()] * len(names), vectors, lambda rows, k: [[]] * len(rows))
    assert pairs.tolist() == []
    pairs, _ = candidates(names[1:], [()] * BLOCK, vectors[1:], lambda rows, k: [[]] * len(rows))
    assert len(pairs) == BLOCK * (BLOCK - 1) // 2


def test_no_entities_and_one() -> None:
    empty = Hypergraph.from_members(0, [], entity_vectors=np.zeros((0, 2)))
    assert propose([], empty, lambda rows, k: [[]] * len(rows), 0) == []
    lone = Hypergraph.from_members(1, [], entity_vectors=np.ones((1, 2)))
    assert propose([Named("!", "", ())], lone, lambda rows, k: [[0]] * len(rows), 0) == []


def test_an_alias_that_types_kept_from_joining_is_evidence() -> None:
    graph = Hypergraph.from_members(2, [], entity_vectors=np.eye(2))

    def proposals(entities: Sequence[Named]) -> list[tuple[tuple[str, ...], float]]:
        found = propose(entities, graph, lambda rows, k: [[]] * len(rows), 0)
        return [(one.evidence.aliases, one.score) for one in found]

    fish, club = Named("Orm", "animal", ("The Deep One",)), Named("Brae Divers 7", "org", ("the deep one",))
    # Half for a shared alias that nobody else has, less for the types: .5 * .75, though numbers differ.
    assert proposals([fish, club]) == [(("the deep one",), 0.375)]


def test_the_same_names_in_several_scripts_are_proposed_and_other_numbers_never(root: Path) -> None:
    found = suggest(root, 0, 10_000)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    pairs = [(one.first, one.second) for one in found]
    assert set(pairs[: len(EXPECTED)]) == EXPECTED
    assert not set(pairs) & set(NEVER)
    best = next(one for one in found if one.first == "Zoë Brännlund")
    assert (best.evidence.names.letters, best.evidence.shared_neighbours, best.evidence.jaccard) == (1.0, 2, 1.0)
    assert best.examples == (EDGES[0][0], EDGES[1][0])


def test_the_command_prints_what_apply_takes_and_leaves_out_what_is_apart(root: Path, tmp_path: Path) -> None:
    run = CliRunner()
    lines = run.invoke(app, ["entities", "suggest", "--store", str(root), "--json", "--limit", "3"]).stdout.splitlines()
    assert len(lines) == 3
    row = json.loads(lines[0])
    assert set(row) == {"first", "second", "score", "evidence", "types", "examples"}
    shown = run.invoke(app, ["entities", "suggest", "--store", str(root)]).stdout
    assert "Zoë Brännlund | Zoe Brannlund" in shown
    assert "2 shared neighbours (1.00)" in shown
    entities_job.apply(root, [Pair("", "Zoë Brännlund", "Zoe Brannlund", "apart")])
    left = {(one.first, one.second) for one in suggest(root, 0.5, 100)}
    assert left >= EXPECTED - {("Zoë Brännlund", "Zoe Brannlund")}
    assert ("Zoë Brännlund", "Zoe Brannlund") not in left
    (tmp_path / "pairs").write_text("\n".join(lines[1:]) + "\n")
    count = Store.open(root).counts["entities"]
    assert run.invoke(app, ["entities", "apply", str(tmp_path / "pairs"), "--store", str(root)]).exit_code == 0
    assert Store.open(root).counts["entities"] < count
    with pytest.raises(ConfigError, match="--min-score takes a number from 0 to 1, found 2"):
        suggest(root, 2, 1)
