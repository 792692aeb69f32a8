"""What a model is asked and what comes back; plain values, known without any engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hyce_serving.errors import ServingError


@dataclass(frozen=True)
class GenerationRequest:
    """One question to the model; id is the caller's and unique among those that are open.

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
