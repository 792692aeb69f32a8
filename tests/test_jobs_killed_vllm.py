"""A real vLLM with a real, very small model, killed in the middle of its answers."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hyce_serving import bundled_llm

from hyce_gpu.index_job import run_index

# float32, and few at once: the reply to a prompt must not depend on what else is in the batch.
OPTIONS = ["max_model_len=1024", "dtype=float32", "max_num_seqs=2"]
QUESTIONS = 12
MOST_SECONDS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vllm")
    rows = [
        {"id": f"d{n}", "title": f"Town{n}", "text": f"Town{n} lies near Town{n + 1} in France."} for n in range(12)
    ]
    questions = [{"id": f"q{n}", "question": f"In which country is Town{n}?"} for n in range(QUESTIONS)]
    for name, lines in (("corpus.jsonl", rows), ("questions.jsonl", questions)):
        (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_index([folder / "corpus.jsonl"], folder / "store", "spacy", None, None, None, "cpu", {})
    return folder


def _answer(folder: Path, out: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from hyce_gpu.cli import main; main()", "answer", "questions.jsonl"]
    command += ["--store", "store", "--out", out, "--llm", str(bundled_llm()), "--device", "cpu"]
    command += [part for option in OPTIONS for part in ("--llm-set", option)]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def _answers_on_disk(journal: Path) -> int:
    try:
        with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
            return int(database.execute("SELECT count(*) FROM units WHERE value LIKE '{%'").fetchone()[0])
    except sqlite3.OperationalError:
        # Not there yet.
        return 0


def test_answers_of_a_real_model_that_was_killed_go_on(folder: Path) -> None:
    whole = _answer(folder, "whole.jsonl")
    _, said = whole.communicate(timeout=MOST_SECONDS)
    assert whole.returncode in (0, 3), said
    killed = _answer(folder, "killed.jsonl")
    started = time.monotonic()
    while _answers_on_disk(folder / "killed.jsonl.journal" / "answers.sqlite") < 3:
        assert killed.poll() is None
        assert time.monotonic() - started < MOST_SECONDS
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (folder / "killed.jsonl").exists()
    again = _answer(folder, "killed.jsonl")
    _, said = again.communicate(timeout=MOST_SECONDS)
    assert again.returncode == whole.returncode, said
    before = int(said.partition(f" of {QUESTIONS} questions were finished before")[0].rpartition(" ")[2])
    assert 3 <= before < QUESTIONS
    assert (folder / "killed.jsonl").read_bytes() == (folder / "whole.jsonl").read_bytes()
