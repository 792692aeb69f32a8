"""The journal: whole lines survive, the rest is made again."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from hyce_gpu.errors import OutputError
from hyce_gpu.evaluation.journal import digest, only_process, open_journal

KEY = {"store": "abc", "method": {"name": "dense"}}
ROWS = [{"id": "1", "text": "\u2028 line"}, {"id": "2"}]


def test_rows_are_read_back_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "dense.jsonl"
    open_journal(path, KEY).append(ROWS)
    again = open_journal(path, dict(reversed(KEY.items())))
    assert again.rows == ROWS
    again.append([{"id": "3"}])
    assert [json.loads(line)["id"] for line in path.read_text().splitlines()] == ["1", "2", "3"]
    assert json.loads((tmp_path / "dense.key.json").read_text()) == {"key": digest(KEY), "made_from": KEY}


@pytest.mark.parametrize("torn", ['{"id": "3"', '{"id": "3"}', '{"id": \n', "[3]\n", "\udcff\n"])
def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path, capsys: pytest.CaptureFixture[str], torn: str) -> None:
    path = tmp_path / "dense.jsonl"
    open_journal(path, KEY).append(ROWS)
    whole = path.read_bytes()
    path.write_bytes(whole + torn.encode(errors="surrogateescape"))
    assert open_journal(path, KEY).rows == ROWS
    assert path.read_bytes() == whole
    assert "dense.jsonl: line 3 was cut off" in capsys.readouterr().err


def test_another_key_moves_the_old_file_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dense.jsonl"
    open_journal(path, KEY).append(ROWS)
    old = path.read_bytes()
    assert open_journal(path, {**KEY, "store": "other"}).rows == []
    assert (tmp_path / "dense.jsonl.old").read_bytes() == old
    assert "moved to dense.jsonl.old" in capsys.readouterr().err


def test_lines_without_their_key_are_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "dense.jsonl"
    open_journal(path, KEY).append(ROWS)
    (tmp_path / "dense.key.json").write_text("{broken")
    assert open_journal(path, KEY).rows == []


def test_what_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"), only_process(tmp_path / "file" / "out"):
        pass
    with pytest.raises(OutputError, match="dense"):
        open_journal(tmp_path / "none" / "dense.jsonl", KEY)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with only_process(tmp_path / "out"):
        pass
    with (tmp_path / "out" / "LOCK").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match=r"is being written by process \d+ on"), only_process(tmp_path / "out"):
            pass
