"""Batches of chat requests to answers, with vLLM in this process.

The engine starts on first use and takes all requests of a call at once. Results are matched by id, never by
position. It does not know what is asked, and never cuts a prompt to make it fit.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

from hyce_serving import engine
from hyce_serving.chat import ChatTokenizer
from hyce_serving.errors import ServingError
from hyce_serving.models import llm_path
from hyce_serving.text import without_surrogates

# A longer window costs memory for the keys and values of every token in it, and few prompts here need it.
DEFAULT_MAX_MODEL_LEN = 8192

# What vLLM takes for a model whose configuration does not say.
_UNKNOWN_MODEL_LEN = 2048
_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")

# An answer may be cut down to what the window has left, but not to nothing.
_LEAST_ANSWER_TOKENS = 16


@dataclass(frozen=True)
class GenerationRequest:
    """One question to the model; id is the caller's and unique within a call.

    messages: role and content each. max_tokens: of the answer. schema: a JSON schema that the answer must follow;
    choices: strings of which the answer must be one. Raises ServingError for values that no model could answer.
    """

    id: str
    messages: tuple[Mapping[str, str], ...]
    max_tokens: int
    schema: Mapping[str, Any] | None = None
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ServingError(f"expected max_tokens of at least 1 in request {self.id!r}, found {self.max_tokens}")
        if self.schema is not None and self.choices:
            raise ServingError(f"expected a schema or choices in request {self.id!r}, found both; give one of them")
        if not self.messages or not all({"role", "content"} <= set(message) for message in self.messages):
            raise ServingError(f"expected messages with role and content in request {self.id!r}; give at least one")


@dataclass(frozen=True)
class Generation:
    """An answer, or why there is none.

    finish_reason: "stop"; "length", cut at max_tokens; "too_long", the prompt leaves no room and never reached the
    engine; "error", refused, with the cause in error.
    """

    id: str
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    error: str = ""


class Generator:
    """An LLM in this process, at a folder or Hub id; use it as a context manager, or call close().

    max_model_len: tokens of prompt and answer together, by default the model's own, at most 8,192.
    device: "auto", "cpu" or "cuda"; it must be what the installed vLLM was built for. engine_options go to vllm.LLM.
    Raises ModelNotFound on construction where there is no such model.
    """

    def __init__(
        self,
        model: str,
        *,
        max_model_len: int | None = None,
        seed: int = 0,
        temperature: float = 0.0,
        device: str = "auto",
        **engine_options: Any,
    ) -> None:
        if device not in engine.DEVICES:
            raise ServingError(f"expected a device of {', '.join(engine.DEVICES)}, found {device!r}; choose one")
        if temperature < 0:
            raise ServingError(f"expected a temperature of at least 0, found {temperature}; 0 takes the likeliest")
        if max_model_len is not None and max_model_len < 1:
            raise ServingError(f"expected max_model_len of at least 1 token, found {max_model_len}; leave it out")
        self.name = model
        self.path = llm_path(model)
        self.device = device
        self.seed = seed
        self.temperature = temperature
        self._asked_max_model_len = max_model_len
        self._options = dict(engine_options)
        loading = {key: engine_options[key] for key in ("revision", "trust_remote_code") if key in engine_options}
        self._loading = loading
        self._chat = ChatTokenizer(str(engine_options.get("tokenizer") or self.path), **loading)
        self._llm: Any = None
        # One thread at a time drives the engine; whoever does puts the others' answers aside for them.
        self._lock = threading.RLock()
        self._finished: dict[str, Any] = {}
        self._numbers = count()

    def __enter__(self) -> "Generator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the engine and frees its memory; a later generate() starts it again."""
        with self._lock:
            llm, self._llm = self._llm, None
            self._finished.clear()
            if llm is not None:
                engine.stop(llm)

    @cached_property
    def max_model_len(self) -> int:
        """Tokens of prompt and answer together; known without the engine.

        More than the model was made for is refused by vLLM, which knows each architecture, when it starts.
        """
        return self._asked_max_model_len or min(self._own_max_model_len(), DEFAULT_MAX_MODEL_LEN)

    def count_tokens(self, messages: Sequence[Mapping[str, str]]) -> int:
        """The length of the prompt in tokens, chat template included; needs no engine."""
        return len(self._chat.encode(messages))

    def describe(self) -> dict[str, str]:
        """What would have to be the same for the same answers; needs no engine."""
        return {
            "model": self.name,
            "path": self.path,
            "engine": engine.package_version(),
            "device": self.device,
            "max_model_len": str(self.max_model_len),
            "seed": str(self.seed),
            "temperature": str(self.temperature),
            **{f"option.{name}": str(value) for name, value in sorted(self._options.items())},
        }

    def generate(
        self, requests: Iterable[GenerationRequest], advance: Callable[[int], None] | None = None
    ) -> Iterator[Generation]:
        """A Generation for each request, in the order in which they finish.

        advance is told 1 for each. Raises ServingError for an id that occurs twice (at once), and where the engine
        does not start or stops (on iteration); one request that it refuses is a Generation with "error".
        """
        asked = list(requests)
        seen: set[str] = set()
        for request in asked:
            if request.id in seen:
                raise ServingError(f"expected each request id once in a call, found {request.id!r} twice; rename one")
            seen.add(request.id)
        return self._answers(asked, advance or (lambda _: None))

    def _answers(self, asked: list[GenerationRequest], advance: Callable[[int], None]) -> Iterator[Generation]:
        open_requests: dict[str, GenerationRequest] = {}
        try:
            answered = [found for request in asked if (found := self._submit(request, open_requests)) is not None]
            while answered or open_requests:
                for generation in answered:
                    advance(1)
                    yield generation
                answered = self._take_finished(open_requests) if open_requests else []
        finally:
            # A caller that stops half-way leaves nothing running behind it.
            self._abort(list(open_requests))

    def _submit(self, request: GenerationRequest, open_requests: dict[str, GenerationRequest]) -> Generation | None:
        """Gives a request to the engine, or says at once why not."""
        prompt = self._chat.encode(request.messages)
        room = self.max_model_len - len(prompt)
        if room < min(request.max_tokens, _LEAST_ANSWER_TOKENS):
            cause = f"{len(prompt)} prompt tokens leave {max(room, 0)} of {self.max_model_len} for the answer"
            return Generation(request.id, "", "too_long", len(prompt), 0, cause)
        key = f"request-{next(self._numbers)}"
        with self._lock:
            llm_engine = self._started().llm_engine
            try:
                # Both forms of vLLM's input in one: versions read "type" or the key of the ids.
                tokens = {"type": "token", "prompt_token_ids": prompt}
                llm_engine.add_request(key, tokens, self._sampling(request, min(request.max_tokens, room)))
            # A schema can be refused by the sampling parameters, the grammar compiler or the engine, each its own way.
            except Exception as error:
                llm_engine.abort_request([key])
                return Generation(request.id, "", "error", len(prompt), 0, _cause(error))
        open_requests[key] = request
        return None

    def _sampling(self, request: GenerationRequest, max_tokens: int) -> Any:
        from vllm.sampling_params import RequestOutputKind, SamplingParams, StructuredOutputsParams

        bound = None
        if request.schema is not None:
            bound = StructuredOutputsParams(json=json.dumps(dict(request.schema)))
        elif request.choices:
            bound = StructuredOutputsParams(choice=[without_surrogates(choice) for choice in request.choices])
        return SamplingParams(
            temperature=self.temperature,
            seed=self.seed if self.temperature > 0 else None,
            max_tokens=max_tokens,
            stop=list(self._chat.stop),
            structured_outputs=bound,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _take_finished(self, open_requests: dict[str, GenerationRequest]) -> list[Generation]:
        """Drives the engine until some of these requests are done, and takes them out."""
        with self._lock:
            while not (done := open_requests.keys() & self._finished.keys()):
                self._step(len(open_requests))
            outputs = {key: self._finished.pop(key) for key in sorted(done)}
        return [_generation(open_requests.pop(key).id, output) for key, output in outputs.items()]

    def _step(self, waiting: int) -> None:
        if self._llm is None or not self._llm.llm_engine.has_unfinished_requests():
            raise ServingError(f"expected answers to {waiting} more requests, found the engine closed; ask again")
        try:
            for output in self._llm.llm_engine.step():
                if output.finished:
                    self._finished[output.request_id] = output
        # The engine's state is unknown after any error in a step; the next call starts a new one.
        except Exception as error:
            self.close()
            raise ServingError(
                f"expected answers to {waiting} more requests, found that vLLM stopped ({_cause(error)}); "
                "ask again, with fewer requests or a smaller max_model_len if memory ran out"
            ) from error

    def _abort(self, keys: list[str]) -> None:
        with self._lock:
            if keys and self._llm is not None:
                self._llm.llm_engine.abort_request(keys)
            for key in keys:
                self._finished.pop(key, None)

    def _started(self) -> Any:
        if self._llm is None:
            options = {**self._options, "max_model_len": self.max_model_len, "seed": self.seed}
            self._llm = engine.start(self.path, self.device, options)
        return self._llm

    def _own_max_model_len(self) -> int:
        from transformers import AutoConfig

        try:
            config = AutoConfig.from_pretrained(self.path, **self._loading).get_text_config()
        # A configuration may be malformed, or of an architecture that this transformers does not know.
        except Exception as error:
            raise ServingError(
                f"expected a model configuration at {self.path!r}, found none that loads ({_cause(error)}); "
                "check its config.json, or update transformers"
            ) from error
        known = [int(value) for name in _LENGTH_FIELDS if (value := getattr(config, name, None))]
        return min(known, default=_UNKNOWN_MODEL_LEN)


def _generation(request_id: str, output: Any) -> Generation:
    answer = output.outputs[0]
    reason = answer.finish_reason if answer.finish_reason in ("stop", "length") else "error"
    error = "" if reason != "error" else f"vLLM ended the request: {answer.finish_reason} ({answer.stop_reason})"
    counts = len(output.prompt_token_ids or ()), len(answer.token_ids)
    return Generation(request_id, answer.text, reason, *counts, error)


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {engine.one_line(error)}"
