"""Answers as JSON lines (DESIGN: one line a question, in the questions' order), written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from hyce_gpu.errors import OutputError
from hyce_gpu.schema import Answer


def answer_to_json(answer: Answer) -> dict[str, Any]:
    """The answer as plain JSON values; empty fields stay, so every line has the same keys."""
    return asdict(answer)


def to_line(answer: Answer) -> str:
    return json.dumps(answer_to_json(answer), ensure_ascii=False)


class AnswersFile:
    """Lines go to `FILE.partial`; only a finished file gets its name."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, answers: Iterable[Answer]) -> None:
        self._file.writelines(to_line(answer) + "\n" for answer in answers)
        self._file.flush()


@contextmanager
def open_answers(path: Path) -> Iterator[AnswersFile]:
    """Raises:
    OutputError: `path` cannot be written; an older file of that name stays as it is.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        if path.is_dir():
            raise OutputError(f"cannot write answers to {path}: it is a directory")
        with partial.open("w", encoding="utf-8") as file:
            yield AnswersFile(file)
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write answers to {path}: {error.strerror or error}") from error
