"""Extraction as a job: what is finished is used again, what is missing is done, and each unit reaches the disk at once.

Knows chunks, records and finished units. How a record is made is the extractor's.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hyce_gpu.accounts import Stage
from hyce_gpu.extract import Extracted, Extractor
from hyce_gpu.extract.records import record_from_json, record_to_json
from hyce_gpu.progress import progress, say
from hyce_gpu.schema import Chunk, ExtractedHyperedge, ExtractionRecord
from hyce_gpu.units import FinishedUnits
from hyce_gpu.watch import FailureWatch


def extract_chunks(
    chunks: Sequence[Chunk],
    extractor: Extractor,
    units: FinishedUnits,
    account: Stage,
    known: Mapping[int, ExtractionRecord] | None = None,
) -> list[ExtractionRecord]:
    """A record for each chunk, in order; only what `units` lacks is extracted.

    Args:
        known: records that stand already, by position.

    Raises:
        JobError: most chunks fail; what failed in this run is not kept, what succeeded is.
        OutputError: the disk does not take it; what was committed before stays.
    """
    known = known or {}
    keys = extract_missing(chunks, extractor, units, account, known)
    return [
        known[position] if position in known else _placed(json.loads(units[key]), chunks[position], account)
        for position, key in enumerate(keys)
    ]


def extract_missing(
    chunks: Sequence[Chunk],
    extractor: Extractor,
    units: FinishedUnits,
    account: Stage,
    known: Collection[int] = (),
) -> list[bytes]:
    """Finishes every unit of `chunks` but those in `known`, and returns their keys; raises as `extract_chunks`.

    Holds no more records than are under way, however many there are.
    """
    keys = extractor.unit_keys(chunks)
    account.units = len(chunks)
    missing, account.reused = _missing(keys, units, known)
    if account.reused:
        say(f"extract: {account.reused:,} of {len(chunks):,} chunks were finished before")
    with progress("extract", len(missing), "chunks") as shown:
        units.committed = lambda done: shown(len(done))
        watch = FailureWatch("chunks")
        for found in extractor.extract(chunks, missing):
            _keep(keys[found.position], found, chunks[found.position], units, watch)
            shown.tokens += found.completion_tokens
            shown.failed = len(watch.failures)
            if watch.is_hopeless():
                break
        if watch.is_hopeless() or watch.none_succeeded():
            units.forget(watch.failures)
            raise watch.error()
        units.flush()
    return keys


def _missing(keys: Sequence[bytes], units: FinishedUnits, known: Collection[int]) -> tuple[Sequence[int], int]:
    """The first position of each key that is not finished (chunks of equal texts are done once), and how many are."""
    # Eight bytes a chunk, where a list of integers takes forty.
    first, reused = array("q"), 0
    seen: set[bytes] = set()
    for position, (key, is_finished) in enumerate(zip(keys, units.are_finished(keys), strict=True)):
        if is_finished or position in known:
            reused += 1
        elif key not in seen:
            seen.add(key)
            first.append(position)
    return first, reused


def _keep(key: bytes, found: Extracted, chunk: Chunk, units: FinishedUnits, watch: FailureWatch) -> None:
    units.put(key, _to_value(found, chunk))
    if found.record.status == "failed":
        watch.failed(key, found.record.chunk_id, found.record.error)
    else:
        watch.succeeded()


def _to_value(found: Extracted, chunk: Chunk) -> str:
    """A record apart from where its chunk stands, so that it holds wherever the same text turns up."""
    row = record_to_json(found.record)
    for edge in row["hyperedges"]:
        edge["start"] -= chunk.start
        edge["end"] -= chunk.start
    kept = {key: value for key, value in row.items() if key not in ("chunk_id", "doc_id", "order", "start", "end")}
    return json.dumps({**kept, "usage": [found.prompt_tokens, found.completion_tokens]})


def _placed(row: dict[str, Any], chunk: Chunk, account: Stage) -> ExtractionRecord:
    prompt, completion = row.pop("usage")
    account.prompt_tokens += prompt
    account.completion_tokens += completion
    place = {"chunk_id": chunk.id, "doc_id": chunk.doc_id, "order": chunk.order, "start": chunk.start, "end": chunk.end}
    record = _moved(record_from_json({**row, **place}), chunk.start)
    account.failed += record.status == "failed"
    return record


def _moved(record: ExtractionRecord, by: int) -> ExtractionRecord:
    def moved(edge: ExtractedHyperedge) -> ExtractedHyperedge:
        return replace(edge, start=edge.start + by, end=edge.end + by)

    return replace(record, hyperedges=tuple(map(moved, record.hyperedges)))
