"""The answer command: a file of questions becomes a file of answers, and no question is asked twice.

Beside OUT, while it runs, OUT.journal/ holds what is finished; afterwards OUT.manifest.json says what OUT was made from
and what it cost. Knows files and their order; how a question is answered is the engine's.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hyce_gpu import answering
from hyce_gpu.accounts import Accounts
from hyce_gpu.answers_file import to_line
from hyce_gpu.atomic import atomic_text
from hyce_gpu.context import Layout
from hyce_gpu.engine import Engine
from hyce_gpu.errors import InputError, OutputError
from hyce_gpu.ledger import Ledger, ledger_path
from hyce_gpu.lock import only_writer
from hyce_gpu.models import what_shapes_replies
from hyce_gpu.progress import Progress, progress, say
from hyce_gpu.questions import read_questions
from hyce_gpu.schema import Answer, Question
from hyce_gpu.units import FinishedUnits, unit_key
from hyce_gpu.watch import FailureWatch


def run_answer(
    engine: Engine, questions: Path, out: Path, batch_size: int, choose: bool = False
) -> tuple[dict[str, int], Ledger]:
    """Answers every question of the file; one that fails keeps its line, and goes to the ledger beside `out`.

    What an earlier run has finished under the same store, model and configuration is used again.

    Returns:
        How many lines have each status, and the ledger.

    Raises:
        InputError: a questions file that cannot be used.
        JobError: most questions fail.
        OutputError: `out` cannot be written, or another process is writing it.
    """
    ledger = Ledger()
    asked = read_questions(questions, ledger)
    return answer_questions(engine, asked, out, batch_size, choose, ledger), ledger


def answer_questions(
    engine: Engine,
    asked: Sequence[Question],
    out: Path,
    batch_size: int,
    choose: bool,
    ledger: Ledger,
    again: bool = False,
) -> dict[str, int]:
    """`again`: ask once more what failed before. Raises as `run_answer`."""
    made_from = _made_from(engine, choose)
    with _journal(out) as units:
        job = _Job(engine, asked, units, unit_key(made_from), batch_size, choose)
        job.take_over(_finished_lines(out, made_from), again)
        job.run()
        counts = _write(job.lines(ledger), out)
        _write_manifest(out, made_from, counts, job.accounts)
        ledger.write(ledger_path(out))
    return counts


def _made_from(engine: Engine, choose: bool) -> dict[str, Any]:
    """What an answer depends on beside its question."""
    layout = Layout.of(engine.config)
    generator = engine.generator
    return {
        "store": engine.store.checksum,
        "config": asdict(engine.config),
        "llm": what_shapes_replies(generator.describe()) if generator else None,
        "prompt": {**answering.described(layout), "choose": choose} if generator else None,
    }


@contextmanager
def _journal(out: Path) -> Iterator[FinishedUnits]:
    """What is finished of `out`; taken away when the block ends well."""
    directory = out.with_name(out.name + ".journal")
    with ExitStack() as held:
        try:
            directory.mkdir(exist_ok=True)
            held.enter_context(only_writer(directory, f"the answers {out}"))
        except OSError as error:
            raise OutputError(f"cannot write the answers to {out}: {error.strerror or error}") from error
        with FinishedUnits(directory / "answers.sqlite") as units:
            yield units
        shutil.rmtree(directory, ignore_errors=True)


class _Job:
    def __init__(
        self,
        engine: Engine,
        asked: Sequence[Question],
        units: FinishedUnits,
        run: bytes,
        batch_size: int,
        choose: bool,
    ) -> None:
        self.accounts = Accounts()
        self._engine, self._asked, self._units = engine, asked, units
        self._batch_size, self._choose = batch_size, choose
        self._keys = [unit_key(run.hex(), question.text) for question in asked]
        # Keys of what stands in the file of an earlier run.
        self._taken_over: set[bytes] = set()

    def take_over(self, lines: Iterable[Mapping[str, Any]], again: bool) -> None:
        """Keeps what an earlier run has answered; `again`: but for what failed."""
        keys = {question.text: key for question, key in zip(self._asked, self._keys, strict=True) if not question.error}
        for row in lines:
            key = keys.get(row["question"])
            if key is not None and not (again and row["status"] == "failed"):
                self._taken_over.add(key)
                if key not in self._units:
                    self._units.put(key, _value(row))

    def run(self) -> None:
        """Answers what is missing, each distinct question once."""
        reused = sum(not asked.error and key in self._units for asked, key in zip(self._asked, self._keys, strict=True))
        missing = self._missing()
        with self.accounts.stage("answer") as account, progress("answer", len(missing), "questions") as shown:
            account.units, account.reused = len(self._asked), reused
            if reused:
                say(f"answer: {reused:,} of {len(self._asked):,} questions were finished before")
            # Mentions of questions are kept as well, and are not what is counted.
            wanted = {self._keys[position] for position in missing}
            self._units.committed = lambda done: shown(len(wanted.intersection(done)))
            watch = FailureWatch("questions")
            for position, answer in self._answers(missing):
                self._keep(position, answer, watch, shown)
                if watch.is_hopeless():
                    self._units.forget(watch.failures)
                    raise watch.error()
            self._units.flush()

    def _missing(self) -> list[int]:
        first: dict[bytes, int] = {}
        for position, key in enumerate(self._keys):
            if not self._asked[position].error and key not in first and key not in self._units:
                first[key] = position
        return list(first.values())

    def _answers(self, missing: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        engine, retrieved = self._engine, self._retrieved(missing)
        if engine.generator is None:
            return retrieved
        layout = Layout.of(engine.config)
        return answering.answer_stream(retrieved, engine.store.passage, engine.generator, layout, self._choose)

    def _retrieved(self, missing: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        """In the batches of an undisturbed run, whatever is missing: vectors move by 1e-7 with their batch."""
        wanted = set(missing)
        places = [place for place, key in enumerate(self._keys) if key not in self._taken_over]
        for start in range(0, len(places), self._batch_size):
            batch = places[start : start + self._batch_size]
            if wanted.isdisjoint(batch):
                continue
            with self.accounts.stage("retrieve") as account:
                answers = self._engine.retrieve([self._asked[place] for place in batch], self._units)
                account.units += len(batch)
            yield from ((place, one) for place, one in zip(batch, answers, strict=True) if place in wanted)

    def _keep(self, position: int, answer: Answer, watch: FailureWatch, shown: Progress) -> None:
        key = self._keys[position]
        self._units.put(key, _value(asdict(answer)))
        if answer.status == "failed":
            watch.failed(key, self._asked[position].id, answer.error)
        else:
            watch.succeeded()
        shown.failed = len(watch.failures)
        shown.tokens += int(answer.usage.get("completion_tokens", 0))

    def lines(self, ledger: Ledger) -> Iterator[dict[str, Any]]:
        """The rows of all questions, in their order; counts them."""
        account = self.accounts.stages["answer"]
        for question, key in zip(self._asked, self._keys, strict=True):
            if question.error:
                failed = replace(Answer(question.id, question.text, "failed"), error=question.error)
                yield json.loads(to_line(failed))
                continue
            row = {**json.loads(self._units[key]), "id": question.id}
            account.prompt_tokens += int(row["usage"].get("prompt_tokens", 0))
            account.completion_tokens += int(row["usage"].get("completion_tokens", 0))
            if row["status"] == "failed":
                account.failed += 1
                ledger.set_aside("answer", question.id, row["error"], row["raw"] or question.text[:500])
            yield row


def _value(row: Mapping[str, Any]) -> str:
    """An answer apart from the id under which it was asked."""
    return json.dumps({**row, "id": ""}, ensure_ascii=False)


def _write(rows: Iterable[Mapping[str, Any]], out: Path) -> dict[str, int]:
    counts: Counter[str] = Counter()
    with atomic_text(out, "the answers") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            counts[row["status"]] += 1
    return dict(counts)


def manifest_path(out: Path) -> Path:
    return out.with_name(out.name + ".manifest.json")


def read_manifest(out: Path) -> dict[str, Any]:
    """The manifest of an answers file: what it was made from, its counts and its accounts.

    Raises:
        InputError: there is none, or it cannot be read.
    """
    path = manifest_path(out)
    try:
        manifest = json.loads(path.read_bytes())
        return {name: manifest[name] for name in ("sha256", "made_from", "counts", "accounts")}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"cannot read {path} ({type(error).__name__}); hyce answer writes it beside {out}") from error


def _write_manifest(out: Path, made_from: Mapping[str, Any], counts: Mapping[str, int], accounts: Accounts) -> None:
    # The checksum ties it to this file: a kill between the two leaves a manifest that belongs to none.
    manifest = {"sha256": _sha256(out), "made_from": made_from, "counts": counts, "accounts": accounts.described()}
    with atomic_text(manifest_path(out), "the answers' manifest") as file:
        file.write(json.dumps(manifest, indent=2, ensure_ascii=True) + "\n")


def _finished_lines(out: Path, made_from: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a file that a run of the same store, model and configuration wrote; none of any other."""
    try:
        manifest = read_manifest(out)
        is_ours = manifest["made_from"] == json.loads(json.dumps(made_from)) and manifest["sha256"] == _sha256(out)
    except (OSError, InputError):
        # No file yet, or one of unknown origin: everything is asked.
        return
    if is_ours:
        with out.open(encoding="utf-8") as file:
            yield from map(json.loads, file)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
