"""Every encoding, alone and through the corpus reader: what is read, and what is refused with its place."""

from __future__ import annotations

import codecs
import json
from pathlib import Path

import pytest

from hyce_gpu.errors import InputError
from hyce_gpu.ledger import Ledger
from hyce_gpu.readers import read_corpus
from hyce_gpu.schema import Document
from hyce_gpu.text_files import Line, read_lines

GOOD = '{"id": "good", "text": "Good."}'


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return path


ENCODINGS = [
    pytest.param(b"", "utf-8", id="utf-8"),
    pytest.param(codecs.BOM_UTF8, "utf-8", id="utf-8 with mark"),
    pytest.param(codecs.BOM_UTF16_LE, "utf-16-le", id="utf-16 little endian"),
    pytest.param(codecs.BOM_UTF16_BE, "utf-16-be", id="utf-16 big endian"),
]


@pytest.mark.parametrize(("mark", "encoding"), ENCODINGS)
def test_lines_in_each_encoding(mark: bytes, encoding: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a", mark + "one\r\n\r\ntw\ro\n\u2028\x85".encode(encoding))
    assert list(read_lines(path)) == [Line(1, "one"), Line(2, ""), Line(3, "tw\ro"), Line(4, "\u2028\x85")]


@pytest.mark.parametrize(("mark", "encoding"), ENCODINGS)
@pytest.mark.parametrize("name", ["a.txt", "a.md"])
def test_texts_in_each_encoding(name: str, mark: bytes, encoding: str, tmp_path: Path, ledger: Ledger) -> None:
    text = "Zoë 漢字 😀\r\nnext Ċ line"
    path = write(tmp_path / name, mark + text.encode(encoding))
    assert read_corpus([path], ledger) == [Document(name, "a", text, str(path))]


@pytest.mark.parametrize(("mark", "encoding"), ENCODINGS)
def test_jsonl_in_each_encoding(mark: bytes, encoding: str, tmp_path: Path, ledger: Ledger) -> None:
    # Ċ is U+010A: its low byte is that of a line feed.
    lines = '{"id": "1", "text": "Ċ 漢 😀"}\r\n\n{"id": "3", "text": "x\u2028y"}\n'
    path = write(tmp_path / "c.jsonl", mark + lines.encode(encoding))
    found = [(document.id, document.text, document.source) for document in read_corpus([path], ledger)]
    assert found == [("1", "Ċ 漢 😀", f"{path}:1"), ("3", "x\u2028y", f"{path}:3")]
    assert not ledger


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_is_streamed_across_blocks(encoding: str, tmp_path: Path, ledger: Ledger) -> None:
    # Pairs of surrogates at odd and even places: some block ends between two halves.
    texts = ["😀" * 400_000, "x" + "😀" * 400_000]
    content = "\ufeff" + "\n".join(json.dumps({"text": text}, ensure_ascii=False) for text in texts)
    path = write(tmp_path / "c.jsonl", content.encode(encoding))
    assert [document.text for document in read_corpus([path], ledger)] == texts


def test_utf_16_with_a_lone_surrogate(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "a.txt", ("\ufeffa\ud800b\ud83d").encode("utf-16-le", "surrogatepass"))
    lines = write(tmp_path / "c.jsonl", '\ufeff{"text": "\udc00c"}'.encode("utf-16-le", "surrogatepass"))
    assert [document.text for document in read_corpus([path, lines], ledger)] == ["a\ufffdb\ufffd", "\ufffdc"]


def test_jsonl_in_utf_16_that_was_cut_off(tmp_path: Path, ledger: Ledger) -> None:
    good = f"\ufeff{GOOD}\n".encode("utf-16-le")
    path = write(tmp_path / "c.jsonl", good + b"{\x00}")
    assert [document.id for document in read_corpus([path], ledger)] == ["good"]
    (entry,) = ledger
    assert (entry.where, entry.reason) == (f"{path}:2", f"not UTF-16-LE: truncated data at byte {len(good) + 2}")


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.jsonl"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("text".encode("utf-32"), "UTF-32"),
        ("a whole text".encode("utf-16-le"), "neither UTF-8 nor UTF-16 with byte order mark (NUL at byte 1)"),
        ("a whole text".encode("utf-16-be"), "neither UTF-8 nor UTF-16 with byte order mark (NUL at byte 0)"),
    ],
)
def test_other_encodings_are_refused(name: str, content: bytes, reason: str, tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(InputError) as raised:
        read_corpus([path], ledger)
    assert str(path) in str(raised.value)
    assert reason in str(raised.value)


def test_a_text_in_latin_1_is_refused_with_its_byte(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "a.txt", codecs.BOM_UTF8 + b"ab\xe9c")
    with pytest.raises(InputError, match="byte 0xe9 at byte 5"):
        read_corpus([path], ledger)


def test_a_text_in_utf_16_that_was_cut_off_is_refused(tmp_path: Path, ledger: Ledger) -> None:
    path = write(tmp_path / "a.txt", codecs.BOM_UTF16_BE + b"\x00a\x00")
    with pytest.raises(InputError, match="not UTF-16-BE: truncated data at byte 4"):
        read_corpus([path], ledger)
