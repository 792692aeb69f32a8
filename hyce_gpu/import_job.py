"""The import command: what another tool has extracted becomes a records file, and a corpus file where none is there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hyce_gpu.atomic import atomic_text
from hyce_gpu.errors import InputError
from hyce_gpu.extract.openie import read_openie
from hyce_gpu.extract.records import write_records
from hyce_gpu.ledger import Ledger, ledger_path
from hyce_gpu.progress import say
from hyce_gpu.readers import corpus_line, read_corpus
from hyce_gpu.schema import Document


def run_import(
    cache: Path, out: Path, corpus: Sequence[Path] = (), corpus_out: Path | None = None
) -> tuple[dict[str, int], Ledger]:
    """Writes the records of an OpenIE cache to `out`; what was set aside goes to the ledger beside it.

    Args:
        corpus: files and folders with the documents that the records are for; without them the documents are the
            cache's own passages, under the cache's ids.
        corpus_out: where those passages are written as a corpus, for `hyce index`.

    Returns:
        How many records, entities, hyperedges and relations were written, and the ledger.

    Raises:
        InputError: a cache or a corpus that cannot be used; `corpus` and `corpus_out` together; an output that is an
            input or the other output.
        OutputError: a file that cannot be written.
    """
    if corpus and corpus_out is not None:
        raise InputError("--corpus and --corpus-out exclude each other: the corpus is at hand, or is the cache's own")
    _check_distinct([cache, *corpus], [out, *([corpus_out] if corpus_out else [])])
    ledger = Ledger()
    documents, records = read_openie(cache, ledger, read_corpus(corpus, ledger) if corpus else None)
    if corpus_out:
        _write_corpus(documents, corpus_out)
    write_records(records, out)
    ledger.write(ledger_path(out))
    hyperedges = [edge for record in records for edge in record.hyperedges]
    counts = {
        "records": len(records),
        "entities": sum(len(record.entities) for record in records),
        "hyperedges": len(hyperedges),
        "relations": sum(len(edge.relations) for edge in hyperedges),
    }
    say(f"import: {len(records):,} passages, {len(ledger):,} set aside")
    return counts, ledger


def _check_distinct(inputs: Sequence[Path], outputs: Sequence[Path]) -> None:
    taken = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in taken:
            raise InputError(f"{path} is named twice: give each output a file of its own")
        taken.add(path.resolve())


def _write_corpus(documents: Sequence[Document], path: Path) -> None:
    with atomic_text(path, "the corpus") as file:
        file.writelines(map(corpus_line, documents))
