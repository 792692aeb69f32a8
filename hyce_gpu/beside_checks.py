"""What lies beside a store's generations, and is no part of one: the ledger and the cache of extractions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hyce_gpu.indexing import extractions_file
from hyce_gpu.ledger import LedgerEntry
from hyce_gpu.store_files import CACHE, LEDGER
from hyce_gpu.store_parts import Problem
from hyce_gpu.unit_checks import damage

CACHED = str(extractions_file(Path(CACHE)))


def check_beside(root: Path) -> Iterator[Problem]:
    """What is wrong with the store's ledger and cache; raises nothing."""
    try:
        yield from _ledger((root / LEDGER).read_bytes())
    except FileNotFoundError:
        pass
    except OSError as error:
        yield Problem(LEDGER, "one entry a line", error.strerror or "a file that cannot be read")
    if found := damage(root / CACHED):
        yield Problem(CACHED, *found)


def _ledger(data: bytes) -> Iterator[Problem]:
    lines = data.splitlines(keepends=True)
    wrong = [number for number, line in enumerate(lines, 1) if not _is_entry(line)]
    if wrong:
        others = f" and {len(wrong) - 1:,} others" if len(wrong) > 1 else ""
        yield Problem(LEDGER, "one entry a line", f"none in line {wrong[0]:,}{others}")


def _is_entry(line: bytes) -> bool:
    try:
        entry = LedgerEntry(**json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return False
    return line.endswith(b"\n") and all(isinstance(value, str) for value in vars(entry).values())
