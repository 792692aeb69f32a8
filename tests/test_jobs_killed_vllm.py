"""A real vLLM with a real, very small model, killed in the middle of its extraction and of its answers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sized
from pathlib import Path

import pytest
from hyce_serving import bundled_llm

from hyce_gpu.index_job import run_index
from hyce_gpu.store_files import current_generation

# float32, and few at once: the reply to a prompt must not depend on what else is in the batch.
ANSWERS = ["dtype=float32", "max_num_seqs=2", "max_model_len=1024"]
EXTRACTION = ["dtype=float32", "max_num_seqs=4", "max_model_len=4096"]
QUESTIONS, CHUNKS = 12, 4
# The command line, and before it, for extraction, replies of a quarter of the length: the test is of the job.
COMMAND = "from hyce_gpu.cli import main; main()"
BRIEF = """
from hyce_gpu.extract import llm_extractor as made
made._FULL = made._SHORT = (2, 1)
made._SCHEMAS = {made._FULL: made.reply_schema(*made._FULL)}
"""
MOST_SECONDS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vllm")
    rows = [
        {"id": f"d{n}", "title": f"Town{n}", "text": f"Town{n} lies near Town{n + 1} in France."} for n in range(12)
    ]
    questions = [{"id": f"q{n}", "question": f"In which country is Town{n}?"} for n in range(QUESTIONS)]
    few = rows[:CHUNKS]
    for name, lines in (("corpus.jsonl", rows), ("few.jsonl", few), ("questions.jsonl", questions)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_index([folder / "corpus.jsonl"], folder / "store", "spacy", None, None, None, "cpu", {})
    return folder


def _hyce(folder: Path, options: list[str], *arguments: str, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", before + COMMAND, *arguments, "--llm", str(bundled_llm())]
    command += ["--device", "cpu", *(part for option in options for part in ("--llm-set", option))]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    # A session of its own, so that a kill takes whatever it has started with it.
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def _answer(folder: Path, out: str) -> subprocess.Popen[str]:
    return _hyce(folder, ANSWERS, "answer", "questions.jsonl", "--store", "store", "--out", out)


def _extract(folder: Path, name: str) -> subprocess.Popen[str]:
    """Into folder/name/store: the ledger names the store."""
    (folder / name).mkdir(exist_ok=True)
    arguments = ("index", "../few.jsonl", "--store", "store", "--extractor", "llm")
    return _hyce(folder / name, EXTRACTION, *arguments, before=BRIEF)


def _finished(file: Path, kind: str = "%") -> dict[int, tuple[bytes, str]]:
    """The units on the disk by the order in which they were written; one that is done again moves to the end."""
    try:
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
            found = database.execute("SELECT rowid, key, value FROM units WHERE value LIKE ?", (kind,))
            return {number: (key, value) for number, key, value in found}
    except sqlite3.OperationalError:
        # Not there yet.
        return {}


def _killed_at(started: subprocess.Popen[str], least: int, finished: Callable[[], Sized]) -> None:
    begun = time.monotonic()
    while len(finished()) < least:
        assert started.poll() is None
        assert time.monotonic() - begun < MOST_SECONDS
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()


def _ended(started: subprocess.Popen[str]) -> str:
    _, said = started.communicate(timeout=MOST_SECONDS)
    assert started.returncode in (0, 3), said
    return said


def _finished_before(said: str, total: int) -> int:
    return int(said.partition(f" of {total} ")[0].rpartition(" ")[2])


def test_answers_of_a_real_model_that_was_killed_go_on(folder: Path) -> None:
    whole = _answer(folder, "whole.jsonl")
    _ended(whole)
    journal = folder / "killed.jsonl.journal" / "answers.sqlite"
    _killed_at(_answer(folder, "killed.jsonl"), 3, lambda: _finished(journal, "{%"))
    assert not (folder / "killed.jsonl").exists()
    again = _answer(folder, "killed.jsonl")
    said = _ended(again)
    assert again.returncode == whole.returncode
    before = _finished_before(said, QUESTIONS)
    assert 3 <= before < QUESTIONS
    assert (folder / "killed.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()


def test_an_extraction_by_a_real_model_that_was_killed_goes_on(folder: Path) -> None:
    whole = _extract(folder, "whole")
    _ended(whole)
    store = folder / "cut" / "store"
    cache = store / "cache" / "extractions.sqlite"
    _killed_at(_extract(folder, "cut"), 1, lambda: _finished(cache))
    assert not (store / "CURRENT").exists()
    kept = _finished(cache)
    assert 1 <= len(kept) < CHUNKS
    again = _extract(folder, "cut")
    said = _ended(again)
    assert again.returncode == whole.returncode
    assert _finished_before(said, CHUNKS) == len(kept)
    # What counts as finished stays where it was: nothing of it is asked again.
    after = _finished(cache)
    assert len(after) == CHUNKS
    assert kept.items() <= after.items()
    assert _contents(store) == _contents(folder / "whole" / "store")
    # The tokens of both runs count, as if there had been one.
    stages = [
        json.loads((current_generation(one) / "manifest.json").read_text())["accounts"]["stages"]["extract"]
        for one in (store, folder / "whole" / "store")
    ]
    told = ("units", "failed", "prompt_tokens", "completion_tokens")
    cut, undisturbed = ({name: stage.get(name) for name in told} for stage in stages)
    assert cut == undisturbed
    assert stages[0]["reused"] == len(kept)


def _contents(store: Path) -> dict[str, object]:
    """Every file, byte for byte, and the ledger; of the manifest all but the accounts."""
    generation = current_generation(store)
    found: dict[str, object] = {path.name: path.read_bytes() for path in generation.iterdir()}
    manifest = json.loads((generation / "manifest.json").read_text())
    found["manifest.json"] = {name: value for name, value in manifest.items() if name != "accounts"}
    ledger = store / "ledger.jsonl"
    return {**found, "ledger.jsonl": ledger.read_bytes() if ledger.exists() else b""}
