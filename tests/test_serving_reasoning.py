"""What is told to models that reason, and what of their replies is the answer; no model runs here."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hyce_serving import GenerationRequest, Generator, ServingError, bundled_llm, fingerprint, reasoning
from hyce_serving.asking import Asking
from hyce_serving.chat import ChatTokenizer

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
MESSAGES = ({"role": "user", "content": "Why?"},)

# A template that shows what it is told, and opens the thinking itself, as some of the models that always think do.
SHOWING = "{{ messages[-1].content }}|{{ enable_thinking }}|{{ reasoning_effort }}|"
OPENING = SHOWING + "{% if enable_thinking %}<think>\n{% endif %}"


@pytest.mark.parametrize(
    ("reply", "opened", "answer"),
    [
        ("<think>\nHm.\n</think>\n\nBlue.", False, "Blue."),
        ("\n<think>Hm.</think>Blue.", False, "Blue."),
        ("Hm.\n</think>\n\nBlue.", True, "Blue."),
        ("Blue.", False, "Blue."),
        ('{"tag": "</think>"}', False, '{"tag": "</think>"}'),
        ('<think>Hm.</think>{"tag": "<think></think>"}', False, '{"tag": "<think></think>"}'),
        ('Hm.</think>{"tag": "</think>"}', True, '{"tag": "</think>"}'),
        ("It is <think>blue</think>.", False, "It is <think>blue</think>."),
        ("<think>Hm. And yet", False, ""),
        ("Hm. And yet", True, ""),
        ("", False, ""),
        ("", True, ""),
    ],
)
def test_the_answer_is_what_follows_the_thinking(reply: str, opened: bool, answer: str) -> None:
    assert reasoning.after_thinking(reply, opened) == answer


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (f"{ANALYSIS}<|channel|>final<|message|>Blue.<|return|>", "Blue."),
        (f"{ANALYSIS}<|channel|>final<|message|>Blue.<|end|><|start|>assistant", "Blue."),
        (f"{ANALYSIS}<|channel|>final<|message|>Blue.", "Blue."),
        ('<|channel|>final <|constrain|>json<|message|>{"n": 1}<|return|>', '{"n": 1}'),
        ('<|channel|>final json<|message|>{"n": 1}', '{"n": 1}'),
        ("<|channel|>final<|message|>Red.<|end|><|start|>assistant<|channel|>final<|message|>Blue.", "Blue."),
        ("<|channel|>analysis<|message|>The final answer is blue", ""),
        ("Blue.", ""),
        ("", ""),
    ],
)
def test_the_answer_is_the_last_final_channel(reply: str, answer: str) -> None:
    assert reasoning.harmony_final(reply) == answer


@pytest.mark.parametrize(
    ("mode", "harmony", "options"),
    [
        ("off", False, {"enable_thinking": False}),
        ("on", False, {"enable_thinking": True}),
        ("high", False, {"enable_thinking": True, "reasoning_effort": "high"}),
        ("off", True, {"enable_thinking": False, "reasoning_effort": "low"}),
        ("on", True, {"enable_thinking": True}),
        ("medium", True, {"enable_thinking": True, "reasoning_effort": "medium"}),
    ],
)
def test_templates_are_told_of_the_mode(mode: str, harmony: bool, options: dict[str, Any]) -> None:
    assert reasoning.template_options(mode, harmony) == options


@pytest.mark.parametrize(
    ("tokens", "template", "parser"),
    [
        ({"<|channel|>", "<|message|>"}, "", "openai_gptoss"),
        ({"<think>", "</think>", "<tool_call>"}, "{% if enable_thinking %}", "qwen3"),
        ({"<think>", "</think>"}, "{% if enable_thinking %}", "deepseek_r1"),
        ({"<think>", "</think>", "<tool_call>"}, "", "deepseek_r1"),
        ({"<think>"}, "", None),
        (set(), "", None),
    ],
)
def test_the_parser_fits_the_vocabulary(tokens: set[str], template: str, parser: str | None) -> None:
    names = ("<|channel|>", "<|message|>", "<think>", "</think>", "<tool_call>")
    assert reasoning.parser({name: name in tokens for name in names}, template) == parser


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        ('<|channel|>final<|message|>{"n": 1}', True),
        (f'{ANALYSIS}<|channel|>final <|constrain|>json<|message|>{{"n": 1}}<|end|>', True),
        ('{"n": 1}', False),
        (f"{ANALYSIS}<|channel|>final<|message|>Blue.", False),
        (ANALYSIS, False),
    ],
)
def test_a_schema_binds_the_final_channel_alone(reply: str, accepted: bool) -> None:
    assert _accepts(reasoning.harmony_structure(SCHEMA, ()), reply) == accepted


def test_choices_bind_the_final_channel_alone() -> None:
    structure = reasoning.harmony_structure(None, ("red", 'b"lue'))
    assert _accepts(structure, ANALYSIS + '<|channel|>final<|message|>b"lue')
    assert not _accepts(structure, ANALYSIS + "<|channel|>final<|message|>green")


def _accepts(structure: dict[str, Any], reply: str) -> bool:
    xgrammar = pytest.importorskip("xgrammar")
    from xgrammar.testing import _is_grammar_accept_string

    grammar = xgrammar.Grammar.from_structural_tag(json.dumps(structure))
    return bool(_is_grammar_accept_string(grammar, reply))


def test_modes_that_there_are_not_are_refused() -> None:
    with pytest.raises(ServingError, match="off, on, low, medium, high, found 'hihg'"):
        Generator(str(bundled_llm()), reasoning="hihg")
    with pytest.raises(ServingError, match="reasoning_tokens"):
        Generator(str(bundled_llm()), reasoning_tokens=-1)


def _model(folder: Path, template: str | None = None, added: tuple[str, ...] = (), special: bool = False) -> str:
    """A folder with the small model's tokenizer, more tokens and another template; its weights are a few bytes."""
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(bundled_llm() / name, folder / name)
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": special}
    first = max(token["id"] for token in tokenizer["added_tokens"])
    first = max(first, *tokenizer["model"]["vocab"].values()) + 1
    tokenizer["added_tokens"] += [{"id": first + i, "content": token, **flags} for i, token in enumerate(added)]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "model.safetensors").write_bytes(b"weights")
    return str(folder)


def _asking(path: str, mode: str, tokens: int = 100, parser: str | None = None) -> Asking:
    return Asking(ChatTokenizer(path, mode), lambda: 512, 0.0, 0, tokens, parser)


@pytest.mark.parametrize(
    ("mode", "prompt"), [("off", "Why?|False||"), ("on", "Why?|True||<think>\n"), ("low", "Why?|True|low|<think>\n")]
)
def test_a_prompt_is_made_for_the_mode(tmp_path: Path, mode: str, prompt: str) -> None:
    chat = ChatTokenizer(_model(tmp_path, OPENING), mode)
    assert chat.tokenizer.decode(chat.encode(MESSAGES)) == prompt
    assert chat.opens_thinking == (mode != "off")


def test_a_harmony_model_reasons_as_little_as_it_can_when_it_is_off(tmp_path: Path) -> None:
    asking = _asking(_model(tmp_path, SHOWING, reasoning.HARMONY_TOKENS, special=True), "off")
    assert asking.chat.tokenizer.decode(asking.chat.encode(MESSAGES)) == "Why?|False|low|"
    assert asking.answer(f"{ANALYSIS}<|channel|>final<|message|>Blue.<|return|>") == "Blue."
    assert asking.engine_options() == {"reasoning_parser": "openai_gptoss"}
    sampling = asking.sampling(GenerationRequest("q", MESSAGES, 8, SCHEMA), 108)
    assert not sampling.skip_special_tokens
    # This vLLM's grammar begins with the reply, so that it must describe the channels before the answer too.
    assert sampling.structured_outputs.json is None
    assert json.loads(sampling.structured_outputs.structural_tag) == reasoning.harmony_structure(SCHEMA, [])


@pytest.mark.parametrize(("template", "reply"), [(OPENING, "Hm.</think>Blue."), (SHOWING, "<think>Hm.</think>Blue.")])
def test_a_reply_with_thinking_gives_the_answer(tmp_path: Path, template: str, reply: str) -> None:
    path = _model(tmp_path, template, ("<think>", "</think>"))
    assert _asking(path, "on").answer(reply) == "Blue."
    assert _asking(path, "off").answer(reply) == reply


@pytest.mark.parametrize("special", [False, True])
def test_marks_that_the_engine_would_drop_are_kept(tmp_path: Path, special: bool) -> None:
    path = _model(tmp_path, SHOWING, ("<think>", "</think>"), special)
    request = GenerationRequest("q", MESSAGES, 8)
    assert _asking(path, "on").sampling(request, 8).skip_special_tokens == (not special)
    assert _asking(path, "off").sampling(request, 8).skip_special_tokens


def test_the_engine_is_told_of_the_reasoning_only_where_there_is_some(tmp_path: Path) -> None:
    path = _model(tmp_path, SHOWING, ("<think>", "</think>", "<tool_call>"))
    assert _asking(path, "off").engine_options() == {}
    assert _asking(path, "on").engine_options() == {"reasoning_parser": "qwen3"}
    assert _asking(path, "on", parser="granite").engine_options() == {"reasoning_parser": "granite"}
    assert _asking(str(bundled_llm()), "on").engine_options() == {}


def test_reasoning_has_tokens_beside_the_answer_within_the_window(tmp_path: Path) -> None:
    path, request = _model(tmp_path, SHOWING), GenerationRequest("q", MESSAGES, 50)
    assert _asking(path, "off").max_tokens(request, 100) == 50
    assert _asking(path, "on").max_tokens(request, 100) == 150
    assert _asking(path, "on").max_tokens(request, 400) == 112
    assert _asking(path, "on").max_tokens(request, 496) == 16
    assert _asking(path, "on").max_tokens(request, 497) == 0


def test_reasoning_is_described_where_it_is_not_the_default() -> None:
    path = str(bundled_llm())
    plain = Generator(path).describe()
    assert not {"reasoning", "reasoning_tokens"} & plain.keys()
    assert (
        Generator(path, reasoning="low").describe().items() >= {"reasoning": "low", "reasoning_tokens": "1024"}.items()
    )
    assert Generator(path, reasoning_tokens=64).describe()["reasoning_tokens"] == "64"
    assert Generator(path, revision="abc").describe()["option.revision"] == "abc"


def test_another_model_at_the_same_path_is_seen(tmp_path: Path) -> None:
    path = _model(tmp_path)
    seen = {Generator(path).describe()["weights"] for _ in range(2)}
    assert len(seen) == 1
    (tmp_path / "model.safetensors").write_bytes(b"WEIGHTS")
    seen.add(Generator(path).describe()["weights"])
    (tmp_path / "model-2.bin").write_bytes(b"more")
    seen.add(Generator(path).describe()["weights"])
    (tmp_path / "config.json").write_text((tmp_path / "config.json").read_text() + "\n")
    seen.add(Generator(path).describe()["weights"])
    assert len(seen) == 4


def test_the_commit_of_a_cached_model_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    model = tmp_path / "models--some--model"
    (model / "snapshots" / commit).mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(commit)
    (model / "snapshots" / commit / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    assert fingerprint.cached_commit("some/model") == commit
    assert fingerprint.cached_commit("some/other") is None
    assert fingerprint.cached_commit("a/b/c/d") is None
