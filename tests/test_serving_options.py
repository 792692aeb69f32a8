"""Options of a Generator: what cannot be is an error of one line, what changes no reply is no part of its identity."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hyce_serving import bundled_llm
from hyce_serving.errors import MissingPackage, ServingError
from hyce_serving.generator import Generator, check_options
from hyce_serving.options import CHANGES_NO_REPLY, OWN

IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"device": "tpu"}, "a device of auto, cpu, cuda, found 'tpu'"),
    ({"device": ["cpu"]}, "a device of auto, cpu, cuda"),
    ({"temperature": "hot"}, "a number of at least 0, found 'hot'"),
    ({"temperature": float("nan")}, "a number of at least 0, found nan"),
    ({"temperature": -0.5}, "a number of at least 0, found -0.5"),
    ({"max_model_len": "long"}, "at least 1 token, found 'long'"),
    ({"max_model_len": 0}, "at least 1 token, found 0"),
    ({"max_model_len": 2.5}, "at least 1 token, found 2.5"),
    ({"seed": "x"}, "a whole number, found 'x'"),
    ({"seed": True}, "a whole number, found True"),
    ({"reasoning": 3}, "found 3; choose one"),
    ({"reasoning_tokens": "many"}, "a whole number, found 'many'"),
]


@pytest.mark.parametrize(("given", "said"), IMPOSSIBLE)
def test_a_value_that_cannot_be_is_an_error_before_anything_loads(given: dict[str, Any], said: str) -> None:
    for refused in (lambda: check_options(given), lambda: Generator(str(bundled_llm()), **given)):
        with pytest.raises(ServingError, match="expected") as error:
            refused()
        assert said in str(error.value)


def test_values_that_can_be_are_taken() -> None:
    given = {"device": "cpu", "temperature": 1, "max_model_len": 512, "seed": -1, "reasoning": "on"}
    assert Generator(str(bundled_llm()), **given, reasoning_tokens=0).max_model_len == 512
    check_options({**given, "reasoning_tokens": 0, "max_num_seqs": 4})
    check_options({})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("enforce_eagre", "'enforce_eagre'; did you mean 'enforce_eager'"),
        ("temprature", "'temprature'; did you mean 'temperature'"),
        # The model is named by itself, and `self` by nobody.
        ("model", "found 'model'"),
        ("self", "found 'self'"),
        ("chat_template", "found 'chat_template'; chats to text"),
    ],
)
def test_a_name_that_nobody_knows_is_an_error_with_the_nearest_one(name: str, said: str) -> None:
    with pytest.raises(ServingError) as error:
        check_options({"seed": 1, name: True})
    assert said in str(error.value)
    # A Generator may be made without vLLM; its engine refuses the name.
    assert Generator(str(bundled_llm()), **{name: True}).path


def test_without_vllm_names_cannot_be_checked_but_own_values_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(MissingPackage):
        check_options({"seed": 1})
    with pytest.raises(ServingError, match="a seed"):
        check_options({"seed": "x"})


def test_what_changes_no_reply_is_not_described_and_everything_else_is() -> None:
    path = str(bundled_llm())
    plain = Generator(path).describe()
    told = {
        "gpu_memory_utilization": 0.5, "kv_cache_memory_bytes": 1 << 30, "max_num_seqs": 2, "tensor_parallel_size": 2,
        "enforce_eager": False, "hf_token": "hf_secret",
    }  # fmt: skip
    assert Generator(path, **told).describe() == plain
    # Random weights under the same name; and one that nobody has heard of yet.
    for name in ("load_format", "dtype", "quantization", "speculative_config", "some_new_option"):
        assert Generator(path, **{name: "x"}).describe() == {**plain, f"option.{name}": "x"}


def test_names_are_those_of_this_vllm() -> None:
    import dataclasses

    from vllm.engine.arg_utils import EngineArgs

    known = {field.name for field in dataclasses.fields(EngineArgs)} | {"use_tqdm_on_load"}
    # Names of other versions stay; most are of this one, and none is a Generator's own.
    assert len(CHANGES_NO_REPLY - known) <= 4, CHANGES_NO_REPLY - known
    assert not CHANGES_NO_REPLY & set(OWN)
