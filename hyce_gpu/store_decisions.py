"""The decisions about names that a store holds, and which names it made one. Knows where they lie in a generation."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa

from hyce_gpu import tables
from hyce_gpu.decisions import Decision
from hyce_gpu.drafts import AliasMerge
from hyce_gpu.errors import StoreError
from hyce_gpu.progress import say
from hyce_gpu.store import Store
from hyce_gpu.store_files import current_generation
from hyce_gpu.table_files import SUFFIX, read_table, table_file

DECISIONS = f"decisions{SUFFIX}"


def decisions_in(store: Store) -> tuple[Decision, ...]:
    """In order; none in a store of earlier versions."""
    if DECISIONS not in store.manifest["files"]:
        return ()
    return tables.decisions_of(read_table(store.generation / DECISIONS))


def merges_in(store: Store) -> list[AliasMerge]:
    return tables.merges_of(read_table(table_file(store.generation, "merges")))


def decisions_left(root: Path) -> tuple[Decision, ...]:
    """Those of a store that is built anew in its place; its other files may be damaged."""
    try:
        generation = current_generation(root)
        listed = json.loads((generation / "manifest.json").read_bytes())["files"]
        if DECISIONS not in listed:
            return ()
        data = (generation / DECISIONS).read_bytes()
        if hashlib.sha256(data).hexdigest() != listed[DECISIONS]["sha256"]:
            raise ValueError("its checksum differs")
        found = tables.decisions_of(pa.ipc.open_file(data).read_all())
    except StoreError:
        # No store is there yet.
        return ()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        say(f"index: no decisions about names were taken over from {root} ({type(error).__name__}: {error})")
        return ()
    say(f"index: {len(found):,} decisions about names are taken over from the store that is there")
    return found
