"""Folders and paths: which files are read, under which ids, and what is an error."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.readers import read_corpus


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


def test_folders_are_read_in_order_without_hidden_entries(tmp_path: Path, ledger: Ledger) -> None:
    for name in ["b.txt", "a/z.md", "a/B.txt", "a/.hidden.txt", ".git/x.txt", "c.jsonl"]:
        write(tmp_path / name, '{"text": "x"}' if name.endswith("jsonl") else "x")
    documents = read_corpus([tmp_path], ledger)
    assert [document.id for document in documents] == ["a/B.txt", "a/z.md", "b.txt", "c.jsonl:1"]
    assert documents[0].source == str(tmp_path / "a" / "B.txt")
    assert not ledger


def test_lines_without_ids_in_files_of_one_name_differ_by_folder(tmp_path: Path, ledger: Ledger) -> None:
    for name in ["a/c.jsonl", "b/c.jsonl"]:
        write(tmp_path / name, '{"text": "x"}')
    assert [document.id for document in read_corpus([tmp_path], ledger)] == ["a/c.jsonl:1", "b/c.jsonl:1"]


def test_sources_are_paths_as_given(tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "d" / "a.txt", "x")
    monkeypatch.chdir(tmp_path)
    assert read_corpus([Path("d")], ledger)[0].source == "d/a.txt"


def test_what_cannot_be_used_in_a_folder_is_set_aside(tmp_path: Path, ledger: Ledger) -> None:
    write(tmp_path / "a.pdf", "x")
    write(tmp_path / "b.txt", b"\xe9")
    write(tmp_path / "c.parquet", b"x")
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "d.parquet")
    (tmp_path / "e.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "f.txt")
    write(tmp_path / "g.txt", "good")
    assert [document.id for document in read_corpus([tmp_path], ledger)] == ["g.txt"]
    assert [entry.where for entry in ledger] == [
        str(tmp_path / name) for name in ["a.pdf", "b.txt", "c.parquet", "d.parquet", "e.txt", "f.txt"]
    ]
    assert ledger.entries[0].reason.endswith("known types: .jsonl, .txt, .md, .parquet")


def test_symlink_loops_end(tmp_path: Path, ledger: Ledger) -> None:
    write(tmp_path / "a" / "x.txt", "x")
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "me.txt").symlink_to(tmp_path / "a" / "me.txt")
    assert [document.id for document in read_corpus([tmp_path], ledger)] == ["a/x.txt"]
    assert [entry.where for entry in ledger] == [str(tmp_path / "a" / "me.txt")]


@pytest.mark.parametrize("name", ["a.pdf", "noextension", "a.json", "a.csv"])
def test_an_unknown_type_by_name_is_an_error(name: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / name, "x")
    with pytest.raises(InputError) as raised:
        read_corpus([path], ledger)
    assert str(raised.value) == f"{path} is of an unknown type; known types: .jsonl, .txt, .md, .parquet"


@pytest.mark.parametrize("name", ["none.jsonl", "none.txt", "none.parquet", "none", "x" * 300])
def test_a_path_that_does_not_exist_is_an_error(name: str, tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match="there is no such file or folder"):
        read_corpus([tmp_path / name], ledger)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet", "."])
def test_an_unreadable_path_is_an_error(name: str, tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "d"
    write(folder / "a.txt", "x")
    path = folder if name == "." else write(folder / name, "x")
    path.chmod(0)
    with pytest.raises(InputError, match=r"cannot (read|list)"):
        read_corpus([path], ledger)
    path.chmod(0o700)


def test_a_corpus_without_documents_is_an_error(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "c.jsonl", '\n{"text": ""}\nx')
    with pytest.raises(InputError) as raised:
        read_corpus([path], ledger)
    assert str(raised.value) == f'no usable document in {path}: first reason: {path}:2: "text" is empty'


def test_an_empty_folder_is_an_error(tmp_path: Path, ledger: Ledger) -> None:
    with pytest.raises(InputError, match=r"no usable document in .* no text in any file of a known type"):
        read_corpus([tmp_path], ledger)


def test_two_files_of_one_name_are_two_documents_and_one_file_given_twice_is_one(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "notes.txt").write_text(f"Notes of {folder}.", encoding="utf-8")
    first, second = tmp_path / "a" / "notes.txt", tmp_path / "b" / "notes.txt"
    ledger = Ledger()
    documents = read_corpus([first, second, first], ledger)
    assert [document.id for document in documents] == ["notes.txt", second.as_posix()]
    assert len(ledger) == 1
