"""Is a store what it was when it was written? Names everything that is wrong, and what each part is rebuilt from.

A file is parsed only after its checksum was found right: Arrow and FAISS may crash on bytes that nobody wrote. Knows
files and checksums; whether their contents fit together is `cross_references`'.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hyce_gpu.beside_checks import CACHED, check_beside
from hyce_gpu.cross_references import check_contents
from hyce_gpu.errors import StoreError
from hyce_gpu.progress import Advance, progress
from hyce_gpu.store_decisions import DECISIONS
from hyce_gpu.store_files import LEDGER, READABLE, current_generation, manifest_checksum
from hyce_gpu.store_parts import ARRAYS, SCHEMAS, Problem
from hyce_gpu.table_files import SUFFIX, stem

CURRENT, MANIFEST, RECORDS = "CURRENT", "manifest.json", "records.jsonl"
DOCUMENTS, CHUNKS, MERGES = f"documents{SUFFIX}", f"chunks{SUFFIX}", f"merges{SUFFIX}"
# What everything else in a generation follows from.
SOURCES = (DOCUMENTS, CHUNKS, RECORDS)
# What no repair can do anything about: another version's store is not a damaged one.
OTHER_FORMAT = "the store format"

_NEEDED = (*(f"{name}{SUFFIX}" for name in SCHEMAS), *(f"{name}.npy" for name in ARRAYS), "entities.faiss", RECORDS)
_REBUILT_FROM = {
    stem(DOCUMENTS): "", RECORDS: "", OTHER_FORMAT: "", stem(CHUNKS): f"{DOCUMENTS} and {RECORDS}",
    stem(DECISIONS): f"{MERGES}, without those that keep names apart",
    CURRENT: "the generations that are there", LEDGER: RECORDS, CACHED: "its own sound records",
}  # fmt: skip
_BLOCK = 1 << 20
# Of 64: another file's SHA-256 differs in about 60 digits, one that was damaged itself in a few.
_DIGITS_OF_DAMAGE = 8


@dataclass(frozen=True)
class Finding:
    # A file of the store, by its name.
    part: str
    expected: str
    found: str
    # What `repair` makes the part from; "" where nothing else holds what it held.
    rebuilt_from: str

    def __str__(self) -> str:
        way = f"is rebuilt from {self.rebuilt_from}" if self.rebuilt_from else "cannot be rebuilt from the rest"
        return f"{self.part}: expected {self.expected}, found {self.found}; {way}"


@dataclass
class _Files:
    """What the checksums say of the files of one generation."""

    problems: list[Problem] = field(default_factory=list)
    # Names of the files that are what the manifest says.
    sound: list[str] = field(default_factory=list)
    # Files that are there, and are not what it says.
    changed: set[str] = field(default_factory=set)
    # Entries of the manifest that are wrong about a file which is sound.
    wrong_entries: list[str] = field(default_factory=list)


def verify(root: Path) -> list[Finding]:
    """What is wrong with the current generation of the store at `root`; nothing, for a sound store.

    Damage is a finding and never raises. Where `CURRENT` is damaged, the newest generation is looked at.

    Raises:
        StoreError: `root` is no store at all.
    """
    generation, problems = pointed_at(root)
    found = [*verify_generation(generation), *map(_finding, check_beside(root))]
    return [*map(_finding, problems), *found]


def generations(root: Path) -> list[Path]:
    """The generations of a store, oldest first.

    Raises:
        StoreError: there are none, so this is no store.
    """
    found = sorted(path for path in root.glob("gen-*") if path.is_dir() and path.name[4:].isdigit())
    if not found:
        # Says which of several things is missing.
        current_generation(root)
        raise StoreError(f"no store at {root}: it has no generation; build one with 'hyce index'")
    return found


def pointed_at(root: Path) -> tuple[Path, list[Problem]]:
    """The generation that counts, and what is wrong with the file that says so."""
    newest = generations(root)[-1]
    try:
        text = (root / CURRENT).read_bytes()
    except OSError as error:
        return newest, [Problem(CURRENT, "the name of a generation", error.strerror or "a file that cannot be read")]
    # A kill between two renames leaves a newer generation that is whole and not yet current.
    named = next((one for one in generations(root) if text == f"{one.name}\n".encode()), None)
    if named is not None:
        return named, []
    shown = text[:40].decode(errors="replace")
    return newest, [Problem(CURRENT, "the name of a generation and a line end", repr(shown))]


def verify_generation(generation: Path) -> list[Finding]:
    """What is wrong with one generation; raises nothing."""
    manifest, problems = read_manifest_alone(generation)
    if manifest is None or problems:
        return [_finding(problem) for problem in (*problems, *_missing(generation))]
    files = _compare_files(generation, manifest["files"])
    if {stem(name) for name in files.changed}.issuperset(map(stem, SOURCES)):
        return [_finding(Problem(MANIFEST, "the manifest of these files", "one that fits none of the sources"))]
    problems = files.problems + [Problem(MANIFEST, "what is true of the files", wrong) for wrong in files.wrong_entries]
    named = {problem.part for problem in problems}
    problems += [one for one in check_contents(generation, manifest, files.sound) if one.part not in named]
    return [_finding(problem) for problem in problems]


def read_manifest_alone(generation: Path) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The manifest, if it is one, and what is wrong with it; looks at no other file."""
    try:
        manifest = json.loads((generation / MANIFEST).read_bytes())
    except OSError as error:
        return None, [Problem(MANIFEST, "the list of the files", error.strerror or "a file that cannot be read")]
    except (ValueError, RecursionError) as error:
        return None, [Problem(MANIFEST, "the list of the files", f"no JSON ({type(error).__name__})")]
    if not isinstance(manifest, dict):
        return None, [Problem(MANIFEST, "the list of the files", "JSON that is no object")]
    if manifest.get("sha256") not in (None, manifest_checksum(manifest)):
        return manifest, [Problem(MANIFEST, "what its own checksum says", "something else")]
    if manifest.get("format") not in READABLE:
        found = f"{manifest.get('format')!r}; build the store again"
        return manifest, [Problem(OTHER_FORMAT, " or ".join(map(repr, READABLE)), found)]
    return manifest, _malformed(manifest)


def _malformed(manifest: Mapping[str, Any]) -> list[Problem]:
    files, counts, encoder = (manifest.get(name) for name in ("files", "counts", "encoder"))
    if not isinstance(files, dict) or not all(map(_is_entry, files, files.values())):
        return [Problem(MANIFEST, "size and SHA-256 of each file", "another form of its list of files")]
    if not isinstance(counts, dict) or not all(isinstance(number, int) for number in counts.values()):
        return [Problem(MANIFEST, "counts as whole numbers", "another form of its counts")]
    kinds = {"name": str, "dimension": int, "fingerprint": list}
    if not isinstance(encoder, dict) or not all(isinstance(encoder.get(key), kind) for key, kind in kinds.items()):
        return [Problem(MANIFEST, "the encoder's name, dimension and fingerprint", "another form of its encoder")]
    listed = set(map(stem, files))
    unknown = [name for name in _NEEDED if stem(name) not in listed]
    return [Problem(MANIFEST, f"an entry of {name}", "none") for name in unknown]


def _is_entry(name: str, entry: object) -> bool:
    known = isinstance(entry, dict) and isinstance(entry.get("bytes"), int) and isinstance(entry.get("sha256"), str)
    return known and "/" not in name and name not in (".", "..")


def _missing(generation: Path) -> list[Problem]:
    """Files that every store has, where no manifest says what there is to be."""
    there = {stem(path.name) for path in generation.iterdir() if path.is_file()}
    return [Problem(name, "a file", "none") for name in _NEEDED if stem(name) not in there]


def _compare_files(generation: Path, entries: Mapping[str, Mapping[str, Any]]) -> _Files:
    files = _Files()
    with progress("checksums", sum(entry["bytes"] for entry in entries.values()), "bytes") as advance:
        for name, entry in entries.items():
            _compare(generation / name, entry, files, advance)
    for path in sorted(generation.iterdir()):
        if path.name not in entries and path.name != MANIFEST:
            files.problems.append(Problem(path.name, "no such file", "one that the manifest does not list"))
    return files


def _compare(path: Path, entry: Mapping[str, Any], files: _Files, advance: Advance) -> None:
    try:
        size, checksum = path.stat().st_size, _sha256(path, advance)
    except OSError as error:
        files.problems.append(Problem(path.name, f"{entry['bytes']:,} bytes", error.strerror or "no readable file"))
        return
    different = sum(one != other for one, other in zip(checksum, entry["sha256"], strict=False))
    is_alike = len(checksum) == len(entry["sha256"]) and different <= _DIGITS_OF_DAMAGE
    if is_alike and (different or size != entry["bytes"]):
        files.wrong_entries.append(f"an entry of {path.name} that is damaged itself")
    elif is_alike:
        files.sound.append(path.name)
    else:
        files.changed.add(path.name)
        files.problems.append(_changed(path.name, entry, size, checksum))


def _changed(name: str, entry: Mapping[str, Any], size: int, checksum: str) -> Problem:
    if size != entry["bytes"]:
        return Problem(name, f"{entry['bytes']:,} bytes", f"{size:,}")
    return Problem(name, f"the SHA-256 {entry['sha256'][:12]}…", f"{checksum[:12]}…")


def _sha256(path: Path, advance: Advance) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            advance(len(block))
    return digest.hexdigest()


def _finding(problem: Problem) -> Finding:
    made_from = _REBUILT_FROM.get(stem(problem.part), f"{DOCUMENTS}, {CHUNKS} and {RECORDS}")
    return Finding(problem.part, problem.expected, problem.found, made_from)
