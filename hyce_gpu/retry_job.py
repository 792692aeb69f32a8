"""The retry command: what failed is done once more, and nothing else is.

Works from the store, or from the answers' file, alone: the corpus and the questions stand in them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder

from hyce_gpu import encoders
from hyce_gpu.accounts import Accounts
from hyce_gpu.answer_job import answer_questions
from hyce_gpu.devices import choose_device
from hyce_gpu.engine import Engine
from hyce_gpu.errors import InputError
from hyce_gpu.extract import Extractor
from hyce_gpu.extract_job import extract_chunks
from hyce_gpu.extractors import extractor_of
from hyce_gpu.indexing import Extraction, IndexReport, build, extractions_file, set_aside_failed
from hyce_gpu.ledger import Ledger
from hyce_gpu.progress import say
from hyce_gpu.schema import Chunk, ExtractionRecord, Question
from hyce_gpu.store import Store
from hyce_gpu.store_decisions import decisions_in
from hyce_gpu.store_files import CACHE, LEDGER, writing
from hyce_gpu.units import FinishedUnits


def retry_index(
    root: Path,
    llm: str | None = None,
    encoder: str | None = None,
    device: str = "auto",
    cache: Path | None = None,
    llm_options: Mapping[str, Any] | None = None,
) -> IndexReport | None:
    """Extracts the failed chunks of the store at `root` again and writes a new generation; None if none failed.

    Args:
        llm: the model for them; by default the one that the store was built with.

    Raises:
        StoreError: no store, or another encoder than the store's.
        JobError: they all fail again; the store stays as it is.
        OutputError: the store cannot be written, or another process is writing it.
    """
    with writing(root) as writer:
        store = Store.open(root)
        chunks, records = store.chunks(), store.records()
        failed = [position for position, record in enumerate(records) if record.error]
        say(f"retry: {len(failed):,} of {len(chunks):,} chunks failed before")
        if not failed:
            return None
        vectors = Encoder(encoder or store.manifest["encoder"]["name"], device=choose_device(device))
        encoders.require_same(vectors, store.manifest["encoder"], str(root))
        accounts = Accounts()
        with ExitStack() as held, accounts.stage("extract") as account:
            extractor = extractor_of(store, llm, llm_options or {}, vectors, held)
            units = held.enter_context(FinishedUnits(extractions_file(cache or root / CACHE)))
            keys = extractor.unit_keys(chunks)
            units.forget(keys[position] for position in failed)
            known = {position: one for position, one in enumerate(records) if not one.error}
            records = extract_chunks(chunks, extractor, units, account, known)
        described = _described(store.manifest["extractor"], extractor)
        ledger = _ledger(root, chunks, records)
        extraction = Extraction(store.documents(), chunks, records, described, decisions_in(store))
        return build(writer, extraction, vectors, store.manifest["config"], accounts, ledger)


def _described(before: Mapping[str, Any], extractor: Extractor) -> dict[str, Any]:
    now = {"name": extractor.name, **extractor.describe()}
    same = {name: value for name, value in before.items() if name != "retried_by"} == now
    return dict(before) if same else {**before, "retried_by": now}


def _ledger(root: Path, chunks: Sequence[Chunk], records: Sequence[ExtractionRecord]) -> Ledger:
    """The store's ledger with what the chunks gave this time."""
    names = {chunk.id for chunk in chunks}
    ledger = Ledger.read(root / LEDGER)
    ledger.entries = [
        one for one in ledger if one.stage != "merge" and not (one.stage == "extract" and one.where in names)
    ]
    set_aside_failed(records, ledger)
    return ledger


def retry_answers(engine: Engine, out: Path, batch_size: int) -> tuple[dict[str, int], Ledger]:
    """Asks the failed questions of the answers file `out` again; the others keep their lines.

    Raises:
        InputError: there is no such file, or it is none of answers.
        OutputError: it cannot be written, or another process is writing it.
    """
    ledger = Ledger()
    counts = answer_questions(engine, _questions(out), out, batch_size, choose=False, ledger=ledger, again=True)
    return counts, ledger


def _questions(out: Path) -> list[Question]:
    try:
        with out.open(encoding="utf-8") as file:
            rows = [json.loads(line) for line in file]
        return [
            Question(row["id"], row["question"], error="" if row["question"].strip() else row["error"]) for row in rows
        ]
    except OSError as error:
        raise InputError(f"cannot read the answers {out}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{out} is no file of answers ({type(error).__name__}): name one that hyce answer wrote"
        ) from error
