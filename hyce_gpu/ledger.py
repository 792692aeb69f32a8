"""The ledger: what was set aside, and why, while the rest went on.

One JSON line an entry: where it was found, its identity, the stage, the reason and, where there is one, the raw text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from hyce_gpu.atomic import atomic_text


@dataclass(frozen=True)
class LedgerEntry:
    # "read", "extract", "merge", "question" or "answer".
    stage: str
    # A file and line, a chunk id, or a question id.
    where: str
    reason: str
    raw: str = ""


def ledger_path(out: Path) -> Path:
    """Where what was set aside from a result file is listed: beside it."""
    return out.with_name(out.name + ".ledger.jsonl")


class Ledger:
    """Collects entries in order; falsy while empty."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []

    def set_aside(self, stage: str, where: str, reason: str, raw: str = "") -> None:
        self.entries.append(LedgerEntry(stage, where, reason, raw))

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self.entries)

    @classmethod
    def read(cls, path: Path) -> Ledger:
        """The entries of a file that `write` wrote; none where there is no file."""
        ledger = cls()
        if path.exists():
            with path.open(encoding="utf-8") as file:
                ledger.entries = [LedgerEntry(**json.loads(line)) for line in file]
        return ledger

    def lines(self) -> str:
        """The content of the file that `write` writes."""
        return "".join(json.dumps(asdict(entry)) + "\n" for entry in self.entries)

    def write(self, path: Path) -> None:
        """Writes the entries to `path`, whole or not at all; an empty ledger removes an older file.

        Raises:
            OutputError: the file cannot be written.
        """
        if not self.entries:
            path.unlink(missing_ok=True)
            return
        with atomic_text(path, "the ledger") as file:
            file.write(self.lines())
