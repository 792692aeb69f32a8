"""Do the parts of a store fit together? Counts, numbers that point into other parts, offsets, vectors and indexes.

Reads only the files that it is told are sound, and checks what these allow. Knows nothing of checksums.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from hyce_gpu import tables
from hyce_gpu.decisions import Verdicts, decision
from hyce_gpu.errors import InputError
from hyce_gpu.progress import progress
from hyce_gpu.store_parts import ARRAYS, INDEXED, OPTIONAL, SCHEMAS, Check, Parts, Problem, guarded, read_parts
from hyce_gpu.table_files import table_file
from hyce_gpu.vector_index import FLAT_UP_TO, Since, VectorIndex

# How far the length of a unit vector may be from 1: float32 gives 1e-7, half precision 1e-3.
_NORM_TOLERANCE = 1e-3
# How much less similar than itself the best row may be that an index finds for a row: the second one is for 8 bits a
# number.
_SEARCH_TOLERANCE, _ROUGH_TOLERANCE = 1e-3, 1e-2
_SEARCHES = 8
_ROWS_AT_ONCE = 1 << 16


def check_contents(generation: Path, manifest: Mapping[str, Any], sound: Collection[str]) -> list[Problem]:
    """What does not fit in a generation.

    Args:
        manifest: with counts and the encoder's dimension.
        sound: names of the files that may be parsed. A check that needs another one, or a wrong one, is left out.
    """
    parts, problems = read_parts(generation, manifest, sound)
    at_hand = {*parts.table, *parts.array, *([] if parts.records is None else ["records"]), *sound}
    with progress("contents", len(_CHECKS), "checks") as advance:
        for part, needs, check in _CHECKS:
            if at_hand.issuperset(needs):
                found = guarded(part, check, parts)
                problems += [_with_file(one, generation) for one in found]
                # What leads into a wrong part is not wrong for that.
                at_hand -= {one.part.removesuffix(".npy") for one in found}
            advance()
    return problems


def _with_file(problem: Problem, generation: Path) -> Problem:
    """Checks name a table without the suffix, which depends on the store's format."""
    is_table = problem.part in (*SCHEMAS, *OPTIONAL)
    return replace(problem, part=table_file(generation, problem.part).name) if is_table else problem


def _counts(parts: Parts) -> Iterator[Problem]:
    """The manifest's counts. Names are counts, values are the part that is counted and how many it holds."""
    found = {name: table.num_rows for name, table in parts.table.items()}
    found["alias_merges"] = tables.count_alias_merges(parts.table["merges"])
    del found["merges"]
    # Not every store has these, so no manifest counts them.
    for name in OPTIONAL:
        found.pop(name, None)
    found["incidences"] = len(parts.array["member"])
    found["relations"] = int(pc.sum(pc.list_value_length(parts.table["hyperedges"]["relations"])).as_py() or 0)
    # Its table has a row for each chunk without hyperedges as well.
    found["bare_chunks"] = int(np.count_nonzero(np.diff(parts.array["member_pointer"]) == 0))
    found["hyperedges"] -= found["bare_chunks"]
    for name, number in found.items():
        if parts.counts.get(name) != number:
            yield Problem("manifest.json", f"{number:,} {name}, as the files have", f"{parts.counts.get(name)}")


def _lengths(parts: Parts) -> Iterator[Problem]:
    rows = parts.table["hyperedges"].num_rows
    expected = {
        "passage": rows,
        "member_pointer": rows + 1, "term_pointer": rows + 1, "hyperedge_vectors": rows,
        "subject": parts.table["chunks"].num_rows, "chunk_vectors": parts.table["chunks"].num_rows,
        "entity_vectors": parts.table["entities"].num_rows, "term_count": len(parts.array["term"]),
    }  # fmt: skip
    for name, number in expected.items():
        if len(parts.array[name]) != number:
            yield Problem(f"{name}.npy", f"{number:,} rows", f"{len(parts.array[name]):,}")


def _pointers(pointer: str, values: str, limit: Callable[[Parts], int]) -> Check:
    """CSR: the pointer rises from 0 to the number of values, and each row's values rise within 0..limit-1."""

    def check(parts: Parts) -> Iterator[Problem]:
        start, value = parts.array[pointer], parts.array[values]
        if not len(start) or start[0] != 0 or start[-1] != len(value) or np.any(np.diff(start) < 0):
            yield Problem(f"{pointer}.npy", f"numbers that rise from 0 to {len(value):,}", "others")
            return
        yield from _inside(f"{values}.npy", value, 0, limit(parts))
        # Where a row begins, the number may fall.
        rises = np.diff(value) > 0
        begins = start[1:-1]
        rises[begins[(begins > 0) & (begins < len(value))] - 1] = True
        yield from _all_hold(f"{values}.npy", "numbers that rise within each row", rises)

    return check


def _inside(part: str, numbers: np.ndarray, least: int, limit: int) -> Iterator[Problem]:
    yield from _all_hold(part, f"numbers from {least} to {limit - 1:,}", (numbers >= least) & (numbers < limit))


def _all_hold(part: str, expected: str, holds: np.ndarray | Sequence[bool]) -> Iterator[Problem]:
    wrong = np.flatnonzero(~np.asarray(holds, dtype=bool))
    if len(wrong):
        yield Problem(part, expected, f"{len(wrong):,} that are not, the first at {wrong[0]:,}")


def _rows(parts: Parts) -> Iterator[Problem]:
    """Rows are hyperedges with two entities or more, and chunks without entities, ascending."""
    passage = parts.array["passage"]
    yield from _inside("passage.npy", passage, 0, parts.table["chunks"].num_rows)
    yield from _inside("subject.npy", parts.array["subject"], -1, parts.table["entities"].num_rows)
    yield from _all_hold("term_count.npy", "numbers above 0", parts.array["term_count"] > 0)
    members = np.diff(parts.array["member_pointer"])
    yield from _all_hold("member_pointer.npy", "two entities or more a hyperedge, or none", members != 1)
    yield from _all_hold("passage.npy", "ascending chunks without hyperedges", np.diff(passage[members == 0]) > 0)


def _names(parts: Parts) -> Iterator[Problem]:
    for table, column in (("documents", "id"), ("chunks", "id"), ("entities", "canonical"), ("terms", "word")):
        values = parts.table[table][column]
        distinct = len(pc.unique(values))
        if distinct != len(values) or values.null_count:
            yield Problem(table, f"each {column} once", f"{distinct:,} in {len(values):,} rows")


def _decisions(parts: Parts) -> Iterator[Problem]:
    """Each a verdict on two canonical names in order, once, and together without contradiction."""
    rows = parts.table["decisions"].to_pylist()
    yield from _all_hold("decisions", "verdicts on two names in order", list(map(_is_decision, rows)))
    found = tables.decisions_of(parts.table["decisions"])
    if list(found) != sorted(set(found)):
        yield Problem("decisions", "each decision once, in order", "others")
    try:
        Verdicts(found)
    except InputError as error:
        yield Problem("decisions", "decisions that go together", str(error))


def _is_decision(row: Mapping[str, Any]) -> bool:
    try:
        return vars(decision(row["first"], row["second"], row["verdict"])) == row
    except InputError:
        return False


def _chunk_places(parts: Parts) -> Iterator[Problem]:
    chunks = {name: parts.table["chunks"][name].to_numpy() for name in ("document", "start", "end")}
    outside = list(_inside("chunks", chunks["document"], 0, parts.table["documents"].num_rows))
    if outside:
        yield from outside
        return
    length = pc.utf8_length(parts.table["documents"]["text"]).to_numpy()[chunks["document"]]
    inside = (chunks["start"] >= 0) & (chunks["start"] <= chunks["end"]) & (chunks["end"] <= length)
    yield from _all_hold("chunks", "places within the document's text", inside)


def _sources(parts: Parts) -> Iterator[Problem]:
    """Where hyperedges stand: known chunks of known documents, and their text where the segment is the text's own."""
    texts = dict(zip(*(parts.table["documents"][name].to_pylist() for name in ("id", "text")), strict=True))
    names = list(texts)
    chunks = parts.table["chunks"].to_pylist()
    place = {row["id"]: (names[row["document"]], row["start"], row["end"]) for row in chunks}
    number = {row["id"]: position for position, row in enumerate(chunks)}
    known, inside, alike, first = [], [], [], []
    for row in parts.table["hyperedges"].select(["segment", "sources"]).to_pylist():
        sources = row["sources"]
        known.append(bool(sources) and all(place.get(s["chunk_id"], ("",))[0] == s["doc_id"] for s in sources))
        if not known[-1]:
            continue
        first.append(number[sources[0]["chunk_id"]])
        inside.append(all(0 <= s["start"] <= s["end"] <= len(texts[s["doc_id"]]) for s in sources))
        alike.append(all(_stands_there(row["segment"], s, texts[s["doc_id"]], place[s["chunk_id"]]) for s in sources))
    part = "hyperedges"
    yield from _all_hold(part, "sources in known chunks", known)
    yield from _all_hold(part, "sources within their document", inside)
    yield from _all_hold(part, "segments as their document has them", alike)
    if all(known) and "passage" in parts.array:
        same = parts.array["passage"][: len(first)] == np.asarray(first, dtype=np.int64)
        yield from _all_hold("passage.npy", "the chunk of each hyperedge's first source", same)


def _stands_there(segment: str, source: Mapping[str, Any], text: str, chunk: tuple[str, int, int]) -> bool:
    start, end = source["start"], source["end"]
    # A segment in a model's own words has the place of its chunk, or of the part of it that the model was shown.
    if (start, end) == chunk[1:] or end - start != len(segment):
        return True
    return _normalised(text[start:end]) == _normalised(segment)


def _normalised(text: str) -> str:
    """What hyperedges that were merged into one agree in."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _vectors(name: str) -> Check:
    def check(parts: Parts) -> Iterator[Problem]:
        vectors = parts.array[name]
        if vectors.shape[1] != parts.dimension:
            yield Problem(
                f"{name}.npy", f"{parts.dimension} numbers a row, as the encoder gives", f"{vectors.shape[1]}"
            )
        blocks = (vectors[start : start + _ROWS_AT_ONCE] for start in range(0, len(vectors), _ROWS_AT_ONCE))
        lengths = [np.sqrt(np.einsum("nd,nd->n", block, block, dtype=np.float64)) for block in blocks]
        length = np.concatenate(lengths) if lengths else np.zeros(0)
        # NaN is neither.
        unit = (length == 0) | (np.abs(length - 1) <= _NORM_TOLERANCE)
        yield from _all_hold(f"{name}.npy", "rows of length 1, or of zeros", unit)

    return check


def _index(name: str) -> Check:
    part = f"{name}.faiss"

    def check(parts: Parts) -> Iterator[Problem]:
        vectors = parts.array[INDEXED[name]]
        since = Since.of(parts.generation / f"{INDEXED[name]}.npy")
        index = VectorIndex.open(parts.generation / part, vectors, "cpu", since)
        asked = np.unique(np.linspace(0, max(len(vectors) - 1, 0), min(_SEARCHES, len(vectors)), dtype=np.int64))
        rows = np.asarray(vectors[asked], dtype=np.float32)
        # What FAISS itself finds: equal rows may stand for each other.
        found = index.candidates(rows, 1) if len(asked) else np.zeros((0, 0), dtype=np.int64)
        score = np.einsum("qd,qkd->qk", rows, vectors[np.maximum(found, 0)], dtype=np.float64)
        score[found < 0] = -np.inf
        own = np.einsum("qd,qd->q", rows, rows, dtype=np.float64)
        tolerance = _SEARCH_TOLERANCE if index.is_exact else _ROUGH_TOLERANCE
        finds = score.max(axis=1, initial=-np.inf) >= own - tolerance
        yield from _all_hold(part, f"to find each of {len(asked)} vectors by itself", finds)

    return check


def _which_indexes(parts: Parts) -> Iterator[Problem]:
    for name in ("hyperedges", "passages"):
        if len(parts.array[INDEXED[name]]) > FLAT_UP_TO and not (parts.generation / f"{name}.faiss").exists():
            yield Problem(f"{name}.faiss", f"an index of more than {FLAT_UP_TO:,} vectors", "none")


def _records(parts: Parts) -> Iterator[Problem]:
    names = parts.table["documents"]["id"].to_pylist()
    rows = parts.table["chunks"].to_pylist()
    expected = [(row["id"], names[row["document"]], row["order"], row["start"], row["end"]) for row in rows]
    found = [(one.chunk_id, one.doc_id, one.order, one.start, one.end) for one in parts.records or []]
    if len(found) != len(expected):
        yield Problem("records.jsonl", f"{len(expected):,} records, one a chunk", f"{len(found):,}")
    same = [one == other for one, other in zip(found, expected, strict=False)]
    yield from _all_hold("records.jsonl", "the chunks' places in their order", same)


_EVERY_NUMBER = ("member_pointer", "member", "passage", "subject", "term_pointer", "term", "term_count")
_CHECKS: tuple[tuple[str, tuple[str, ...], Check], ...] = (
    ("manifest.json", (*SCHEMAS, "member_pointer", "member"), _counts),
    ("manifest.json", (*ARRAYS, "hyperedges", "chunks", "entities"), _lengths),
    ("member.npy", ("member_pointer", "member", "entities"),
     _pointers("member_pointer", "member", lambda parts: parts.table["entities"].num_rows)),
    ("term.npy", ("term_pointer", "term", "terms"),
     _pointers("term_pointer", "term", lambda parts: parts.table["terms"].num_rows)),
    ("passage.npy", (*_EVERY_NUMBER, "hyperedges", "chunks", "entities"), _rows),
    ("entities", ("documents", "chunks", "entities", "terms"), _names),
    ("decisions", ("decisions",), _decisions),
    ("chunks", ("documents", "chunks"), _chunk_places),
    ("hyperedges", ("documents", "chunks", "hyperedges"), _sources),
    *((f"{name}.npy", (name,), _vectors(name)) for name in INDEXED.values()),
    ("entities.faiss", ("hyperedge_vectors", "chunk_vectors"), _which_indexes),
    *((f"{name}.faiss", (vectors, f"{name}.faiss"), _index(name)) for name, vectors in INDEXED.items()),
    ("records.jsonl", ("documents", "chunks", "records"), _records),
)  # fmt: skip
