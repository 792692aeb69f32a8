"""Chat requests to answers, with vLLM in this process.

The engine starts on first use. Results are matched by id, never by position. It does not know what is asked, and
never cuts a prompt to make it fit.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from hyce_serving import engine, fingerprint, options
from hyce_serving import reasoning as reasoning_modes
from hyce_serving.asking import Asking
from hyce_serving.chat import ChatTokenizer
from hyce_serving.errors import ServingError
from hyce_serving.models import llm_path
from hyce_serving.requests import Generation, GenerationRequest
from hyce_serving.shared_engine import SharedEngine
from hyce_serving.stream import Stream, answers

__all__ = ["DEFAULT_MAX_MODEL_LEN", "Generation", "GenerationRequest", "Generator", "Stream"]

# A longer window costs memory for the keys and values of every token in it, and few prompts here need it.
DEFAULT_MAX_MODEL_LEN = 8192

# What vLLM takes for a model whose configuration does not say.
_UNKNOWN_MODEL_LEN = 2048
_LENGTH_FIELDS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")

# Twice what runs at once, so that the next request is there when one finishes.
_CAPACITY_ON_CPU = 64
_CAPACITY_ON_GPU = 2048


class Generator:
    """An LLM in this process, at a folder or Hub id; use it as a context manager, or call close().

    max_model_len: tokens of prompt and answer together, by default the model's own, at most 8,192.
    device: "auto", "cpu" or "cuda"; it must be what the installed vLLM was built for. reasoning: "off", "on", or the
    effort "low", "medium" or "high", for models that can reason before they answer; reasoning_tokens: what it may take
    beside an answer's max_tokens, within the window. engine_options go to vllm.LLM.
    Raises ModelNotFound on construction where there is no such model.
    """

    def __init__(
        self,
        model: str,
        /,
        *,
        max_model_len: int | None = None,
        seed: int = 0,
        temperature: float = 0.0,
        device: str = "auto",
        reasoning: str = "off",
        reasoning_tokens: int = reasoning_modes.DEFAULT_TOKENS,
        **engine_options: Any,
    ) -> None:
        own = (max_model_len, seed, temperature, device, reasoning, reasoning_tokens)
        options.check_own(dict(zip(options.OWN, own, strict=True)))
        self.name = model
        self.path = llm_path(model, engine_options.get("revision"))
        self.device = device
        self.seed = seed
        self.temperature = temperature
        self.reasoning = reasoning
        self.reasoning_tokens = reasoning_tokens
        self._asked_max_model_len = max_model_len
        self._options = dict(engine_options)
        loading = {key: engine_options[key] for key in ("revision", "trust_remote_code") if key in engine_options}
        self._loading = loading
        self._chat = ChatTokenizer(str(engine_options.get("tokenizer") or self.path), reasoning, **loading)
        parser = engine_options.get("reasoning_parser")
        self._asking = Asking(self._chat, lambda: self.max_model_len, temperature, seed, reasoning_tokens, parser)
        self._engine = SharedEngine(self._start)

    def __enter__(self) -> "Generator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the engine and frees its memory; a later request starts it again."""
        self._engine.close()

    @cached_property
    def max_model_len(self) -> int:
        """Tokens of prompt and answer together; known without the engine.

        More than the model was made for is refused by vLLM, which knows each architecture, when it starts.
        """
        return self._asked_max_model_len or min(self._own_max_model_len(), DEFAULT_MAX_MODEL_LEN)

    @property
    def capacity(self) -> int:
        """How many open requests keep the engine full; needs no engine."""
        running = self._options.get("max_num_seqs")
        if isinstance(running, int) and running > 0:
            return 2 * running
        return _CAPACITY_ON_CPU if engine.on_cpu(self.device) else _CAPACITY_ON_GPU

    def count_tokens(self, messages: Sequence[Mapping[str, str]]) -> int:
        """The length of the prompt in tokens, chat template included; needs no engine."""
        return len(self._chat.encode(messages))

    def describe(self) -> dict[str, str]:
        """What would have to be the same for the same answers, options.CHANGES_NO_REPLY left out; needs no engine."""
        return {
            "model": self.name,
            "path": self.path,
            "engine": engine.package_version(),
            "device": self.device,
            "max_model_len": str(self.max_model_len),
            "seed": str(self.seed),
            "temperature": str(self.temperature),
            **self._described_reasoning(),
            **self._identity,
            **{f"option.{name}": str(value) for name, value in sorted(self._options.items()) if _shapes_replies(name)},
        }

    def stream(self) -> Stream:
        """Requests in and answers out while the engine runs; a context manager. No engine starts before a request."""
        return Stream(self._asking, self._engine, self.capacity)

    def generate(
        self, requests: Iterable[GenerationRequest], advance: Callable[[int], None] | None = None
    ) -> Iterator[Generation]:
        """A Generation for each request, in the order in which they finish.

        requests are taken as there is room for them, at most stream().capacity ahead of the answers. advance is told
        1 for each. Raises ServingError for an id that occurs twice (at once in a list or tuple; else, on iteration,
        where the other one is still open), and where the engine does not start or stops (on iteration); one request
        that it refuses is a Generation with "error".
        """
        if isinstance(requests, Collection):
            _require_distinct(requests)
        return self._answers(iter(requests), advance or (lambda _: None))

    def _answers(self, source: Iterator[GenerationRequest], advance: Callable[[int], None]) -> Iterator[Generation]:
        # A caller that stops half-way leaves nothing running behind it.
        with self.stream() as stream:
            yield from answers(stream, source, advance)

    @property
    def _llm(self) -> Any:
        return self._engine.llm

    def _start(self) -> Any:
        known = {"max_model_len": self.max_model_len, "seed": self.seed}
        return engine.start(self.path, self.device, {**self._asking.engine_options(), **self._options, **known})

    def _described_reasoning(self) -> dict[str, str]:
        # The defaults go without saying, so that what was kept before there was a choice is still found.
        found = {"reasoning": self.reasoning} if self.reasoning != "off" else {}
        if found or self.reasoning_tokens != reasoning_modes.DEFAULT_TOKENS:
            found["reasoning_tokens"] = str(self.reasoning_tokens)
        return found

    @cached_property
    def _identity(self) -> dict[str, str]:
        folder = Path(self.path)
        if folder.is_dir():
            return {"weights": fingerprint.weights(folder)}
        commit = fingerprint.cached_commit(self.path, self._options.get("revision"))
        return {"commit": commit} if commit else {}

    def _own_max_model_len(self) -> int:
        from transformers import AutoConfig

        try:
            config = AutoConfig.from_pretrained(self.path, **self._loading).get_text_config()
        # A configuration may be malformed, or of an architecture that this transformers does not know.
        except Exception as error:
            raise ServingError(
                f"expected a model configuration at {self.path!r}, found none that loads ({engine.cause(error)}); "
                "check its config.json, or update transformers"
            ) from error
        known = [int(value) for name in _LENGTH_FIELDS if (value := getattr(config, name, None))]
        return min(known, default=_UNKNOWN_MODEL_LEN)


def check_options(given: Mapping[str, Any]) -> None:
    """Raises as a Generator with these options would, when it is made or when its engine starts: ServingError for a
    value of its own that cannot be, and for a name that neither it nor vLLM knows; MissingPackage without vLLM.

    Imports vLLM, which takes seconds; starts nothing and needs no model.
    """
    options.check_own(given)
    engine.check_options({name: value for name, value in given.items() if name not in options.OWN})


def _shapes_replies(name: str) -> bool:
    return name not in options.CHANGES_NO_REPLY


def _require_distinct(requests: Iterable[GenerationRequest]) -> None:
    seen: set[str] = set()
    for request in requests:
        if request.id in seen:
            raise ServingError(f"expected each request id once in a call, found {request.id!r} twice; rename one")
        seen.add(request.id)
