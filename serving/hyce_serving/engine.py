"""One vLLM engine inside this process: its start, its quiet, its end.

vLLM is imported here and nowhere else, on start. It does not know chat templates, schemas or what is asked.
"""

import dataclasses
import difflib
import gc
import inspect
import logging
import os
import sys
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from hyce_serving.errors import MissingPackage, ServingError
from hyce_serving.options import OWN

# Set before vLLM is imported, each only where the user has not.
_ENVIRONMENT = {
    # The engine runs in this process: a second one would need an `if __name__ == "__main__"` in every user's script.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # vLLM logs to standard output unless told otherwise, and that is where results go.
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
}
_CPU_ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "2",  # GiB
    # On a CPU vLLM warns a dozen times about what does not concern this use (Triton, tcmalloc, seeds, threads).
    "VLLM_LOGGING_LEVEL": "ERROR",
}
_GPU_ENVIRONMENT = {"VLLM_LOGGING_LEVEL": "WARNING"}

_OPTIONS: dict[str, Any] = {"enable_prefix_caching": True, "use_tqdm_on_load": False}
# Without compilation SmolLM2-135M starts in 5 s rather than 90, and gives two thirds of the tokens a second.
_CPU_OPTIONS: dict[str, Any] = {"dtype": "bfloat16", "enforce_eager": True}

_running: weakref.WeakSet[Any] = weakref.WeakSet()

# The prompt is made here (chat.py), so that these would be dropped without a word.
_REFUSED = ("chat_template", "skip_tokenizer_init", "runner", "convert")


def package_version() -> str:
    """The installed vLLM, as "vllm 0.11.0" or "vllm-cpu 0.32.0"; "vllm (not installed)" without one."""
    for name in ("vllm-cpu", "vllm"):
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            continue
    return "vllm (not installed)"


def start(path: str, device: str, options: Mapping[str, Any]) -> Any:
    """A vllm.LLM that is ready for requests; options go to it by name, over the defaults of this file.

    Raises MissingPackage where vLLM does not import, and ServingError for a device that this vLLM was not built for,
    for an unknown option, and where the engine does not start.
    """
    cpu = _prepare(device)
    with _stdout_kept_clean(), _process_left_as_found(), warnings.catch_warnings():
        # vLLM's own use of deprecated names is no news to whoever asks a question.
        warnings.simplefilter("ignore", FutureWarning)
        llm_class, engine_args = _import()
        _check_device(device)
        _check_options(options, llm_class, engine_args)
        _check_alone()
        _shield_llvmlite()
        try:
            llm = llm_class(path, **{**_OPTIONS, **(_CPU_OPTIONS if cpu else {}), **options})
        # Configuration, memory and weights fail with errors of many kinds; each means that there is no engine.
        except Exception as error:
            raise ServingError(
                f"expected vLLM to start with {path!r}, found {type(error).__name__}: {one_line(error)}; "
                "change the option that it names, or set VLLM_LOGGING_LEVEL=INFO to see more"
            ) from error
    _running.add(llm)
    return llm


def check_options(options: Mapping[str, Any]) -> None:
    """Raises as `start` does for an unknown option, and where vLLM does not import; starts no engine."""
    _prepare("auto")
    with _stdout_kept_clean(), _process_left_as_found(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        _check_options(options, *_import())


def stop(llm: Any) -> None:
    """Ends the engine and gives its memory back; the object is of no use afterwards."""
    llm.llm_engine.engine_core.shutdown()
    # Older versions of vLLM have no renderer.
    renderer = getattr(llm.llm_engine, "renderer", None)
    if renderer is not None:
        renderer.shutdown()
    # The weights hang on this attribute, whoever still holds the object.
    del llm.llm_engine
    _running.discard(llm)
    gc.collect()


def one_line(error: BaseException) -> str:
    """The message of an error on one line, without the padding that pydantic puts around it."""
    return " ".join(str(error).split())


def cause(error: BaseException) -> str:
    """The kind of an error and its message, on one line."""
    return f"{type(error).__name__}: {one_line(error)}"


def on_cpu(device: str) -> bool:
    """Whether the engine would run on the CPU; needs no import of vLLM."""
    return device == "cpu" or "cpu" in package_version()


def _prepare(device: str) -> bool:
    """Sets the environment before the import; True where the engine will run on the CPU."""
    cpu = on_cpu(device)
    for name, value in {**_ENVIRONMENT, **(_CPU_ENVIRONMENT if cpu else _GPU_ENVIRONMENT)}.items():
        os.environ.setdefault(name, value)
    # What vLLM says while it is being imported comes before it reads that level.
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])
    return cpu


def _import() -> tuple[Any, Any]:
    try:
        from vllm import LLM
        from vllm.engine.arg_utils import EngineArgs
    except ImportError as error:
        raise MissingPackage(
            f"expected the package vllm, found none that imports ({error}); "
            "run: pip install 'hyce-gpu[cpu]' or, with an NVIDIA GPU, pip install 'hyce-gpu[gpu]'"
        ) from error
    return LLM, EngineArgs


def _check_device(device: str) -> None:
    from vllm.platforms import current_platform

    found = str(current_platform.device_type)
    if device not in ("auto", found):
        extra = "gpu" if device == "cuda" else "cpu"
        raise ServingError(
            f"expected a vLLM for the device {device!r}, found one for {found!r}; "
            f"run: pip install 'hyce-gpu[{extra}]' in an environment of its own, or use the device 'auto'"
        )


def _check_options(options: Mapping[str, Any], llm_class: Any, engine_args: Any) -> None:
    known = {field.name for field in dataclasses.fields(engine_args)} | set(inspect.signature(llm_class).parameters)
    # Of these names, one is the Generator's own argument, and two are none of anyone's.
    known -= {"model", "self", "kwargs"}
    for name in options:
        if name in _REFUSED:
            raise ServingError(f"expected options of the engine alone, found {name!r}; chats to text is all it is for")
        if name not in known:
            near = difflib.get_close_matches(name, {*known, *OWN}, n=1)
            advice = f"did you mean {near[0]!r}?" if near else "see the arguments of vllm.LLM"
            raise ServingError(f"expected an engine option of vLLM, found {name!r}; {advice}")


def _shield_llvmlite() -> None:
    """Lets vLLM start in a process that has imported numba.

    vLLM 0.32 reads `vars()` of everything in every loaded module; llvmlite's library wrapper has no `__dict__`, but
    answers any name with a foreign function, and vLLM stops with "'_lib_fn_wrapper' object has no attribute 'get'".
    """
    ffi = sys.modules.get("llvmlite.binding.ffi")
    wrapper = type(ffi.lib) if ffi is not None else None
    ask = getattr(wrapper, "__getattr__", None)
    if wrapper is None or ask is None:
        return

    def without_special_names(library: Any, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return ask(library, name)

    wrapper.__getattr__ = without_special_names


def _check_alone() -> None:
    # Engines in one process share vLLM's process groups: the end of the first would break the second.
    if _running:
        gc.collect()
    if _running and os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0":
        raise ServingError(
            "expected one vLLM engine at a time in this process, found another one running; close its Generator first, "
            "or set VLLM_ENABLE_V1_MULTIPROCESSING=1"
        )


@contextmanager
def _process_left_as_found() -> Iterator[None]:
    """Undoes what a starting engine does to the rest of the process.

    On a CPU vLLM replaces torch.set_num_threads by a function that does nothing, and puts libraries into LD_PRELOAD
    for workers that it never starts here, but that every later child process would load.
    """
    import torch

    setter, threads = torch.set_num_threads, torch.get_num_threads()
    loader = {name: os.environ.get(name) for name in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
    try:
        yield
    finally:
        torch.set_num_threads = setter
        torch.set_num_threads(threads)
        for name, value in loader.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Sends what is written to standard output, by C++ libraries too (Gloo prints its ranks), to standard error."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:
        # A process without standard output has none to keep clean.
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
