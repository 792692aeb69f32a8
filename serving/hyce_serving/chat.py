"""Messages to prompt tokens, with the model's own chat template; no engine is needed for it.

It does not know what the messages are about.
"""

import re
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from hyce_serving import reasoning
from hyce_serving.errors import MissingPackage, ServingError
from hyce_serving.text import without_surrogates

Messages = Sequence[Mapping[str, str]]

# Where a model that was never taught a chat must stop: before it makes up the next question.
_PLAIN_STOP = ("\nUser:",)

# Some vocabularies (Qwen's <think> and <tool_call>) leave their markup unmarked as special.
_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)


class ChatTokenizer:
    """The tokenizer and chat template at a path or Hub id; both are loaded on first use.

    reasoning: one of reasoning.CHOICES, for templates that have such a mode. options go to transformers'
    AutoTokenizer (revision, trust_remote_code).
    Raises ServingError on first use where they do not load.
    """

    def __init__(self, path: str, reasoning: str = "off", **options: Any) -> None:
        self._path = path
        self._reasoning = reasoning
        self._options = options
        self._lock = threading.RLock()

    def load(self) -> None:
        """Loads the tokenizer now; raises ServingError where it does not load."""
        with self._lock:
            _ = self.tokenizer

    @property
    def stop(self) -> tuple[str, ...]:
        """Strings that end an answer, beside the model's own end token."""
        return () if self.tokenizer.chat_template else _PLAIN_STOP

    @cached_property
    def harmony(self) -> bool:
        """Whether replies come in the channels of OpenAI's Harmony, as gpt-oss gives them."""
        return all(self._has_token(token) for token in reasoning.HARMONY_TOKENS)

    @property
    def reasons(self) -> bool:
        """Whether a reply may begin with reasoning."""
        return self.harmony or self._reasoning != "off"

    @cached_property
    def opens_thinking(self) -> bool:
        """Whether the prompt itself ends with <think>, so that a reply begins inside."""
        if not self.tokenizer.chat_template:
            return False
        with self._lock:
            return self._templated([{"role": "user", "content": "a"}]).rstrip().endswith(reasoning.THINK)

    @cached_property
    def marks_reasoning(self) -> bool:
        """Whether the marks around the reasoning are special tokens, which an engine drops unless told otherwise."""
        special = {t.content for t in self.tokenizer.added_tokens_decoder.values() if t.special}
        return self.harmony or (self.reasons and reasoning.THINK_END in special)

    @property
    def reasoning_parser(self) -> str | None:
        """The vLLM reasoning parser for this vocabulary and template, where there is one."""
        names = (*reasoning.HARMONY_TOKENS, reasoning.THINK, reasoning.THINK_END, "<tool_call>")
        return reasoning.parser({name: self._has_token(name) for name in names}, str(self.tokenizer.chat_template))

    def _has_token(self, token: str) -> bool:
        return any(added.content == token for added in self.tokenizer.added_tokens_decoder.values())

    def encode(self, messages: Messages) -> list[int]:
        """The prompt's token ids, up to where the assistant's answer begins.

        Text that spells a control token stays text, and a lone surrogate becomes U+FFFD.
        """
        # A stream's worker may make a prompt while another thread counts tokens: the tokenizer bears one at a time.
        with self._lock:
            return self._encoded(messages)

    def _encoded(self, messages: Messages) -> list[int]:
        clean = [{"role": str(m["role"]), "content": self._as_text(m["content"])} for m in messages]
        if not self.tokenizer.chat_template:
            return self._ids(_plain_layout(clean), add_special_tokens=True)
        # The template writes the special tokens itself.
        return self._ids(self._templated(clean), add_special_tokens=False)

    def _ids(self, text: str, add_special_tokens: bool) -> list[int]:
        # verbose=False: how long is too long is the engine's window to say, not the tokenizer's own note.
        found = self.tokenizer(text, add_special_tokens=add_special_tokens, verbose=False)
        return [int(token) for token in found["input_ids"]]

    def _templated(self, messages: list[dict[str, str]]) -> str:
        from jinja2 import TemplateError

        try:
            return self._apply(messages)
        except TemplateError as error:
            # Some templates (Gemma's) know no system role: its text then opens the first question.
            merged = _without_system(messages)
            if merged == messages:
                raise ServingError(
                    f"expected roles that the chat template of {self._path!r} accepts, found an error in it ({error}); "
                    "use the roles system, user and assistant in turn"
                ) from error
        return self._templated(merged)

    def _apply(self, messages: list[dict[str, str]]) -> str:
        options = reasoning.template_options(self._reasoning, self.harmony)
        found = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)
        return str(found)

    def _as_text(self, content: str) -> str:
        """The content with a space inside whatever the tokenizer would read as a control token.

        The template's text and the content reach the tokenizer as one string, and it takes "<|im_end|>" for the
        token wherever it stands: a document that quotes it could end its own message and speak as the system.
        Tokenizing the parts one by one would keep the exact text, but moves token boundaries at the seams, and no
        tokenizer option covers markup that is not marked as special.
        """
        return self._control.sub(lambda found: found[0][0] + " " + found[0][1:], without_surrogates(content))

    @cached_property
    def _control(self) -> re.Pattern[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        strings = [t.content for t in added if len(t.content) > 1 and (t.special or _MARKUP.fullmatch(t.content))]
        # The longest first: of two that begin alike the tokenizer takes the longer. None at all: match nothing.
        return re.compile("|".join(re.escape(s) for s in sorted(strings, key=len, reverse=True)) or r"(?!)")

    @cached_property
    def tokenizer(self) -> Any:
        """transformers' tokenizer."""
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise MissingPackage(
                f"expected the package transformers, found none that imports ({error}); run: pip install transformers"
            ) from error
        try:
            return AutoTokenizer.from_pretrained(self._path, **self._options)
        # Tokenizer files fail in as many ways as there are formats; all mean that this model cannot be used.
        except Exception as error:
            raise ServingError(
                f"expected a tokenizer at {self._path!r}, found none that loads ({type(error).__name__}: {error}); "
                "check that the folder holds tokenizer.json and tokenizer_config.json"
            ) from error


def _plain_layout(messages: list[dict[str, str]]) -> str:
    names = {"system": "", "user": "User: ", "assistant": "Assistant: "}
    parts = [names.get(m["role"], f"{m['role'].capitalize()}: ") + m["content"] for m in messages]
    return "\n\n".join([*parts, "Assistant:"])


def _without_system(messages: list[dict[str, str]]) -> list[dict[str, str]]:
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    others = [m for m in messages if m["role"] != "system"]
    if not system or not others:
        return messages
    return [{**others[0], "content": f"{system}\n\n{others[0]['content']}"}, *others[1:]]
