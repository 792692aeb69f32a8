"""A store of any format that was ever written opens, or is refused with the way out; the same input, the same bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from hyce_gpu.engine import Engine
from hyce_gpu.errors import StoreError
from hyce_gpu.repair_job import repair
from hyce_gpu.report import show_store
from hyce_gpu.store import Store
from hyce_gpu.verify import verify

STORES = Path(__file__).parent / "stores"


@pytest.mark.parametrize("version", ["format-2", "format-3", "format-4"])
def test_a_store_of_every_format_answers(tmp_path: Path, version: str) -> None:
    # A copy somewhere else, that nobody may write: a store is moved and mounted read-only.
    root = tmp_path / "moved" / "store"
    shutil.copytree(STORES / version, root)
    for path in [*root.rglob("*"), root]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    store = Store.open(root)
    assert {name: store.counts[name] for name in ("documents", "chunks", "bare_chunks", "hyperedges")} == {
        "documents": 4, "chunks": 4, "bare_chunks": 1, "hyperedges": 4
    }  # fmt: skip
    assert [document.id for document in store.documents()] == ["hall", "man", "fuji", "bare"]
    with Engine.open(root, device="cpu") as engine:
        born, island = engine.retrieve(["Where was Andrew Carnegie born?", "On which island stands 富士山?"])
    assert "born in Dunfermline" in born.paths[0].segment
    assert "It stands on Honshu." in [path.segment for path in island.paths[:2]]
    assert verify(root) == []


def test_a_store_of_format_2_is_repaired_and_written_as_the_newest(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(STORES / "format-2", root)
    chunks = root / "gen-000001" / "chunks.parquet"
    chunks.write_bytes(chunks.read_bytes()[:-1])
    assert [finding.part for finding in verify(root)] == ["chunks.parquet"]
    done, lost = repair(root, device="cpu")
    assert (done, lost) == (["chunks.parquet from documents.arrow and records.jsonl"], [])
    assert Store.open(root).manifest["format"] == "hyce-store/4"
    assert verify(root) == []
    assert [finding.part for finding in verify(STORES / "format-2")] == []


def test_a_store_of_another_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(STORES / "format-2", root)
    manifest = root / "gen-000001" / "manifest.json"
    for version in ("hyce-store/1", "hyce-store/99"):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": version}))
        with pytest.raises(
            StoreError,
            match=f"store format '{version}', this version reads hyce-store/2 and hyce-store/3 and hyce-store/4; ",
        ):
            Store.open(root)


def test_hash_seeds_and_threads_change_no_byte(tmp_path: Path) -> None:
    rows = [
        {"id": f"d{n}", "title": f"Town {n}", "text": f"Ada met Bob in Town {n}. Vienna lies in Austria."}
        for n in range(5)
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for seed in ("1", "2"):
        command = [
            sys.executable,
            "-c",
            "from hyce_gpu.cli import main; main()",
            "index",
            "corpus.jsonl",
            "--store",
            seed,
        ]
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": seed}
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True)
        generation = tmp_path / seed / "gen-000001"
        files = {path.name: path.read_bytes() for path in generation.iterdir()}
        manifest = json.loads(files.pop("manifest.json"))
        found.append((files, {name: value for name, value in manifest.items() if name != "accounts"}))
    assert found[0] == found[1]


def test_inspect_shows_a_part_with_its_pieces_as_one() -> None:
    out = Console(file=StringIO(), width=200)
    root = STORES / "format-4"
    show_store(str(root), Store.open(root).manifest, out)
    assert isinstance(out.file, StringIO)
    told = out.file.getvalue()
    size = sum(path.stat().st_size for path in (root / "gen-000003").glob("chunk_vectors*"))
    assert f"chunk_vectors.npy {size:>20,}  in 3 files" in told
    assert "+1" not in told
