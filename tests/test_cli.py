"""The commands as a person meets them: real models, real files, exit codes, one-line errors."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from hyce_serving import bundled_llm
from hyce_serving.scripted import Scripted

from hyce_gpu import cli
from hyce_gpu.answers_file import from_line

DOCUMENTS = [
    {"id": "hall", "title": "Carnegie Hall", "text": "Carnegie Hall in Manhattan was paid for by Andrew Carnegie."},
    {"id": "man", "title": "Andrew Carnegie", "text": "Andrew Carnegie was born in Dunfermline, Scotland, in 1835."},
    {
        "id": "fuji",
        "title": "富士山",
        "text": "富士山 (Mount Fuji) is the highest mountain of Japan. It stands on Honshu.",
    },
    {
        "id": "odd",
        "title": "",
        "text": "{braces} <b>markup</b> <think>not a thought</think> %s \x1b[31m {0} in Paris, France.",
    },
    {"id": 7, "title": None, "text": "nothing here but small words"},
]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["hyce", *map(str, arguments)])
        capfd.readouterr()
        code: object = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code
        captured = capfd.readouterr()
        assert "Traceback" not in captured.err
        return Ran(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


def _write_corpus(folder: Path) -> Path:
    path = folder / "corpus.jsonl"
    path.write_text("".join(json.dumps(document) + "\n" for document in DOCUMENTS), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    command = [sys.executable, "-c", "from hyce_gpu.cli import main; main()"]
    arguments = ["index", str(_write_corpus(folder)), "--store", str(folder / "store")]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Standard output carries the result alone.
    assert json.loads(done.stdout)["documents"] == len(DOCUMENTS)
    assert "extractor: spacy" in done.stderr
    return folder / "store"


def test_ask_shows_the_evidence_and_where_it_stands(run: Run, store: Path) -> None:
    ran = run("ask", "--store", store, "--no-llm", "Where was the man born who paid for Carnegie Hall?")
    assert ran.code == 0
    assert "supporting" in ran.out
    assert "born in Dunfermline" in ran.out
    assert "source: man [0:" in ran.out


def test_ask_json_sources_point_at_the_segment(run: Run, store: Path) -> None:
    ran = run("ask", "--store", store, "--no-llm", "--json", "On which island stands 富士山?")
    answer = from_line(ran.out)
    assert answer.status == "retrieved"
    assert "富士山" in answer.entry
    texts = {str(document["id"]): str(document["text"]) for document in DOCUMENTS}
    assert answer.paths
    for path in answer.paths:
        assert sum(path.terms.values()) == pytest.approx(path.score)
        source = path.sources[0]
        assert texts[source.doc_id][source.start : source.end] == path.segment


def test_a_document_does_not_steer_the_terminal(run: Run, store: Path) -> None:
    ran = run("ask", "--store", store, "--no-llm", "What has braces and markup in Paris, France?")
    assert "\x1b" not in ran.out
    assert "<think>not a thought</think>" in ran.out


def test_answers_keep_the_order_and_every_question_has_its_line(run: Run, store: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    lines = [
        {"id": "b", "question": "Where was Andrew Carnegie born?"},
        {"id": "a", "question": "  "},
        {"question": "word " * 20_000 + "Dunfermline"},
        {"id": "b", "question": "Where was Andrew Carnegie born?"},
        {"id": 4, "question": "zzz qqq xxx?"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "not json\n"
    questions.write_text(text, encoding="utf-8")
    ran = run("answer", "--store", store, questions, "--out", tmp_path / "one.jsonl", "--no-llm", "--batch-size", 1)
    assert ran.code == 3
    answers = [from_line(line) for line in (tmp_path / "one.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [answer.id for answer in answers] == ["b", "a", "q3", "b", "4", "q6"]
    assert [answer.status for answer in answers] == [
        "retrieved",
        "failed",
        "retrieved",
        "retrieved",
        "retrieved",
        "failed",
    ]
    assert answers[0].paths == answers[3].paths
    ledger = (tmp_path / "one.jsonl.ledger.jsonl").read_text().splitlines()
    assert len(ledger) == 2
    run("answer", "--store", store, questions, "--out", tmp_path / "all.jsonl", "--no-llm")
    together = [from_line(line) for line in (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    for one, other in zip(answers, together, strict=True):
        assert (one.id, one.status, one.entry) == (other.id, other.status, other.entry)
        assert [path.hyperedge for path in one.paths] == [path.hyperedge for path in other.paths]
        assert [path.score for path in one.paths] == pytest.approx([path.score for path in other.paths], abs=2e-6)


def test_a_chunk_without_hyperedges_stays_retrievable_as_text(run: Run, store: Path) -> None:
    answer = from_line(run("ask", "--store", store, "--no-llm", "--json", "nothing but small words").out)
    texts = [path for path in answer.paths if path.role == "text"]
    assert [path.segment for path in texts] == ["nothing here but small words"]


def test_bad_lines_are_set_aside_and_the_rest_goes_on(run: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    good = json.dumps({"id": "x", "text": "Ada Lovelace met Charles Babbage in London. \ud800"})
    corpus.write_text("\n".join([good, "{broken", '{"id": "y"}', '{"id": "z", "text": "  "}', good]), encoding="utf-8")
    ran = run("index", corpus, "--store", tmp_path / "store")
    assert ran.code == 3
    assert json.loads(ran.out)["documents"] == 1
    ledger = [json.loads(line) for line in (tmp_path / "store" / "ledger.jsonl").read_text().splitlines()]
    assert [entry["where"].rpartition(":")[2] for entry in ledger] == ["2", "3", "4", "5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["index", "{tmp}/none.jsonl", "--store", "{tmp}/s"], "none.jsonl"),
        (["index", "{tmp}/empty.jsonl", "--store", "{tmp}/s"], "no usable document"),
        (["index", "{tmp}/image.png", "--store", "{tmp}/s"], "image.png"),
        (["index", "{corpus}", "--store", "{tmp}"], "is not a store and not empty"),
        (["index", "{corpus}", "--store", "{tmp}/s", "--extractor", "magic"], "there are auto, llm, spacy, records"),
        (["index", "{corpus}", "--store", "{tmp}/s", "--extractor", "llm"], "needs --llm MODEL"),
        (["index", "{corpus}", "--store", "{tmp}/s", "--llm", "/no/such/model"], "/no/such/model"),
        (["index", "{corpus}", "--store", "{tmp}/s", "--encoder", "/no/such/model"], "/no/such/model"),
        (["index", "{corpus}", "--store", "{tmp}/s", "--set", "chunk_token=9"], "did you mean 'chunk_tokens'"),
        (["ask", "--store", "{tmp}/none", "who?"], "no store at"),
        (["ask", "--store", "{store}", "--llm", "/no/such/model", "who?"], "/no/such/model"),
        (["ask", "--store", "{store}", "--device", "cuda:9", "who?"], "cuda:9"),
        (["answer", "--store", "{store}", "{tmp}/none.txt", "--out", "{tmp}/a"], "none.txt"),
        (["answer", "--store", "{store}", "{corpus}", "--out", "/proc/no/a.jsonl", "--no-llm"], "/proc/no/a.jsonl"),
        (["inspect", "--store", "{tmp}/none"], "no store at"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_1(
    run: Run, store: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "image.png").write_bytes(b"\x89PNG")
    places = {"tmp": str(tmp_path), "store": str(store), "corpus": str(_write_corpus(tmp_path))}
    ran = run(*(argument.format(**places) for argument in arguments))
    assert ran.code == 1
    last = ran.err.strip().splitlines()[-1]
    assert last.startswith("hyce: ")
    assert message in last
    assert ran.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "--store", "s", "  "],
        ["ask", "who?"],
        ["nonsense"],
        ["ask", "--store", "s", "--llm", "m", "--no-llm", "who?"],
    ],
)
def test_usage_errors_are_exit_code_2(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).code == 2


def test_a_store_of_another_encoder_is_refused(run: Run, store: Path, tmp_path: Path) -> None:
    other = tmp_path / "store"
    _copy_with_fingerprint(store, other, shift=0.1)
    ran = run("ask", "--store", other, "--no-llm", "who?")
    assert ran.code == 1
    assert "gives other vectors" in ran.err


def _copy_with_fingerprint(store: Path, other: Path, shift: float) -> None:
    shutil.copytree(store, other)
    path = other / (other / "CURRENT").read_text().strip() / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["encoder"]["fingerprint"][0][0] += shift
    # As a store that was built so, and not one that was changed since.
    del manifest["sha256"]
    path.write_text(json.dumps(manifest))


def test_inspect_and_doctor(run: Run, store: Path) -> None:
    manifest = json.loads(run("inspect", "--store", store, "--json").out)
    assert manifest["counts"]["documents"] == len(DOCUMENTS)
    assert "hyperedges" in run("inspect", "--store", store).out
    checks = {check["name"]: check for check in json.loads(run("doctor", "--json").out)}
    assert checks["vllm"]["state"] == "ok"
    assert "en_core_web_sm" in checks["spacy"]["detail"]
    assert checks["device"]["detail"]
    assert "backend" in run("doctor").out


def test_accounts_of_a_store_and_of_answers_are_shown(run: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("Where was Andrew Carnegie born?\n")
    out = tmp_path / "a.jsonl"
    assert run("answer", "--store", store, tmp_path / "q.txt", "--out", out, "--no-llm").code == 0
    told = run("inspect", "--answers", out).out
    assert "answer" in told
    assert "1 units" in told
    assert "peak memory, host" in told
    accounts = json.loads(run("inspect", "--store", store, "--json").out)["accounts"]
    assert accounts["stages"]["extract"]["units"] == len(DOCUMENTS)
    # What it took to write what the manifest is sealed with.
    assert accounts["stages"]["write"]["seconds"] > 0
    assert 100 < accounts["peak_memory"]["host"] / 2**20 < 100_000
    assert "peak memory" in run("inspect", "--store", store).out
    assert run("inspect").code == 2
    ran = run("inspect", "--answers", tmp_path / "q.txt")
    assert (ran.code, "q.txt.manifest.json" in ran.err) == (1, True)


def test_doctor_fails_where_what_was_asked_for_does_not_fit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = bundled_llm()
    assert run("doctor", "--llm", llm).code == 0
    ran = run("doctor", "--llm", llm, "--llm-set", "max_modl_len=512")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == ("hyce: expected an engine option of vLLM, found 'max_modl_len'; did you mean 'max_model_len'?\n")
    # 2,048 GiB for keys and values.
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "2048")
    for how in ((), ("--json",)):
        ran = run("doctor", "--llm", llm, *how)
        assert (ran.code, "2,048.0 GiB for its KV cache" in ran.out) == (1, True)
    # Nobody asked for a plan.
    assert run("doctor").code == 0


def test_options_of_a_model_without_a_model_are_refused(run: Run, store: Path, tmp_path: Path) -> None:
    ran = run("ask", "--store", store, "--no-llm", "--llm-set", "seed=1", "Who?")
    assert (ran.code, "--llm MODEL" in ran.err) == (2, True)
    ran = run("index", _write_corpus(tmp_path), "--store", tmp_path / "s", "--llm-set", "seed=1")
    assert ran.code == 1
    assert ran.err.endswith("hyce: --llm-set seed is for a model: the extractor is spacy\n")
    assert run("ask", "--store", store, "--llm", bundled_llm(), "--llm-set", "seed=x", "Who?").err.endswith(
        "hyce: expected a seed that is a whole number, found 'x'; leave it out\n"
    )


def test_the_memory_plan_of_a_store_and_a_model(run: Run, store: Path) -> None:
    checks = {
        one["name"]: one for one in json.loads(run("doctor", "--json", "--store", store, "--llm", bundled_llm()).out)
    }
    assert "MiB" in checks["memory: store tensors"]["detail"]
    assert checks["memory: plan"]["state"] in ("ok", "broken")
    assert run("doctor", "--store", "/no/such/store").err.startswith("hyce: no store at /no/such/store")


def test_an_estimate_scales_a_sample_to_the_corpus(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted(lambda _: '{"entities": ["Ada"], "hyperedges": []}')
    monkeypatch.setattr("hyce_gpu.estimate_job.Generator", lambda *_, **__: model)
    ran = run("estimate", _write_corpus(tmp_path), "--llm", "scripted", "--sample", 2)
    found = json.loads(ran.out)
    assert (ran.code, found["documents"], found["chunks"], found["sampled"]) == (0, 5, 5, 3)
    assert model.asked == 3
    assert found["completion_tokens"] == round(5 / 3 * 3 * 4)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["corpus.jsonl"]


def test_documents_come_and_go(run: Run, store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store")
    (tmp_path / "new.jsonl").write_text(json.dumps({"id": "new", "text": "Ada Lovelace met Charles Babbage."}) + "\n")
    ran = run("add", tmp_path / "new.jsonl", "--store", tmp_path / "store")
    assert (ran.code, json.loads(ran.out)["documents"]) == (0, len(DOCUMENTS) + 1)
    ran = run("add", tmp_path / "new.jsonl", "--store", tmp_path / "store")
    assert json.loads(ran.out)["changed"] is False
    ran = run("remove", "new", "7", "--store", tmp_path / "store")
    assert json.loads(ran.out)["documents"] == len(DOCUMENTS) - 1
    assert json.loads(run("compact", "--store", tmp_path / "store").out)["freed_bytes"] > 0
    assert "unknown document 'manx'; did you mean 'man'?" in run("remove", "manx", "--store", tmp_path / "store").err


def test_verify_names_the_damage_and_repair_mends_it(run: Run, store: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(store, root)
    assert run("verify", "--store", root)[:2] == (0, "sound\n")
    path = root / (root / "CURRENT").read_text().strip() / "member.npy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])
    ran = run("ask", "--store", root, "--no-llm", "who?")
    assert (ran.code, ran.err.splitlines()[-1]) == (
        1, f"hyce: broken store: {path} is not what was written; see hyce verify"
    )  # fmt: skip
    ran = run("verify", "--store", root)
    assert (ran.code, ran.out.startswith("member.npy: expected the SHA-256")) == (1, True)
    ran = run("verify", "--store", root, "--repair")
    assert (ran.code, ran.out.startswith("rebuilt member.npy from documents.arrow")) == (0, True)
    assert run("verify", "--store", root, "--json")[:2] == (0, "[]\n")
    assert run("ask", "--store", root, "--no-llm", "Where was Andrew Carnegie born?").code == 0
