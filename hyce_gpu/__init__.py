"""Batched hypergraph chain-of-evidence retrieval: a corpus becomes a store, questions become answers with evidence.

from hyce_gpu import Engine, Config, Hypergraph, reason
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyce_gpu.config import Config as Config
    from hyce_gpu.engine import Engine as Engine
    from hyce_gpu.hypergraph import Hypergraph as Hypergraph
    from hyce_gpu.online import reason as reason

__version__ = "0.1.0"
__all__ = ["Config", "Engine", "Hypergraph", "__version__", "reason"]

_HOME = {"Config": "config", "Engine": "engine", "Hypergraph": "hypergraph", "reason": "online"}


def __getattr__(name: str) -> Any:
    # Torch takes seconds to import; the command line's --help should not.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"hyce_gpu.{_HOME[name]}"), name)
