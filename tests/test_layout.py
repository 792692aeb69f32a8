"""Rules of the layout that packaging and other people's packages depend on (DESIGN.md, top level)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _all_imports(folder: str) -> set[str]:
    return {name for path in (ROOT / folder).rglob("*.py") for name in _imports(path)}


def test_kernels_and_serving_are_containers_and_no_packages() -> None:
    # A top-level package called `kernels` would shadow Hugging Face's of that name, which transformers imports.
    assert not (ROOT / "kernels" / "__init__.py").exists()
    assert not (ROOT / "serving" / "__init__.py").exists()
    assert not (ROOT / "tests" / "__init__.py").exists()


def test_kernels_and_serving_stand_alone() -> None:
    assert not {"hyce_gpu", "hyce_serving"} & _all_imports("kernels")
    assert not {"hyce_gpu", "hyce_kernels"} & _all_imports("serving")


def test_kernels_import_nothing_but_torch_what_backends_need_and_the_standard_library() -> None:
    backends = {"numpy", "numba", "triton", "torch_sparse"}
    assert _all_imports("kernels") <= backends | {"torch", "hyce_kernels"} | sys.stdlib_module_names


def test_kernels_load_no_backend_before_it_is_used() -> None:
    code = "import hyce_kernels.propagation, sys; print(*{'numba', 'triton', 'torch_sparse'} & sys.modules.keys())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""


def test_readme_is_short_and_files_are_small() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250
    for folder in ("hyce_gpu", "kernels", "serving"):
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 300, path
