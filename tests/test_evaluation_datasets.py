"""Data sets in the forms that their authors give them: hand-written samples in tests/datasets, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.evaluation.datasets import Dataset, read_dataset
from hyce_gpu.ledger import Ledger
from hyce_gpu.schema import Document, Question

SAMPLES = Path(__file__).parent / "datasets"
HOTPOT = json.loads((SAMPLES / "hotpot.json").read_text(encoding="utf-8"))
MUSIQUE = [json.loads(line) for line in (SAMPLES / "musique.jsonl").read_text(encoding="utf-8").splitlines()]


def name_of(prefix: str, title: str, text: str) -> str:
    return f"{prefix}-{hashlib.sha256((title + chr(10) + text).encode()).hexdigest()[:12]}"


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def reasons(ledger: Ledger) -> list[tuple[str, str]]:
    return [(entry.where, entry.reason) for entry in ledger]


def texts(dataset: Dataset) -> list[tuple[str, str]]:
    return [(document.title, document.text) for document in dataset.documents]


def test_hotpotqa(ledger: Ledger) -> None:
    dataset = read_dataset(SAMPLES / "hotpot.json", ledger)
    assert dataset.name == "hotpotqa"
    assert texts(dataset) == [
        ("Quill Lighthouse", "The Quill Lighthouse was built by Oda Fenn. It was lit in 1871."),
        ("Tallow Bay", "Tallow Bay has no harbour."),
        ("Oda Fenn", "Oda Fenn was an engineer. She was born in Marrowby."),
        ("Tallow Bay", "Tallow Bay is also a song."),
    ]
    quill, bay, fenn, song = (document.id for document in dataset.documents)
    # sha256 of "Oda Fenn\nOda Fenn was an engineer. She was born in Marrowby.", by sha256sum.
    assert fenn == "hotpotqa-8a52af043b09"
    assert dataset.documents[0].source == f"{SAMPLES / 'hotpot.json'}: item 1"
    assert dataset.questions[0] == Question(
        "h1", "In which town was the builder of the Quill Lighthouse born?",
        {
            "answer": "Marrowby", "aliases": [], "type": "bridge", "level": "medium", "hops": 2,
            "supporting_ids": [quill, fenn], "context_ids": [quill, bay, fenn],
        },
    )  # fmt: skip
    # Two passages have the supporting title, and another title has no passage, as in the full-wiki setting.
    extra = dataset.questions[1].extra
    assert extra["supporting_ids"] == extra["context_ids"] == [bay, song]
    assert extra["supporting_missing"] == ["Marrowby"]
    assert not ledger


def test_2wiki_takes_aliases_from_the_file_beside_it(ledger: Ledger) -> None:
    folder = SAMPLES / "two_wiki"
    dataset = read_dataset(folder / "questions.json", ledger)
    assert dataset == read_dataset(folder, ledger)
    assert dataset.name == "2wiki"
    assert texts(dataset) == [
        ("The Salt Road", "The Salt Road is a film by Ines Varga. It lasts 90 minutes."),
        ("Ines Varga", "Ines Varga is from Lower Sorn."),
        ("Grey Kites", "Grey Kites lasts 80 minutes."),
    ]
    first, second = dataset.questions
    assert (first.extra["answer"], first.extra["aliases"]) == ("Lower Sorn", ["Sorn Minor", "Sornish"])
    assert first.extra["supporting_ids"] == [document.id for document in dataset.documents[:2]]
    assert first.extra["evidences"][1] == ["Ines Varga", "country", "Lower Sorn"]
    assert (second.extra["aliases"], second.extra["supporting_missing"]) == ([], ["The Salt Road"])
    assert not ledger


def test_2wiki_without_aliases(tmp_path: Path, ledger: Ledger) -> None:
    content = (SAMPLES / "two_wiki" / "questions.json").read_text(encoding="utf-8")
    assert read_dataset(write(tmp_path / "dev.json", content), ledger).questions[0].extra["aliases"] == []


def test_musique(ledger: Ledger) -> None:
    path = SAMPLES / "musique.jsonl"
    dataset = read_dataset(path, ledger)
    river = Document(
        name_of("musique", "Pell River", "The Pell River ends in Lake Ossa."),
        "Pell River", "The Pell River ends in Lake Ossa.", f"{path}:1",
    )  # fmt: skip
    assert dataset.documents[0] == river
    assert texts(dataset)[1:] == [("Pell", "Pell is a surname."), ("Lake Ossa", "Lake Ossa is 40 metres deep.")]
    river_id, pell_id, lake_id = (document.id for document in dataset.documents)
    assert dataset.questions[0].extra == {
        "answer": "40 metres", "aliases": ["40 m"], "type": "2hop", "hops": 2,
        "supporting_ids": [river_id, lake_id], "context_ids": [river_id, pell_id, lake_id],
        "decomposition": [
            {"id": 11, "question": "Where does the Pell River end?", "answer": "Lake Ossa", "supporting_id": river_id},
            {"id": 12, "question": "How deep is #1 ?", "answer": "40 metres", "supporting_id": lake_id},
        ],
    }  # fmt: skip
    # A record of a test set has no answer; this one no supporting paragraph either.
    assert dataset.questions[1].extra == {
        "type": "3hop1", "hops": 3, "supporting_ids": [], "context_ids": [pell_id],
    }  # fmt: skip
    assert [question.id for question in dataset.questions] == ["2hop__11_12", "3hop1__21_22_23"]
    assert reasons(ledger) == [(f"{path}:2", "not answerable: its paragraphs were chosen to lack the evidence")]


def test_graphrag_bench(ledger: Ledger) -> None:
    dataset = read_dataset(SAMPLES / "bench", ledger)
    assert dataset.name == "graphrag-bench"
    assert texts(dataset) == [
        ("Leeches", "A leech is applied for twenty minutes."),
        ("Tale-1", "Mother Brill kept a goat. The goat was called Thimble."),
    ]
    assert [(question.id, question.text, question.extra) for question in dataset.questions] == [
        ("l1", "How long is a leech applied?", {
            "answer": "Twenty minutes", "aliases": [], "source": "Leeches", "type": "Fact Retrieval",
            "evidence": ["A leech is applied for twenty minutes."],
        }),
        ("t1", "What was the goat called?", {
            "answer": "Thimble", "aliases": [], "source": "Tale-1", "type": "Fact Retrieval",
            "evidence": ["The goat was called Thimble."], "evidence_relations": ["(goat, called, Thimble)"],
        }),
    ]  # fmt: skip
    where = f"{SAMPLES / 'bench' / 'Questions' / 'tales.json'}: item 2"
    assert reasons(ledger) == [(where, "its source 'Tale-9' is not in the corpus")]


def test_a_folder_of_ours(ledger: Ledger) -> None:
    dataset = read_dataset(SAMPLES / "ours", ledger)
    assert (dataset.name, texts(dataset)) == ("ours", [("Pell River", "The Pell River ends in Lake Ossa.")])
    assert dataset.questions[0].extra["supporting_ids"] == ["o1"]
    assert dataset.questions[1].error == 'expected a string "question", but it is missing'
    assert [where for where, _ in reasons(ledger)] == [f"{SAMPLES / 'ours' / 'questions.jsonl'}:2"]


GOOD = HOTPOT[0]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (7, "expected an object, found a number"),
        ({**GOOD, "question": None}, "expected a string as question, found null"),
        ({**GOOD, "question": " "}, "question is blank"),
        ({**GOOD, "_id": 3}, "expected a string as _id, found a number"),
        ({key: GOOD[key] for key in GOOD if key != "_id"}, "expected a string as _id, but it is missing"),
        ({**GOOD, "answer": ["Marrowby"]}, "expected a string as answer, found an array"),
        ({**GOOD, "context": {}}, "expected a list as context, found an object"),
        ({**GOOD, "context": [["Title", "text"]]}, "expected each item of context to be [title, [sentence, ...]]"),
        ({**GOOD, "context": [["Title", [1]]]}, "expected each item of context to be [title, [sentence, ...]]"),
        ({**GOOD, "supporting_facts": ["Title"]},
         "expected each item of supporting_facts to be [title, sentence number]"),
        (GOOD, "question 'h1' is repeated"),
    ],
)  # fmt: skip
def test_a_bad_record_of_hotpotqa_is_set_aside(bad: Any, reason: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "h.json", [GOOD, bad, HOTPOT[1]])
    assert [question.id for question in read_dataset(path, ledger).questions] == ["h1", "h2"]
    assert reasons(ledger) == [(f"{path}: item 2", reason)]
    assert ledger.entries[0].raw == json.dumps(bad)[:500]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes (column 2)"),
        ("[]", "expected a JSON object, found an array (column 1)"),
        ({**MUSIQUE[0], "paragraphs": [{"title": "T"}]},
         "expected each item of paragraphs to have a title and a paragraph_text"),
        ({**MUSIQUE[0], "answer_aliases": 3}, "expected a list of strings as the answer's aliases"),
    ],
)  # fmt: skip
def test_a_bad_line_of_musique_is_set_aside(bad: Any, reason: str, tmp_path: Path, ledger: Ledger) -> None:
    lines = [json.dumps(MUSIQUE[2]), "", bad if isinstance(bad, str) else json.dumps(bad), json.dumps(MUSIQUE[0])]
    path = write(tmp_path / "m.jsonl", "\n".join(lines))
    assert [question.extra["hops"] for question in read_dataset(path, ledger).questions] == [3, 2]
    assert reasons(ledger) == [(f"{path}:3", reason)]


def test_one_passage_is_one_document_in_every_file(tmp_path: Path, ledger: Ledger) -> None:
    write(tmp_path / "a.json", HOTPOT[:1])
    write(tmp_path / "below" / "b.json", HOTPOT[1:])
    write(tmp_path / "notes.json", {"note": "not a data set"})
    write(tmp_path / ".hidden.json", "nonsense")
    dataset = read_dataset(tmp_path, ledger)
    assert dataset.documents[1].id == name_of("hotpotqa", "Tallow Bay", "Tallow Bay has no harbour.")
    assert (len(dataset.documents), len(dataset.questions)) == (4, 2)
    ((where, reason),) = reasons(ledger)
    assert where == str(tmp_path / "notes.json")
    assert reason.endswith("found an object with the keys note")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[\n{"_id": 1,}\n]', r"d\.json:2: not JSON: .* \(column \d+\)"),
        ("", r"d\.json is empty"),
        ("7", r"d\.json: expected JSON lines, a JSON array or an object, found a number"),
        ("[1, 2]", r"known: HotpotQA and 2Wiki.* MuSiQue .* GraphRAG-Bench .* corpus\.jsonl .*; found a number"),
        ("[]", r"of no known format; .*; found no object"),
        ('{"a": 1}\n{"b": 2}', r"of no known format; .*; found an object with the keys a"),
        ([{**GOOD, "answer": 1}], r"no usable question in .*d\.json: .*d\.json: item 1: expected a string as answer"),
        ([{**GOOD, "context": []}], r"no usable passage in .*d\.json"),
        (MUSIQUE[1], "no usable question .*d.json:1: not answerable"),
    ],
)
def test_what_is_no_data_set_is_refused(content: Any, message: str, tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match=message):
        read_dataset(write(tmp_path / "d.json", content), ledger)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("bench/Corpus", "holds only graphrag-bench corpus: give the folder that holds both"),
        ("bench/Questions/tales.json", "holds only graphrag-bench questions: give the folder that holds both"),
        ("two_wiki/id_aliases.json", "holds only the aliases of 2WikiMultihopQA"),
        ("", r"holds several data sets \(2wiki, graphrag-bench, hotpotqa, musique\)"),
        ("nowhere", "there is no such file or folder"),
    ],
)
def test_parts_and_mixtures_are_refused(place: str, message: str, ledger: Ledger) -> None:
    with pytest.raises(InputError, match=message):
        read_dataset(SAMPLES / place, ledger)


def test_a_folder_without_data_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match=r"no data set in .*; found no \.json or \.jsonl file"):
        read_dataset(tmp_path, ledger)
    write(tmp_path / "broken.json", "[\n\n1 2")
    with pytest.raises(InputError, match=r"no data set in .*; found .*broken\.json:3: not JSON"):
        read_dataset(tmp_path, ledger)
