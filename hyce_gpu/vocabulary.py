"""The words of a store, looked up for questions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hyce_gpu.lexical import words


class Vocabulary:
    """Words, numbered by their place. Looked up where they lie: a dictionary of millions takes seconds to make."""

    def __init__(self, words: pa.ChunkedArray) -> None:
        self._words = words
        # Numbers of words that were asked for before, -1 for none.
        self._known: dict[str, int] = {}

    def terms(self, texts: Sequence[str]) -> list[list[int]]:
        """The distinct words of each text that the store knows, ascending."""
        used = [set(words(text)) for text in texts]
        self._look_up(set[str]().union(*used) - self._known.keys())
        return [sorted(number for word in own if (number := self._known[word]) >= 0) for own in used]

    def _look_up(self, asked: set[str]) -> None:
        if not asked:
            return
        rows = pc.indices_nonzero(pc.is_in(self._words, value_set=pa.array(sorted(asked), pa.string())))
        self._known |= dict.fromkeys(asked, -1)
        self._known |= dict(zip(self._words.take(rows).to_pylist(), rows.to_pylist(), strict=True))
