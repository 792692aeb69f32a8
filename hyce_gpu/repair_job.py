"""The repair of a damaged store: what can be made from the rest is made anew, and what cannot is said.

Documents, chunks and records are the sources; everything else follows from them, and the whole of it is built again
into a new generation. The damaged one stays as the older generation.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hyce_serving.encoder import Encoder

from hyce_gpu import encoders, tables
from hyce_gpu.accounts import Accounts
from hyce_gpu.atomic import atomic_text
from hyce_gpu.beside_checks import CACHED
from hyce_gpu.config import IndexConfig
from hyce_gpu.decisions import Decision, decision
from hyce_gpu.devices import choose_device
from hyce_gpu.indexing import Extraction, build, extractions_file, ledger_before, set_aside_failed
from hyce_gpu.ledger import Ledger
from hyce_gpu.progress import say
from hyce_gpu.schema import Chunk, Document, ExtractionRecord
from hyce_gpu.store_decisions import DECISIONS
from hyce_gpu.store_files import CACHE, LEDGER, StoreWriter, current_generation, writing
from hyce_gpu.store_parts import PARSE_ERRORS, read_own_records
from hyce_gpu.table_files import read_table, stem, table_file
from hyce_gpu.unit_checks import mend
from hyce_gpu.verify import (
    CHUNKS,
    CURRENT,
    DOCUMENTS,
    MANIFEST,
    MERGES,
    OTHER_FORMAT,
    RECORDS,
    SOURCES,
    Finding,
    generations,
    read_manifest_alone,
    verify,
    verify_generation,
)

# A damaged table may take its reader down with it: another process tries first.
_TRY_TABLE = (
    "import sys, pathlib; from hyce_gpu.table_files import read_table; "
    "read_table(pathlib.Path(sys.argv[1])).validate(full=True)"
)


def repair(root: Path, encoder: str | None = None, device: str = "auto") -> tuple[list[str], list[str]]:
    """Rebuilds what is damaged in the store at `root`; a sound store is left alone.

    Args:
        encoder: where the store's own is not to be found under its name.

    Returns:
        What was done, and what cannot be done, a line each.

    Raises:
        StoreError: no store, or another encoder than the store's.
        OutputError: the store cannot be written, or another process is writing it.
    """
    # Asked first, since a writer makes the directory.
    generations(root)
    with writing(root) as writer:
        findings = verify(root)
        mended = [] if all(one.part != CACHED for one in findings) else _mend_cache(root)
        done, lost = _repair(writer, [one for one in findings if one.part != CACHED], encoder, device)
        return [*mended, *done], lost


def _repair(
    writer: StoreWriter, findings: Sequence[Finding], encoder: str | None, device: str
) -> tuple[list[str], list[str]]:
    root, damaged = writer.root, {finding.part for finding in findings}
    if not findings:
        return [], []
    if CURRENT in damaged and (sound := _newest_sound(root)):
        return _point_at(root, sound, damaged), []
    if damaged == {LEDGER}:
        return _write_ledger(root), []
    return _rebuild(writer, findings, encoder, device)


def _mend_cache(root: Path) -> list[str]:
    kept, dropped = mend(root / CACHED)
    rest = "what else it held" if dropped is None else f"{dropped:,} damaged"
    return [f"{CACHED} from its own {kept:,} sound records; {rest} will be extracted again when it is wanted"]


def _newest_sound(root: Path) -> Path | None:
    return next((one for one in reversed(generations(root)) if not verify_generation(one)), None)


def _point_at(root: Path, generation: Path, damaged: Collection[str]) -> list[str]:
    with atomic_text(root / CURRENT, "the store's current generation") as file:
        file.write(generation.name + "\n")
    newest = generations(root)[-1]
    older = "" if generation == newest else f"; {newest.name} is newer, and damaged"
    done = [f"{CURRENT} names {generation.name}, the newest sound generation{older}"]
    return done + (_write_ledger(root) if LEDGER in damaged else [])


def _write_ledger(root: Path) -> list[str]:
    _ledger_of(read_own_records(current_generation(root))).write(root / LEDGER)
    return [f"{LEDGER} from {RECORDS}; what was set aside while reading the corpus is lost from it"]


def _rebuild(
    writer: StoreWriter, findings: Sequence[Finding], encoder: str | None, device: str
) -> tuple[list[str], list[str]]:
    root, damaged = writer.root, {finding.part for finding in findings}
    generation = generations(root)[-1]
    if OTHER_FORMAT in damaged:
        return [], [f"{generation}: another store format; run 'hyce index' with the same corpus"]
    extraction, lost = _sources(generation, damaged)
    if extraction is None:
        waiting = [f"{one.part} needs the sources: not rebuilt" for one in findings if one.part not in (*lost, CURRENT)]
        return [], [*lost.values(), *waiting]
    vectors, described, config, notes = _as_described(generation, damaged, encoder, device)
    ledger = _ledger_of(extraction.records) if LEDGER in damaged else ledger_before(root)
    decided, told = _decisions(generation, damaged)
    extraction = replace(extraction, described=described, decisions=decided)
    say(f"repair: building {len(damaged):,} damaged parts again from {', '.join(SOURCES)}")
    build(writer, extraction, vectors, config, Accounts(), ledger)
    done = [f"{finding.part} from {finding.rebuilt_from}" for finding in findings]
    return list(dict.fromkeys(done + notes + told)), [str(finding) for finding in verify(root)]


def _sources(generation: Path, damaged: Collection[str]) -> tuple[Extraction | None, dict[str, str]]:
    """Documents, chunks and records, or by name why they cannot be had."""
    broken = set(map(stem, damaged))
    usable = [name for name in SOURCES if stem(name) not in broken]
    if MANIFEST in damaged:
        # No checksum says that a file is what was written.
        usable = [name for name in usable if _can_be_read(_file(generation, name))]
    read: dict[str, Any] = {
        DOCUMENTS: DOCUMENTS in usable and _tried(lambda: _documents(generation)),
        RECORDS: RECORDS in usable and _tried(lambda: read_own_records(generation)),
    }
    lost = {name: _lost(name, generation) for name, found in read.items() if not found}
    if lost:
        return None, lost
    documents, records = read[DOCUMENTS], read[RECORDS]
    chunks = (
        _tried(lambda: tables.chunks_of(read_table(_file(generation, CHUNKS)), documents)) if CHUNKS in usable else None
    )
    if not chunks or not _are_of(chunks, records):
        chunks = _tried(lambda: _chunks_of(documents, records))
    if not chunks:
        return None, {RECORDS: f"{RECORDS} does not fit {DOCUMENTS}: {_lost(RECORDS, generation)}"}
    return Extraction(documents, chunks, records, {}), {}


def _file(generation: Path, name: str) -> Path:
    return generation / name if name == RECORDS else table_file(generation, stem(name))


def _decisions(generation: Path, damaged: Collection[str]) -> tuple[tuple[Decision, ...], list[str]]:
    """What was decided about names, and what can no longer be told of it."""
    broken, there = set(map(stem, damaged)), _file(generation, DECISIONS).exists()

    def usable(name: str) -> bool:
        return stem(name) not in broken and (MANIFEST not in damaged or _can_be_read(_file(generation, name)))

    if not there and stem(DECISIONS) not in broken:
        return (), []
    found = usable(DECISIONS) and _tried(lambda: list(tables.decisions_of(read_table(_file(generation, DECISIONS)))))
    if found:
        return tuple(found), []
    if not usable(MERGES):
        return (), [f"{DECISIONS} and {MERGES} are damaged: all decisions about names are lost"]
    merges = [one for one in tables.merges_of(read_table(_file(generation, MERGES))) if not one.alias]
    told = f"{DECISIONS}: {len(merges):,} joins of names are known from {MERGES}; which names to keep apart is lost"
    return tuple(decision(one.first, one.second) for one in merges), [told]


def _can_be_read(path: Path) -> bool:
    if path.name == RECORDS:
        return path.is_file()
    tried = subprocess.run([sys.executable, "-c", _TRY_TABLE, str(path)], capture_output=True, check=False)
    return tried.returncode == 0


def _tried(make: Callable[[], list[Any]]) -> list[Any] | None:
    try:
        return make()
    except PARSE_ERRORS:
        return None


def _documents(generation: Path) -> list[Document]:
    return tables.documents_of(read_table(_file(generation, DOCUMENTS)))


def _are_of(chunks: Sequence[Chunk], records: Sequence[ExtractionRecord]) -> bool:
    return [(one.id, one.doc_id, one.order, one.start, one.end) for one in chunks] == [
        (one.chunk_id, one.doc_id, one.order, one.start, one.end) for one in records
    ]


def _chunks_of(documents: Sequence[Document], records: Sequence[ExtractionRecord]) -> list[Chunk]:
    """The chunks that the records are of. Raises KeyError or ValueError where the documents are others."""
    by_id = {document.id: document for document in documents}
    chunks = []
    for record in records:
        document = by_id[record.doc_id]
        text = document.text[record.start : record.end]
        if len(text) != record.end - record.start:
            raise ValueError(f"{record.chunk_id} ends at {record.end}, behind its document's {len(document.text)}")
        place = (record.chunk_id, record.doc_id, record.order, record.start, record.end)
        chunks.append(Chunk(*place, text, document.title))
    return chunks


def _lost(name: str, generation: Path) -> str:
    held = "texts" if name == DOCUMENTS else "extractions"
    cached = extractions_file(generation.parent / CACHE).exists()
    cost = "what the cache holds is not extracted again" if cached else "there is no cache: all is extracted again"
    return f"{name} holds the only copy of the {held}: run 'hyce index' with the same corpus; {cost}"


def _as_described(
    generation: Path, damaged: Collection[str], name: str | None, device: str
) -> tuple[Encoder, Mapping[str, Any], Mapping[str, Any], list[str]]:
    """Encoder, extractor and options as the manifest tells them, and what it no longer tells."""
    manifest = read_manifest_alone(generation)[0] or {}
    told = {part: manifest[part] for part in ("encoder", "extractor", "config") if isinstance(manifest.get(part), dict)}
    config = told.get("config") or asdict(IndexConfig())
    built_with = told.get("encoder", {}).get("name")
    encoder = Encoder(name or built_with, choose_device(device), _batch(config))
    if MANIFEST not in damaged:
        encoders.require_same(encoder, manifest["encoder"], str(generation.parent))
    stand_ins = {
        "encoder": f"the encoder is {encoder.name}",
        "extractor": "the extractor is called 'records'",
        "config": "the options are the defaults",
    }
    notes = [f"{MANIFEST} no longer tells the {part}: {way}" for part, way in stand_ins.items() if part not in told]
    return encoder, told.get("extractor", {"name": "records", "file": RECORDS}), config, notes


def _batch(config: Mapping[str, Any]) -> int:
    batch = config.get("encode_batch")
    return batch if isinstance(batch, int) and batch > 0 else IndexConfig().encode_batch


def _ledger_of(records: Sequence[ExtractionRecord]) -> Ledger:
    ledger = Ledger()
    set_aside_failed(records, ledger)
    return ledger
