"""How one model is asked: requests to prompts and sampling parameters, replies to answers.

It knows the chat template and the window, but neither the engine nor who asks.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hyce_serving import reasoning
from hyce_serving.chat import ChatTokenizer
from hyce_serving.requests import GenerationRequest
from hyce_serving.text import without_surrogates

# An answer may be cut down to what the window has left, but not to nothing.
_LEAST_ANSWER_TOKENS = 16


@dataclass(frozen=True)
class Asking:
    """window: tokens of prompt and reply together, asked for on first use; reasoning_tokens: beside the answer's.

    parser: the user's choice of vLLM's reasoning parser, or None.
    """

    chat: ChatTokenizer
    window: Callable[[], int]
    temperature: float
    seed: int
    reasoning_tokens: int
    parser: str | None

    def load(self) -> None:
        """Loads tokenizer and configuration; raises ServingError where they do not load."""
        self.chat.load()
        self.window()

    def prompt(self, request: GenerationRequest) -> list[int]:
        """The request's token ids; an error is that request's own."""
        return self.chat.encode(request.messages)

    def max_tokens(self, request: GenerationRequest, prompt_tokens: int) -> int:
        """How many tokens the reply may take; 0 where the prompt leaves no room for an answer."""
        room = self.window() - prompt_tokens
        if room < min(request.max_tokens, _LEAST_ANSWER_TOKENS):
            return 0
        return min(request.max_tokens + (self.reasoning_tokens if self.chat.reasons else 0), room)

    def sampling(self, request: GenerationRequest, max_tokens: int) -> Any:
        """vLLM's SamplingParams; its errors are of many kinds and the request's own."""
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        return SamplingParams(
            temperature=self.temperature,
            seed=self.seed if self.temperature > 0 else None,
            max_tokens=max_tokens,
            stop=list(self.chat.stop),
            structured_outputs=self._bound(request),
            skip_special_tokens=not self.chat.marks_reasoning,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def answer(self, reply: str) -> str:
        """The answer in a reply, without the reasoning before it."""
        if self.chat.harmony:
            return reasoning.harmony_final(reply)
        return reasoning.after_thinking(reply, self.chat.opens_thinking) if self.chat.reasons else reply

    def engine_options(self) -> dict[str, Any]:
        """What the engine must know of the reasoning, so that a schema binds the answer alone."""
        chosen = self.parser or (self.chat.reasoning_parser if self.chat.reasons else None)
        return {"reasoning_parser": chosen} if chosen else {}

    def _bound(self, request: GenerationRequest) -> Any:
        from vllm.sampling_params import StructuredOutputsParams

        choices = [without_surrogates(choice) for choice in request.choices]
        if request.schema is None and not choices:
            return None
        if self.chat.harmony and self._grammar_begins_with_the_reply:
            return StructuredOutputsParams(
                structural_tag=json.dumps(reasoning.harmony_structure(request.schema, choices))
            )
        if request.schema is not None:
            return StructuredOutputsParams(json=json.dumps(dict(request.schema)))
        return StructuredOutputsParams(choice=choices)

    @cached_property
    def _grammar_begins_with_the_reply(self) -> bool:
        """Newer versions of vLLM take the reasoning of Harmony for ended from the start, and bind its channels too."""
        from vllm.reasoning import ReasoningParserManager

        found = ReasoningParserManager.get_reasoning_parser(self.engine_options()["reasoning_parser"])
        return bool(found(self.chat.tokenizer).is_reasoning_end([]))
