"""The GPU check on a CPU: what it prints, writes and imports, and that it fails where a backend is wrong.

Each run is a process of its own, since triton decides at its first import whether it interprets.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_check.py"
# What the machine that a GPU is lent on need not have.
ABSENT = (
    "pyarrow faiss numba spacy vllm sentence_transformers transformers typer rich scipy matplotlib pytest "
    "torch_sparse torch_scatter bm25s igraph gguf"
).split()
BLOCKED = f"""
import sys

class Without:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT} else self._finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
LOADED = f"import sys; sys.path.insert(0, {str(SCRIPT.parent)!r}); import gpu_check, gpu_problems, torch\n"


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "kernels")])
    env = {**os.environ, "PYTHONPATH": path, "TRITON_INTERPRET": "0", **environment}
    return subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, timeout=300)


def _quick(out: Path, *more: str) -> list[str]:
    return ["--device", "cpu", "--quick", "--seed", "7", "--out", str(out), *more]


def _call(out: Path, before: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Runs it after `before`, which may change the module."""
    return _python("-c", f"{LOADED}{before}\nsys.exit(gpu_check.main({_quick(out, *more)}))")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    out = tmp_path_factory.mktemp("gpu") / "found.json"
    process = _python(str(SCRIPT), *_quick(out))
    assert process.returncode == 0, process.stdout + process.stderr
    return process, json.loads(out.read_text(encoding="utf-8"))


def test_the_table_has_a_row_for_each_job(done: tuple[Any, dict[str, Any]]) -> None:
    process, found = done
    lines = process.stdout.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("what "))
    assert lines[head].split() == ["what", "result", "runs", "questions/s", "GB/s", "of", "copy"]
    table = lines[head + 1 : head + 1 + len(found["rows"])]
    for line, (name, row) in zip(table, found["rows"].items(), strict=True):
        result = "skipped: " if "skipped" in row else " ms " if "seconds" in row else "ok"
        assert line.startswith(f"{name}  ")
        assert result in line
    counts = [sum(key in row for row in found["rows"].values()) for key in ("passed", "skipped")]
    assert lines[-1] == f"{counts[0]} checks passed, 0 failed, {counts[1]} jobs skipped"


def test_the_sections_are_announced_in_order(done: tuple[Any, dict[str, Any]]) -> None:
    titles = [line.split(": ")[1].split(", at most")[0] for line in done[0].stderr.splitlines() if "at most" in line]
    assert titles == [
        "propagation against the reference", "retrieval against the reference and the CPU", "times of propagation",
        "times of retrieval", "retrieval on the CPU of this machine",
    ]  # fmt: skip


def test_the_json_says_what_was_found_where(done: tuple[Any, dict[str, Any]]) -> None:
    found = done[1]
    assert found["failed"] == []
    assert found["facts"]["torch"] == torch.__version__
    assert found["facts"]["seed"] == "7"
    assert found["facts"].keys() == {"card", "driver", "torch", "triton", "commit", "seed"}
    rows = found["rows"]
    for problem in (
        "packed",
        "packed, odd (empty, hub, too large for registers)",
        "masked",
        "masked, odd (empty, hub)",
    ):
        for dtype in ("float32", "float64"):
            assert rows[f"{problem}: torch {dtype} = reference"]["passed"]
    for method in ("paper", "linked"):
        assert rows[f"{method}: evidence of torch on cpu = reference on cpu"]["passed"]
        assert rows[f"{method}: torch on cpu, batch of 16"]["questions"] == 16
    timed = rows["packed: torch float64, run"]
    assert timed["questions"] == 3
    assert 1 <= timed["runs"] <= 2
    assert timed["rate"] == pytest.approx(timed["bytes"] / timed["seconds"])
    assert rows["copy of memory"]["bytes"] == 2 * (1 << 22)


def test_backends_that_cannot_run_here_are_named(done: tuple[Any, dict[str, Any]]) -> None:
    rows = done[1]["rows"]
    assert "triton" in rows["triton is there"]["skipped"]
    assert rows["packed: triton float32, run"] == {"skipped": "no result that was found right"}


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_triton_interpreted(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    process = _python(str(SCRIPT), *_quick(out), TRITON_INTERPRET="1")
    assert process.returncode == 0, process.stdout + process.stderr
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    for problem in ("packed, small", "packed, odd (empty, hub, too large for registers)", "masked, odd (empty, hub)"):
        assert rows[f"{problem}: triton float64 = reference"]["passed"]
        assert rows[f"{problem}: triton float32 twice"]["passed"]
    assert rows["masked: triton float32, run"]["seconds"] > 0


def test_a_wrong_result_fails_by_name_and_is_not_timed(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    broken = """
right = gpu_check.solve

def solve(problem, dtype, backend):
    confidence, flow = right(problem, dtype, backend)
    wrong = problem.name == "masked" and dtype == torch.float32
    return (confidence + 1e-3 if wrong else confidence), flow

gpu_check.solve = solve
"""
    process = _call(out, broken)
    name = "masked: torch float32 = reference"
    assert process.returncode == 1, process.stderr
    assert process.stdout.splitlines()[-1] == f"failed: {name}"
    assert "checks passed, 1 failed, " in process.stdout
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["failed"] == [name]
    assert "skipped" in found["rows"]["masked: torch float32, run"]
    assert found["rows"]["masked: torch float64, run"]["seconds"] > 0


def test_other_evidence_and_an_error_fail_by_name(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    broken = """
right = gpu_check.reason

def reason(graph, entry, vectors, config, backend, *rest, **more):
    found = right(graph, entry, vectors, config, backend, *rest, **more)
    if backend == "reference" and config.method == "paper":
        return found[1:] + found[:1]
    if backend == "reference":
        raise RuntimeError("out of order")
    return found

gpu_check.reason = reason
"""
    process = _call(out, broken)
    assert process.returncode == 1, process.stderr
    found = json.loads(out.read_text(encoding="utf-8"))
    names = [f"{method}: evidence of torch on cpu = reference on cpu" for method in ("paper", "linked")]
    assert found["failed"] == names
    assert found["rows"][names[1]]["detail"] == "RuntimeError: out of order"


def test_what_does_not_fit_the_time_is_named(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    assert _call(out, "", "--seconds", "0").returncode == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert len(rows) > 20
    assert all("skipped" in row for row in rows.values())


def test_bytes_of_a_step_by_hand() -> None:
    # Packed: 3 incidences, 2 entities, 2 hyperedges. Numbers of 8 bytes: 2 · 3 indexes and 3 + 3 pointers; of 4 bytes:
    # U and four more of each entity, three of each hyperedge. Masked for 5 questions, all but U five times.
    code = """
ids = torch.tensor([0, 1, 1]); pointer = torch.tensor([0, 2, 3]); ends = torch.tensor([0, 2])
packed = gpu_problems.Packed(ids, pointer, ends, ends, 2)
masked = gpu_problems.Masked(ids, pointer, 2, torch.ones((2, 5), dtype=torch.bool))
print(gpu_check.step_bytes(packed, 4), gpu_check.step_bytes(masked, 4))
"""
    found = _python("-c", LOADED + code)
    assert found.stdout.split() == [str(8 * 12 + 4 * (2 + 8 + 6)), str(8 * 12 + 4 * (2 + 5 * 14))], found.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_is_one_line_and_2(tmp_path: Path) -> None:
    process = _python(str(SCRIPT), "--out", str(tmp_path / "none.json"))
    assert process.returncode == 2
    assert process.stdout == ""
    assert process.stderr.count("\n") == 1
    assert "finds no CUDA device" in process.stderr


def test_torch_and_numpy_are_enough(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    process = _python("-c", f"{BLOCKED}{LOADED}sys.exit(gpu_check.main({_quick(out)}))")
    assert process.returncode == 0, process.stdout + process.stderr
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert rows["numba on cpu"] == {"skipped": "numba is not installed"}
