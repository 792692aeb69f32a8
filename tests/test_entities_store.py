"""Decisions about names in a store: how they come in, stay through every change, and go."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hyce_serving import Encoder
from hyce_serving.requests import GenerationRequest
from hyce_serving.scripted import Scripted
from typer.testing import CliRunner

from hyce_gpu import entities_job, extractors, tables, update_job
from hyce_gpu.cli import app
from hyce_gpu.decisions import APART, SAME, Decision
from hyce_gpu.engine import Engine
from hyce_gpu.entities_job import Pair
from hyce_gpu.errors import InputError
from hyce_gpu.extract.llm_extractor import LlmExtractor
from hyce_gpu.indexing import index_corpus
from hyce_gpu.merge import AliasMerge
from hyce_gpu.merge_job import merge_stores
from hyce_gpu.repair_job import repair
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in, merges_in
from hyce_gpu.table_files import write_table
from hyce_gpu.update_job import Models
from hyce_gpu.verify import verify

MODELS = Models(device="cpu")
FORMAT_2 = Path(__file__).parent / "stores" / "format-2"
# [NAME] is an entity, [NAME=ALIAS] one with an alias; all of a text take part in one hyperedge.
TEXTS = {
    "ship": "[Ada Marsh] steered the [Heron] to [Port Elgar].",
    "board": "[Tidal Board=TB] paid [Ole Lund] for the charts.",
    "memo": "[TB] moved its office to [Port Elgar].",
    "later": "[Captain Marsh] sold her boat to [Ole Lund].",
}


def _reply(request: GenerationRequest) -> str:
    text = request.messages[-1]["content"].partition("<passage>\n")[2].partition("\n</passage>")[0]
    found = [name.partition("=")[::2] for name in re.findall(r"\[([^]]+)\]", text)]
    entities = [{"name": name, "aliases": [alias] if alias else []} for name, alias in found]
    return json.dumps({"entities": entities, "hyperedges": [{"segment": text, "entities": [one for one, _ in found]}]})


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    model = Scripted(_reply)
    monkeypatch.setattr(extractors, "Generator", lambda *_, **__: model)
    return model


def _corpus(folder: Path, names: Sequence[str]) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": name, "text": TEXTS[name]}) + "\n" for name in names))
    return path


def _index(folder: Path, names: Sequence[str], encoder: Encoder, name: str = "store") -> Path:
    index_corpus([_corpus(folder, names)], folder / name, encoder, LlmExtractor(Scripted(_reply)))
    return folder / name


@pytest.fixture
def store(tmp_path: Path, encoder: Encoder) -> Path:
    return _index(tmp_path, list(TEXTS), encoder)


def _made(root: Path) -> dict[str, bytes | np.ndarray]:
    """What was made of the documents; they themselves say from which file they came."""
    return {name: content for name, content in _files(root) if name != "documents.arrow"}


def _files(root: Path) -> Iterator[tuple[str, bytes | np.ndarray]]:
    """All files of the generation but the manifest; what follows from vectors, as vectors."""
    generation = root / (root / "CURRENT").read_text().strip()
    for path in sorted(generation.iterdir()):
        if path.name.endswith("vectors.npy"):
            yield path.name, np.load(path)
        elif path.suffix != ".faiss" and path.name != "manifest.json":
            yield path.name, path.read_bytes()


def _assert_same(found: dict[str, bytes | np.ndarray], expected: dict[str, bytes | np.ndarray]) -> None:
    assert found.keys() == expected.keys()
    for name, content in expected.items():
        if isinstance(content, bytes):
            assert found[name] == content, name
        else:
            np.testing.assert_allclose(found[name], content, atol=1e-6)


def _names(root: Path) -> list[str]:
    return Store.open(root).names_and_aliases()[0]


def test_apply_joins_for_answers_and_undo_brings_the_store_back(
    store: Path, model: Scripted, encoder: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, counts = dict(_files(store)), Store.open(store).manifest["counts"]
    embedded: list[str] = []
    encode = Encoder.encode
    monkeypatch.setattr(
        Encoder, "encode", lambda self, texts, *more: (embedded.extend(texts), encode(self, texts, *more))[1]
    )
    change = entities_job.apply(store, [Pair("", "captain MARSH", "Ada Marsh")])
    assert (change.decided, change.undone, change.joined) == (1, 0, 1)
    assert _names(store) == ["ada marsh", "heron", "port elgar", "tidal board", "ole lund"]
    # Nothing was extracted, and one text is new beside those that tell encoders apart.
    assert model.asked == 0
    assert [text for text in embedded if "Marsh" in text] == ["Ada Marsh, Captain Marsh"]
    assert not any("Elgar" in text or "Lund" in text for text in embedded)
    with Engine.open(store, device="cpu") as engine:
        (answer,) = engine.retrieve(["What did Captain Marsh steer?"])
    assert "Ada Marsh" in answer.entry
    # The same again changes nothing.
    assert entities_job.apply(store, [Pair("", "Ada Marsh", "Captain Marsh")]).report is None
    assert verify(store) == []
    change = entities_job.undo(store, [Pair("", "Ada Marsh", "Captain Marsh")])
    assert (change.decided, change.undone, change.joined) == (0, 1, -1)
    _assert_same(dict(_files(store)), before)
    assert Store.open(store).manifest["counts"] == counts
    assert verify(store) == []


def test_what_an_alias_joined_is_undone_by_deciding_that_it_is_apart(store: Path) -> None:
    before = dict(_files(store))
    assert merges_in(Store.open(store)) == [AliasMerge("tb", "tidal board", "tb")]
    assert entities_job.undo(store, [Pair("", "TB", "Tidal Board")]).joined == -1
    assert {"tb", "tidal board"} <= set(_names(store))
    assert decisions_in(Store.open(store)) == (Decision("tb", "tidal board", APART),)
    assert entities_job.undo(store, [Pair("", "Tidal Board", "TB")]).joined == 1
    _assert_same(dict(_files(store)), before)


def test_decisions_go_through_every_change(tmp_path: Path, encoder: Encoder) -> None:
    pairs = [Pair("", "Ada Marsh", "Captain Marsh"), Pair("", "TB", "Tidal Board", APART)]
    scratch = _index(tmp_path, list(TEXTS), encoder, "scratch")
    entities_job.apply(scratch, pairs)
    root = _index(tmp_path, ["ship", "later"], encoder)
    entities_job.apply(root, pairs[:1])
    update_job.add(root, [_corpus(tmp_path, ["board", "memo"])], MODELS)
    entities_job.apply(root, pairs[1:])
    update_job.update(root, [_corpus(tmp_path, list(TEXTS))], MODELS, sync=True)
    _assert_same(_made(root), _made(scratch))
    # Gone and back again: the decision waited.
    update_job.remove(root, ["later"], MODELS)
    assert "captain marsh" not in _names(root)
    assert len(decisions_in(Store.open(root))) == 2
    update_job.add(root, [_corpus(tmp_path, ["later"])], MODELS)
    update_job.compact(root)
    _assert_same(_made(root), _made(scratch))
    update_job.reembed(root, encoder.name, "cpu")
    _assert_same(_made(root), _made(scratch))
    # A new index in its place keeps what people decided.
    _index(tmp_path, list(TEXTS), encoder)
    _assert_same(_made(root), _made(scratch))


def test_stores_merge_with_their_decisions_and_contradictions_are_refused(tmp_path: Path, encoder: Encoder) -> None:
    one, two = _index(tmp_path, ["ship", "later"], encoder, "one"), _index(tmp_path, ["board", "memo"], encoder, "two")
    entities_job.apply(one, [Pair("", "Ada Marsh", "Captain Marsh")])
    entities_job.undo(two, [Pair("", "TB", "Tidal Board")])
    merge_stores([one, two], tmp_path / "both", device="cpu")
    both = Store.open(tmp_path / "both")
    assert decisions_in(both) == (
        Decision("ada marsh", "captain marsh", SAME), Decision("tb", "tidal board", APART),
    )  # fmt: skip
    three = _index(tmp_path, ["ship", "later"], encoder, "three")
    entities_job.apply(three, [Pair("", "Ada Marsh", "Captain Marsh", APART)])
    with pytest.raises(InputError, match="'ada marsh' and 'captain marsh' are apart, and the same as"):
        merge_stores([one, three], tmp_path / "none", device="cpu")
    assert not (tmp_path / "none" / "CURRENT").exists()


def test_damaged_decisions_are_found_and_joins_are_known_from_the_merges(store: Path) -> None:
    entities_job.apply(store, [Pair("", "Ada Marsh", "Captain Marsh"), Pair("", "TB", "Tidal Board", APART)])
    generation = store / (store / "CURRENT").read_text().strip()
    path = generation / "decisions.arrow"
    sound = path.read_bytes()
    # Another damage leaves the decisions alone.
    (generation / "member.npy").write_bytes(b"")
    repair(store)
    assert verify(store) == []
    assert len(decisions_in(Store.open(store))) == 2
    path = store / (store / "CURRENT").read_text().strip() / "decisions.arrow"
    assert path.read_bytes() == sound
    path.write_bytes(sound[:-9])
    (finding,) = verify(store)
    assert "rebuilt from merges.arrow, without those that keep names apart" in str(finding)
    done, lost = repair(store)
    assert any("1 joins of names are known from merges.arrow" in line for line in done)
    assert lost == []
    assert decisions_in(Store.open(store)) == (Decision("ada marsh", "captain marsh", SAME),)


def test_verify_looks_at_the_values_of_decisions(tmp_path: Path, store: Path) -> None:
    from hyce_gpu.cross_references import check_contents

    entities_job.apply(store, [Pair("", "Ada Marsh", "Captain Marsh")])
    opened = Store.open(store)
    copy = shutil.copytree(opened.generation, tmp_path / "copy")
    for rows, told in (
        ([("b", "a", SAME)], "verdicts on two names in order"),
        ([("a", "b", "maybe")], "verdicts on two names in order"),
        ([("a", "b", SAME), ("a", "b", SAME)], "each decision once, in order"),
        ([("a", "b", APART), ("a", "b", SAME)], "decisions that go together"),
    ):
        table = {name: [row[place] for row in rows] for place, name in enumerate(tables.DECISIONS.names)}
        write_table(tables.pa.table(table, tables.DECISIONS), copy / "decisions.arrow")
        problems = check_contents(copy, opened.manifest, opened.manifest["files"])
        assert told in [problem.expected for problem in problems]
    write_table(tables.pa.table({"first": ["a"]}), copy / "decisions.arrow")
    (problem,) = check_contents(copy, opened.manifest, opened.manifest["files"])
    assert problem.expected == "the columns ['first', 'second', 'verdict']"


def test_a_store_of_format_2_has_no_decisions_and_takes_them(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(FORMAT_2, root)
    assert decisions_in(Store.open(root)) == ()
    names = _names(root)
    assert entities_job.apply(root, [Pair("", names[0], names[1])]).joined == 1
    assert verify(root) == []


def _hyce(*arguments: str, text: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["entities", *arguments], input=text)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_the_commands(tmp_path: Path, store: Path) -> None:
    at = ["--store", str(store)]
    lines = tmp_path / "pairs.jsonl"
    lines.write_text('{"first": "Ada Marsh", "second": "Captain Marsh", "score": 0.7}\n')
    code, told = _hyce("apply", str(lines), *at)
    assert (code, json.loads(told)["entities_joined"], json.loads(told)["entities"]) == (0, 1, 5)
    assert json.loads(_hyce("part", "TB", "Tidal Board", *at)[1])["entities_joined"] == -1
    rows = [json.loads(line) for line in _hyce("list", "--json", *at)[1].splitlines()]
    assert rows == [
        {"first": "ada marsh", "second": "captain marsh", "verdict": "same", "made": "decision"},
        {"first": "tb", "second": "tidal board", "verdict": "apart", "made": "decision"},
    ]
    assert json.loads(_hyce("undo", "tidal board", "tb", *at)[1])["undone"] == 1
    assert _hyce("list", *at)[1].splitlines()[1] == "same  tb | tidal board  (alias 'tb')"
    assert json.loads(_hyce("undo", "-", *at, text=lines.read_text())[1])["undone"] == 1
    assert json.loads(_hyce("join", "Heron", "Ole Lund", *at)[1])["entities_joined"] == 1
    assert _hyce("undo", "a", "b", "c", *at)[0] == 2


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            '{"first": "Ada Marsh", "second": "Captain Marhs"}',
            ":2: unknown entity 'Captain Marhs'; did you mean 'captain m",
        ),
        ('{"first": "Ada Marsh"}', ':2: expected {"first": NAME, "second": NAME'),
        ('{"first": "Ada Marsh", "second": "ADA marsh"}', ":2: 'Ada Marsh' and 'ADA marsh' are one name already"),
        (
            '{"first": "Heron", "second": "Ole Lund", "verdict": "no"}',
            ":2: unknown verdict 'no'; there are same, apart",
        ),
        ("{", ":2: not JSON"),
        ("[1]", ":2: expected a JSON object, found an array"),
    ],
)
def test_a_line_that_cannot_be_used_is_named_and_nothing_is_done(
    tmp_path: Path, store: Path, line: str, told: str
) -> None:
    lines, current = tmp_path / "pairs.jsonl", (store / "CURRENT").read_text()
    lines.write_text('{"first": "Ada Marsh", "second": "Captain Marsh"}\n' + line + "\n")
    with pytest.raises(InputError, match=re.escape(f"{lines}{told}")):
        _hyce("apply", str(lines), "--store", str(store))
    assert (store / "CURRENT").read_text() == current


def test_names_that_decide_nothing_are_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"^unknown entity 'Zzyzx'; the store has no name like it"):
        entities_job.apply(store, [Pair("", "Zzyzx", "Heron")])
    with pytest.raises(InputError, match="no decision is about 'Heron' and 'Ole Lund', and no alias joined the two"):
        entities_job.undo(store, [Pair("", "Heron", "Ole Lund")])
    entities_job.apply(store, [Pair("", "Heron", "Ole Lund")])
    with pytest.raises(InputError, match="'heron' and 'ole lund' are apart, and the same as 'heron' = 'ole lund'"):
        entities_job.apply(store, [Pair("", "Ole Lund", "Heron", APART)])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n\xff\n")))
    with pytest.raises(InputError, match=r"^standard input:2: .*can't decode byte 0xff"):
        entities_job.read_pairs(Path("-"))
