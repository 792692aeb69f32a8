"""The report of a benchmark run: rows and ratios worked out by hand from a small file as pytest-benchmark writes it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def _load(name: str) -> ModuleType:
    """`benchmarks/` is no package."""
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", BENCHMARKS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


report, recorded = _load("report"), _load("conftest")


def _benchmark(name: str, median: float, iqr: float = 0.001, group: str | None = "retrieval", **extra: Any) -> dict:
    stats = {"median": median, "iqr": iqr, "mean": 9.0, "rounds": 3}
    return {"group": group, "name": name, "fullname": f"b.py::{name}", "extra_info": extra, "stats": stats}


def _numba(questions: int, median: float) -> dict:
    return _benchmark(f"batch[{questions}]", median, questions=questions, backend="numba", method="paper")


def _one_by_one(backend: str, questions: int, median: float) -> dict:
    return _benchmark(f"single {backend} {questions}", median, questions=questions, backend=backend, method="paper")


def _write(path: Path, *benchmarks: Any, **parts: Any) -> Path:
    machine = {
        "python_version": "3.11.7",
        "cpu": {"brand_raw": "Abacus 9"},
        "cores": 2,
        "memory_bytes": 3 * 2**29,
        "versions": {"torch": "2.13.0", "numba": "0.65.0", "triton": "not installed"},
        "settings": {"HYCE_BENCH_HYPEREDGES": "1000"},
    }
    commit = {"short": "abc1234", "dirty": True}
    run = {"machine_info": machine, "commit_info": commit, "datetime": "2026-12-02T14:30:00.123456+00:00"}
    path.write_text(json.dumps({**run, "benchmarks": benchmarks, **parts}), encoding="utf-8")
    return path


def _lines(text: str) -> list[list[str]]:
    """The cells of each line; columns stand two blanks apart."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]


def _shown(capsys: pytest.CaptureFixture[str], *paths: Path) -> list[list[str]]:
    assert report.main([str(path) for path in paths]) == 0
    return _lines(capsys.readouterr().out)


def _table(shown: list[list[str]]) -> list[list[str]]:
    """The first table of a group, from its head on; the facts above it may take more lines than they are."""
    return shown[next(place for place, line in enumerate(shown) if line[0] == "name") :]


def test_what_the_figures_were_taken_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _shown(capsys, _write(tmp_path / "new.json")) == [
        ["hardware", "Abacus 9, 2 cores, 1.5 GiB memory"],
        ["commit", "abc1234 + changes"],
        ["date", "2026-12-02T14:30:00"],
        ["versions", "Python 3.11.7, torch 2.13.0, numba 0.65.0, triton not installed"],
        ["settings", "HYCE_BENCH_HYPEREDGES=1000"],
    ]


def test_a_file_without_facts_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = _shown(capsys, _write(tmp_path / "new.json", machine_info=None, commit_info={}, datetime="unknown"))
    assert ["hardware", "unknown CPU, unknown cores, unknown memory"] in shown
    assert ["commit", "unknown"] in shown


def test_ratios_are_of_questions_a_second_against_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # 16 questions in 0.8 s are 20 a second; 1 in 0.02 s are 50; 64 in 0.016 s are 4,000.
    path = _write(tmp_path / "new.json", _numba(1, 0.02), _numba(64, 0.016), _one_by_one("torch, one by one", 16, 0.8))
    assert _shown(capsys, path)[6:] == [
        ["retrieval"],
        ["name", "questions", "median", "IQR", "questions/s", "× torch, one by one"],
        ["numba", "1", "20.0 ms", "1.00 ms", "50.0", "2.50"],
        ["numba", "64", "16.0 ms", "1.00 ms", "4,000", "200"],
        ["torch, one by one", "16", "800 ms", "1.00 ms", "20.0", "1.00"],
    ]


def test_each_entry_one_by_one_has_its_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 100, 10, 20 and 50 questions a second.
    single = [_one_by_one("scipy one by one", questions, median) for questions, median in ((1, 0.1), (10, 0.5))]
    path = _write(tmp_path / "new.json", _numba(10, 0.1), *single, _one_by_one("torch one by one", 5, 0.1))
    shown = _shown(capsys, path)[7:]
    # The titles of three columns are wider than a plain page, so they may take two lines.
    title = " ".join(cell for line in shown[:-4] for cell in line)
    assert [title.count("scipy one"), title.count("torch one"), title.count("(1)"), title.count("(10)")] == [2, 1, 1, 1]
    assert [line[-3:] for line in shown[-4:]] == [
        ["10.0", "5.00", "2.00"],
        ["1.00", "0.500", "0.200"],
        ["2.00", "1.00", "0.400"],
        ["5.00", "2.50", "1.00"],
    ]


def test_without_one_by_one_the_slowest_is_the_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 50 and 200 a second.
    shown = _shown(capsys, _write(tmp_path / "new.json", _numba(1, 0.02), _numba(4, 0.02)))
    assert [line[-1] for line in shown[7:]] == ["× slowest", "1.00", "4.00"]


def test_groups_stand_apart_and_methods_are_named_where_there_are_several(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linked = _benchmark("l", 0.5, questions=1, backend="numba", method="linked")
    other = _benchmark("o", 2e-5, 2e-9, "assembly", questions=3, backend="torch", method="paper")
    shown = _shown(capsys, _write(tmp_path / "new.json", _numba(1, 0.02), other, linked))
    assert shown[6] == ["assembly"]
    assert shown[8] == ["torch", "3", "20.0 µs", "2.00 ns", "150,000", "1.00"]
    assert shown[10] == ["retrieval"]
    assert [line[0] for line in shown[12:]] == ["paper, numba", "linked, numba"]


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"questions": 4, "backend": "numba"},
        {"questions": 0, "backend": "numba", "method": "paper"},
        {"questions": True, "backend": "numba", "method": "paper"},
        {"questions": "4", "backend": "numba", "method": "paper"},
    ],
)
def test_an_entry_without_extra_info_has_its_name_and_its_median(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: dict[str, Any]
) -> None:
    path = _write(tmp_path / "new.json", _benchmark("test_step[a-1]", 1.5, group=None, **extra))
    assert _shown(capsys, path)[6:] == [
        ["no group"],
        ["name", "questions", "median", "IQR", "questions/s"],
        ["test_step[a-1]", "–", "1.50 s", "–", "–"],
    ]


def test_an_older_run_adds_ratios_of_medians_and_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = _write(tmp_path / "new.json", _numba(1, 0.02), _numba(4, 0.03), _benchmark("plain", 0.5))
    gone = _numba(16, 0.1)
    old = _write(tmp_path / "old.json", _numba(1, 0.04), gone, _benchmark("plain", 0.2), commit_info={"short": "0ld"})
    shown = _shown(capsys, new, old)
    assert shown[0] == ["new", "old"]
    assert ["commit", "abc1234 + changes", "0ld"] in shown
    table = _table(shown)
    assert [line[-1] for line in table[:4]] == ["new/old", "0.500", "–", "2.50"]
    told = " ".join(cell for line in table[4:] for cell in line)
    assert "on a noisy machine these are no proof; ratios inside one run are" in told
    assert "1 of 3 benchmarks of the older run have no counterpart in the new one" in told


def test_other_question_counts_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = _write(tmp_path / "new.json", _benchmark("t", 0.02, questions=8, backend="numba", method="paper"))
    old = _write(tmp_path / "old.json", _benchmark("t", 0.04, questions=16, backend="numba", method="paper"))
    assert _table(_shown(capsys, new, old))[1][-1] == "–"


def test_several_batch_sizes_make_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path / "new.json", _numba(1, 0.02), _numba(64, 0.016), _one_by_one("one by one", 16, 0.8))
    assert report.main([str(path)]) == 0
    assert (tmp_path / "new.png").read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().err == f"plot: {tmp_path / 'new.png'}\n"


def test_one_batch_size_in_each_group_makes_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = _benchmark("other", 1.0, group="other", questions=9, backend="numba", method="paper")
    path = _write(tmp_path / "new.json", _numba(4, 0.02), other, _benchmark("plain", 1.0))
    assert report.main([str(path)]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["new.json"]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "there is no such file"),
        ("", "is empty"),
        ("{\n", "not JSON"),
        ('{"benchmarks": [', "not JSON"),
        ("[]", "no list of benchmarks"),
        ('{"benchmarks": 3}', "no list of benchmarks"),
        ('{"benchmarks": [{"name": "a"}]}', "benchmark 1: expected a name and stats"),
        ('{"benchmarks": [{"name": "a", "stats": {"median": NaN, "iqr": 0}}]}', "benchmark 1: expected a name"),
        ('{"benchmarks": [{"name": "a", "stats": {"median": 0, "iqr": 0}}]}', "expected a median above 0 seconds"),
    ],
)
def test_a_missing_or_broken_file_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, reason: str
) -> None:
    broken = tmp_path / "broken.json"
    if content is not None:
        broken.write_text(content, encoding="utf-8")
    assert report.main([str(broken)]) == 2
    assert report.main([str(_write(tmp_path / "new.json", _numba(1, 0.02))), str(broken)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert [reason in line for line in output.err.splitlines()] == [True, True]


def test_a_picture_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _write(tmp_path / "new.json", _numba(1, 0.02), _numba(4, 0.03))
    (tmp_path / "new.png").mkdir()
    assert report.main([str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"report.py: cannot write the picture {tmp_path / 'new.png'}: ")


def test_the_commit_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert recorded.commit(tmp_path) == {"short": "unknown", "dirty": False}
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], [*author, "commit", "-q", "--allow-empty", "--no-gpg-sign", "-m", "first"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    clean = recorded.commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{4,40}", clean["short"])
    assert not clean["dirty"]
    (tmp_path / "new").touch()
    assert recorded.commit(tmp_path) == {"short": clean["short"], "dirty": True}
    monkeypatch.setenv("PATH", "")
    assert recorded.commit(tmp_path) == {"short": "unknown", "dirty": False}


def test_what_is_recorded_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYCE_BENCH_HYPEREDGES", "7")
    monkeypatch.setattr(recorded, "LIBRARIES", ("pytest", "no-such-package-here"))
    machine: dict[str, Any] = {}
    recorded.pytest_benchmark_update_machine_info(machine)
    assert machine["versions"] == {"pytest": pytest.__version__, "no-such-package-here": "not installed"}
    assert machine["settings"]["HYCE_BENCH_HYPEREDGES"] == "7"
    assert machine["cores"] >= 1
    assert machine["memory_bytes"] > 2**20
