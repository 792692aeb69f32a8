"""vLLM starts in a process that has imported numba, whose llvmlite answers every name that vLLM asks modules for."""

from __future__ import annotations

import sys

import pytest
from hyce_serving.engine import _shield_llvmlite


def test_llvmlite_has_no_dictionary_once_it_is_shielded() -> None:
    pytest.importorskip("numba")
    _shield_llvmlite()
    library = sys.modules["llvmlite.binding.ffi"].lib  # type: ignore[attr-defined]
    assert not hasattr(library, "__dict__")
    # Its functions are found as before.
    assert callable(library.LLVMPY_GetVersionInfo)
