"""Jobs that die: killed for good at any moment, the same command ends with what an undisturbed run gives."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from hyce_gpu.store_files import current_generation

CHUNKS = QUESTIONS = 40
# A process that forks one for each command, so that imports are paid once. In it runs the command line with a scripted
# model, which logs what it is asked; the process kills itself, as the kernel would, where it is told to.
CHILD = """
import json, os, signal, sys, time
from pathlib import Path
import numba, sentence_transformers, spacy, torch
from hyce_serving.scripted import Scripted
from hyce_gpu import answer_job, cli, engine, index_job, indexing, merge, online, extractors, store, store_files
from hyce_gpu import grow_job, store_grow

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def scripted(log, die_at, stage):
    def reply(request):
        text = request.messages[-1]["content"]
        time.sleep(0.02)
        with log.open("a") as file:
            file.write(json.dumps(text) + "\\n")
            file.flush()
        if stage == "ask" and sum(1 for _ in log.open()) == die_at:
            die()
        if "poison" in text and not os.path.exists("healed"):
            return "no JSON at all"
        if "Evidence:" in text:
            return json.dumps({"answer": text[-9:], "evidence": [1]})
        if "Question:" in text:
            return json.dumps({"mentions": []})
        names = [word.strip(".") for word in text.split() if word[0].isupper() and word.strip(".")[-1].isdigit()]
        return json.dumps({"entities": names, "hyperedges": [{"segment": "", "entities": names}]})
    return lambda *model, **options: Scripted(reply, capacity=4)

def dying(function, at):
    calls = []
    def call(*arguments, **options):
        calls.append(1)
        if len(calls) == at:
            die()
        return function(*arguments, **options)
    return call

def dying_encoder(encode, at):
    done = []
    def call(self, texts, advance=None):
        def counting(units):
            done.append(units)
            if sum(done) >= at:
                die()
            if advance:
                advance(units)
        return encode(self, texts, counting)
    return call

PLACES = {
    "merge": (indexing, "merge"), "write": (store.np, "save"), "seal": (store_files, "_sha256"),
    "publish": (store_files, "_publish"), "settle": (store_files, "_settle"), "retrieve": (engine.Engine, "retrieve"),
    "grow": (grow_job, "merge_more"), "append": (store_grow, "append_rows"),
    "move": (os, "replace"), "manifest": (answer_job, "_write_manifest"),
}

def run(log, die_at, stage, folder, arguments):
    os.chdir(folder)
    index_job.Generator = engine.Generator = extractors.Generator = scripted(Path(log), die_at, stage)
    if stage == "embed":
        index_job.Encoder.encode = dying_encoder(index_job.Encoder.encode, die_at)
    if stage in PLACES:
        owner, name = PLACES[stage]
        setattr(owner, name, dying(getattr(owner, name), die_at))
    sys.argv = ["hyce", *arguments]
    cli.main()

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(order.pop("out"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 1)
        os.dup2(os.open(order.pop("err"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
        code = 0
        try:
            run(**order)
        except SystemExit as stop:
            code = stop.code or 0
        sys.stdout.flush()
        os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Nursery:
    """The process that forks the commands."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", CHILD]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, folder: Path, log: Path, arguments: Sequence[str], die_at: int, stage: str) -> Ran:
        out, err = folder / "out.txt", folder / "err.txt"
        order = {"folder": folder, "log": log, "arguments": arguments, "die_at": die_at, "stage": stage}
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({**order, "out": out, "err": err}, default=str) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Ran(code, out.read_text(), err.read_text())

    def close(self) -> None:
        self._process.communicate()


class Box:
    """A folder with a corpus, questions, and what the model was asked."""

    def __init__(self, nursery: Nursery, folder: Path, poison: Collection[int] = ()) -> None:
        self._nursery, self.folder, self.log = nursery, folder, folder / "asked.jsonl"
        folder.mkdir()
        rows = [
            {"id": f"d{n}", "title": f"Town{n}", "text": f"Town{n} lies near Town{(n + 1) % CHUNKS} in Land{n % 5}."}
            for n in range(CHUNKS)
        ]
        for n in poison:
            rows[n]["text"] += " It is poison."
        self._write("corpus.jsonl", rows)
        self._write(
            "questions.jsonl", [{"id": f"q{n}", "question": f"What is near Town{n}?"} for n in range(QUESTIONS)]
        )

    def _write(self, name: str, rows: list[dict[str, str]]) -> None:
        (self.folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(self, *arguments: object, stage: str = "", die_at: int = 0) -> Ran:
        return self._nursery.run(self.folder, self.log, [*map(str, arguments)], die_at, stage)

    def index(self, stage: str = "", die_at: int = 0) -> Ran:
        command = ("index", "corpus.jsonl", "--store", "store", "--llm", "scripted")
        return self.run(*command, stage=stage, die_at=die_at)

    def add(self, stage: str = "", die_at: int = 0) -> Ran:
        """Three documents, of which one fails, and a line that is none."""
        rows = [{"id": f"e{n}", "title": f"Town{n}", "text": f"Town{n} lies near City{n}."} for n in range(3)]
        rows[2]["text"] += " It is poison."
        self._write("more.jsonl", rows)
        with (self.folder / "more.jsonl").open("a") as file:
            file.write("no JSON\n")
        return self.run("add", "more.jsonl", "--store", "store", "--llm", "scripted", stage=stage, die_at=die_at)

    def answer(self, store: Path, stage: str = "", die_at: int = 0) -> Ran:
        command = ("answer", "questions.jsonl", "--store", store, "--out", "answers.jsonl", "--llm", "scripted")
        return self.run(*command, "--batch-size", 8, stage=stage, die_at=die_at)

    def asked(self) -> list[str]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


def contents(store: Path) -> dict[str, object]:
    """Every file of the current generation and the ledger, byte for byte; of the manifest all but the accounts."""
    generation = current_generation(store)
    found: dict[str, object] = {path.name: path.read_bytes() for path in generation.iterdir()}
    manifest = json.loads((generation / "manifest.json").read_text())
    found["manifest.json"] = {name: value for name, value in manifest.items() if name != "accounts"}
    found["ledger.jsonl"] = (store / "ledger.jsonl").read_bytes() if (store / "ledger.jsonl").exists() else b""
    return found


def finished_before(said: str) -> int:
    found = re.search(r"(\d+) of \d+ \w+ were finished before", said)
    return int(found[1]) if found else 0


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def undisturbed(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Box:
    box = Box(nursery, tmp_path_factory.mktemp("jobs") / "box")
    ran = box.index()
    assert ran.code == 0, ran.err
    assert len(box.asked()) == CHUNKS
    ran = box.answer(box.folder / "store")
    assert ran.code == 0, ran.err
    # A mention and an answer for each question.
    assert len(box.asked()) == CHUNKS + 2 * QUESTIONS
    return box


@pytest.fixture
def box(nursery: Nursery, tmp_path: Path) -> Box:
    return Box(nursery, tmp_path / "box")


@pytest.mark.parametrize(
    ("stage", "die_at"),
    [
        ("ask", 4), ("ask", 20), ("ask", 38), ("merge", 1), ("embed", 12), ("embed", 64), ("embed", 120),
        ("write", 1), ("write", 5), ("write", 10), ("seal", 2), ("publish", 1), ("settle", 2),
    ],
)  # fmt: skip
def test_an_index_that_was_killed_goes_on(undisturbed: Box, box: Box, stage: str, die_at: int) -> None:
    assert box.index(stage, die_at).code == -signal.SIGKILL
    before = box.asked()
    ran = box.index()
    assert ran.code == 0, ran.err
    assert contents(box.folder / "store") == contents(undisturbed.folder / "store")
    # What counts as finished is not asked again.
    assert len(box.asked()) - len(before) == CHUNKS - finished_before(ran.err)
    assert stage != "ask" or die_at < 20 or finished_before(ran.err) > 0
    assert set(box.asked()) == set(undisturbed.asked()[:CHUNKS])


@pytest.fixture(scope="module")
def added(nursery: Nursery, undisturbed: Box, tmp_path_factory: pytest.TempPathFactory) -> Box:
    """The undisturbed store with more documents."""
    box = Box(nursery, tmp_path_factory.mktemp("added") / "box")
    shutil.copytree(undisturbed.folder / "store", box.folder / "store")
    ran = box.add()
    assert ran.code == 3, ran.err
    assert len(list(current_generation(box.folder / "store").glob("*+1.*"))) > 10
    return box


@pytest.mark.parametrize(
    ("stage", "die_at"),
    [
        ("ask", 2), ("grow", 1), ("append", 1), ("append", 9), ("seal", 30), ("publish", 1), ("settle", 2),
    ],
)  # fmt: skip
def test_an_addition_that_was_killed_goes_on(undisturbed: Box, added: Box, box: Box, stage: str, die_at: int) -> None:
    shutil.copytree(undisturbed.folder / "store", box.folder / "store")
    old = contents(box.folder / "store")
    assert box.add(stage, die_at).code == -signal.SIGKILL
    # The old store or the new one; where the new one is current, only its ledger may still wait.
    found = contents(box.folder / "store")
    assert found in (old, {**contents(added.folder / "store"), "ledger.jsonl": old["ledger.jsonl"]})
    asked = len(box.asked())
    assert box.add().code == (3 if found == old else 0)
    assert contents(box.folder / "store") == contents(added.folder / "store")
    assert len(box.asked()) - asked < len(added.asked())


@pytest.mark.parametrize(
    ("stage", "die_at"),
    [("ask", 4), ("ask", 40), ("ask", 76), ("retrieve", 1), ("retrieve", 3), ("retrieve", 5), ("manifest", 1)],
)
def test_answers_that_were_killed_go_on(undisturbed: Box, box: Box, stage: str, die_at: int) -> None:
    store = undisturbed.folder / "store"
    assert box.answer(store, stage, die_at).code == -signal.SIGKILL
    assert not (box.folder / "answers.jsonl").exists() or stage == "manifest"
    before = box.asked()
    ran = box.answer(store)
    assert ran.code == 0, ran.err
    assert (box.folder / "answers.jsonl").read_bytes() == (undisturbed.folder / "answers.jsonl").read_bytes()
    answered = [text for text in box.asked()[len(before) :] if text.startswith("Evidence:")]
    assert len(answered) == QUESTIONS - finished_before(ran.err)
    assert sorted(path.name for path in box.folder.glob("answers*")) == ["answers.jsonl", "answers.jsonl.manifest.json"]


def test_a_second_process_is_refused_while_the_first_lives_and_only_then(box: Box, undisturbed: Box) -> None:
    (box.folder / "store").mkdir()
    (box.folder / "answers.jsonl.journal").mkdir()
    holder = "from hyce_gpu.lock import only_writer\nimport pathlib, sys\n"
    holder += "with only_writer(pathlib.Path(sys.argv[1]), 'x'):\n    print('held', flush=True)\n    input()\n"
    for directory, command in (
        ("store", box.index),
        ("answers.jsonl.journal", lambda: box.answer(undisturbed.folder / "store")),
    ):
        arguments = [sys.executable, "-c", holder, str(box.folder / directory)]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout
            assert first.stdout.readline() == "held\n"
            refused = command()
            assert refused.code == 1
            assert f"is being written by process {first.pid} on" in refused.err
            first.kill()
        assert command().code == 0


def test_what_failed_is_kept_in_the_ledger_and_retry_does_only_that_again(nursery: Nursery, tmp_path: Path) -> None:
    box = Box(nursery, tmp_path / "box", poison=(3, 17))
    assert box.index().code == 3
    entries = [json.loads(line) for line in (box.folder / "store" / "ledger.jsonl").read_text().splitlines()]
    assert [(one["where"], one["reason"], one["raw"]) for one in entries] == [
        ("d3#0", "not JSON", "no JSON at all"), ("d17#0", "not JSON", "no JSON at all")
    ]  # fmt: skip
    # Each is asked twice; the same command asks nothing of it again, and the same entries stand.
    assert len(box.asked()) == CHUNKS + 2
    assert box.index().code == 3
    assert len(box.asked()) == CHUNKS + 2
    # Still poisoned: the store stays as it is.
    before = contents(box.folder / "store")
    ran = box.run("retry", "--store", "store")
    assert ran.code == 1
    assert "2 of the first 2 chunks failed; the first was d3#0: not JSON" in ran.err
    assert contents(box.folder / "store") == before
    (box.folder / "healed").touch()
    asked = len(box.asked())
    assert box.run("retry", "--store", "store").code == 0
    assert [text.split("\n")[0] for text in box.asked()[asked:]] == ["Title: Town3", "Title: Town17"]
    assert not (box.folder / "store" / "ledger.jsonl").exists()
    # As if nothing had ever failed.
    whole = Box(nursery, tmp_path / "whole", poison=(3, 17))
    (whole.folder / "healed").touch()
    assert whole.index().code == 0
    assert contents(box.folder / "store") == contents(whole.folder / "store")


def test_questions_that_failed_are_in_the_ledger_and_retry_asks_only_them(box: Box, undisturbed: Box) -> None:
    store = undisturbed.folder / "store"
    questions = box.folder / "questions.jsonl"
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    rows[2]["question"] = "What poison is near Town2?"
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    assert box.answer(store).code == 3
    entries = [json.loads(line) for line in (box.folder / "answers.jsonl.ledger.jsonl").read_text().splitlines()]
    assert [(one["stage"], one["reason"], one["raw"]) for one in entries[1:]] == [
        ("answer", "the model's reply holds no answer", "no JSON at all")
    ]
    failed = json.loads((box.folder / "answers.jsonl").read_text().splitlines()[2])
    assert (failed["status"], failed["answer"], failed["raw"]) == ("failed", None, "no JSON at all")
    assert failed["paths"]
    (box.folder / "healed").touch()
    asked = len(box.asked())
    ran = box.run("retry", "--store", store, "--answers", "answers.jsonl", "--llm", "scripted")
    # Its mentions again, since the reply about them could not be used either, and its answer.
    assert all("poison" in text for text in box.asked()[asked:])
    assert 1 <= len(box.asked()) - asked <= 2
    lines = [json.loads(line) for line in (box.folder / "answers.jsonl").read_text().splitlines()]
    assert [line["status"] for line in lines] == ["answered"] * QUESTIONS + ["failed"]
    # The line that was no question stays what it was.
    assert ran.code in (0, 3)
    assert lines[-1]["id"] == f"q{QUESTIONS + 1}"


def test_a_run_in_which_most_fail_stops_early_and_keeps_what_succeeded(nursery: Nursery, tmp_path: Path) -> None:
    box = Box(nursery, tmp_path / "box", poison=range(5, CHUNKS))
    ran = box.index()
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("hyce: stopped: 15 of the first 20 chunks failed; the first was d5#0:")
    assert not (box.folder / "store" / "CURRENT").exists()
    (box.folder / "healed").touch()
    asked = len(box.asked())
    assert box.index().code == 0
    assert len(box.asked()) - asked == CHUNKS - 5


def test_what_is_made_from_the_same_is_used_again_and_nothing_else(nursery: Nursery, tmp_path: Path) -> None:
    box = Box(nursery, tmp_path / "box")
    shared = ("--llm", "scripted", "--cache", "cache")
    assert box.run("index", "corpus.jsonl", "--store", "one", *shared).code == 0
    rows = [json.loads(line) for line in (box.folder / "corpus.jsonl").read_text().splitlines()]
    # Another order, other ids, one text changed, one title changed; in another store.
    rows = [{**row, "id": f"new{n}"} for n, row in enumerate(reversed(rows))]
    rows[0]["text"] += " Town0 is old."
    rows[1]["title"] = "City"
    (box.folder / "moved.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = len(box.asked())
    assert box.run("index", "moved.jsonl", "--store", "two", *shared).code == 0
    assert len(box.asked()) - asked == 2
    # An answer depends on the store: the same question over another one is asked anew, over the same one it is not.
    for store, new in (("one", 2 * QUESTIONS), ("one", 0), ("two", 2 * QUESTIONS)):
        asked = len(box.asked())
        assert box.answer(Path(store)).code == 0
        assert len(box.asked()) - asked == new
    asked = len(box.asked())
    command = ("answer", "questions.jsonl", "--store", "two", "--out", "answers.jsonl", "--llm", "scripted")
    assert box.run(*command, "--batch-size", 8, "--set", "context_segments=3").code == 0
    assert len(box.asked()) - asked == 2 * QUESTIONS


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Mounts a disk of its own at tmp_path/disk with the options that it is called with, again and again."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(options: str) -> None:
        again = "remount," if disk.is_mount() else ""
        command = ["mount", "-t", "tmpfs", "-o", again + options, "tmpfs", str(disk)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"cannot mount a disk here: {done.stderr.strip()}")

    mount("size=64k")
    yield mount
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_costs_nothing_that_was_finished(
    nursery: Nursery, undisturbed: Box, tmp_path: Path, small_disk: Callable[[str], None]
) -> None:
    box = Box(nursery, tmp_path / "box")
    (box.folder / "store").symlink_to(tmp_path / "disk")
    for size in (64, 160, 320, 640, 4096):
        small_disk(f"size={size}k")
        ran = box.index()
        if ran.code == 0:
            break
        assert re.fullmatch(r"hyce: cannot (write|use) .*(No space left|disk is full).*", ran.err.splitlines()[-1])
        assert not (box.folder / "store" / "CURRENT").exists()
    # Too little room for the first chunk, for some, for the store; each time one chunk at most could not be kept.
    assert size >= 640
    assert len(box.asked()) <= CHUNKS + 4
    assert contents(box.folder / "store") == contents(undisturbed.folder / "store")


def test_an_output_that_cannot_be_written_is_one_line(
    nursery: Nursery, undisturbed: Box, tmp_path: Path, small_disk: Callable[[str], None]
) -> None:
    box = Box(nursery, tmp_path / "box")
    small_disk("size=1m,ro")
    command = ("index", "corpus.jsonl", "--store", tmp_path / "disk" / "store", "--llm", "scripted")
    ran = box.run(*command)
    assert (ran.code, ran.err.splitlines()[-1].startswith("hyce: cannot write the store")) == (1, True)
    out = tmp_path / "disk" / "answers.jsonl"
    command = ("answer", "questions.jsonl", "--store", undisturbed.folder / "store", "--out", out, "--llm", "scripted")
    ran = box.run(*command)
    assert (ran.code, ran.err.splitlines()[-1].startswith("hyce: cannot write the answers")) == (1, True)
    assert not box.asked()
