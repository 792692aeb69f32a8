"""The store of a data set's documents: built once, and used again while corpus and encoder stay the same.

Knows the files under OUT. What a store is made of is `index_job`'s.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hyce_gpu.atomic import atomic_text
from hyce_gpu.errors import StoreError
from hyce_gpu.index_job import run_index
from hyce_gpu.progress import say
from hyce_gpu.readers import corpus_line
from hyce_gpu.schema import Document
from hyce_gpu.store import Store


def store_of(documents: Sequence[Document], out: Path, encoder: str | None, device: str) -> Store:
    """The store at OUT/store, made from OUT/corpus.jsonl.

    Raises:
        OutputError: it cannot be written.
    """
    text = "".join(map(corpus_line, documents))
    made_from = {"corpus": hashlib.sha256(text.encode()).hexdigest(), "encoder": encoder}
    root, key_file = out / "store", out / "store.key.json"
    store = _same_store(root, key_file, made_from)
    if store is not None:
        say(f"store: {root} was made from the same corpus")
        return store
    with atomic_text(out / "corpus.jsonl", "the corpus") as file:
        file.write(text)
    run_index([out / "corpus.jsonl"], root, "auto", None, None, encoder, device, {})
    store = Store.open(root)
    with atomic_text(key_file, "the store's key") as file:
        file.write(json.dumps({**made_from, "manifest": manifest_checksum(store)}) + "\n")
    return store


def manifest_checksum(store: Store) -> str:
    """The manifest holds the checksum of every file of the store, and so does its own."""
    return hashlib.sha256((store.generation / "manifest.json").read_bytes()).hexdigest()


def warn_of_missing(documents: Sequence[Document], store: Store) -> None:
    """Says how many documents of the data set a store that was given does not hold: no method can find them."""
    missing = [document.id for document in documents if not _holds(store, document.id)]
    if missing:
        say(
            f"store: {len(missing):,} of {len(documents):,} documents of the data set are not in it ({missing[0]}, ...)"
        )


def _holds(store: Store, name: str) -> bool:
    try:
        store.title(name)
    except KeyError:
        return False
    return True


def _same_store(root: Path, key_file: Path, made_from: dict[str, str | None]) -> Store | None:
    try:
        key, store = json.loads(key_file.read_bytes()), Store.open(root)
        return store if key == {**made_from, "manifest": manifest_checksum(store)} else None
    except (OSError, ValueError, StoreError):
        # Nothing was built yet, or not to the end: it is built now.
        return None
