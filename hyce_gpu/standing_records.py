"""Which records of a store still hold when its documents change.

Knows the store's tables; what a record depends on is the extractor's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from hyce_gpu.extract import Extractor
from hyce_gpu.extract.corpus_change import CorpusChange, Standing
from hyce_gpu.extract.spacy_extractor import SpacyExtractor
from hyce_gpu.schema import Chunk
from hyce_gpu.store import Store


def reader_of_changes(
    extractor: Extractor, store: Store, stays: np.ndarray, titles: Sequence[str], came: Sequence[Chunk]
) -> tuple[Extractor, list[int]]:
    """An extractor for what is to be read of the changed corpus, and what that is beside `came`.

    Args:
        stays: which documents of the store stay as they are. [documents] bool
        titles: of all documents of the changed corpus, in its order.
        came: the chunks of those that the store does not have.

    Returns:
        The extractor, which is to be given whole documents; and the numbers of the documents that stay and have to be
        read again, rising.
    """
    if not isinstance(extractor, SpacyExtractor):
        # A model's record depends on its chunk alone.
        return extractor, []
    if store.manifest["extractor"] != {"name": extractor.name, **extractor.describe()}:
        return extractor, np.flatnonzero(stays).tolist()
    old_titles = store.table("documents").column("title").to_pylist()
    owner = store.table("chunks").column("document").to_numpy()
    standing = Standing(old_titles, _chunk_texts(store), owner, store.chunks_of)
    change = CorpusChange(standing, stays, titles, came, extractor.dependence)
    return extractor.within(change), change.to_read_again


def _chunk_texts(store: Store) -> pa.ChunkedArray:
    """The texts of all chunks, in order."""
    texts, chunks = store.table("documents").column("text"), store.table("chunks")
    document, start, end = (chunks.column(name).to_numpy() for name in ("document", "start", "end"))
    parts, row = [], 0
    for block in texts.chunks:
        held = block.to_pylist()
        first, last = np.searchsorted(document, (row, row + len(held)))
        places = zip(*(column[first:last].tolist() for column in (document, start, end)), strict=True)
        parts.append(pa.array([held[number - row][begin:stop] for number, begin, stop in places], pa.string()))
        row += len(held)
    return pa.chunked_array(parts, pa.string())
