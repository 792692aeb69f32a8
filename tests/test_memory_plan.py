"""The memory plan: sizes that were worked out by hand, against real tensors and made-up models."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hyce_serving import model_memory as models
from hyce_serving.errors import ModelNotFound, ServingError
from hyce_serving.model_memory import ModelMemory, kv_bytes_per_token, model_memory
from hyce_serving.models import DEFAULT_ENCODER

from hyce_gpu import doctor, memory_plan, store_memory
from hyce_gpu.config import Config
from hyce_gpu.demo import run_demo
from hyce_gpu.engine import Engine
from hyce_gpu.errors import InputError, StoreError
from hyce_gpu.estimate_job import estimate
from hyce_gpu.extractors import extractor_of
from hyce_gpu.index_job import run_index
from hyce_gpu.memory_plan import beside_store, engine_options, plan
from hyce_gpu.merge import merge
from hyce_gpu.provenance import provenance
from hyce_gpu.schema import Chunk, Document, ExtractedHyperedge, ExtractionRecord
from hyce_gpu.store import Store
from hyce_gpu.store_files import writing
from hyce_gpu.store_memory import GIB, MIB, Part, Sizes
from hyce_gpu.store_write import Contents, write_store

# 2 · 24 layers · 2 KV heads · 64 · 2 bytes = 12,288 bytes a token.
SMALL = {
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "hidden_size": 896,
    "max_position_embeddings": 32768, "dtype": "bfloat16",
}  # fmt: skip


def _model(folder: Path, config: dict[str, Any], **weights: int) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for name, size in weights.items():
        (folder / name.replace("__", "-").replace("_dot_", ".")).write_bytes(b"\0" * size)
    return str(folder)


def _store(root: Path, encoder: str = "/no/such/encoder") -> Path:
    """Two entities, one hyperedge of both, one chunk without any: 2 rows, 2 incidences, 2 passages, d = 3."""
    text = "Ada met Bob. 富士山 is high."
    chunks = [Chunk("d#0", "d", 0, 0, 12, text[:12], "T"), Chunk("d#1", "d", 1, 13, 25, text[13:25], "T")]
    edge = ExtractedHyperedge("Ada met Bob.", ("Ada", "Bob"), 0, 12, 0.9)
    first, second = ("d#0", "d", 0, 0, 12, "ok", (), (edge,)), ("d#1", "d", 1, 13, 25, "ok")
    records = [ExtractionRecord(*first), ExtractionRecord(*second)]
    merged, vectors = merge(records), np.eye(3, dtype=np.float32)
    documents, origin = [Document("d", "T", text, "c.jsonl:1", {})], provenance(chunks, merged)
    contents = Contents(documents, chunks, records, merged, origin, vectors[:2], vectors[[2, 1]], vectors[:2])
    manifest = {"encoder": {"name": encoder, "dimension": 3}, "extractor": {"name": "x"}}
    with writing(root) as writer:
        write_store(writer, contents, manifest)
    return root


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, 12_288),
        ({"head_dim": 128}, 24_576),
        ({"num_key_value_heads": None}, 86_016),  # 2 · 24 · 14 · 64 · 2
        ({"layer_types": ["full_attention", "sliding_attention"]}, 12_288),
        ({"layer_types": ["full_attention", "linear_attention"]}, None),
        ({"kv_lora_rank": 512}, None),
        ({"mamba_d_state": 16}, None),
        ({"is_encoder_decoder": True}, None),
        ({"num_key_value_heads": [2, 4]}, None),
        ({"num_hidden_layers": None}, None),
    ],
)
def test_kv_cache_of_a_token(change: dict[str, Any], expected: int | None) -> None:
    assert kv_bytes_per_token({**SMALL, **change}) == expected


def test_the_language_model_of_several_parts_and_older_names_are_read() -> None:
    assert kv_bytes_per_token({"vision_config": {"num_hidden_layers": 9}, "text_config": SMALL}) == 12_288
    # GPT-2: 2 · 12 layers · 12 heads · 64 · 2 bytes.
    assert kv_bytes_per_token({"n_layer": 12, "n_head": 12, "n_embd": 768}) == 36_864
    assert kv_bytes_per_token({}) is None


def test_weights_are_the_files_that_vllm_loads(tmp_path: Path) -> None:
    one = _model(tmp_path / "one", SMALL, a_dot_safetensors=700, b_dot_safetensors=300, old_dot_bin=5000)
    assert (found := model_memory(one)) == ModelMemory(one, 1000, 12_288, 32_768)
    assert found.window == 8192
    bins = _model(tmp_path / "bins", SMALL, pytorch_model_dot_bin=600, training_args_dot_bin=50)
    assert model_memory(bins).weight_bytes == 600
    # The same weights a second time, which the index does not name.
    twice = _model(tmp_path / "twice", SMALL, model_dot_safetensors=400, consolidated_dot_safetensors=400)
    (tmp_path / "twice" / "model.safetensors.index.json").write_text('{"weight_map": {"w": "model.safetensors"}}')
    assert model_memory(twice).weight_bytes == 400


def test_32_bit_weights_become_16_bit_ones(tmp_path: Path) -> None:
    full = _model(tmp_path / "full", {**SMALL, "dtype": "float32"}, model_dot_safetensors=1000)
    assert model_memory(full).weight_bytes == 500
    older = {**SMALL, "dtype": None, "torch_dtype": "float32", "max_position_embeddings": 2048}
    assert model_memory(_model(tmp_path / "older", older, model_dot_safetensors=1000)).weight_bytes == 500
    assert model_memory(str(tmp_path / "older")).window == 2048
    quantised = {**SMALL, "dtype": "float32", "quantization_config": {"quant_method": "awq"}}
    assert model_memory(_model(tmp_path / "q", quantised, model_dot_safetensors=1000)).weight_bytes == 1000


def test_what_is_not_here_is_unknown_and_what_is_broken_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ModelNotFound, match="/no/such/model"):
        model_memory("/no/such/model")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with pytest.raises(ModelNotFound, match="expected a readable"):
        model_memory(str(tmp_path / "broken"))
    found = model_memory(_model(tmp_path / "empty", {}))
    assert (found.weight_bytes, found.kv_bytes_per_token, found.own_window) == (None, None, None)
    assert "no weights" in found.unknown
    monkeypatch.setattr(models, "llm_path", lambda name, revision: name)
    assert model_memory("owner/name").weight_bytes is None
    assert "not on this machine" in model_memory("owner/name").unknown


def test_kv_cache_of_a_cpu_is_what_vllm_was_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    assert models.cpu_kv_cache_bytes() == 2 * GIB
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    assert models.cpu_kv_cache_bytes() == 4 * GIB
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "lots")
    with pytest.raises(ServingError, match="found 'lots'"):
        models.cpu_kv_cache_bytes()


def test_store_parts_are_the_bytes_of_the_tensors(tmp_path: Path) -> None:
    store = Store.open(_store(tmp_path / "s"))
    found = {part.name: part.num_bytes for part in store_memory.store_bytes(store)}
    passages, terms = (graph := store.hypergraph()).passages, graph.terms
    tensors = {
        "incidence": (graph.member_pointer, graph.member, graph.incident_pointer, graph.incident),
        "confidences": (graph.confidence, graph.relation_confidence),
        "entity vectors": (graph.entity_vectors,), "hyperedge vectors": (graph.hyperedge_vectors,),
        "passage vectors": (passages.vectors,),
        "passages": (passages.of_hyperedge, passages.pointer, passages.hyperedge, passages.subject, passages.degree,
                     passages.specificity),
        "words": (terms.pointer, terms.term, terms.weight),
    }  # fmt: skip
    assert found == {name: sum(tensor.nbytes for tensor in some) for name, some in tensors.items()}
    # Pointers of 3 + 3, and 2 + 2 ids; 2 + 2 doubles.
    assert (found["incidence"], found["confidences"]) == (80, 32)
    listed = (one for owner in (graph, passages, terms) for one in vars(owner).values() if hasattr(one, "nbytes"))
    assert sum(found.values()) == sum(one.nbytes for one in listed)


def test_index_and_sizes_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import faiss

    store = Store.open(_store(tmp_path / "s"))
    file = (store.generation / "entities.faiss").stat().st_size
    assert store_memory.index_bytes(store, "cpu", 24 * GIB) == file
    monkeypatch.delattr(faiss, "StandardGpuResources", raising=False)
    assert store_memory.index_bytes(store, "cuda", 24 * GIB) == 0
    monkeypatch.setattr(faiss, "StandardGpuResources", object, raising=False)
    assert store_memory.index_bytes(store, "cuda:1", 24 * GIB) == file + 1536 * MIB
    assert store_memory.index_bytes(store, "cuda", 4 * GIB) == file + 512 * MIB
    sizes = store_memory.sizes_of(store)
    assert (sizes.entities, sizes.hyperedges, sizes.passages, sizes.dimension, sizes.incidences) == (2, 2, 2, 3, 2)
    # Who comes by an entity meets the hyperedge of two, never the row of none.
    assert (sizes.members, sizes.degrees.tolist()) == (2, [1, 1])


SIZES = Sizes(10, 4, 2, 2, 8, np.full(4, 2), np.array([2, 2, 2, 2, 0, 0, 0, 0, 0, 0]), 3.0, 5)


def test_entities_are_met_in_proportion_to_their_degree() -> None:
    # (1 + 1 + 36) / 8; of at most 1 passage of 2 hyperedges: (1 + 1 + 4) / 4.
    sizes = Sizes(3, 4, 2, 2, 8, np.full(4, 2), np.array([1, 1, 6]), 3.0, 5)
    assert (sizes.around(100), sizes.around(1)) == (4.75, 1.5)


def test_workspace_of_the_paper_worked_out() -> None:
    # Tables of 10 entities, and 8 incidences of all 4 hyperedges: 60 · 10 + 240 · 8 + 64 = 2,584; three of them 7,752.
    # At a time, 28 · 3 · 8 · 2 = 1,344. Around 5 + 4 entities, 48 · 3 · 9 · 2 = 2,592. Products, 16 · 4 · 3 = 192.
    config = Config.paper(evidence_units=1)
    assert store_memory.workspace_bytes(SIZES, config, 3) == 7_752 + 1_344 + 2_592 + 192


def test_workspace_of_a_hub_counts_it_once() -> None:
    # The 2 largest of sizes 1, 1, 1 and 5 hold 6: 60 · 10 + 240 · 6 + 64 = 2,104.
    # At a time, 28 · 6 · 2 = 336. Around, 48 · 9 · 2 = 864. Products, 16 · 4 · 2 = 128.
    sizes = replace(SIZES, sizes=np.array([1, 5, 1, 1]))
    config = Config.paper(evidence_units=1, max_hyperedges=2)
    assert store_memory.workspace_bytes(sizes, config, 1) == 2_104 + 336 + 864 + 128


def test_workspace_of_linked_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(nearest_hyperedges=3, nearest_passages=1, entry_entities=1, bridge_sources=1, evidence_units=1)
    # Tables of 10 entities and 5 words, and 8 incidences: 60 · 10 + 9 · 5 + 240 · 8 + 64 = 2,629; two of them 5,258.
    # At a time, 28 · 2 · 8 · 2 = 896. Around 1 + 4 entities, 48 · 2 · 5 · 2 = 960. Products, 16 · 4 · 2 = 128.
    assert store_memory.workspace_bytes(SIZES, config, 2) == 5_258 + 896 + 960 + 128
    # With an index of the hyperedges, pairs: 3 nearest, 2 of a passage, 5 entities of 2, and 1 · 2 · 2 over bridges, so
    # 19 are met, and 4 and 4 = 8 scored. 80 · (19 + 8 · 3) + 160 · 8 + 240 · 8 + 64 = 6,704; two of them 13,408.
    # Products of 2 passages, 24 · 2 · 2 + 16 · 2 · 2 = 160.
    monkeypatch.setattr(store_memory, "FLAT_UP_TO", 3)
    assert store_memory.workspace_bytes(SIZES, config, 2) == 13_408 + 896 + 160


def test_workspace_stops_growing_with_the_batch_where_it_is_worked_off_in_passes() -> None:
    # 2^24 / 2^20 entities: 16 questions a pass.
    sizes = Sizes(1 << 20, 1 << 19, 1 << 18, 384, 1 << 22, np.full(1 << 19, 8), np.full(1 << 20, 4), 18.0, 1 << 17)
    of = {number: store_memory.workspace_bytes(sizes, Config(), number) for number in (8, 16, 4096)}
    assert of[8] < of[16] == of[4096]


MODEL = ModelMemory("m", GIB, 12_288, 32_768)
LARGE = ModelMemory("m", 15 * GIB, 131_072, 8192)
TIGHT = ModelMemory("m", 4400 * GIB // 1000, 131_072, 8192)


def test_plan_of_a_24_gib_card() -> None:
    parts = [Part("store tensors", 300 * MIB), Part("workspace", 212 * MIB)]
    found = plan(24 * GIB, 24 * GIB - 512 * MIB, parts, MODEL)
    # 23.5 - 0.5 - 1 = 22 of 24 GiB.
    assert (found.share, found.reserved, found.problem) == (0.91, 512 * MIB, "")
    # .91 · 24 GiB is 23,450,521,436; less 1 GiB of weights and 2 of activations 20,229,295,964; by 12,288 a token.
    assert (found.kv_bytes, found.kv_tokens) == (20_229_295_964, 1_646_264)
    assert found.requests == pytest.approx(1_646_264 / 8192)
    # Never more than vLLM takes by itself.
    assert plan(100 * GIB, 100 * GIB, [], MODEL).share == 0.92
    unknown = plan(8 * GIB, 8 * GIB, [], ModelMemory("m", None, None, None, "not on this machine"))
    assert (unknown.share, unknown.kv_bytes, unknown.kv_tokens, unknown.problem) == (0.87, None, None, "")


@pytest.mark.parametrize(
    ("model", "store_gib", "share", "misfit", "remedy"),
    [
        # 8 - 0.5 - 1 = 6.5 of 8 GiB: .81, which is 6.48 GiB.
        (LARGE, 0.5, 0.81, "15.0 GiB for weights and 2.0 GiB for activations, 6.5 GiB", "tensor_parallel_size"),
        # 6.48 - 4.4 - 2 GiB hold 655 tokens of 128 KiB.
        (TIGHT, 0.5, 0.81, "room for 655 tokens, one request may have 8,192", "smaller max_model_len"),
        (MODEL, 7.5, 0.0, "store needs 7.5 GiB and a margin of 1.0 GiB, 8.0 GiB of 8.0", "--device cpu for the store"),
    ],
)
def test_what_does_not_fit_on_8_gib_is_one_line(
    model: ModelMemory, store_gib: float, share: float, misfit: str, remedy: str
) -> None:
    found = plan(8 * GIB, 8 * GIB, [Part("store tensors", int(store_gib * GIB))], model)
    assert found.share == share
    assert misfit in found.misfit
    assert remedy in found.remedy
    assert found.problem == f"{found.misfit}; {found.remedy}"
    assert "\n" not in found.problem


def test_plan_of_a_host() -> None:
    found = plan(8 * GIB, 6 * GIB, [Part("store tensors", GIB)], MODEL, kv_cache=2 * GIB, on_host=True)
    assert (found.share, found.kv_tokens, found.problem) == (None, 174_762, "")  # 2 GiB by 12,288
    unknown = ModelMemory("m", None, None, None, "not on this machine")
    assert plan(8 * GIB, 6 * GIB, [], unknown, kv_cache=2 * GIB, on_host=True).kv_bytes == 2 * GIB
    found = plan(8 * GIB, 6 * GIB, [Part("store tensors", 2 * GIB)], MODEL, kv_cache=3 * GIB, on_host=True)
    assert "1.0 GiB for weights and 3.0 GiB for its KV cache, 3.0 GiB are left" in found.problem
    assert "a smaller VLLM_CPU_KVCACHE_SPACE" in found.problem


def _rows(checks: list[doctor.Check]) -> dict[str, doctor.Check]:
    return {check.name: check for check in checks if check.name.startswith("memory: ")}


def _on(monkeypatch: pytest.MonkeyPatch, device: str, total: int, free: int) -> None:
    monkeypatch.setattr("hyce_gpu.devices.choose_device", lambda wanted="auto": device)
    monkeypatch.setattr(memory_plan, "device_memory", lambda _: (total, free))


def test_doctor_shows_the_plan_of_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE", raising=False)
    _on(monkeypatch, "cpu", 16 * GIB, 12 * GIB)
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=3 * MIB)
    rows = _rows(doctor.examine(_store(tmp_path / "s"), llm))
    names = ("store tensors", "vector index", "workspace", "encoder", "weights", "KV cache", "plan")
    assert list(rows) == [f"memory: {name}" for name in names]
    assert {row.state for row in rows.values()} == {"ok"}
    assert rows["memory: weights"].detail.startswith("3.0 MiB")
    assert rows["memory: KV cache"].detail == "2.0 GiB: 174,762 tokens, 21.3 requests of 8,192 at once"
    assert "12.0 GiB of 16.0 GiB are free" in rows["memory: plan"].detail
    _on(monkeypatch, "cpu", 16 * GIB, 2 * GIB)
    broken = _rows(doctor.examine(None, llm))["memory: plan"]
    assert (broken.state, "a smaller or quantised model" in broken.fix) == ("broken", True)


def test_doctor_shows_the_plan_of_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _on(monkeypatch, "cuda", 24 * GIB, 24 * GIB)
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda *_: GIB)
    plan_row = _rows(doctor.examine(_store(tmp_path / "s")))["memory: plan"]
    assert (plan_row.state, plan_row.detail.rpartition("; ")[2]) == ("ok", "vLLM gets gpu_memory_utilization 0.91")


def test_doctor_without_a_question_has_no_plan_and_a_wrong_one_is_an_error(tmp_path: Path) -> None:
    assert not _rows(doctor.examine())
    with pytest.raises(ServingError, match="'max_num_seq'; did you mean 'max_num_seqs'"):
        doctor.examine(None, None, {"max_num_seq": 4})
    with pytest.raises(StoreError, match="no store at"):
        doctor.examine(tmp_path / "none")
    with pytest.raises(ModelNotFound):
        doctor.examine(None, "/no/such/model")


def test_share_for_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store.open(_store(tmp_path / "s"))
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=1000)
    assert beside_store(store, [Config()], "cpu", llm, {"seed": 1}) == {"seed": 1}
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda *_: GIB)
    for free, share, warned in ((24, 0.91, False), (12, 0.41, False), (3, 0.04, True)):
        _on(monkeypatch, "cuda", 24 * GIB, free * GIB)
        found = beside_store(store, [Config()], "cuda:0", llm, {"seed": 1})
        assert found == {"seed": 1, "gpu_memory_utilization": share}
        assert ("memory may not suffice" in capsys.readouterr().err) == warned
    _on(monkeypatch, "cuda", 24 * GIB, 2 * GIB)
    with pytest.raises(InputError, match="device cuda:0: the store needs"):
        beside_store(store, [Config()], "cuda:0", llm, {})


def test_the_largest_of_several_configurations_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(_store(tmp_path / "s"))
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=1000)
    sizes = {"linked": GIB, "paper": 3 * GIB}
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda _, config, *__: sizes[config.method])
    _on(monkeypatch, "cuda", 10 * GIB, 10 * GIB)
    # 10 - 1 of workspace - 1 of margin, less a little for the store; and 10 - 3 - 1.
    assert beside_store(store, [Config()], "cuda", llm, {})["gpu_memory_utilization"] == 0.79
    both = [Config(), Config.paper()]
    assert beside_store(store, both, "cuda", llm, {})["gpu_memory_utilization"] == 0.59


def test_what_the_user_asks_for_stays_and_what_it_lacks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=1000)
    _on(monkeypatch, "cuda", 10 * GIB, 6 * GIB)
    asked = {"gpu_memory_utilization": 0.45}
    assert engine_options(llm, asked, "cuda") == asked
    assert capsys.readouterr().err == ""
    # 6 - 1 of 10 GiB are left.
    asked = {"gpu_memory_utilization": 0.9}
    assert engine_options(llm, asked, "cuda") == asked
    told = "gpu_memory_utilization 0.9 is 9.0 GiB, 5.0 GiB are left beside this process; take at most 0.50"
    assert told in capsys.readouterr().err
    # Told the bytes of its KV cache, vLLM looks at no share.
    asked = {"kv_cache_memory_bytes": GIB}
    assert engine_options(llm, asked, "cuda") == asked
    # Nonsense is for vLLM to refuse.
    assert engine_options(llm, {"gpu_memory_utilization": "much"}, "cuda") == {"gpu_memory_utilization": "much"}
    # 2 GiB hold no engine of 2 GiB; the user's window of 100 tokens does not help there.
    assert engine_options(llm, {"max_model_len": 100}, "cuda", lambda _: [Part("encoder", 3 * GIB)]) == {
        "max_model_len": 100, "gpu_memory_utilization": 0.2,
    }  # fmt: skip
    assert "beside" not in (said := capsys.readouterr().err)
    assert "2.0 GiB for activations, 2.0 GiB are left for it; take a smaller" in said
    assert "--device cpu for the encoder" in said


@pytest.mark.parametrize(
    ("options", "weights", "kv_bytes", "window"),
    [
        ({}, 4_000_000, 12_288, 8192),
        ({"max_model_len": 512}, 4_000_000, 12_288, 512),
        # Two KV heads on four GPUs: each keeps one.
        ({"tensor_parallel_size": 2}, 2_000_000, 6_144, 8192),
        ({"tensor_parallel_size": 4}, 1_000_000, 6_144, 8192),
        ({"dtype": "float32"}, 8_000_000, 24_576, 8192),
        ({"dtype": "float32", "kv_cache_dtype": "fp8"}, 8_000_000, 6_144, 8192),
        # Embeddings of 1,000 · 896 · 2 = 1,792,000 bytes stay; (4,000,000 - 1,792,000) · 8.25 / 16 = 1,138,500.
        ({"quantization": "fp8_per_tensor"}, 2_930_500, 12_288, 8192),
        # It names what the weights are already.
        ({"quantization": "awq"}, 4_000_000, 12_288, 8192),
        ({"max_model_len": "long", "tensor_parallel_size": 0}, 4_000_000, 12_288, 8192),
    ],
)
def test_options_of_the_engine_change_the_sizes_of_a_model(
    tmp_path: Path, options: dict[str, Any], weights: int, kv_bytes: int, window: int
) -> None:
    config = {**SMALL, "vocab_size": 1000, "tie_word_embeddings": True}
    found = model_memory(_model(tmp_path / "m", config, model_dot_safetensors=4_000_000), options)
    assert (found.weight_bytes, found.kv_bytes_per_token, found.window) == (weights, kv_bytes, window)


@pytest.mark.parametrize(
    ("change", "options", "weights", "kv_bytes"),
    [
        # A table of 1,000 · 896 · 2 = 1,792,000 bytes, and half of the other 2,208,000; 12 layers' keys and values.
        ({"tie_word_embeddings": True}, {"pipeline_parallel_size": 2}, 2_896_000, 6_144),
        # Two tables: each end has one, and half of the other 416,000.
        ({}, {"pipeline_parallel_size": 2}, 2_000_000, 6_144),
        # 24 layers in 5 stages: the longest has 5. 1,792,000 + 2,208,000 · 5 / 24.
        ({"tie_word_embeddings": True}, {"pipeline_parallel_size": 5}, 2_252_000, 2_560),
        # Of a stage, each of two shards has half, and one of the two KV heads.
        (
            {"tie_word_embeddings": True}, {"pipeline_parallel_size": 2, "tensor_parallel_size": 2},
            1_448_000, 3_072,
        ),
        # How large its tables are is not said: equal parts.
        ({"vocab_size": None}, {"pipeline_parallel_size": 2}, 2_000_000, 6_144),
        # Tables that would be more than all: the whole, from above.
        ({"vocab_size": 100_000}, {"pipeline_parallel_size": 2}, 4_000_000, 6_144),
        ({}, {"pipeline_parallel_size": "two"}, 4_000_000, 12_288),
    ],
)  # fmt: skip
def test_a_pipeline_divides_the_layers_and_leaves_its_ends_a_table(
    tmp_path: Path, change: dict[str, Any], options: dict[str, Any], weights: int, kv_bytes: int
) -> None:
    config = {**SMALL, "vocab_size": 1000, **change}
    found = model_memory(_model(tmp_path / "m", config, model_dot_safetensors=4_000_000), options)
    assert (found.weight_bytes, found.kv_bytes_per_token) == (weights, kv_bytes)
    shards, stages = (options.get(f"{kind}_parallel_size", 1) for kind in ("tensor", "pipeline"))
    assert found.gpus == (shards * stages if stages != "two" else 1)


def test_what_is_quantised_already_is_as_large_as_its_files(tmp_path: Path) -> None:
    config = {**SMALL, "vocab_size": 1000, "quantization_config": {"quant_method": "fp8"}}
    found = model_memory(_model(tmp_path / "m", config, model_dot_safetensors=4000), {"quantization": "fp8_per_tensor"})
    assert found.weight_bytes == 4000


def test_doctor_plans_with_the_options_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _on(monkeypatch, "cuda", 24 * GIB, 24 * GIB)
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda *_: GIB)
    store, llm = _store(tmp_path / "s"), _model(tmp_path / "m", SMALL, model_dot_safetensors=4 * MIB)
    rows = _rows(doctor.examine(store, llm, {"gpu_memory_utilization": 0.5, "max_model_len": 1024}))
    # .5 · 24 GiB - 4 MiB - 2 GiB, by 12,288 bytes a token and 1,024 tokens a request.
    assert rows["memory: KV cache"].detail == "10.0 GiB: 873,472 tokens, 853.0 requests of 1,024 at once"
    assert rows["memory: plan"].detail.endswith("vLLM gets gpu_memory_utilization 0.50")
    half = _rows(doctor.examine(store, llm, {"tensor_parallel_size": 2}))
    assert half["memory: weights"].detail.startswith("2.0 MiB on each of 2 devices")
    much = _rows(doctor.examine(store, llm, {"gpu_memory_utilization": 0.95}))["memory: plan"]
    assert (much.state, much.fix) == ("broken", "take at most 0.91, or leave it out")
    told = _rows(doctor.examine(store, llm, {"kv_cache_memory_bytes": 20 * GIB}))
    assert told["memory: KV cache"].detail.startswith("20.0 GiB: ")
    # 24 - 1 - 1 GiB are left; 20 of KV cache and 2 of activations fill them.
    assert "2.0 GiB for activations and 20.0 GiB for its KV cache, 22.0 GiB" in told["memory: plan"].detail
    assert "a smaller kv_cache_memory_bytes" in told["memory: plan"].fix


class _Opened(Exception):
    """The options that a Generator was opened with."""


def _refuse(model: str, **options: Any) -> None:
    raise _Opened(options)


@pytest.fixture
def gpu_of_10_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which a store's workspace takes 2 GiB and the encoder 1, whatever they are."""
    _on(monkeypatch, "cuda", 10 * GIB, 10 * GIB)
    monkeypatch.setattr(store_memory, "workspace_bytes", lambda *_: 2 * GIB)
    monkeypatch.setattr(store_memory, "encoder_bytes", lambda _: GIB)
    monkeypatch.setattr(memory_plan, "encoder_bytes", lambda _: GIB)


# 10 - 2 - 1 - 1 of margin, less a little for the store's tensors; and 10 - 1 - 1.
BESIDE_STORE, BESIDE_ENCODER = 0.59, 0.8


@pytest.mark.usefixtures("gpu_of_10_gib")
def test_each_job_gives_its_engine_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=1000)
    root = _store(tmp_path / "s", DEFAULT_ENCODER)
    store, asked = Store.open(root), {"seed": 7}
    for job in ("engine", "index_job", "extractors", "estimate_job"):
        monkeypatch.setattr(f"hyce_gpu.{job}.Generator", _refuse)
        monkeypatch.setattr(f"hyce_gpu.{job}.choose_device", lambda *_: "cuda", raising=False)
    encoder = SimpleNamespace(name="e", device="cuda", token_spans=None)
    for job in ("index_job", "estimate_job"):
        monkeypatch.setattr(f"hyce_gpu.{job}.Encoder", lambda *_, **__: encoder)
    jobs: list[tuple[Callable[[], object], float]] = [
        (lambda: Engine.open(root, llm=llm, llm_options=asked), BESIDE_STORE),
        (lambda: run_index([], root, "llm", None, llm, None, "auto", {}, llm_options=asked), BESIDE_ENCODER),
        (lambda: extractor_of(store, llm, asked, encoder, ExitStack()), BESIDE_ENCODER),  # type: ignore[arg-type]
        (lambda: estimate([], llm, 1, llm_options=asked), BESIDE_ENCODER),
    ]
    for job, share in jobs:
        with pytest.raises(_Opened) as opened:
            job()
        assert opened.value.args == ({"seed": 7, "gpu_memory_utilization": share},)


@pytest.mark.usefixtures("gpu_of_10_gib")
def test_the_demo_gives_its_engine_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = _model(tmp_path / "m", SMALL, model_dot_safetensors=1000)
    monkeypatch.setattr("hyce_gpu.engine.Generator", _refuse)
    for job in ("engine", "demo"):
        monkeypatch.setattr(f"hyce_gpu.{job}.choose_device", lambda _: "cuda")
    monkeypatch.setattr("hyce_gpu.demo.run_index", lambda corpus, root, *_: _store(root, DEFAULT_ENCODER))
    with pytest.raises(_Opened) as opened:
        run_demo(llm, False, tmp_path / "out", "auto")
    assert opened.value.args == ({"gpu_memory_utilization": BESIDE_STORE},)
