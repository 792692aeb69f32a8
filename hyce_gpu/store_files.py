"""Generations of a store directory: written aside, made current by one atomic rename, opened by size and version.

    DIR/CURRENT          the name of the current generation
    DIR/gen-000001/      manifest.json and the files that it lists, each with its size and SHA-256
    DIR/ledger.jsonl     what was set aside; changes with the generation
    DIR/LOCK             held by the one writer
    DIR/cache/           what was extracted, by content, for the next time

Knows files and bytes; what they mean is `store`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from hyce_gpu.errors import OutputError, StoreError
from hyce_gpu.file_pieces import base_name
from hyce_gpu.lock import LOCK, only_writer

FORMAT = "hyce-store/4"
# Format 2 had its tables as Parquet; until format 3, chunks without hyperedges came last and were in no table. A change
# of such a store writes the new format.
BARE_LAST = ("hyce-store/2", "hyce-store/3")
READABLE = (*BARE_LAST, FORMAT)
# Finished units of the jobs that fill the store; not part of any generation.
CACHE = "cache"
LEDGER = "ledger.jsonl"
_CURRENT = "CURRENT"
_MANIFEST = "manifest.json"
_PREFIX = "gen-"
# What questions read whole, or show, is checked at every open; of what they read a few rows of, or nothing, only files
# up to so many bytes, since a GiB takes a second. All are checked by `hyce verify`.
_READ_IN_PART = ("_vectors.npy", ".faiss", "records.jsonl", "names.arrow")
_CHECKED_AT_OPEN = 1 << 24
_HASHING_THREADS = 4


def current_generation(root: Path) -> Path:
    """The directory of the current generation.

    Raises:
        StoreError: there is no store, or it does not name a generation that is there.
    """
    if not root.exists():
        raise StoreError(
            f"no store at {root}: the directory does not exist; build one with 'hyce index ... --store {root}'"
        )
    try:
        name = (root / _CURRENT).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(
            f"no store at {root}: it has no readable {_CURRENT} file; build one with 'hyce index'"
        ) from error
    generation = root / name
    if not name.startswith(_PREFIX) or not generation.is_dir():
        raise StoreError(f"broken store {root}: {_CURRENT} names {name!r}, which is not there; build it again")
    return generation


def read_manifest(generation: Path) -> dict[str, Any]:
    """The manifest of a generation whose files are all there in their full size.

    Raises:
        StoreError: a manifest that cannot be read, another format version, or a file that is missing or cut short.
    """
    path = generation / _MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        version, files = manifest["format"], manifest["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"broken store: cannot read {path} ({type(error).__name__}); see hyce verify") from error
    if version not in READABLE:
        raise StoreError(
            f"{path}: store format {version!r}, this version reads {' and '.join(READABLE)}; build the store again"
        )
    # Stores of earlier versions have none.
    if manifest.get("sha256") not in (None, manifest_checksum(manifest)):
        raise StoreError(f"broken store: {path} is not what its own checksum says; see hyce verify")
    checked = []
    for name, entry in files.items():
        file = generation / name
        size = file.stat().st_size if file.exists() else None
        if size != entry["bytes"]:
            found = "is missing" if size is None else f"has {size:,} bytes"
            raise StoreError(f"broken store: {file} {found}, expected {entry['bytes']:,} bytes; see hyce verify")
        if size <= _CHECKED_AT_OPEN or not base_name(name).endswith(_READ_IN_PART):
            checked.append(name)
    _require_sound(generation, {name: files[name]["sha256"] for name in checked})
    return dict(manifest)


def _require_sound(generation: Path, expected: Mapping[str, str]) -> None:
    # One thread hashes a GiB a second, and more where it waits for the disk meanwhile.
    with ThreadPoolExecutor(_HASHING_THREADS) as pool:
        found = pool.map(_sha256, (generation / name for name in expected))
        for (name, checksum), actual in zip(expected.items(), found, strict=True):
            if actual != checksum:
                raise StoreError(f"broken store: {generation / name} is not what was written; see hyce verify")


def require_sound(generation: Path, manifest: Mapping[str, Any], base: str) -> None:
    """Checks a file and its pieces, which may be too large to be checked whenever the store is opened.

    Raises:
        StoreError: one of them is not what was written.
    """
    entries = manifest["files"].items()
    _require_sound(generation, {name: entry["sha256"] for name, entry in entries if base_name(name) == base})


@contextmanager
def writing(root: Path) -> Iterator[StoreWriter]:
    """Makes this process the one writer of the store directory `root`, which is made where it is missing.

    Raises:
        OutputError: `root` cannot be written, is something else than a store, or another process is writing it.
    """
    with ExitStack() as held:
        with _named(root):
            _claim(root)
            held.enter_context(only_writer(root, f"the store {root}"))
            # A kill may have come between.
            with suppress(StoreError):
                _settle(root)
        yield StoreWriter(root)


class StoreWriter:
    """Writes generations of a store. Use `writing`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def generation(
        self, manifest: Mapping[str, Any], onto: Path | None = None, ledger: str | None = None
    ) -> Iterator[Path]:
        """Yields a directory to write files into; on success they become the current generation.

        Args:
            onto: a generation whose files are there from the start, linked where the disk can link; none is to be
                written to. By default the directory is empty.
            ledger: its new content, from the moment on when the generation is current; by default it stays.

        Args:
            manifest: sealed with the files, as it stands when the block ends.

        Raises:
            OutputError: it cannot be written.
        """
        draft = self.root / ".draft"
        try:
            with _named(self.root):
                shutil.rmtree(draft, ignore_errors=True)
                draft.mkdir()
                if onto:
                    _link_files(onto, draft)
                yield draft
                _seal(draft, manifest, _linked_entries(onto, draft) if onto else {})
                _publish(self.root, draft, ledger)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _named(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"cannot write the store {root}: {error.strerror or error}") from error


def _claim(root: Path) -> None:
    if root.exists() and not root.is_dir():
        raise OutputError(f"cannot write the store {root}: it is a file, a store is a directory")
    ours = {_CURRENT, f"{_CURRENT}.partial", LOCK, CACHE, ".draft", LEDGER}
    if root.is_dir() and not (root / _CURRENT).exists():
        foreign = [p.name for p in root.iterdir() if p.name not in ours and _PREFIX not in p.name]
        if foreign:
            raise OutputError(f"{root} is not a store and not empty (it holds {foreign[0]!r}); name another directory")
    root.mkdir(parents=True, exist_ok=True)


def _entries(generation: Path) -> dict[str, Any]:
    files: dict[str, Any] = json.loads((generation / _MANIFEST).read_bytes())["files"]
    return files


def _link_files(generation: Path, draft: Path) -> None:
    for name in _entries(generation):
        try:
            os.link(generation / name, draft / name)
        except OSError:
            # Not every disk has links.
            shutil.copyfile(generation / name, draft / name)


def _linked_entries(generation: Path, draft: Path) -> dict[str, Any]:
    """The manifest's entries of files that the draft has by a link: what was written down of them still holds."""
    files = _entries(generation).items()
    return {name: one for name, one in files if (draft / name).exists() and (draft / name).samefile(generation / name)}


def _seal(draft: Path, manifest: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    files = {}
    for file in sorted(path for path in draft.iterdir()):
        _sync(file)
        files[file.name] = known.get(file.name) or {"bytes": file.stat().st_size, "sha256": _sha256(file)}
    whole = {"format": FORMAT, **manifest, "files": files}
    text = json.dumps({**whole, "sha256": manifest_checksum(whole)}, indent=2, ensure_ascii=True)
    (draft / _MANIFEST).write_text(text + "\n", encoding="utf-8")
    _sync(draft / _MANIFEST)
    _sync(draft)


def _publish(root: Path, draft: Path, ledger: str | None) -> None:
    older = sorted(path for path in root.glob(f"{_PREFIX}*") if path.is_dir())
    number = int(older[-1].name.removeprefix(_PREFIX)) + 1 if older else 1
    name = f"{_PREFIX}{number:06d}"
    if ledger is not None:
        waiting = root / f"{LEDGER}.{name}"
        waiting.write_text(ledger, encoding="utf-8")
        _sync(waiting)
    draft.rename(root / name)
    pointer = root / f"{_CURRENT}.partial"
    pointer.write_text(name + "\n", encoding="utf-8")
    _sync(pointer)
    pointer.replace(root / _CURRENT)
    _sync(root)
    _settle(root)
    # The generation before stays: a reader may have opened it and not yet mapped every file.
    for generation in older[:-1]:
        shutil.rmtree(generation, ignore_errors=True)


def _settle(root: Path) -> None:
    """Gives the ledger what waits for the generation that is current; of others, nothing became."""
    current = current_generation(root).name
    for waiting in root.glob(f"{LEDGER}.{_PREFIX}*"):
        if waiting.name != f"{LEDGER}.{current}":
            waiting.unlink()
        elif waiting.stat().st_size:
            waiting.replace(root / LEDGER)
        else:
            # Without entries there is no file.
            (root / LEDGER).unlink(missing_ok=True)
            waiting.unlink()


def drop_older(root: Path) -> None:
    """Takes away every generation but the current one, and unfinished ones; the caller is the writer."""
    current = current_generation(root)
    for path in root.glob(f"{_PREFIX}*"):
        if path != current:
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(root / ".draft", ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest_checksum(manifest: Mapping[str, Any]) -> str:
    """The SHA-256 of a manifest apart from its own entry of that name, and from what the making cost.

    Runs over the same input cost differently and are to give the same checksum.
    """
    rest = {name: value for name, value in manifest.items() if name not in ("accounts", "sha256")}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, ensure_ascii=True).encode()).hexdigest()
