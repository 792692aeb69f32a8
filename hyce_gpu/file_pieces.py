"""Files that grow without being copied: a base file, and pieces beside it that later changes wrote.

    entities.arrow  entities+1.arrow            a table; a piece has the rows that it adds or replaces, by number
    member.npy      member+1.raw  member+2.npz  an array; .raw goes on where the file before ends, .npz replaces rows
    records.jsonl   records+1.jsonl             lines, one after the other

A generation links the files of the one before and adds pieces, so a change costs what it brings, whatever is there. An
array is mapped as one, so that readers of millions of rows copy none.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# A multiple of every machine's page size: where a piece of an array may begin.
_ALIGNMENT = 1 << 16
_MAP_FIXED = 0x10
# Rows are not reserved again beside the files that they lie in.
_FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
_NUMBER = re.compile(r"\+(\d+)(?=\.\w+$)")


def base_name(file: str) -> str:
    """The base file of a piece; another file's own name."""
    found = _NUMBER.search(file)
    if found is None:
        return file
    name = file.replace(found.group(), "")
    return re.sub(r"\.(raw|npz)$", ".npy", name)


def number_of(file: str) -> int:
    """Which change wrote a piece; 0 for a file that is none."""
    found = _NUMBER.search(file)
    return int(found.group(1)) if found else 0


def pieces_of(base: Path, *suffixes: str) -> list[Path]:
    """In the order of the changes that wrote them; by default with the base's own suffix."""
    found = (path for path in base.parent.glob(f"{base.stem}+*") if base_name(path.name) == base.name)
    wanted = suffixes or (base.suffix,)
    return sorted((path for path in found if path.suffix in wanted), key=lambda path: number_of(path.name))


def piece(base: Path, number: int, suffix: str = "") -> Path:
    return base.with_name(f"{base.stem}+{number}{suffix or base.suffix}")


def read_array(base: Path) -> np.ndarray:
    """The array, memory-mapped, private to this process: what is written to it reaches no file.

    Raises:
        OSError, ValueError, TokenError: no such file, or no array.
    """
    array: np.ndarray = _stitched(base, raws) if (raws := pieces_of(base, ".raw")) else _mapped(base)
    for changed in pieces_of(base, ".npz"):
        rows, values = _replaced(changed)
        array[rows] = values
    return array


def rows_in_base(base: Path) -> int:
    return len(_mapped(base))


def rows_replaced(base: Path) -> np.ndarray:
    """Numbers of the rows that pieces replaced, ascending [n] int64."""
    found = [_replaced(path)[0] for path in pieces_of(base, ".npz")]
    return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)


def append_rows(base: Path, number: int, values: np.ndarray) -> None:
    """Writes the piece with the rows that follow those of the base and its pieces."""
    end, last = 0, base
    for path in (base, *pieces_of(base, ".raw")):
        begin, last = _begin(end), path
        end = begin + path.stat().st_size
    with last.open("rb") as file, piece(base, number, ".raw").open("wb") as out:
        # A piece begins where a page may, and has the bytes from there on once more.
        file.seek(_begin(end) - begin)
        out.write(file.read())
        out.write(np.ascontiguousarray(values, dtype=_mapped(base).dtype).data)


def replace_rows(base: Path, number: int, rows: np.ndarray, values: np.ndarray) -> None:
    """Writes the piece with new values of rows that are there."""
    np.savez(piece(base, number, ".npz"), row=rows, value=values)


def _replaced(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as held:
        return held["row"], held["value"]


def _mapped(base: Path) -> np.memmap:
    # Copy-on-write, since torch warns of read-only memory; only replaced rows are written, so few pages are copied.
    found = np.load(base, mmap_mode="c", allow_pickle=False)
    assert isinstance(found, np.memmap)
    return found


def _begin(end: int) -> int:
    return end - end % _ALIGNMENT


def _stitched(base: Path, raws: Sequence[Path]) -> np.ndarray:
    """The bytes of base and pieces as one range of memory, each mapped over the end of the one before."""
    first = _mapped(base)
    parts, end = [], 0
    for path in (base, *raws):
        begin = _begin(end)
        end = begin + path.stat().st_size
        parts.append((begin, path))
    memory = mmap.mmap(-1, end, flags=_FLAGS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for begin, path in parts:
        _map_over(address + begin, path)
    width = int(np.prod(first.shape[1:], dtype=np.int64))
    rows = (end - first.offset) // (first.dtype.itemsize * width)
    return np.frombuffer(memory, first.dtype, rows * width, first.offset).reshape(rows, *first.shape[1:])


def _map_over(address: int, path: Path) -> None:
    """Puts the file where other memory of this process was. Python's own mmap chooses the place itself."""
    call = ctypes.CDLL(None, use_errno=True).mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        placed = call(address, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _MAP_FIXED, file.fileno(), 0)
    if placed != address:
        raise OSError(ctypes.get_errno(), f"cannot map {path}")
